"""Toy depth flows for which every measure is known in closed form.

They test the analyses: a measure of a ViT can also be computed for a toy and compared with a formula. All toys work
with any token layout; states have the dtype of the input.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.phases import Phases
from raptor.core.tokens import TokenLayout

SMALL = TokenLayout(n_cls=1, n_register=2, grid=(4, 4))


class ToyFlow(ABC):
    """A flow without weights: a random-feature embedding, steps given by a formula, and no norm.

    Parameters
    ----------
    depth, width
        Number of steps, and number of features per token.
    layout
        Token layout; one cls, two registers and 4x4 patches by default.
    """

    head = None

    def __init__(self, depth: int, width: int, layout: TokenLayout = SMALL):
        self.depth, self.width, self.layout = depth, width, layout

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Project the mean colour and mean squared colour of each patch to `width` random features (seed 0).

        Prefix tokens project the mean over patches with their own random features.
        """
        mean = torch.nn.functional.adaptive_avg_pool2d(pixels, self.layout.grid)
        square = torch.nn.functional.adaptive_avg_pool2d(pixels**2, self.layout.grid)
        patch = torch.cat([mean, square, torch.ones_like(mean[:, :1])], dim=1).flatten(2).transpose(1, 2)
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(1 + self.layout.n_prefix, 7, self.width, generator=generator).to(patch)
        prefix = torch.einsum("bc,pcd->bpd", patch.mean(dim=1), features[1:])
        return torch.cat([prefix, patch @ features[0]], dim=1)

    @abstractmethod
    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Return the states at `layer + 1` from those at `layer`."""

    def readout(self, tokens: Tensor) -> Tensor:
        """Return the tokens unchanged: a toy has no norm."""
        return tokens


class Rotation(ToyFlow):
    """Rotate every consecutive pair of features by `angles[layer]`: a great-circle arc.

    The speed at step l is angles[l], the cosine of layers l and m is the cosine of the angle between them, and norms
    are constant. Equal angles give a uniform rotation; unequal angles give a non-uniform drift, which has no phases.

    Parameters
    ----------
    angles
        Angle of each step, in radians.
    width, layout
        As in `ToyFlow`; the width must be even.
    """

    def __init__(self, angles: Sequence[float], width: int = 8, layout: TokenLayout = SMALL):
        super().__init__(len(angles), width, layout)
        self.angles = tuple(angles)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Rotate by the angle of this layer."""
        cos, sin = math.cos(self.angles[layer]), math.sin(self.angles[layer])
        x, y = tokens[..., 0::2], tokens[..., 1::2]
        return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1).flatten(-2)


class Contraction(ToyFlow):
    """Contract every token towards one fixed point: x -> c + rate (x - c), c = (1, ..., 1).

    A perturbation d at layer l becomes rate^(L-l) d at the last layer.

    Parameters
    ----------
    depth, width, layout
        As in `ToyFlow`.
    rate
        Factor on the distance to the fixed point in each step.
    """

    def __init__(self, depth: int, rate: float, width: int = 8, layout: TokenLayout = SMALL):
        super().__init__(depth, width, layout)
        self.rate = rate

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Multiply the distance to the fixed point by `rate`."""
        return torch.lerp(torch.ones_like(tokens), tokens, self.rate)


class Diagonal(ToyFlow):
    """Multiply feature i by `eigenvalues[i]` in every step: a linear flow with a known spectrum.

    Parameters
    ----------
    depth, layout
        As in `ToyFlow`.
    eigenvalues
        Eigenvalue of each feature; their number is the width.
    """

    def __init__(self, depth: int, eigenvalues: Sequence[float], layout: TokenLayout = SMALL):
        super().__init__(depth, len(eigenvalues), layout)
        self.eigenvalues = tuple(eigenvalues)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Multiply the features by the eigenvalues."""
        return tokens * tokens.new_tensor(self.eigenvalues)


class Planted(ToyFlow):
    """A flow whose layer-layer cosine is a given matrix, for every token of every image.

    With S = A A^T and unit rows A_l, the state at layer l is the outer product of A_l with a constant vector z:
    <x_l, x_m> = (A_l . A_m) |z|^2. A step reads z as A_l^T x_l and writes it with A_{l+1}; components that are
    orthogonal to the trajectory are dropped.

    Parameters
    ----------
    similarity
        S for the layers 0..L, positive semi-definite with a diagonal of ones.
    copies
        Length of z; the width is `copies` x (L+1).
    layout
        As in `ToyFlow`.
    """

    def __init__(self, similarity: Float[Tensor, "layers layers"], copies: int = 4, layout: TokenLayout = SMALL):
        super().__init__(similarity.shape[0] - 1, similarity.shape[0] * copies, layout)
        values, vectors = torch.linalg.eigh(similarity.double())
        self.rows = vectors * values.clamp(min=0).sqrt()
        self.copies = copies

    def embed(self, pixels: Tensor) -> Tensor:
        """Write the first `copies` random features along A_0."""
        return self._write(super().embed(pixels)[..., : self.copies], 0)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Read z with row `layer` and write it with the next row."""
        parts = tokens.unflatten(-1, (self.depth + 1, self.copies))
        return self._write(torch.einsum("...lc,l->...c", parts, self.rows[layer].to(tokens)), layer + 1)

    def _write(self, z: Tensor, layer: int) -> Tensor:
        return torch.einsum("...c,l->...lc", z, self.rows[layer].to(z)).flatten(-2)


def phase_similarity(phases: Phases, within: float = 0.95, between: float = 0.4) -> Float[Tensor, "layers layers"]:
    """Return S for the layers 0..L of planted phases: constant inside a phase and between phases.

    Layer 0 belongs to no phase. Inside a phase, similarity does not decay with distance; this distinguishes phases from
    drift.

    Parameters
    ----------
    phases
        The planted phases.
    within, between
        Similarity of two layers in the same phase, and in different phases.
    """
    block = torch.tensor([-1] + [phases.block_of(layer) for layer in range(1, phases.depth + 1)])
    similarity = torch.full((len(block), len(block)), between, dtype=torch.float64)
    similarity[block[:, None] == block[None, :]] = within
    return similarity.fill_diagonal_(1.0)
