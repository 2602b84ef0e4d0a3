"""Local expansion on the sphere: by how much a phase stretches small differences of directions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import normalize

from raptor.flow import DepthFlow, layers_of, pixels_of
from raptor.phases import Phases
from raptor.resampling import BinnedMean

VECTORS = 16  # leading exponents
ITERATIONS = 12  # of block power iteration


@dataclass(frozen=True)
class Expansion:
    """Finite-time exponents of each phase, a layer: above 0 small differences grow, below they shrink.

    Parameters
    ----------
    mean, low, high
        By phase, the leading exponents, largest first: means over images with 95% intervals.
    n
        Images.
    """

    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]
    n: int


def expansion(
    flow: DepthFlow,
    images: Iterable[Any],
    phases: Phases,
    vectors: int = VECTORS,
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> Expansion:
    """Measure the exponents of each phase along the trajectories of a few images.

    A phase takes the directions of all tokens to their directions at its end, norms at its start being held; the
    exponents are the logarithms of the leading singular values of its derivative, divided by its length. They come from
    block power iteration with Jacobian-vector and vector-Jacobian products, so that no Jacobian is ever formed.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        A few; each costs `iterations` x `vectors` forward and backward passes.
    phases
        Which layers belong together.
    vectors, iterations
        How many exponents, and how long they are iterated.
    seed
        Of the first vectors and of the bootstrap over images.
    """
    phases.check_depth(flow.depth)
    means = [BinnedMean() for _ in phases.lengths]
    generator = torch.Generator().manual_seed(seed)
    for pixels in pixels_of(images):
        with torch.no_grad():
            states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        for mean, span in zip(means, phases.ranges, strict=True):
            first, last = span[0] - 1, span[-1]
            values = _singular(flow, states[first], first, last, vectors, iterations, generator)
            mean.add(values.log() / len(span))
    ends = [mean.interval(seed=seed) for mean in means]
    return Expansion(
        mean=[mean.mean().tolist() for mean in means],
        low=[low.tolist() for low, _ in ends],
        high=[high.tolist() for _, high in ends],
        n=means[0].n,
    )


def _singular(
    flow: DepthFlow,
    state: Float[Tensor, "batch tokens width"],
    first: int,
    last: int,
    vectors: int,
    iterations: int,
    generator: torch.Generator,
) -> Float[Tensor, "batch vectors"]:
    """Return the leading singular values of what takes directions at one layer to directions at another."""
    batch, tokens, width = state.shape
    # Directions of a token have one dimension less than its features.
    vectors = min(vectors, tokens * (width - 1))
    copies = state.repeat_interleave(vectors, dim=0)
    norms, start = copies.norm(dim=-1, keepdim=True), normalize(copies, dim=-1)

    def forward(directions: Tensor) -> Tensor:
        moved = normalize(directions, dim=-1) * norms
        for layer in range(first, last):
            moved = flow.step(moved, layer)
        return normalize(moved, dim=-1)

    drawn = torch.randn(batch, tokens * width, vectors, generator=generator).to(state)
    basis = torch.linalg.qr(drawn)[0]

    def pushed() -> Float[Tensor, "batch features vectors"]:
        return _columns(jvp(forward, (start,), (_rows(basis, copies),))[1], batch, vectors).detach()

    # Forward derivatives are not there for fused attention; torch warns of a part of its own that they use.
    with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pull = vjp(forward, start)[1]
        for _ in range(iterations):
            pulled = pull(_rows(pushed(), copies))[0]
            basis = torch.linalg.qr(_columns(pulled.detach(), batch, vectors))[0]
        return torch.linalg.svdvals(pushed())


def _rows(columns: Float[Tensor, "batch features vectors"], like: Tensor) -> Float[Tensor, "copies tokens width"]:
    return columns.transpose(1, 2).reshape(like.shape)


def _columns(rows: Tensor, batch: int, vectors: int) -> Float[Tensor, "batch features vectors"]:
    return rows.reshape(batch, vectors, -1).transpose(1, 2)
