"""The depth film: patch tokens of a few images at every layer as pictures, with one projection to colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, normalize

from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases
from raptor.core.principal import principal_of
from raptor.core.serialize import key
from raptor.render.notebook import HtmlRepr

MOST_SIDE = 16  # patches per side; larger grids are averaged
BUDGET = 2_500_000  # bytes of similarities, which grow with the fourth power of the side
ENDS = (0.01, 0.99)  # quantiles of a coordinate that are mapped to 0 and 255
STEPS = 127  # quantisation steps of a cosine from 0 to 1


@dataclass(frozen=True)
class Film:
    """Pictures of patch tokens by layer.

    Parameters
    ----------
    colours
        By flow, (images, layers, rows, columns, 3): coordinates on three shared principal components, as bytes.
    cosines
        By flow, (images, layers, patches, patches): cosines between patches in steps of 1 / 127.
    apart
        By flow except the first, (images, layers, rows, columns): 1 - cosine with the first flow's token.
    explained
        Share of the variance of the first flow's directions that each of the three components explains.
    """

    colours: dict[str, NDArray[np.uint8]]
    cosines: dict[str, NDArray[np.int8]]
    apart: dict[str, NDArray[np.float32]]
    explained: list[float]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, `kind/flow`, for an .npz file."""
        named: dict[str, dict[str, Any]] = {"colours": self.colours, "cosines": self.cosines, "apart": self.apart}
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
    film
        The pictures, which film.npz holds; None in a result that was read from a file.
    """

    flows: list[str]
    phases: Phases
    explained: list[float]
    apart: dict[str, list[float]]
    film: Film | None = key(None, skip=True)

    @classmethod
    def of(cls, film: Film, phases: Phases) -> FilmResult:
        """Summarise a film."""
        apart = {flow: array.mean(axis=(0, 2, 3)).tolist() for flow, array in film.apart.items()}
        return cls(list(film.colours), phases, film.explained, apart, film)


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
    depth = next(iter(flows.values())).depth
    most = min(MOST_SIDE, int((BUDGET / (len(flows) * len(pixels) * (depth + 1))) ** 0.25))
    found = {name: _patches(flow, pixels, max(1, most)) for name, flow in flows.items()}
    first = next(iter(found.values()))
    rows = first.flatten(0, -2)
    centre = rows.mean(dim=0)
    along = principal_of(centre, (rows - centre).T @ (rows - centre))
    low, high = torch.quantile(along(rows), torch.tensor(ENDS, dtype=first.dtype), 0)
    colours, cosines = {}, {}
    for name, patches in found.items():
        shown = (along(patches) - low) / (high - low).clamp(min=torch.finfo(first.dtype).tiny)
        colours[name] = (shown.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        flat = patches.flatten(2, 3)
        cosines[name] = (flat @ flat.transpose(-1, -2) * STEPS).round().to(torch.int8).numpy()
    others = {name: patches for name, patches in found.items() if patches is not first}
    apart = {name: (1 - (patches * first).sum(dim=-1)).float().numpy() for name, patches in others.items()}
    return Film(colours, cosines, apart, along.explained)


def _patches(flow: DepthFlow, pixels: Tensor, most: int) -> Float[Tensor, "images layers rows columns width"]:
    """Return unit directions of patch tokens at all layers, averaged to at most `most` patches per side."""
    layout = flow.layout
    rows, columns = (min(side, most) for side in layout.full_grid)
    layers = []
    for _, states in layers_of(flow, flow.embed(pixels)):
        grid = normalize(states[:, layout.where("patch")].cpu().double(), dim=-1).unflatten(1, layout.full_grid)
        pooled = adaptive_avg_pool2d(grid.permute(0, 3, 1, 2), (rows, columns)).permute(0, 2, 3, 1)
        layers.append(normalize(pooled, dim=-1))
    return torch.stack(layers, dim=1)
