r"""The hypothesis without gradient descent: what the best single map for all layers of a segment leaves.

For a segment of layers with middle block m, features of block m are computed on the true input of every layer of the
segment, and one linear map from features to updates is fitted to all of them at once (ridge regression from streamed
second moments, on one half of the images). The cost of the segment is the sum over its layers of the share of the
update's squared norm that the map leaves on the other half. The best partition for every number of phases follows by
dynamic programming. Its score is the mean over layers of the share that is explained.

Features are the inputs of the block's output projections. A fitted map is thus the block with other output projections,
except that the MLP reads what the block's own attention wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raptor.core.batches import ImageSource, as_image_set, pixels_of
from raptor.core.flow import DepthFlow, layers_of
from raptor.errors import DataError
from raptor.phases.function.features import block_features
from raptor.phases.function.moments import Moments
from raptor.phases.segment import Segmentation, check_possible, segment_table

TOKENS = 64  # tokens of an image that are used; drawn at random where it has more
MEMORY = 2 * 2**30  # bytes of second moments in memory at a time; more blocks are fitted in further passes over images
FEWEST = 2  # images: one half to fit on, the other to evaluate on
OBJECTIVE = "fit"


def layers_around(middle: int, depth: int) -> list[int]:
    """Return layers in the order in which they join the segments around a middle block m: m, m+1, m-1, m+2, ..."""
    order = [middle]
    for step in range(1, depth):
        for layer in (middle + step, middle - step):
            if not 0 <= layer < depth:
                return order
            order.append(layer)
    return order


@torch.no_grad()
def segment_costs(flow: DepthFlow, images: ImageSource, seed: int = 0) -> NDArray[Any]:
    """Return the cost of every segment of layers: places (L + 1, L + 1), with segment i+1..j at [i, j].

    Parameters
    ----------
    flow
        A teacher; other flows are fitted by linear maps of their own updates.
    images
        Batches of pixels, or what `load_images` returned. Every other image is used to evaluate.
    seed
        Seed of the tokens that are used.
    """
    costs = np.zeros((flow.depth + 1, flow.depth + 1))
    images = as_image_set(images).unsharded()
    todo = list(range(flow.depth))
    while todo:
        blocks, todo = _fitting(flow, images, todo)
        for halves in _moments(flow, images, blocks, seed).values():
            order = list(halves[0])
            weight = {layer: 1 / max(moments.energy, 1e-30) for layer, moments in halves[0].items()}
            held = {layer: 1 / max(moments.energy, 1e-30) for layer, moments in halves[1].items()}
            fit = evaluate = None
            for n, layer in enumerate(order, start=1):
                one, other = halves[0][layer] * weight[layer], halves[1][layer] * held[layer]
                fit, evaluate = (one, other) if fit is None or evaluate is None else (fit + one, evaluate + other)
                first = min(order[:n])
                costs[first, first + n] = evaluate.error(fit.solve())
    return costs


def fitted_partition(costs: NDArray[Any], k: int, min_length: int) -> Segmentation:
    """Return the partition into k phases with the lowest cost.

    Parameters
    ----------
    costs
        What `segment_costs` returned.
    k, min_length
        Number of phases, and the minimum number of layers in a phase.
    """
    layers = len(costs) - 1
    check_possible(layers, k, min_length)
    places = np.arange(layers + 1)
    values = np.where(places[None, :] - places[:, None] >= min_length, -costs, -np.inf)
    return segment_table(values, k, OBJECTIVE, min_length, lambda total, k: 1 + total / layers)


def _fitting(flow: DepthFlow, images: ImageSource, todo: list[int]) -> tuple[list[int], list[int]]:
    """Return the blocks whose moments fit into memory together, and the others."""
    pixels = next(pixels_of(images), None)
    if pixels is None:
        raise DataError(f"fitting needs at least {FEWEST} images")
    features = block_features(flow, flow.embed(pixels[:1]), todo[0]).shape[-1]
    each = 2 * flow.depth * features * (features + flow.width) * 8
    n = max(1, int(MEMORY // each))
    return todo[:n], todo[n:]


def _moments(
    flow: DepthFlow, images: ImageSource, blocks: list[int], seed: int
) -> dict[int, tuple[dict[int, Moments], dict[int, Moments]]]:
    """Return the moments of some blocks at the inputs of the layers around them: to fit on, and to evaluate on."""
    found: dict[int, tuple[dict[int, Moments], dict[int, Moments]]] = defaultdict(lambda: ({}, {}))
    for states, chosen in _batches(flow, images, seed):
        for block in blocks:
            for layer in layers_around(block, flow.depth):
                features = chosen(block_features(flow, states[layer], block))
                updates = chosen(states[layer + 1] - states[layer])
                for half, own in enumerate(found[block]):
                    if len(features[half]):
                        added = Moments.of(features[half], updates[half])
                        own[layer] = own[layer] + added if layer in own else added
    if not all(halves[1] for halves in found.values()):
        raise DataError(f"fitting needs at least {FEWEST} images")
    return found


def _batches(flow: DepthFlow, images: ImageSource, seed: int) -> Iterator[tuple[list[Tensor], Any]]:
    """Yield the states of a batch at all layers, and a function that takes the tokens to use of both halves of it."""
    index = 0
    for pixels in pixels_of(images):
        states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        tokens = states[0].shape[1]
        rows = []
        for image in range(index, index + len(pixels)):
            draw = torch.Generator().manual_seed(seed * 1_000_003 + image)
            rows.append(torch.randperm(tokens, generator=draw)[:TOKENS])
        picked, even = torch.stack(rows).to(states[0].device), (torch.arange(len(pixels)) + index) % 2 == 0

        def chosen(values: Tensor, picked: Tensor = picked, even: Tensor = even) -> tuple[Tensor, Tensor]:
            own = values.gather(1, picked[..., None].expand(-1, -1, values.shape[-1]))
            return own[even], own[~even]

        yield states, chosen
        index += len(pixels)
