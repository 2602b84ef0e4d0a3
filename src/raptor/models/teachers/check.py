"""Checks of the parts that a user's adapter returns, made when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from raptor.errors import RaptorError, UnsupportedModelError, one_line
from raptor.models.teachers.teacher import Teacher

TOLERANCE = 1e-3  # relative to the largest value: products of other batch sizes round differently


@torch.no_grad()
def check_parts(teacher: Teacher) -> None:
    """Run two images through the embedding, the first and the last block, and the norm of a teacher.

    Raise an UnsupportedModelError that says which part of the adapter is wrong.
    """
    parts, name = teacher.parts, teacher.name
    shape = (2, parts.layout.n_tokens, parts.width)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(2, 3, *parts.image_size, generator=generator).to(next(teacher.module.parameters()))
    groups = " + ".join(f"{where.stop - where.start} {group}" for group, where in parts.layout.slices.items())
    tokens = _run(lambda: parts.embed(pixels), f"embed of {name}")
    _check_shape(tokens, shape, f"embed of {name}", f"its layout has {groups} tokens of width {parts.width}")

    def step(tokens: Tensor, layer: int) -> Any:  # of whatever type the adapter returns
        return parts.call(parts.blocks[layer], tokens, layer)

    for layer in sorted({0, teacher.depth - 1}):
        what = f"block {layer} of {name}"
        states = _run(lambda layer=layer: step(tokens, layer), what)  # type: ignore[misc]
        _check_shape(states, shape, what, "Parts.call must return the tokens alone, with their shape unchanged")
        again = step(tokens, layer)
        if not _close(states, again):
            raise UnsupportedModelError(
                f"{what} gives different states for the same input: it has a hidden state, or dropout that eval() does "
                "not turn off"
            )
        if not _close(states[:1], _run(lambda layer=layer: step(tokens[:1], layer), what)):  # type: ignore[misc]
            raise UnsupportedModelError(
                f"{what} gives an image other states when another image is in the batch; modules of torch.nn need "
                "batch_first=True"
            )
    normed = _run(lambda: parts.norm(states), f"norm of {name}")
    _check_shape(normed, shape, f"norm of {name}", "a norm does not change the shape of the tokens")
    if (head := teacher.head) is not None:
        logits = _run(lambda: head(states), f"classify of {name}")
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 2:
            raise UnsupportedModelError(f"classify of {name} must return logits of shape (batch, classes)")


def _run(part: Callable[[], Any], what: str) -> Any:
    """Run a part; an error in it is one of the adapter."""
    try:
        return part()
    except RaptorError:
        raise
    except Exception as error:
        raise UnsupportedModelError(f"{what} fails: {one_line(error)}; see docs/adapters.md") from error


def _check_shape(value: object, wanted: tuple[int, ...], what: str, why: str) -> None:
    if not isinstance(value, Tensor):
        raise UnsupportedModelError(f"{what} returns a {type(value).__name__}, not a tensor: {why}")
    if tuple(value.shape) != wanted:
        raise UnsupportedModelError(f"{what} returns shape {tuple(value.shape)}, not {wanted}: {why}")


def _close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=TOLERANCE * max(float(a.abs().max()), 1e-30))
