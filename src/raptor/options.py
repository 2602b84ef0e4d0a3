"""Options that every verb of the command line has, declared once."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.text import Text

from raptor.errors import OptionError, printable
from raptor.processes import is_first_process
from raptor.progress import say
from raptor.run import to_json

Option = typer.Option


class Screen(Console):
    """A console on which text from outside cannot move the cursor or change colours."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text with what a terminal would obey escaped."""
        return super().render_str(printable(text), **options)


@dataclass(frozen=True)
class Common:
    """What every verb takes beside its own arguments; the names and defaults are the options'."""

    json: Annotated[bool, Option("--json", help="Print one JSON object on stdout and nothing else there.")] = False
    out: Annotated[Path | None, Option(help="Directory for config.json, result.json and figures/.")] = None
    seed: Annotated[int, Option(min=0, max=2**31 - 1, help="Seed of everything random.")] = 0
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto"
    batch_size: Annotated[int | None, Option(min=1, help="Images a batch; default 32, or the recipe's.")] = None
    images: Annotated[int | None, Option(min=1, help="How many images to use.")] = None
    image_size: Annotated[str | None, Option(help="Pixels, 224 or 480x640; default: the model's own.")] = None
    quiet: Annotated[bool, Option("--quiet", help="No text and no progress, only errors.")] = False
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False

    @property
    def batch(self) -> int:
        """Images a batch, where no recipe says."""
        return self.batch_size or 32

    @property
    def size(self) -> tuple[int, int] | None:
        """The image size as (height, width)."""
        return parse_size(self.image_size)

    def config(self, **own: Any) -> dict[str, Any]:
        """Return all that is needed to repeat a command: its own arguments and the common ones."""
        shared = {name: getattr(self, name) for name in ("device", "batch_size", "images", "image_size")}
        return {name: str(value) if isinstance(value, Path) else value for name, value in {**own, **shared}.items()}

    @property
    def progress(self) -> Console:
        """Where progress goes: stderr, or nowhere; of several processes the first alone speaks."""
        return Screen(stderr=True, quiet=self.quiet or not is_first_process())

    def announce(self, text: str) -> None:
        """Say what goes on; brackets in it are brackets."""
        say(self.progress, text)

    def warn(self) -> None:
        """Say so where the device cannot promise the same numbers again."""
        from raptor.device import resolve_device, varies

        if (said := varies(resolve_device(self.device))) is not None:
            self.announce(f"note: {said}")

    def show(self, result: dict[str, Any], text: Callable[[Console], None]) -> None:
        """Print a result: as JSON, or by `text` for a person."""
        if not is_first_process():
            return
        if self.json:
            print(to_json(result))
        elif not self.quiet:
            text(Screen())


@dataclass(frozen=True)
class Loading:
    """How images are read, for every verb that takes --data; passed on to `load_images` as it is."""

    image_column: Annotated[str | None, Option(help="Column of a table that holds the images.")] = None
    label_column: Annotated[str | None, Option(help="Column of a table that holds the labels.")] = None
    allow_damaged: Annotated[
        bool, Option("--allow-damaged", help="Skip any number of damaged images, not only 1%.")
    ] = False


def numbers(text: str, option: str) -> list[float]:
    """Read a list such as `1e-4,1e-3`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} takes numbers with commas between them, not {text!r}") from None


def counts(text: str, option: str) -> list[int]:
    """Read a list such as `2,3,4`."""
    found = numbers(text, option)
    if not all(1 <= value < math.inf and value == int(value) for value in found):
        raise OptionError(f"{option} takes whole numbers from 1 on, with commas between them, not {text!r}")
    return [int(value) for value in found]


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read `224` or `480x640` (height x width)."""
    if text is None:
        return None
    if not (match := re.fullmatch(r"([1-9][0-9]{0,4})(?:x([1-9][0-9]{0,4}))?", text, flags=re.ASCII)):
        raise OptionError(f"an image size is 224 or 480x640 (height x width), not {text!r}")
    return int(match[1]), int(match[2] or match[1])


# Parameters of a command that stand for options declared once; a `loading` is given on as a plain dictionary.
SHARED: dict[str, type[Common] | type[Loading]] = {"loading": Loading, "common": Common}


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameters `common` and `loading` by their options, which typer reads from the signature."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    given_to = inspect.signature(function, eval_str=True).parameters
    parameters = [parameter.replace(kind=keyword) for name, parameter in given_to.items() if name not in SHARED]
    groups = {name: group for name, group in SHARED.items() if name in given_to}
    for group in groups.values():
        types = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(field.name, keyword, default=field.default, annotation=types[field.name])
            for field in fields(group)
        ]

    def command(**given: Any) -> None:
        made: dict[str, Any] = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        parse_size(made["common"].image_size)  # a mistake is one whether or not the verb needs the option
        if "loading" in made:  # the verb runs a model on images
            made["loading"] = asdict(made["loading"])
            made["common"].warn()
        function(**given, **made)

    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
