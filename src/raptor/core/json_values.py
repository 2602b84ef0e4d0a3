"""Checks and conversions of single JSON values."""

from __future__ import annotations

import math
import typing
from pathlib import Path
from typing import Any, TypeVar

from raptor.core.phases import Phases
from raptor.errors import PhaseError

T = TypeVar("T")


class ResultFormatError(ValueError):
    """JSON that does not have the structure of a result; the message names the key."""


def scalar(hint: Any, value: Any, at: str) -> Any:
    """Convert a JSON value to a number, text, path, array or `Phases`.

    Parameters
    ----------
    hint
        Type of the result.
    value
        The JSON value.
    at
        Key of the value, for error messages.
    """
    if hint is float:
        return math.nan if value is None else float(check(_is_number(value), value, hint, at))
    if hint is Phases:
        try:
            return Phases.parse(check(isinstance(value, str), value, hint, at))
        except PhaseError as error:
            raise ResultFormatError(f"{at}: {error}") from error
    if hint is complex:
        real, imaginary = pair(value, at)
        return complex(scalar(float, real, at), scalar(float, imaginary, at))
    if hint is Path:
        return Path(check(isinstance(value, str), value, hint, at))
    if hint is int:
        return check(isinstance(value, int) and not isinstance(value, bool), value, hint, at)
    if (typing.get_origin(hint) or hint).__module__ == "numpy":
        import numpy as np

        try:
            return np.array(value, dtype=float)  # null becomes NaN
        except (TypeError, ValueError) as error:
            raise ResultFormatError(f"{at} is not an array of numbers") from error
    return check(isinstance(value, hint), value, hint, at)


def pair(value: Any, at: str) -> tuple[Any, Any]:
    """Return the two items of a JSON list, such as [low, high]."""
    if not isinstance(value, list) or len(value) != 2:
        raise ResultFormatError(f"{at} is not a list of two items")
    return value[0], value[1]


def object_of(value: Any, at: str) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise ResultFormatError(f"{at or 'the result'} is not an object")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check(good: bool, value: T, hint: Any, at: str) -> T:
    """Return a value; raise a ResultFormatError that names its key if it is not `good`."""
    if not good:
        raise ResultFormatError(f"{at or 'the result'} is {str(value)[:40]!r}, not {getattr(hint, '__name__', hint)}")
    return value
