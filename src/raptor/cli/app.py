"""The application: verbs in the order of a workflow, and options of `raptor` itself."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from raptor import __version__
from raptor.cli.build import command_of
from raptor.runtime.verbs import MEASURE, MODEL, PAGE, RESEARCH, START, SURROGATE, VERBS, import_features

SECTIONS = (START, MODEL, SURROGATE, MEASURE, PAGE, RESEARCH)


class _Workflow(typer.core.TyperGroup):
    """Help that lists the verbs by section, with their whole summaries."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list of verbs per section."""
        for section in SECTIONS:
            rows = [
                (name, " ".join((command.help or "").split("\n\n")[0].split()))
                for name, command in self.commands.items()
                if (VERBS[name].section if name in VERBS else RESEARCH) == section and not command.hidden
            ]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


class _Command(typer.core.TyperCommand):
    """Help whose usage line shows arguments as `MODEL`, where typer would write `{MODEL}`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [re.sub(r"^\{(.*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


app = typer.Typer(
    cls=_Workflow, add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Measure how well a few weight-tied blocks can replace the layers of a Vision Transformer.

    A phase is a group of consecutive layers. A surrogate replaces each phase by one block, applied once per layer. It
    is trained to reproduce the tokens of the original model (its teacher) after every layer.
    """


def register_verbs() -> None:
    """Import every feature's commands and add its verbs to the application."""
    import_features("command")
    for verb in VERBS.values():
        app.command(verb.name, cls=_Command)(command_of(verb))
