"""Options and arguments that verbs share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from raptor.core.options import Option
from raptor.core.serialize import to_plain
from raptor.errors import OptionError, printable
from raptor.runtime.distributed import is_main_process

if TYPE_CHECKING:
    from rich.console import Console

    from raptor.runtime.progress import Progress

Model = Annotated[
    str,
    Option(
        "scenes (the bundled ViT), scenes:k2 or scenes:k3 (bundled surrogates of it), a Hugging Face id, a model "
        "directory, timm:NAME, dinov2:ARCH with --weights, half:MODEL (its attention and MLP half-steps), "
        "elastic:SURROGATE@STEPS (a surrogate in another number of steps), or python:package.module:function (your own "
        "model).",
        positional=True,
    ),
]
Data = Annotated[
    str | None,
    Option(
        "Images: a folder, a folder with one subfolder per class, parquet files or a Hugging Face dataset id. Append "
        ":SPLIT to choose a split. Only the bundled models have default images."
    ),
]
Weights = Annotated[Path | None, Option("File with the model's weights (.safetensors, or .pth with tensors only).")]
Head = Annotated[Path | None, Option("File with the weight and bias of a linear classifier, for a model without one.")]
TOGETHER, SEPARATE = "together", "separate"
Outliers = Annotated[
    str,
    Option(
        "How to measure patches with massive activations: together (with all other patches) or separate (as a token "
        "group of their own)."
    ),
]
EvalData = Annotated[str | None, Option("Images to evaluate on. Default: the held-out split of --data.")]


@dataclass(frozen=True)
class RunOptions:
    """Options of every verb: where output goes, the seed, the device, and how many images of which size are used.

    Parameters
    ----------
    json, out, log_every, quiet, debug
        What is printed and how often, and where results are written.
    seed, device
        Seed of everything random; `auto`, `cpu`, `cuda` or `mps`.
    batch_size, images, image_size
        Images per batch, number of images, and their size; None for the verb's or the model's own.
    """

    json: Annotated[bool, Option("Print the result as one JSON object on stdout.", flags=("--json",))] = False
    out: Annotated[
        Path | None,
        Option("Directory for the results and figures. Without it, nothing is written."),
    ] = None
    seed: Annotated[int, Option("Random seed.", min=0, max=2**31 - 1)] = 0
    device: Annotated[str, Option("Device to run on: auto, cpu, cuda or mps.")] = "auto"
    batch_size: Annotated[int | None, Option("Images per batch. Default: 32.", min=1)] = None
    images: Annotated[int | None, Option("Number of images to read from --data.", min=1)] = None
    image_size: Annotated[
        str | None,
        Option("Image size in pixels: 224, or 480x640 (height x width). Default: the input size of the model."),
    ] = None
    log_every: Annotated[
        float, Option("Seconds between progress lines, if the output is not a terminal.", min=0.001)
    ] = 30.0
    quiet: Annotated[bool, Option("Print only errors.", flags=("--quiet",))] = False
    debug: Annotated[bool, Option("Show the traceback of an error.", flags=("--debug",))] = False

    def __post_init__(self) -> None:
        parse_size(self.image_size)  # report a wrong value even if the verb does not use it

    @property
    def batch(self) -> int:
        """Images per batch; 32 by default."""
        return self.batch_size or 32

    @property
    def size(self) -> tuple[int, int] | None:
        """The image size as (height, width)."""
        return parse_size(self.image_size)

    def config(self, *options: Any, **own: Any) -> dict[str, Any]:
        """Return everything that is needed to repeat a command, for config.json.

        Parameters
        ----------
        *options
            Dataclasses of options, whose fields become keys.
        **own
            Further keys.
        """
        shared = {name: getattr(self, name) for name in ("device", "batch_size", "images", "image_size")}
        fields: dict[str, Any] = {}
        for one in options:
            fields |= one if isinstance(one, Mapping) else to_plain(one)
        config: dict[str, Any] = to_plain({**own, **fields, **shared})
        return config

    @property
    def progress(self) -> Progress:
        """Where progress is shown: stderr; nowhere with --quiet and in all processes but the main one."""
        from raptor.runtime.progress import Progress

        return Progress(screen(stderr=True, quiet=self.quiet or not is_main_process()), self.log_every)

    def announce(self, text: str) -> None:
        """Print a status line."""
        self.progress.announce(text)

    def warn(self) -> None:
        """Print a note if results on the device are not bit-reproducible."""
        from raptor.runtime.device import resolve_device, varies

        if (note := varies(resolve_device(self.device))) is not None:
            self.announce(f"note: {note}")


def check_outliers(value: str) -> None:
    """Raise an OptionError if a value of `--outliers` is unknown."""
    if value not in (TOGETHER, SEPARATE):
        raise OptionError(f"outliers are measured {TOGETHER} or {SEPARATE}, not {value!r}")


def screen(**options: Any) -> Console:
    """Return a console that escapes control characters in text."""
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

    return Screen(**options)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read `224` or `480x640` (height x width)."""
    if text is None:
        return None
    if not (match := re.fullmatch(r"([1-9][0-9]{0,4})(?:x([1-9][0-9]{0,4}))?", text, flags=re.ASCII)):
        raise OptionError(f"image size {text!r} is not a number such as 224, or HEIGHTxWIDTH such as 480x640")
    return int(match[1]), int(match[2] or match[1])
