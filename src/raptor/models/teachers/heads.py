"""Linear classifiers that a user adds to a model."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

from torch import nn

from raptor.errors import WeightsError
from raptor.models.teachers.pooling import linear_head
from raptor.models.teachers.teacher import Parts
from raptor.models.weights import read_weights


def read_linear(path: Path) -> nn.Linear:
    """Read a linear layer from a file with one matrix `...weight`, (classes, features), and at most one `...bias`."""
    state = read_weights(path)
    weights = [value for name, value in state.items() if name.endswith("weight")]
    biases = [value for name, value in state.items() if name.endswith("bias")]
    if len(weights) != 1 or len(biases) > 1 or len(state) != len(weights) + len(biases) or weights[0].ndim != 2:
        raise WeightsError(
            f"the head {str(path)!r} must contain one matrix 'weight' of (classes, features) and at most one 'bias'; "
            f"it contains {', '.join(list(state)[:4])}"
        )
    if biases and biases[0].shape != weights[0].shape[:1]:
        raise WeightsError(
            f"the head {str(path)!r} has {len(weights[0])} classes, but a bias of shape {tuple(biases[0].shape)}"
        )
    classes, features = weights[0].shape
    linear = nn.Linear(features, classes, bias=bool(biases))
    linear.load_state_dict({"weight": weights[0], **({"bias": biases[0]} if biases else {})})
    return linear


def with_head(parts: Parts, head: nn.Linear | None) -> Parts:
    """Return parts with a copy of a linear classifier in place of the model's own."""
    if head is None:
        return parts
    like = next(parts.blocks[0].parameters())
    own = copy.deepcopy(head).to(like).requires_grad_(False)
    return replace(parts, classify=linear_head(own, parts.layout, parts.width), head=None, linear=own)
