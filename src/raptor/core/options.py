"""Options of a verb: declared once in a frozen dataclass, used from Python and from the command line.

A field is annotated with its type and an `Option`, which says what the command line shows:

    @dataclass(frozen=True)
    class PhasesOptions:
        min_length: Annotated[int, Option("Minimum number of layers in a phase.", min=1)] = 2
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ParamSpec, TypeVar

from raptor.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """What the command line needs to know about a parameter.

    Parameters
    ----------
    help
        What the option does, in one self-contained sentence; None hides the option.
    flags
        Names such as `--json` or `--flip/--no-flip`; by default made from the field's name.
    aliases
        Old names, which still work but are hidden in help.
    min, max
        Allowed range of a number.
    parse
        `parse(text, name)` converts the typed text to a value; by default the type does.
    metavar
        Placeholder for the value in help.
    positional
        Whether it is an argument instead of an option.
    """

    help: str | None
    flags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    parse: Callable[[str, str], Any] | None = None
    metavar: str | None = None
    positional: bool = False


def parse_numbers(text: str, name: str) -> list[float]:
    """Read a list such as `1e-4,1e-3`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"{name} takes numbers separated by commas, not {text!r}") from None


def parse_counts(text: str, name: str) -> list[int]:
    """Read a list such as `2,3,4`."""
    values = parse_numbers(text, name)
    if not all(1 <= value < math.inf and value == int(value) for value in values):
        raise OptionError(f"{name} takes integers from 1, separated by commas, not {text!r}")
    return [int(value) for value in values]


def parse_names(text: str, name: str) -> list[str]:
    """Read a list such as `classify,segment`."""
    return text.split(",")


def old_keywords(options: type[T], **renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function that takes `options` still be called with the fields as keywords, with a FutureWarning.

    A field that the function has as a parameter of its own is left alone.

    Parameters
    ----------
    options
        The dataclass of the function's parameter `options`.
    **renamed
        Old keyword = name of the field or parameter that replaces it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = {field.name for field in fields(options)}  # type: ignore[arg-type]
        names -= set(inspect.signature(function).parameters)
        place = list(inspect.signature(function).parameters).index("options")

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            given: dict[str, Any] = dict(kwargs)
            changes: dict[str, Any] = {}
            for old in [name for name in given if name in names or name in renamed]:
                new = renamed.get(old, old)
                where = f"options={options.__name__}({new}=...)" if new in names else f"{new}="
                warnings.warn(f"{function.__name__}({old}=...) is deprecated: use {where}", FutureWarning, stacklevel=2)
                (changes if new in names else given)[new] = given.pop(old)
            positional: list[Any] = list(args)
            if changes and len(positional) > place:
                positional[place] = replace(positional[place] or options(), **changes)  # type: ignore[type-var]
            elif changes:
                given["options"] = replace(given.get("options") or options(), **changes)  # type: ignore[type-var]
            return function(*positional, **given)

        return called

    return decorate
