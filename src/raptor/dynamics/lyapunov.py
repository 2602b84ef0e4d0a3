"""Finite-time Lyapunov exponents on the sphere: how fast small differences between directions grow in a phase."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import normalize

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases

VECTORS = 16  # leading exponents
ITERATIONS = 12  # steps of block power iteration


@dataclass(frozen=True)
class LyapunovResult:
    """Leading Lyapunov exponents of each phase, per layer: small differences grow above 0 and shrink below 0.

    Parameters
    ----------
    mean
        By phase, the leading exponents, largest first; means over images.
    n
        Number of images.
    """

    mean: Estimate[list[list[float]]]
    n: int


def lyapunov_exponents(
    flow: DepthFlow,
    images: ImageSource,
    phases: Phases,
    vectors: int = VECTORS,
    iterations: int = ITERATIONS,
    seed: int = 0,
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
        A few images; each costs `iterations` x `vectors` forward and backward passes.
    phases
        Phases of the layers 1..L.
    vectors, iterations
        Number of exponents, and of iterations.
    seed
        Seed of the first vectors and of the bootstrap over images.
    """
    phases.check_depth(flow.depth)
    means = [BinnedMean() for _ in phases.lengths]
    generator = torch.Generator().manual_seed(seed)
    for pixels in pixels_of(images):
        with torch.no_grad():
            states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        for mean, span in zip(means, phases.ranges, strict=True):
            first, last = span[0] - 1, span[-1]
            singular = _singular(flow, states[first], first, last, vectors, iterations, generator)
            mean.add(singular.log() / len(span))
    ends = [mean.interval(seed=seed) for mean in means]
    n = means[0].n
    values = [mean.mean().tolist() for mean in means]
    low, high = ([interval[side].tolist() for interval in ends] for side in (0, 1))
    return LyapunovResult(Estimate(values, low, high, n), n)


def _singular(
    flow: DepthFlow,
    state: Float[Tensor, "batch tokens width"],
    first: int,
    last: int,
    vectors: int,
    iterations: int,
    generator: torch.Generator,
) -> Float[Tensor, "batch vectors"]:
    """Return the leading singular values of the map from directions at one layer to directions at another."""
    batch, tokens, width = state.shape
    # The directions of a token have one dimension less than its features.
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

    def pushforward() -> Float[Tensor, "batch features vectors"]:
        return _columns(jvp(forward, (start,), (_rows(basis, copies),))[1], batch, vectors).detach()

    # Fused attention has no forward derivatives; torch warns about one of its own functions that they use.
    with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pull = vjp(forward, start)[1]
        for _ in range(iterations):
            pulled = pull(_rows(pushforward(), copies))[0]
            basis = torch.linalg.qr(_columns(pulled.detach(), batch, vectors))[0]
        return torch.linalg.svdvals(pushforward())


def _rows(columns: Float[Tensor, "batch features vectors"], like: Tensor) -> Float[Tensor, "copies tokens width"]:
    return columns.transpose(1, 2).reshape(like.shape)


def _columns(rows: Tensor, batch: int, vectors: int) -> Float[Tensor, "batch features vectors"]:
    return rows.reshape(batch, vectors, -1).transpose(1, 2)
