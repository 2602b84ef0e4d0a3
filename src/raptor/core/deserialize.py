"""Read the JSON of a result back into its dataclass, from the type hints of its fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union

from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.json_values import ResultFormatError, check, object_of, pair, scalar
from raptor.core.phases import Phases
from raptor.core.serialize import Key, hints_of, is_estimate, key_of, without_none


def from_plain(hint: Any, value: Any, at: str = "") -> Any:
    """Read plain JSON as a type: a dataclass, or any type that its fields are annotated with.

    Parameters
    ----------
    hint
        The type, such as `PhasesResult` or `dict[int, float]`.
    value
        Output of `json.loads`.
    at
        Key of the value, for error messages.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return value
    if origin in (Union, types.UnionType):
        return _from_union(arguments, value, at)
    if origin is Literal:
        return check(value in arguments, value, hint, at)
    if hint is Estimate or origin is Estimate:
        return _estimate(hint, object_of(value, at).get("value"), object_of(value, at).get("ci"), at)
    if _is_dataclass(hint) and hint is not Phases:
        return _read(hint, object_of(value, at), at)
    if origin in (dict, Mapping):
        kind, inner = arguments
        return {
            from_key(kind, name): from_plain(inner, item, f"{at}/{name}") for name, item in object_of(value, at).items()
        }
    if origin in (list, tuple, Sequence):
        return _from_list(origin, arguments, value, at)
    return scalar(hint, value, at)


def from_key(kind: Any, name: str) -> Any:
    """Convert the key of a JSON object to the key type of a mapping."""
    try:
        return kind(name) if kind in (int, float) else name
    except ValueError:
        raise ResultFormatError(f"the key {name[:40]!r} is not a number") from None


def _from_union(arguments: Sequence[Any], value: Any, at: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    problems = []
    for one in arguments:
        if one is not type(None):
            try:
                return from_plain(one, value, at)
            except ResultFormatError as problem:
                problems.append(str(problem))
    raise ResultFormatError("; ".join(problems))


def _from_list(origin: Any, arguments: Sequence[Any], value: Any, at: str) -> Any:
    if not isinstance(value, list):
        raise ResultFormatError(f"{at or 'the result'} is not a list")
    fixed = origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis)
    if fixed and len(arguments) != len(value):
        raise ResultFormatError(f"{at} has {len(value)} items, not {len(arguments)}")
    if not fixed and arguments[0] in (float, int, str) and set(map(type, value)) <= {arguments[0]}:
        items = list(value)  # nearly all values of a result are in such lists, and need no conversion
    else:
        kinds = list(arguments) if fixed else [arguments[0]] * len(value)
        items = [
            from_plain(kind, item, f"{at}/{place}") for place, (kind, item) in enumerate(zip(kinds, value, strict=True))
        ]
    return tuple(items) if origin is tuple else items


def _read(hint: Any, data: dict[str, Any], at: str) -> Any:
    """Read a dataclass: first the fields with their own keys, then the mappings that take the remaining keys."""
    cls = typing.get_origin(hint) or hint
    hints, left = hints_of(cls), set(data)
    values: dict[str, Any] = {}
    bound = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(hint), strict=False))
    rest: list[tuple[str, Any, str]] = []
    for field in dataclasses.fields(cls):
        how, kind = key_of(cls, field), _bind(hints[field.name], bound)
        if how.skip:
            values |= {} if _has_default(field) else {field.name: None}
        elif how.inline and not _is_dataclass(kind):
            rest.append((field.name, kind, how.suffix))
        elif how.inline:
            optional = without_none(kind) is not kind
            absent = optional and not set(_keys(without_none(kind), data)) & set(data)
            values[field.name] = None if absent else from_plain(kind, data, at)
            left -= set() if absent else set(_keys(type(values[field.name]), data))
        else:
            name = how.name or field.name
            ci = how.ci or f"{name}_ci"
            left -= {name, ci} if how.split and is_estimate(kind) else {name}
            if name in data:
                values[field.name] = _field(kind, data, name, ci, how, f"{at}/{name}".lstrip("/"))
            elif not _has_default(field):
                if not how.omit_none:
                    raise ResultFormatError(f"{f'{at}/{name}'.lstrip('/')} is missing")
                values[field.name] = None
    for name, kind, suffix in sorted(rest, key=lambda one: one[2], reverse=True):  # those with a suffix first
        values[name] = _rest(kind, data, left, suffix, at)
        left -= set(_rest_keys(kind, data, left, suffix))
    return cls(**values)


def _bind(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Return a type with its type variables replaced by what the dataclass was given."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    variables = getattr(hint, "__parameters__", ()) if typing.get_origin(hint) else ()
    return hint[tuple(bound.get(one, one) for one in variables)] if variables else hint


def _field(kind: Any, data: dict[str, Any], name: str, ci: str, how: Key, at: str) -> Any:
    if how.split and is_estimate(kind):
        return _estimate(kind, data[name], data.get(ci), at)
    return from_plain(kind, data[name], at)


def _rest(kind: Any, data: dict[str, Any], left: set[str], suffix: str, at: str) -> dict[str, Any]:
    """Read an inline mapping from the keys that no other field uses."""
    inner = typing.get_args(without_none(kind))[1]
    names = [name for name in _rest_keys(kind, data, left, suffix) if not is_estimate(inner) or f"{name}_ci" in data]
    read = {name: f"{at}/{name}".lstrip("/") for name in names}
    if is_estimate(inner):
        return {name: _estimate(inner, data[name], data[f"{name}_ci"], place) for name, place in read.items()}
    return {name.removesuffix(suffix): from_plain(inner, data[name], place) for name, place in read.items()}


def _rest_keys(kind: Any, data: dict[str, Any], left: set[str], suffix: str) -> Iterator[str]:
    """Yield the keys that an inline mapping takes: of estimates with their intervals, else of all that it can read."""
    inner = typing.get_args(without_none(kind))[1]
    for name in data:
        if name not in left or not name.endswith(suffix):
            continue
        if is_estimate(inner):
            if f"{name}_ci" in data:
                yield from (name, f"{name}_ci")
        elif inner is Any or _readable(inner, data[name]):
            yield name


def _readable(hint: Any, value: Any) -> bool:
    try:
        from_plain(hint, value)
    except ResultFormatError:
        return False
    return True


def _estimate(hint: Any, value: Any, ci: Any, at: str) -> Any:
    """Read an estimate, or a mapping of estimates, from its values and its intervals."""
    kind = without_none(hint)
    if value is None and ci is None and kind is not hint:  # NaN has an interval, [null, null]
        return None
    if kind is LayerEstimates:
        pairs = {group: pair(ends, f"{at}/{group}") for group, ends in object_of(ci, at).items()}
        mean = from_plain(dict[str, list[float]], value, at)
        low, high = (
            {group: from_plain(list[float], both[side], at) for group, both in pairs.items()} for side in (0, 1)
        )
        return LayerEstimates(mean, low, high)
    if typing.get_origin(kind) in (dict, Mapping):
        of, inner = typing.get_args(kind)
        whole = object_of(ci, at)
        return {
            from_key(of, name): _estimate(inner, item, whole.get(name), f"{at}/{name}")
            for name, item in object_of(value, at).items()
        }
    number = (typing.get_args(kind) or (Any,))[0]
    ends = (None, None) if ci is None else pair(ci, at)
    return Estimate(*(from_plain(number, part, at) for part in (value, *ends)))


def _keys(cls: Any, data: dict[str, Any]) -> Iterator[str]:
    """Yield the keys that a dataclass may write, and those of its inline mappings that are there."""
    cls = typing.get_origin(cls) or cls
    mappings = []
    known: set[str] = set()
    for field in dataclasses.fields(cls):
        how, kind = key_of(cls, field), without_none(hints_of(cls)[field.name])
        if how.inline and _is_dataclass(kind):
            known |= set(_keys(kind, data))
        elif how.inline:
            mappings.append((kind, how.suffix))
        elif not how.skip:
            name = how.name or field.name
            known |= {name, how.ci or f"{name}_ci"}
    for kind, suffix in mappings:
        known |= set(_rest_keys(kind, data, set(data) - known, suffix))
    yield from known


def _is_dataclass(kind: Any) -> bool:
    """Return whether a type is a dataclass, or a union of dataclasses."""
    kinds = typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)
    return all(dataclasses.is_dataclass(typing.get_origin(one) or one) for one in kinds if one is not type(None))


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
