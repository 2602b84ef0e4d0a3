"""Windows of patches: training on a part of the patch grid, which costs a fraction of a step on all patches.

A block without positions of its own treats tokens as a set. It then runs on any of the tokens of layer 0, and the
teacher's states of those tokens are the target. Unlike a smaller image, a window keeps the scale and the position
embedding of the patches. Blocks with rotary or relative positions cannot be run on a window.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.flow import DepthFlow
from raptor.core.tokens import TokenLayout
from raptor.errors import OptionError

Tokens = Float[Tensor, "batch tokens width"]
SAME = 1e-3  # relative difference up to which two results of a block count as equal


@dataclass(frozen=True)
class Window:
    """A rectangle of patches, placed at random in each image; cls and registers are kept.

    Parameters
    ----------
    layout
        Token groups of the whole image.
    share
        Side of the window over the side of the patch grid.
    """

    layout: TokenLayout
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise OptionError(f"a window has a share of the sides of the image above 0 and at most 1, not {self.share}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in the window."""
        rows, columns = (max(1, round(self.share * side)) for side in self.layout.full_grid)
        return rows, columns

    @property
    def inside(self) -> TokenLayout:
        """Token groups of a window."""
        return TokenLayout(self.layout.n_cls, self.layout.n_register, self.grid)

    def take(self, tokens: Tokens) -> Float[Tensor, "batch some_tokens width"]:
        """Return the tokens of a window; its place is drawn from torch's global generator."""
        (rows, columns), (all_rows, all_columns) = self.grid, self.layout.full_grid
        if (rows, columns) == (all_rows, all_columns):
            return tokens
        n, device = len(tokens), tokens.device
        top = torch.randint(all_rows - rows + 1, (n, 1, 1)).to(device)
        left = torch.randint(all_columns - columns + 1, (n, 1, 1)).to(device)
        row, column = torch.arange(rows, device=device)[:, None], torch.arange(columns, device=device)
        patches = self.layout.n_prefix + ((top + row) * all_columns + left + column).flatten(1)
        prefix = torch.arange(self.layout.n_prefix, device=device).expand(n, -1)
        return tokens.gather(1, torch.cat([prefix, patches], dim=1)[..., None].expand(-1, -1, tokens.shape[-1]))


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
