"""A teacher: somebody's ViT, seen as a depth flow through the parts that an adapter names."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.errors import ImageSizeError, LayerError, OptionError, UnsupportedModelError
from raptor.flow import Head
from raptor.preprocessing import Preprocessing, Size
from raptor.tokens import TokenLayout


def plain_call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
    """Call a block that needs nothing but tokens."""
    return block(tokens)


@dataclass(frozen=True)
class Parts:
    """Where a library's own ViT keeps its parts, for one image size. This is what an adapter returns.

    Parameters
    ----------
    family
        Name of the architecture, as its library calls it.
    embed
        Pixels to layer 0: everything that happens before the first block.
    blocks
        The blocks, first to last.
    norm
        The token norm that the library applies after the last block; `nn.Identity()` where it applies none.
    layout
        Token groups at this image size.
    width, heads
        Features of a token, attention heads of a block.
    image_size, patch_size
        In pixels, (height, width).
    call
        `call(block, tokens, layer)` runs one block with whatever it needs beside tokens. Positions that
        belong to the grid are bound in here, so that a step has no hidden state.
    classify
        Takes tokens after `norm` and gives logits; None where the model has no classifier.
    linear
        The linear classifier in `classify` that a user brought; None for the model's own.
    module
        The module that these parts belong to, where it is not the one that the adapter was given.
    notes
        What a user should know about how this model was read.
    """

    family: str
    embed: Callable[[Tensor], Tensor]
    blocks: nn.ModuleList | nn.Sequential
    norm: Callable[[Tensor], Tensor]
    layout: TokenLayout
    width: int
    heads: int
    image_size: Size
    patch_size: Size
    call: Callable[[nn.Module, Tensor, int], Tensor] = plain_call
    classify: Head | None = None
    linear: nn.Linear | None = None
    module: nn.Module | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if min(len(self.blocks), self.width, self.heads) < 1 or self.width % self.heads:
            raise UnsupportedModelError(
                f"a ViT has layers, and a width that its heads divide; this {self.family} has {len(self.blocks)} "
                f"layers, width {self.width} and {self.heads} heads"
            )


Adapter = Callable[[nn.Module, Size | None], Parts]

MOST_PATCHES = 100_000  # of an image: what is larger is a mistake, and would be met as a lack of memory


def as_image_size(value: object) -> Size | None:
    """Return (height, width) of one whole number or of two; None stays."""
    if value is None:
        return None
    try:
        pair = tuple(map(operator.index, value)) if isinstance(value, Iterable) else (operator.index(value),) * 2  # type: ignore[arg-type]
    except TypeError:
        pair = ()
    if len(pair) != 2 or min(pair) < 1:
        raise OptionError(f"an image size is a number of pixels or (height, width), not {value!r}")
    return pair


def patch_grid(image_size: Size, patch_size: Size) -> Size:
    """Return the rows and columns of patches; an image that does not divide into patches is an error."""
    if any(pixels < patch or pixels % patch for pixels, patch in zip(image_size, patch_size, strict=True)):
        near = [max(patch, round(pixels / patch) * patch) for pixels, patch in zip(image_size, patch_size, strict=True)]
        raise ImageSizeError(
            f"an image of {image_size[0]}x{image_size[1]} does not divide into patches of "
            f"{patch_size[0]}x{patch_size[1]}; the nearest size that does is {near[0]}x{near[1]}"
        )
    grid = (image_size[0] // patch_size[0], image_size[1] // patch_size[1])
    if grid[0] * grid[1] > MOST_PATCHES:
        raise ImageSizeError(
            f"an image of {image_size[0]}x{image_size[1]} has {grid[0] * grid[1]:,} patches; at most {MOST_PATCHES:,} "
            "are taken"
        )
    return grid


class Teacher(nn.Module):
    """A frozen ViT as a depth flow: `embed`, `step`, `readout`, `head`.

    Parameters
    ----------
    module
        The library's own model, used as it is.
    adapt
        Names the parts of the module; a copy of the teacher names those of its own module anew.
    preprocessing
        What it wants of images.
    name
        What the user called it.
    """

    def __init__(self, module: nn.Module, adapt: Callable[[nn.Module], Parts], preprocessing: Preprocessing, name: str):
        super().__init__()
        parts = adapt(module.eval())
        self.module = parts.module or module
        self.linear = parts.linear
        self.adapt, self.parts = adapt, parts
        self.preprocessing = preprocessing.at(parts.image_size)
        self.name = name
        self.depth, self.width, self.layout = len(parts.blocks), parts.width, parts.layout
        self.image_size = parts.image_size

    @property
    def head(self) -> Head | None:
        """The model's own classifier on layer-L states, or None."""
        classify = self.parts.classify
        return None if classify is None else lambda tokens: classify(self.readout(tokens))

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return layer 0."""
        if tuple(pixels.shape[-2:]) != self.image_size:
            height, width = pixels.shape[-2:]
            raise ImageSizeError(
                f"{self.name} was loaded for images of {self.image_size[0]}x{self.image_size[1]}, not "
                f"{height}x{width}; load it with image_size=({height}, {width})"
            )
        parameter = next(self.module.parameters())
        return self.parts.embed(pixels.to(parameter))

    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Run block `layer` (0..L-1): from layer `layer` to `layer + 1`."""
        if not 0 <= layer < self.depth:
            raise LayerError(f"{self.name} has steps 0 to {self.depth - 1}, not {layer}")
        return self.parts.call(self.parts.blocks[layer], tokens, layer)

    def readout(self, tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch tokens features"]:
        """Apply the token norm that the library applies."""
        return self.parts.norm(tokens)

    def forward(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return the tokens after the final norm."""
        tokens = self.embed(pixels)
        for layer in range(self.depth):
            tokens = self.step(tokens, layer)
        return self.readout(tokens)

    def __deepcopy__(self, memo: dict[int, object]) -> Teacher:
        """Copy the module and name its parts anew: those of `parts` belong to the module that they came from."""
        return Teacher(copy.deepcopy(self.module, memo), self.adapt, self.preprocessing, self.name)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    def train(self, mode: bool = True) -> Teacher:
        """Stay in evaluation mode: a teacher with dropout or stochastic depth is not one function."""
        return super().train(False)
