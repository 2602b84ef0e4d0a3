"""Position embeddings that an adapter computes once and reuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from raptor.core.preprocessing import Size
from raptor.models.teachers.teacher import patch_grid


def cached(build: Callable[[Tensor], Any], learned: nn.Module | None = None) -> Callable[[Tensor], Any]:
    """Cache the result of `build(tokens)`, which depends only on device and dtype.

    Parameters
    ----------
    build
        Computes the value.
    learned
        Module from whose weights the value is computed; the cache is renewed when they change.
    """
    cache: dict[str, Any] = {"key": None}

    def get(tokens: Tensor) -> Any:
        if torch.compiler.is_exporting():
            return build(tokens)  # tensors of a trace have no address, and must not stay
        weights = [] if learned is None else list(learned.parameters())
        key = (tokens.device, tokens.dtype, *((weight.data_ptr(), weight._version) for weight in weights))
        if cache["key"] != key:
            # Ordinary tensors even in inference mode, because a later call may need gradients.
            with torch.inference_mode(False), torch.no_grad():
                cache.update(key=key, value=build(tokens))
        return cache["value"]

    return get


def shared_bias(bias: nn.Module | None, size: Size, patch: Size) -> Callable[[Tensor], Tensor | None]:
    """Return the relative position bias that all blocks share; None if each block has its own."""
    if bias is None:
        return lambda tokens: None
    grid = patch_grid(size, patch)
    return cached(lambda tokens: bias(grid, dim_size=tokens.shape[1]), learned=bias)
