"""The registry of verbs. Each feature package registers its verbs in its `command` module.

A verb is a function that does the work and returns a `Record`. Parameters that are annotated with an `Option`, and all
fields of parameters that are dataclasses, become arguments and options of the command line. `show_<verb>(record)` in
the package's `text` module, which is imported when needed, produces the text for the terminal.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from raptor.runtime.rundir import Record

Function = TypeVar("Function", bound=Callable[..., Any])

# Packages with verbs, in the order of a workflow: what a package has, it registers in its `command`, `text` and
# `figures` modules.
FEATURES = (
    "inspection", "phases", "training", "distillation", "evaluation", "probes", "dynamics", "interventions", "film",
    "pipeline", "reporting", "studies", "cli",
)  # fmt: skip

# Sections of `raptor --help`, in the order of a workflow.
START, MODEL, SURROGATE, MEASURE, PAGE, RESEARCH = (
    "Get started",
    "Look at a model",
    "Build a surrogate",
    "Measure",
    "Whole pipeline and report",
    "Studies and benchmarks",
)


@dataclass(frozen=True)
class Verb:
    """A command of `raptor`.

    Parameters
    ----------
    name, section
        Name of the verb, and its section in `raptor --help`.
    function
        Does the work; returns a `Record`, or None in every process but the main one.
    result
        Where the dataclass of its result is, or a union of several, as `package.module:Name` within raptor: the page
        reads result.json as it.
    fails
        `fails(record)` returns whether the command exits with 1.
    help
        Help of shared options in this verb, by field name, in place of the usual text. None hides an option that the
        verb accepts and does not use.
    """

    name: str
    section: str
    function: Callable[..., Any]
    result: str
    fails: Callable[[Record[Any]], bool]
    help: Mapping[str, str | None] = field(default_factory=dict)

    def result_type(self) -> Any:
        """Return the dataclass of the result, or a union of dataclasses."""
        return find_result_type(self.name)

    def show(self, record: Record[Any]) -> Iterable[Any]:
        """Return the lines and tables that the terminal shows of a record; see `render.tables.print_parts`."""
        package = self.function.__module__.rpartition(".")[0]
        parts: Iterable[Any] = getattr(importlib.import_module(f"{package}.text"), f"show_{self.name}")(record)
        return parts


VERBS: dict[str, Verb] = {}
RESULTS: dict[str, str] = {}  # where the dataclass of each result.json is, by verb


def register_result(verb: str, result: str) -> None:
    """Say as which dataclass the page reads the result.json of a verb; see `Verb.result`."""
    RESULTS[verb] = result


def find_result_type(verb: str) -> Any:
    """Return the dataclass of the result.json of a verb, or a union of several; None where there is no such verb."""
    if verb not in RESULTS:
        return None
    module, _, name = RESULTS[verb].partition(":")
    return getattr(importlib.import_module(f"raptor.{module}"), name)


def import_features(*modules: str) -> None:
    """Import modules such as `command`, `text` and `figures` of every feature that has them, which registers theirs."""
    for feature in FEATURES:
        for module in modules:
            if importlib.util.find_spec(f"raptor.{feature}.{module}") is not None:
                importlib.import_module(f"raptor.{feature}.{module}")


def verb(
    section: str,
    result: str,
    name: str | None = None,
    fails: Callable[[Record[Any]], bool] = lambda record: False,
    help: Mapping[str, str | None] | None = None,
) -> Callable[[Function], Function]:
    """Register a function as a verb; the first paragraph of its docstring is its summary in help.

    Parameters
    ----------
    section, result, name, fails, help
        As in `Verb`; `name` is the function's name by default.
    """

    def register(function: Function) -> Function:
        own = name or function.__name__
        VERBS[own] = Verb(own, section, function, result, fails, help or {})
        register_result(own, result)
        return function

    return register
