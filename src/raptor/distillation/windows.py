"""Windows of patches: training on a part of the patch grid, which costs a fraction of a step on all patches.

A block without positions of its own treats tokens as a set. It then runs on any of the tokens of layer 0, and the
teacher's states of those tokens are the target. Unlike a smaller image, a window keeps the scale and the position
embedding of the patches. Blocks with rotary or relative positions cannot be run on a window.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from raptor.core.flow import DepthFlow
from raptor.core.tokens import TokenLayout
from raptor.errors import OptionError

Tokens = Float[Tensor, "batch tokens width"]
SAME = 1e-3  # relative difference up to which two results of a block count as equal


@dataclass(frozen=True)
class Window:
    """A rectangle of patches, placed at random in each image; cls, registers and some patches are always kept.

    Parameters
    ----------
    layout
        Token groups of the whole image.
    share
        Side of the window over the side of the patch grid.
    kept
        Numbers of patches that are seen besides the rectangle, counted row by row. For one that is inside it, a random
        patch outside is seen, so that all images have equally many tokens.
    """

    layout: TokenLayout
    share: float
    kept: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise OptionError(f"a window has a share of the sides of the image above 0 and at most 1, not {self.share}")
        if self.grid == self.layout.full_grid:
            object.__setattr__(self, "kept", ())  # nothing is left out

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in the window."""
        rows, columns = (max(1, round(self.share * side)) for side in self.layout.full_grid)
        return rows, columns

    @property
    def inside(self) -> TokenLayout:
        """Token groups of a window; with patches besides the rectangle, the grid is one row."""
        rows, columns = self.grid
        grid = (1, rows * columns + len(self.kept)) if self.kept else self.grid
        return TokenLayout(self.layout.n_cls, self.layout.n_register, grid)

    def take(self, tokens: Tokens) -> Float[Tensor, "batch some_tokens width"]:
        """Return the tokens of a window that is drawn for each image."""
        if self.grid == self.layout.full_grid:
            return tokens
        return tokens_at(tokens, self.draw(len(tokens), tokens.device))

    def draw(self, n: int, device: torch.device) -> Int[Tensor, "n some_tokens"]:
        """Draw a window for each of n images from torch's global generator; return the numbers of its tokens."""
        (rows, columns), (all_rows, all_columns) = self.grid, self.layout.full_grid
        top = torch.randint(all_rows - rows + 1, (n, 1, 1)).to(device)
        left = torch.randint(all_columns - columns + 1, (n, 1, 1)).to(device)
        row, column = torch.arange(rows, device=device)[:, None], torch.arange(columns, device=device)
        patches = ((top + row) * all_columns + left + column).flatten(1)
        if self.kept:
            patches = self._with_kept(patches)
        prefix = torch.arange(self.layout.n_prefix, device=device).expand(n, -1)
        return torch.cat([prefix, self.layout.n_prefix + patches], dim=1)

    def _with_kept(self, patches: Int[Tensor, "batch some"]) -> Int[Tensor, "batch more"]:
        """Return the patches, the kept ones, and random others in place of those that are both; in order."""
        rows, columns = self.layout.full_grid
        priority = torch.rand(len(patches), rows * columns).to(patches.device)  # below 1
        priority.scatter_(1, patches, 1.0)
        priority[:, list(self.kept)] = 2.0
        return priority.topk(patches.shape[1] + len(self.kept), dim=1).indices.sort(dim=1).values


def tokens_at(tokens: Tokens, numbers: Int[Tensor, "batch some_tokens"]) -> Float[Tensor, "batch some_tokens width"]:
    """Return some tokens of each image, by their numbers."""
    return tokens.gather(1, numbers[..., None].expand(-1, -1, tokens.shape[-1]))


@torch.no_grad()
def treats_tokens_as_a_set(flow: DepthFlow, tokens: Tokens) -> bool:
    """Return whether every block commutes with a permutation of its tokens, and so can be run on a window.

    Parameters
    ----------
    flow
        The teacher.
    tokens
        States at layer 0; the first image is used.
    """
    tokens = tokens[:1]
    reverse = torch.arange(tokens.shape[1] - 1, -1, -1, device=tokens.device)
    for layer in range(flow.depth):
        wanted = flow.step(tokens, layer)
        found = flow.step(tokens[:, reverse], layer)[:, reverse]
        if not (found - wanted).norm() <= SAME * (wanted - tokens).norm():
            return False
        tokens = wanted
    return True
