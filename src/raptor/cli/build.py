"""Commands of the command line, built from the signatures of verbs."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from raptor.core.options import Option
from raptor.core.serialize import to_json
from raptor.data.options import LoadOptions
from raptor.runtime.distributed import is_main_process
from raptor.runtime.options import RunOptions, screen
from raptor.runtime.rundir import Record
from raptor.runtime.verbs import Verb

ALIAS = "old_name_"  # begins the name of a parameter that stands for an old option name


def command_of(verb: Verb) -> Callable[..., None]:
    """Return the function that typer calls for a verb: it gathers options, does the work and shows the record."""
    parameters = inspect.signature(verb.function).parameters
    hints = _parameter_types(verb.function)
    groups = {name: hints[name] for name in parameters if dataclasses.is_dataclass(hints[name])}
    own = [_Parameter(name, hints[name], one.default) for name, one in parameters.items() if name not in groups]
    shared = {name: _fields_of(group) for name, group in groups.items()}
    every = [*own, *(one for group in shared.values() for one in group)]
    for one in every:
        one.option = dataclasses.replace(one.option, help=verb.help.get(one.name, one.option.help))

    def command(**given: Any) -> None:
        values = {one.name: one.value(given) for one in every}
        arguments = {one.name: values[one.name] for one in own}
        for name, group in groups.items():
            arguments[name] = group(**{one.name: values[one.name] for one in shared[name]})
        run = next((value for value in arguments.values() if isinstance(value, RunOptions)), RunOptions())
        if any(isinstance(value, LoadOptions) for value in arguments.values()):  # it runs a model on images
            run.warn()
        record = verb.function(**arguments)
        if record is not None:
            show(verb, record, run)
            if verb.fails(record):
                raise typer.Exit(1)

    command.__doc__, command.__name__ = verb.function.__doc__, verb.name
    command.__signature__ = inspect.Signature([one for each in every for one in each.signature()])  # type: ignore[attr-defined]
    return command


def _parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters; that of what it returns may not be imported yet."""
    holder: Any = lambda: None  # noqa: E731
    holder.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    return get_type_hints(holder, vars(sys.modules[function.__module__]), include_extras=True)


def show(verb: Verb, record: Record[Any], run: RunOptions) -> None:
    """Print a record: as JSON, or as lines and tables for a person."""
    if not is_main_process():
        return
    if run.json:
        print(to_json(record))
    elif not run.quiet:
        from raptor.render.tables import print_parts

        print_parts(screen(), verb.show(record))


class _Parameter:
    """A parameter of a verb, or a field of one of its dataclasses of options."""

    def __init__(self, name: str, hint: Any, default: Any):
        self.name, self.default = name, None if default is inspect.Parameter.empty else default
        self.required = default is inspect.Parameter.empty
        self.type, self.option = _annotation(hint, name)

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return self.option.flags[0].partition("/")[0] if self.option.flags else "--" + self.name.replace("_", "-")

    def signature(self) -> list[inspect.Parameter]:
        """Return the parameter as typer reads it, and one more, hidden, for its old names."""
        option, text = self.option, self.option.parse is not None
        kind: Any = (str if self.required else str | None) if text else self.type
        shown = self._shown() if text else self.default
        if option.positional:
            how = typer.Argument(help=option.help, metavar=option.metavar or self.name.upper())
        else:
            how = typer.Option(*(option.flags or (self.flag,)), help=option.help, min=option.min, max=option.max,
                               metavar=option.metavar, hidden=option.help is None)  # fmt: skip
        own = _keyword(self.name, Annotated[kind, how], inspect.Parameter.empty if self.required else shown)
        if not option.aliases:
            return [own]
        old = typer.Option(*option.aliases, hidden=True, min=option.min, max=option.max)
        optional = bool if kind is bool else kind | None
        return [own, _keyword(ALIAS + self.name, Annotated[optional, old], False if kind is bool else None)]

    def _shown(self) -> Any:
        """Return the default of a parsed option as it would be typed."""
        if isinstance(self.default, (list, tuple)):
            return ",".join(map(str, self.default)) or None
        return None if self.default is None else str(self.default)

    def value(self, given: dict[str, Any]) -> Any:
        """Return the value from what typer read."""
        typed = given.get(ALIAS + self.name) or given[self.name]
        if self.option.parse is None:
            return typed
        return self.default if typed in (None, self._shown()) else self.option.parse(typed, self.flag)


def _fields_of(group: Any) -> list[_Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _Parameter(field.name, hints[field.name], _default(field))
        for field in dataclasses.fields(group)
        if get_origin(hints[field.name]) is Annotated  # others are for Python alone
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def _annotation(hint: Any, name: str) -> tuple[Any, Option]:
    if get_origin(hint) is Annotated:
        kind, *extras = get_args(hint)
        for one in extras:
            if isinstance(one, Option):
                return kind, one
    raise TypeError(f"the parameter {name!r} of a verb has no Option")


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
