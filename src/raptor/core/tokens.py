"""Positions of the token groups in a ViT's sequence: cls, registers and patches."""

from __future__ import annotations

from dataclasses import dataclass, field

from raptor.errors import LayoutError

GROUPS = ("cls", "register", "patch")  # of models
OUTLIER = "outlier"  # patches with massive activations, where they are a group of their own


@dataclass(frozen=True)
class TokenLayout:
    """The order of tokens: cls, registers, outliers where they are separate, then patches row by row.

    Parameters
    ----------
    n_cls
        Number of cls tokens, 0 or 1 in all known models.
    n_register
        Number of register tokens; a distillation token counts as one.
    grid
        Rows and columns of the patch grid.
    n_outlier
        Number of patches that are a group of their own; models have 0, `SeparatedOutliers` has more.
    """

    n_cls: int
    n_register: int
    grid: tuple[int, int]
    n_outlier: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if min(self.n_cls, self.n_register) < 0 or min(self.grid) < 1:
            raise LayoutError(
                f"invalid layout cls={self.n_cls}, register={self.n_register}, grid={self.grid}; counts must not be "
                "negative, and there must be at least one patch"
            )
        if not 0 <= self.n_outlier < self.grid[0] * self.grid[1]:
            raise LayoutError(f"{self.n_outlier} outliers of a grid {self.grid}: at least one patch must be left")

    @property
    def n_prefix(self) -> int:
        """Number of tokens before all patches, outliers included."""
        return self.n_cls + self.n_register

    @property
    def n_patch(self) -> int:
        """Number of patch tokens, without outliers where they are a group of their own."""
        return self.grid[0] * self.grid[1] - self.n_outlier

    @property
    def full_grid(self) -> tuple[int, int]:
        """Rows and columns of the group `patch`; a LayoutError where outliers are missing in it."""
        if self.n_outlier:
            raise LayoutError(
                f"patches are no full grid: {self.n_outlier} of them are the group {OUTLIER!r}; use the model itself, "
                "without separate outliers"
            )
        return self.grid

    @property
    def n_tokens(self) -> int:
        """Length of the whole sequence."""
        return self.n_prefix + self.n_outlier + self.n_patch

    @property
    def counts(self) -> dict[str, int]:
        """Number of tokens by group; groups that the model does not have are left out."""
        sizes = {"cls": self.n_cls, "register": self.n_register, OUTLIER: self.n_outlier, "patch": self.n_patch}
        return {name: size for name, size in sizes.items() if size}

    @property
    def slices(self) -> dict[str, slice]:
        """Slice of each group along the token axis."""
        groups, first = {}, 0
        for name, size in self.counts.items():
            groups[name], first = slice(first, first + size), first + size
        return groups

    def where(self, group: str) -> slice:
        """Return the slice of one group; raise a LayoutError if the model does not have it."""
        if group not in self.slices:
            raise LayoutError(f"this model has no token group {group!r}; it has {', '.join(self.slices)}")
        return self.slices[group]
