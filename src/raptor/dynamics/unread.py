"""Tokens of the last layer that a model's classifier does not read, and that training therefore left undetermined."""

from __future__ import annotations

import torch
from torch import nn

from raptor.core.flow import DepthFlow
from raptor.core.tokens import OUTLIER
from raptor.models.separated import unseparated


@torch.no_grad()
def last_layers(flow: DepthFlow) -> dict[str, int]:
    """Return, by token group, the last layer whose states mean something: L, or L - 1 for groups that are not read.

    A classifier that reads cls alone gives the patches of layer L no gradient: what they are is an accident. Whether a
    group is read is tried, by changing its tokens. Classifiers that a user added say nothing about the training.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    """
    groups, flow = flow.layout.slices, unseparated(flow)
    teacher = getattr(flow, "teacher", flow)
    added = getattr(getattr(teacher, "parts", None), "linear", None) is not None
    unread = set() if flow.head is None or added else _unread(flow)
    return {group: flow.depth - (("patch" if group == OUTLIER else group) in unread) for group in groups}


def _unread(flow: DepthFlow) -> set[str]:
    generator = torch.Generator().manual_seed(0)
    like = next(flow.parameters(), torch.zeros(())) if isinstance(flow, nn.Module) else torch.zeros(())
    tokens, others = torch.randn(2, 1, flow.layout.n_tokens, flow.width, generator=generator).to(like)
    assert flow.head is not None
    before, unread = flow.head(tokens), set()
    for group, where in flow.layout.slices.items():
        changed = tokens.clone()
        changed[:, where] = others[:, where]
        if torch.equal(flow.head(changed), before):
            unread.add(group)
    return unread
