"""Where the cls, register and patch tokens stand in a ViT's sequence."""

from __future__ import annotations

from dataclasses import dataclass

from raptor.errors import LayoutError

GROUPS = ("cls", "register", "patch")


@dataclass(frozen=True)
class TokenLayout:
    """The order of tokens: cls first, then registers, then patches row by row.

    Parameters
    ----------
    n_cls
        Number of cls tokens (0 or 1 in every model known).
    n_register
        Number of register tokens; a distillation token counts as one.
    grid
        Rows and columns of the patch grid.
    """

    n_cls: int
    n_register: int
    grid: tuple[int, int]

    def __post_init__(self) -> None:
        if min(self.n_cls, self.n_register) < 0 or min(self.grid) < 1:
            raise LayoutError(
                f"a layout has no negative counts and at least one patch, not cls={self.n_cls}, "
                f"register={self.n_register}, grid={self.grid}"
            )

    @property
    def n_prefix(self) -> int:
        """Number of tokens before the first patch."""
        return self.n_cls + self.n_register

    @property
    def n_patch(self) -> int:
        """Number of patch tokens."""
        return self.grid[0] * self.grid[1]

    @property
    def n_tokens(self) -> int:
        """Length of the whole sequence."""
        return self.n_prefix + self.n_patch

    @property
    def counts(self) -> dict[str, int]:
        """Tokens by group; a group that the model lacks is absent, not zero."""
        sizes = dict(zip(GROUPS, (self.n_cls, self.n_register, self.n_patch), strict=True))
        return {name: size for name, size in sizes.items() if size}

    @property
    def slices(self) -> dict[str, slice]:
        """Where each group stands along the token axis."""
        ends = {"cls": self.n_cls, "register": self.n_prefix, "patch": self.n_tokens}
        return {name: slice(ends[name] - size, ends[name]) for name, size in self.counts.items()}

    def where(self, group: str) -> slice:
        """Return the slice of one group; an absent one is an error that lists those present."""
        if group not in self.slices:
            raise LayoutError(f"this model has no token group {group!r}; it has {', '.join(self.slices)}")
        return self.slices[group]
