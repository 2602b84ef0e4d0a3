"""Positions of the cls, register and patch tokens in a ViT's sequence."""

from __future__ import annotations

from dataclasses import dataclass

from raptor.errors import LayoutError

GROUPS = ("cls", "register", "patch")


@dataclass(frozen=True)
class TokenLayout:
    """The order of tokens: cls, registers, then patches row by row.

    Parameters
    ----------
    n_cls
        Number of cls tokens, 0 or 1 in all known models.
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
                f"invalid layout cls={self.n_cls}, register={self.n_register}, grid={self.grid}; counts must not be "
                "negative, and there must be at least one patch"
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
        """Number of tokens by group; groups that the model does not have are left out."""
        sizes = dict(zip(GROUPS, (self.n_cls, self.n_register, self.n_patch), strict=True))
        return {name: size for name, size in sizes.items() if size}

    @property
    def slices(self) -> dict[str, slice]:
        """Slice of each group along the token axis."""
        ends = {"cls": self.n_cls, "register": self.n_prefix, "patch": self.n_tokens}
        return {name: slice(ends[name] - size, ends[name]) for name, size in self.counts.items()}

    def where(self, group: str) -> slice:
        """Return the slice of one group; raise a LayoutError if the model does not have it."""
        if group not in self.slices:
            raise LayoutError(f"this model has no token group {group!r}; it has {', '.join(self.slices)}")
        return self.slices[group]
