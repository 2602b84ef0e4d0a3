"""The command line: verbs, no logic. Each is a thin layer over one function of the package."""

from __future__ import annotations

import typer

# Imported for the verbs that they register, in the order in which help lists them.
from raptor.cli import dynamics, models, pipeline, probes, studies, surrogates, upkeep  # noqa: F401
from raptor.cli.app import app


def run_command(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    code = typer.main.get_command(app).main(arguments, prog_name="raptor", standalone_mode=False)
    return code if isinstance(code, int) else 0
