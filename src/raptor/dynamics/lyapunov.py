"""Finite-time Lyapunov exponents on the sphere: how fast small differences between directions grow in a phase."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import normalize

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases

VECTORS = 16  # leading exponents
ITERATIONS = 12  # most steps of block power iteration
TOLERANCE = 0.02  # change of an exponent per layer at which iterations stop; the leading ones change far less


@dataclass(frozen=True)
class LyapunovResult:
    """Leading Lyapunov exponents of each phase, per layer: small differences grow above 0 and shrink below 0.

    Parameters
    ----------
    mean
        By phase, the leading exponents, largest first; means over images.
    n
        Number of images.
    iterations, converged
        Steps of block power iteration that the slowest phase of an image took, and whether all converged.
    """

    mean: Estimate[list[list[float]]]
    n: int
    iterations: int = ITERATIONS
    converged: bool = True


def lyapunov_exponents(
    flow: DepthFlow,
    images: ImageSource,
    phases: Phases,
    vectors: int = VECTORS,
    iterations: int = ITERATIONS,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> LyapunovResult:
    """Measure the exponents of each phase along the trajectories of a few images.

    A phase maps the directions of all tokens at its start, with fixed norms, to their directions at its end. The
    exponents are the logarithms of the leading singular values of its derivative, divided by its length. Block power
    iteration uses Jacobian-vector and vector-Jacobian products and never forms a Jacobian.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        A few images; each costs about three backward passes of `vectors` images per iteration.
    phases
        Phases of the layers 1..L.
    vectors, iterations
        Number of exponents, and most iterations.
    seed
        Seed of the first vectors and of the bootstrap over images.
    tolerance
        Iterations stop when no exponent changes by more than this.
    """
    phases.check_depth(flow.depth)
    means = [BinnedMean() for _ in phases.lengths]
    generator = torch.Generator().manual_seed(seed)
    taken, converged = 0, True
    for pixels in pixels_of(images):
        with torch.no_grad():
            states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        for mean, span in zip(means, phases.ranges, strict=True):
            first, last = span[0] - 1, span[-1]
            exponents, steps = _exponents(flow, states[first], first, last, vectors, iterations, tolerance, generator)
            mean.add(exponents)
            taken, converged = max(taken, steps or iterations), converged and steps is not None
    ends = [mean.interval(seed=seed) for mean in means]
    n = means[0].n
    values = [mean.mean().tolist() for mean in means]
    low, high = ([interval[side].tolist() for interval in ends] for side in (0, 1))
    return LyapunovResult(Estimate(values, low, high, n), n, taken, converged)


def _exponents(
    flow: DepthFlow,
    state: Float[Tensor, "batch tokens width"],
    first: int,
    last: int,
    vectors: int,
    iterations: int,
    tolerance: float,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "batch vectors"], int | None]:
    """Return the leading exponents of the map from directions at one layer to directions at another.

    The second value is the number of iterations until they converged; None where they did not.
    """
    batch, tokens, width = state.shape
    # The directions of a token have one dimension less than its features.
    vectors = min(vectors, tokens * (width - 1))
    copies = state.repeat_interleave(vectors, dim=0)
    norms = copies.norm(dim=-1, keepdim=True)
    start = normalize(copies, dim=-1).requires_grad_()
    drawn = torch.randn(batch, tokens * width, vectors, generator=generator).to(state)
    basis = torch.linalg.qr(drawn)[0]
    # The gradient of attention is differentiated too, which fused attention cannot do.
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        moved = normalize(start, dim=-1) * norms
        for layer in range(first, last):
            moved = flow.step(moved, layer)
        end = normalize(moved, dim=-1)
        # J^T u is linear in u, so the derivative of <J^T u, v> by u is J v: cheaper than forward differentiation.
        dual = torch.zeros_like(end, requires_grad=True)
        (pulled,) = grad(end, start, dual, create_graph=True)
        before = None
        for iteration in range(iterations + 1):
            (pushed,) = grad(pulled, dual, _rows(basis, copies), retain_graph=True)
            images = _columns(pushed.detach(), batch, vectors)
            exponents = torch.linalg.svdvals(images).log() / (last - first)
            if before is not None and _largest_change(exponents, before) <= tolerance:
                return exponents, iteration
            if iteration < iterations:
                (back,) = grad(end, start, _rows(images, copies), retain_graph=True)
                basis, before = torch.linalg.qr(_columns(back.detach(), batch, vectors))[0], exponents
    return exponents, None


def _largest_change(now: Tensor, before: Tensor) -> float:
    """Return the largest change of an exponent; those of directions that vanish are -inf and stay so."""
    change = torch.where(now == before, 0.0, (now - before).abs())
    return math.inf if change.isnan().any() else float(change.max())


def _rows(columns: Float[Tensor, "batch features vectors"], like: Tensor) -> Float[Tensor, "copies tokens width"]:
    return columns.transpose(1, 2).reshape(like.shape)


def _columns(rows: Tensor, batch: int, vectors: int) -> Float[Tensor, "batch features vectors"]:
    return rows.reshape(batch, vectors, -1).transpose(1, 2)
