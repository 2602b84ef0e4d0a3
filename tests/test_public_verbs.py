"""Every verb has a public Python function with the same options and defaults."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import pytest

import raptor
from raptor.cli.build import _parameter_types
from raptor.data.options import LoadOptions
from raptor.runtime.options import RunOptions
from raptor.runtime.verbs import VERBS, import_features

import_features("command")

# Public functions with another name than their verb, because a package has it or because a better word is used.
NAMES = {"phases": "find_phases", "dynamics": "measure_dynamics", "demo": "run"}
# Verbs that examine the installation and have nothing to return to a program.
COMMANDS_ONLY = {"doctor", "bench"}
SHARED = (RunOptions, LoadOptions)


def public_function(verb: str):
    return getattr(raptor, NAMES.get(verb, verb))


def options_class(function) -> type | None:
    """Return the dataclass of the parameter `options`, the first of a union; None without that parameter."""
    hint = typing.get_type_hints(inspect.unwrap(function)).get("options")
    kinds = [kind for kind in typing.get_args(hint) or (hint,) if dataclasses.is_dataclass(kind)]
    return kinds[0] if kinds else None


def differing_defaults(command, function, hints) -> dict[str, tuple[object, object]]:
    """Return the parameters of the same name that have different defaults."""
    ours, theirs = inspect.signature(command).parameters, inspect.signature(inspect.unwrap(function)).parameters
    shared = [name for name in ours if name in theirs and not dataclasses.is_dataclass(hints.get(name))]
    empty = inspect.Parameter.empty
    found = {name: (ours[name].default, theirs[name].default) for name in shared}
    return {name: pair for name, pair in found.items() if empty not in pair and pair[0] != pair[1]}


@pytest.mark.parametrize("verb", sorted(set(VERBS) - COMMANDS_ONLY))
def test_every_verb_has_a_public_function(verb):
    function = public_function(verb)
    command = VERBS[verb].function
    hints = _parameter_types(command)
    own = [kind for kind in hints.values() if dataclasses.is_dataclass(kind) and kind not in SHARED]
    if own:
        assert options_class(function) is own[0]
    assert differing_defaults(command, function, hints) == {}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_result_of_every_verb_is_a_dataclass(verb):
    kind = VERBS[verb].result_type()
    assert all(dataclasses.is_dataclass(typing.get_origin(one) or one) for one in typing.get_args(kind) or (kind,))


def test_verbs_without_a_function_exist():
    assert set(VERBS) >= COMMANDS_ONLY
    assert set(VERBS) >= set(NAMES)


def test_another_default_is_found():
    def command(images: int = 3, size: int = 1): ...

    def function(images: int = 4, size: int = 1): ...

    assert differing_defaults(command, function, {}) == {"images": (3, 4)}
