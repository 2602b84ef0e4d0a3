"""Serialisation of results to JSON: one rule for every dataclass.

A dataclass becomes an object with one key per field. The value of a field decides how it is written:

- an `Estimate` called `x` becomes the keys `x` and `x_ci` (`[low, high]`); so does a mapping of estimates, whose keys
  are kept in both; inside a list, or with `split=False`, an estimate is `{"value": ..., "ci": [low, high]}`;
- `LayerEstimates` called `x` become `x` and `x_ci`, both by token group;
- `Phases` are text (`"7-3-2"`), arrays are lists, complex numbers `[real, imaginary]`, paths text, and a number that is
  not finite is null; a number that is a key is text (`0.001` is `"0.001"`, `1.0` is `"1"`).

`deserialize.from_plain` reads the same JSON back into the dataclass.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Union, cast

from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.phases import Phases


@dataclasses.dataclass(frozen=True)
class Key:
    """How a field is written.

    Parameters
    ----------
    name, ci
        Keys of the value and of its interval; by default the field's name and `<name>_ci`.
    skip
        Leave the field out; when read back it has its default, or None.
    inline
        Write the keys of the field's own value (a dataclass or a mapping) in place of the field.
    suffix
        Ending of the keys of an inline mapping: `_by_seed` writes `top1` as `top1_by_seed`.
    omit_none
        Leave the key out if the value is None.
    split
        Whether estimates in a mapping are written as two mappings.
    """

    name: str | None = None
    ci: str | None = None
    skip: bool = False
    inline: bool = False
    suffix: str = ""
    omit_none: bool = False
    split: bool = True


def key(default: Any, **how: Any) -> Any:
    """Declare a dataclass field with a default and a `Key`; a field without a default is `Annotated[T, Key(...)]`."""
    return dataclasses.field(default=default, metadata={"key": Key(**how)})


def to_json(value: Any) -> str:
    """Return valid JSON text: no NaN, no Infinity, and escapes for characters that UTF-8 cannot encode."""
    text = json.dumps(to_plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()  # file names may have any bytes


def to_plain(value: Any) -> Any:
    """Convert a value to the types of JSON."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, complex):
        return [to_plain(value.real), to_plain(value.imag)]
    if isinstance(value, (Phases, Path)):
        return str(value)
    if hasattr(value, "tolist"):  # arrays of NumPy and torch, without importing either
        return to_plain(value.tolist())
    if isinstance(value, Mapping):
        return {to_key(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))
        if kinds <= {int, str, bool} or (kinds == {float} and all(map(math.isfinite, value))):
            return list(value)  # nearly all values of a result are in such lists, and need no conversion
        return [to_plain(item) for item in value]
    if isinstance(value, Estimate):
        return {"value": to_plain(value.value), "ci": to_plain(value.ci)}
    if isinstance(value, LayerEstimates):
        return {"value": to_plain(value.mean), "ci": to_plain(value.ci)}
    if dataclasses.is_dataclass(value):
        return dict(_entries(value))
    return value  # json.dumps raises an error for other types


def to_key(name: Any) -> str:
    """Return the key of a JSON object as text."""
    return f"{name:g}" if isinstance(name, float) else str(name)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a dataclass and their values."""
    cls: Any = type(value)
    hints = hints_of(cls)
    for field in dataclasses.fields(value):
        how = key_of(cls, field)
        item = getattr(value, field.name)
        if how.skip or (item is None and (how.omit_none or how.inline)):
            continue
        if how.inline and dataclasses.is_dataclass(item):
            yield from _entries(item)
        elif how.inline:
            for name, inner in item.items():
                yield from _written(to_key(name) + how.suffix, inner, Key(), is_estimate(hints[field.name]))
        elif item is None and is_estimate(hints[field.name]):
            name = how.name or field.name
            yield from ((name, None), (how.ci or f"{name}_ci", None))
        else:
            yield from _written(how.name or field.name, item, how, is_estimate(hints[field.name]))


def _written(name: str, item: Any, how: Key, estimate: bool = False) -> Iterator[tuple[str, Any]]:
    if how.split and (estimate or _holds_estimates(item)):
        yield name, _part(item, "value")
        yield how.ci or f"{name}_ci", _part(item, "ci")
    else:
        yield name, to_plain(item)


def _holds_estimates(item: Any) -> bool:
    if isinstance(item, Mapping):
        return bool(item) and all(_holds_estimates(inner) for inner in item.values())
    return isinstance(item, (Estimate, LayerEstimates))


def _part(item: Any, part: str) -> Any:
    """Return the values, or the intervals, of an estimate or of a mapping of them."""
    if isinstance(item, Mapping):
        return {to_key(name): _part(inner, part) for name, inner in item.items()}
    return None if item is None else to_plain(item)[part]


def is_estimate(hint: Any) -> bool:
    kind = without_none(hint)
    if typing.get_origin(kind) in (dict, Mapping):
        return is_estimate(typing.get_args(kind)[1])
    return kind in (Estimate, LayerEstimates) or typing.get_origin(kind) is Estimate


def without_none(hint: Any) -> Any:
    """Return X of `X | None`."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        kinds = [one for one in typing.get_args(hint) if one is not type(None)]
        return kinds[0] if len(kinds) == 1 else hint
    return hint


def key_of(cls: Any, field: dataclasses.Field[Any]) -> Key:
    """Return how a field is written: from its default, from its annotation, or in the usual way."""
    if "key" in field.metadata:
        return cast(Key, field.metadata["key"])
    extras = getattr(_annotated_hints(cls)[field.name], "__metadata__", ())
    return next((extra for extra in extras if isinstance(extra, Key)), Key())


@cache
def hints_of(cls: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    return typing.get_type_hints(cls)


@cache
def _annotated_hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)
