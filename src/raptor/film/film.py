"""The depth film: patch tokens of a few images at every layer as pictures, with one projection to colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d, normalize

from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases
from raptor.core.principal import principal_of
from raptor.core.serialize import key
from raptor.render.notebook import HtmlRepr

MOST_SIDE = 40  # patches per side; larger grids are averaged
BUDGET = 1_800_000  # bytes of directions
MOST_COMPONENTS = 128  # coordinates of a direction, from which cosines are computed
CHECKED = 64  # patches per image whose cosines are compared with the exact ones
OUTLIER = 5.0  # times the median norm of an image's patches, from which on a token is an outlier
ENDS = (0.01, 0.99)  # quantiles of a coordinate that are mapped to 0 and 255
STEPS = 127  # quantisation steps of a coordinate from 0 to 1


@dataclass(frozen=True)
class Film:
    """Pictures of patch tokens by layer.

    Parameters
    ----------
    colours
        By flow, (images, layers, rows, columns, 3): coordinates on three shared principal components, as bytes.
    directions
        By flow, (images, layers, rows, columns, components): coordinates of unit directions in steps of 1 / 127, on
        principal axes that all flows share. Scalar products approximate cosines.
    apart
        By flow except the first, (images, layers, rows, columns): 1 - cosine with the first flow's token.
    explained
        Share of the variance of the first flow's directions that each of the three components explains.
    outliers
        By flow, (images, layers, rows, columns): 1 where a token is an outlier; empty where no flow has any.
    cosine_error
        95th percentile of the error of cosines from `directions`.
    """

    colours: dict[str, NDArray[np.uint8]]
    directions: dict[str, NDArray[np.int8]]
    apart: dict[str, NDArray[np.float32]]
    explained: list[float]
    outliers: dict[str, NDArray[np.uint8]]
    cosine_error: float

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, `kind/flow`, for an .npz file."""
        named: dict[str, dict[str, Any]] = {
            "colours": self.colours, "directions": self.directions, "apart": self.apart, "outliers": self.outliers,
        }  # fmt: skip
        return {f"{kind}/{flow}": array for kind, by_flow in named.items() for flow, array in by_flow.items()}


@dataclass(frozen=True)
class FilmResult(HtmlRepr):
    """The result of the stage `film`: a depth film of a model and of surrogates.

    Parameters
    ----------
    flows
        Names of the flows, the teacher first.
    phases
        The phases.
    explained
        Share of the variance of the teacher's directions that each of the three components explains.
    apart
        By flow except the first, the mean of 1 - cosine with the teacher's tokens at the layers 0..L.
    blocks
        By flow except the first, the number of blocks of the surrogate; empty in older results.
    cosine_error
        95th percentile of the error of the cosines that the page shows.
    film
        The pictures, which film.npz holds; None in a result that was read from a file.
    """

    flows: list[str]
    phases: Phases
    explained: list[float]
    apart: dict[str, list[float]]
    blocks: dict[str, int] = field(default_factory=dict)
    cosine_error: float | None = key(None, omit_none=True)
    film: Film | None = key(None, skip=True)

    @classmethod
    def of(cls, film: Film, phases: Phases, blocks: Mapping[str, int] | None = None) -> FilmResult:
        """Summarise a film of flows; `blocks` are the numbers of blocks of those that are surrogates."""
        apart = {flow: array.mean(axis=(0, 2, 3)).tolist() for flow, array in film.apart.items()}
        return cls(list(film.colours), phases, film.explained, apart, dict(blocks or {}), film.cosine_error, film)


@torch.no_grad()
def depth_film(flows: Mapping[str, DepthFlow], pixels: Float[Tensor, "images 3 height width"]) -> Film:
    """Compute the depth film of flows with the same tokens.

    Parameters
    ----------
    flows
        By name; the first one defines the colours, and the others are compared with it.
    pixels
        A few preprocessed images.
    """
    found, norms = {}, {}
    for name, flow in flows.items():
        found[name], norms[name] = _patches(flow, pixels)
    first = next(iter(found.values()))
    rows = first.flatten(0, -2)
    centre = rows.mean(dim=0)
    along = principal_of(centre, (rows - centre).T @ (rows - centre))
    low, high = torch.quantile(along(rows), torch.tensor(ENDS, dtype=first.dtype), 0)
    axes = _axes(list(found.values()))
    colours, directions = {}, {}
    for name, patches in found.items():
        shown = (along(patches) - low) / (high - low).clamp(min=torch.finfo(first.dtype).tiny)
        colours[name] = (shown.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        directions[name] = (patches @ axes * STEPS).round().to(torch.int8).numpy()
    others = {name: patches for name, patches in found.items() if patches is not first}
    apart = {name: (1 - (patches * first).sum(dim=-1)).float().numpy() for name, patches in others.items()}
    outliers = {name: (one > OUTLIER * one.flatten(2).median(dim=-1).values[..., None, None]).to(torch.uint8).numpy()
                for name, one in norms.items()}  # fmt: skip
    error = _cosine_error(first, torch.from_numpy(next(iter(directions.values()))))
    any_outlier = any(array.any() for array in outliers.values())
    return Film(colours, directions, apart, along.explained, outliers if any_outlier else {}, error)


def _axes(found: Sequence[Tensor]) -> Float[Tensor, "width components"]:
    """Return the leading principal axes of the directions of all flows, as many as the budget allows."""
    rows = [one.flatten(0, -2) for one in found]
    width = rows[0].shape[-1]
    most = max(3, min(MOST_COMPONENTS, width, BUDGET // max(1, sum(map(len, rows)))))
    _, vectors = torch.linalg.eigh(torch.stack([one.T @ one for one in rows]).sum(dim=0))
    return vectors.flip(-1)[:, :most]


def _cosine_error(patches: Tensor, directions: Tensor) -> float:
    """Return the 95th percentile of the error of cosines between some patches of an image, at all layers."""
    exact = patches.flatten(2, 3)
    some = slice(None, None, max(1, exact.shape[2] // CHECKED))
    exact, stored = exact[:, :, some], directions.flatten(2, 3)[:, :, some].double() / STEPS
    error = (exact @ exact.transpose(-1, -2) - stored @ stored.transpose(-1, -2)).abs()
    between = ~torch.eye(error.shape[-1], dtype=torch.bool)
    return float(np.quantile(error[..., between].numpy(), 0.95)) if error.shape[-1] > 1 else 0.0


def _patches(
    flow: DepthFlow, pixels: Tensor
) -> tuple[Float[Tensor, "images layers rows columns width"], Float[Tensor, "images layers rows columns"]]:
    """Return unit directions and norms of patch tokens at all layers, of at most `MOST_SIDE` patches per side."""
    layout = flow.layout
    rows, columns = (min(side, MOST_SIDE) for side in layout.full_grid)
    layers, norms = [], []
    for _, states in layers_of(flow, flow.embed(pixels)):
        tokens = states[:, layout.where("patch")].cpu().double()
        grid = normalize(tokens, dim=-1).unflatten(1, layout.full_grid)
        pooled = adaptive_avg_pool2d(grid.permute(0, 3, 1, 2), (rows, columns)).permute(0, 2, 3, 1)
        layers.append(normalize(pooled, dim=-1))
        norms.append(adaptive_max_pool2d(tokens.norm(dim=-1).unflatten(1, layout.full_grid), (rows, columns)))
    return torch.stack(layers, dim=1), torch.stack(norms, dim=1)
