"""A teacher: a ViT of any library as a depth flow, through the parts that its adapter returns."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.core.flow import Head
from raptor.core.preprocessing import Preprocessing, Size
from raptor.core.tokens import TokenLayout
from raptor.errors import ImageSizeError, LayerError, OptionError, UnsupportedModelError


def plain_call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
    """Call a block whose only input is tokens."""
    return block(tokens)


@dataclass(frozen=True)
class Parts:
    """The parts of a library's ViT for one image size. An adapter returns this.

    Parameters
    ----------
    family
        Name of the architecture in its library.
    embed
        Maps pixels to layer 0: everything before the first block.
    blocks
        The blocks, first to last.
    norm
        The norm on all tokens after the last block; `nn.Identity()` if the library has none.
    layout
        Token groups at this image size.
    width, heads
        Features per token, and attention heads per block.
    image_size, patch_size
        In pixels, (height, width).
    call
        `call(block, tokens, layer)` runs one block with its further inputs, such as rotary positions of the grid, so
        that a step has no hidden state.
    classify
        Maps tokens after `norm` to logits; None if the model has no classifier.
    head
        Maps layer-L states, before `norm`, to logits; for models whose classifier does not read normalised tokens.
    linear
        The linear classifier that a user added, or None.
    output_projections
        Names in a block of the linear maps that end attention and the MLP, such as `("attn.proj", "mlp.fc2")`. None
        finds them by their shapes. Depth scaling of a surrogate multiplies their outputs.
    module
        The module of these parts, if the adapter made a copy of its input.
    notes
        Remarks for the user on how this model was read.
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
    head: Head | None = None
    linear: nn.Linear | None = None
    output_projections: tuple[str, str] | None = None
    module: nn.Module | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if min(len(self.blocks), self.width, self.heads) < 1 or self.width % self.heads:
            raise UnsupportedModelError(
                f"this {self.family} has {len(self.blocks)} layers, width {self.width} and {self.heads} heads; a ViT "
                "needs at least one layer, and a width that is a multiple of the number of heads"
            )
        for name in self.output_projections or ():
            named = dict(self.blocks[0].named_modules()).get(name)
            if getattr(getattr(named, "weight", None), "shape", (0,))[0] != self.width:
                raise UnsupportedModelError(
                    f"output_projections of this {self.family} names {name!r}, but its blocks have no linear map of "
                    f"that name with {self.width} outputs"
                )


Adapter = Callable[[nn.Module, Size | None], Parts]

MOST_PATCHES = 100_000  # per image; more would run out of memory


def as_image_size(value: object) -> Size | None:
    """Return (height, width) for one integer, a pair of integers, or None."""
    if value is None:
        return None
    try:
        pair = tuple(map(operator.index, value)) if isinstance(value, Iterable) else (operator.index(value),) * 2  # type: ignore[arg-type]
    except TypeError:
        pair = ()
    if len(pair) != 2 or min(pair) < 1:
        raise OptionError(f"image size {value!r} is not a number of pixels or (height, width)")
    return pair


def patch_grid(image_size: Size, patch_size: Size) -> Size:
    """Return the number of rows and columns of patches; raise an ImageSizeError if patches do not fit exactly."""
    if any(pixels < patch or pixels % patch for pixels, patch in zip(image_size, patch_size, strict=True)):
        near = [max(patch, round(pixels / patch) * patch) for pixels, patch in zip(image_size, patch_size, strict=True)]
        raise ImageSizeError(
            f"image size {image_size[0]}x{image_size[1]} is not a multiple of the patch size "
            f"{patch_size[0]}x{patch_size[1]}; the nearest supported size is {near[0]}x{near[1]}"
        )
    grid = (image_size[0] // patch_size[0], image_size[1] // patch_size[1])
    if grid[0] * grid[1] > MOST_PATCHES:
        raise ImageSizeError(
            f"image size {image_size[0]}x{image_size[1]} has {grid[0] * grid[1]:,} patches; at most {MOST_PATCHES:,} "
            "are supported"
        )
    return grid


class Teacher(nn.Module):
    """A frozen ViT as a depth flow: `embed`, `step`, `readout`, `head`.

    Parameters
    ----------
    module
        The model of another library, used in place.
    adapt
        `adapt(module)` returns the parts of a module; also called for copies of the teacher.
    preprocessing
        Preprocessing of images.
    name
        Name for reports: the source that the user gave.
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
        """The model's classifier on layer-L states, or None."""
        if self.parts.head is not None:
            return self.parts.head
        classify = self.parts.classify
        return None if classify is None else lambda tokens: classify(self.readout(tokens))

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return the states at layer 0."""
        if tuple(pixels.shape[-2:]) != self.image_size:
            height, width = pixels.shape[-2:]
            raise ImageSizeError(
                f"{self.name} was loaded for images of {self.image_size[0]}x{self.image_size[1]}, but these have "
                f"{height}x{width}; load it with image_size=({height}, {width})"
            )
        parameter = next(self.module.parameters())
        return self.parts.embed(pixels.to(parameter))

    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Return the states at `layer + 1` from those at `layer` (0..L-1)."""
        if not 0 <= layer < self.depth:
            raise LayerError(f"step {layer} is outside 0..{self.depth - 1}, the steps of {self.name}")
        return self.parts.call(self.parts.blocks[layer], tokens, layer)

    def readout(self, tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch tokens features"]:
        """Apply the final norm."""
        return self.parts.norm(tokens)

    def forward(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return the tokens after the final norm."""
        tokens = self.embed(pixels)
        for layer in range(self.depth):
            tokens = self.step(tokens, layer)
        return self.readout(tokens)

    def __deepcopy__(self, memo: dict[int, object]) -> Teacher:
        """Copy the module and adapt the copy, because parts belong to their module."""
        return Teacher(copy.deepcopy(self.module, memo), self.adapt, self.preprocessing, self.name)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.module.parameters()).device

    def train(self, mode: bool = True) -> Teacher:
        """Stay in evaluation mode, because dropout and stochastic depth would make the teacher random."""
        return super().train(False)
