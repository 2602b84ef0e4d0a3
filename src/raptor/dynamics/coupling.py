"""Coupling of layers: do their Jacobians share singular vectors (Transformer Block Coupling, arXiv 2407.07810)?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases

VECTORS = 10  # leading singular vectors


@dataclass(frozen=True)
class Coupling:
    """How far the leading singular vectors of one layer's Jacobian are those of another's.

    Parameters
    ----------
    matrix
        Rows and columns are the layers 1..L: the share of the leading singular values of layer l that the singular
        vectors of layer m give, mean over images. 1 for the same Jacobian; about 0 for unrelated ones.
    within, across
        Mean over pairs of different layers in one phase, and of different phases, with intervals over images; None
        where there are no such pairs.
    n
        Number of images.
    """

    matrix: list[list[float]]
    within: Estimate[float] | None
    across: Estimate[float] | None
    n: int


def coupling(
    flow: DepthFlow, images: Iterable[Float[Tensor, "batch 3 rows columns"]], phases: Phases | None, seed: int = 0
) -> dict[str, Coupling]:
    """Return the coupling of layers by token group, for one token of each: the first, and the middle patch.

    The Jacobian is that of a layer's update of the token with respect to the token itself.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        A few images.
    phases
        The phases; None leaves out the means within and across.
    seed
        Seed of the bootstrap over images.
    """
    means: dict[str, BinnedMean] = {}
    for pixels in images:
        with torch.no_grad():
            states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        for image in range(len(pixels)):
            for group, where in flow.layout.slices.items():
                token = (where.start + where.stop) // 2 if group == "patch" else where.start
                jacobians = [
                    update_jacobian(flow, states[layer][image : image + 1], layer, token) for layer in range(flow.depth)
                ]
                means.setdefault(group, BinnedMean()).add(coupled(torch.stack(jacobians))[None])
    return {group: _summary(mean, phases, seed) for group, mean in means.items()}


def update_jacobian(
    flow: DepthFlow, state: Float[Tensor, "1 tokens width"], layer: int, token: int
) -> Float[Tensor, "width width"]:
    """Return the derivative of a layer's update of one token with respect to that token."""
    state = state.detach().clone()

    def update(own: Float[Tensor, " width"]) -> Float[Tensor, " width"]:
        changed = torch.cat([state[0, :token], own[None], state[0, token + 1 :]])[None]
        return flow.step(changed, layer)[0, token] - own

    with torch.inference_mode(False), torch.enable_grad():
        return torch.autograd.functional.jacobian(update, state[0, token].clone(), vectorize=True).detach()


def coupled(jacobians: Float[Tensor, "layers width width"], vectors: int = VECTORS) -> Float[Tensor, "layers layers"]:
    """Return sum_i u_i^m J_l v_i^m over sum_i s_i^l: singular vectors of layer m, singular values of layer l."""
    left, values, right = torch.linalg.svd(jacobians.double().cpu())
    k = min(vectors, values.shape[-1])
    given = torch.einsum("mai,lab,mib->lm", left[..., :k], jacobians.double().cpu(), right[:, :k])
    return given / values[:, :k].sum(dim=-1, keepdim=True)


def _summary(mean: BinnedMean, phases: Phases | None, seed: int) -> Coupling:
    value, draws = mean.mean(), mean.resample(seed=seed)
    within, across = None, None
    if phases is not None:
        of = torch.tensor([phases.block_of(layer + 1) for layer in range(phases.depth)])
        same = of[:, None] == of[None]
        within = _mean_of(value, draws, same & ~torch.eye(len(of), dtype=torch.bool), mean.n)
        across = _mean_of(value, draws, ~same, mean.n)
    return Coupling(value.tolist(), within, across, mean.n)


def _mean_of(value: Tensor, draws: Tensor, chosen: Tensor, n: int) -> Estimate[float] | None:
    if not chosen.any():
        return None
    return Estimate.from_draws(value[chosen].mean(), draws[:, chosen].mean(dim=1), n)
