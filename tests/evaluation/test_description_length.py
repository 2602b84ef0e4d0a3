"""Levin bits by hand, and the fewest bits that weights need."""

from __future__ import annotations

import torch

from raptor.core.phases import Phases
from raptor.evaluation.description_length import elias_gamma_bits, fewest_bits, levin_bits, rounded


def test_levin_bits_by_hand():
    # Elias gamma: 1 -> "1", 5 -> "00101", 7 -> "00111", 12 -> "0001100".
    assert [elias_gamma_bits(n) for n in (1, 5, 7, 12)] == [1, 5, 5, 7]
    assert levin_bits(100, Phases((7, 5)), flops=1024) == 32 * 100 + 5 + 5 + 10
    assert levin_bits(100, Phases((7, 5)), flops=1024, bits=4) == 400 + 20


def test_rounding_to_bits_is_an_even_grid():
    values = torch.tensor([0.0, 0.2, 0.6, 0.9, 3.0])
    assert rounded(values, 2).tolist() == [0.0, 0.0, 1.0, 1.0, 3.0]
    assert torch.equal(rounded(values, 32), values)
    assert torch.equal(rounded(torch.ones(3), 4), torch.ones(3))


def test_the_fewest_bits_are_the_fewest():
    torch.manual_seed(0)
    linear, x = torch.nn.Linear(8, 8), torch.randn(64, 8)
    truth = linear(x).detach() + 0.05 * torch.randn(64, 8)
    before = linear.weight.detach().clone()

    def epsilon():
        return (linear(x) - truth).norm(dim=-1).mean().item()

    limit, good = 1.01 * epsilon(), []
    bits = fewest_bits(linear, epsilon)
    assert torch.equal(linear.weight, before)
    for b in (bits - 1, bits):
        with torch.no_grad():
            kept = [p.clone() for p in linear.parameters()]
            for p in linear.parameters():
                p.copy_(rounded(p, b))
            good.append(epsilon() <= limit)
            for p, k in zip(linear.parameters(), kept, strict=True):
                p.copy_(k)
    assert good == [False, True]
