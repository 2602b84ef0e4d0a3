"""The command line: no logic of its own."""

from __future__ import annotations

import typer

from raptor.cli.app import app, register_verbs

register_verbs()


def run_command(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    code = typer.main.get_command(app).main(arguments, prog_name="raptor", standalone_mode=False)
    return code if isinstance(code, int) else 0
