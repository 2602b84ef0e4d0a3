"""What `study` prints for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raptor.dynamics_printing import HELD


def print_study(console: Console, result: dict[str, Any], out: Path | None) -> None:
    rows = [
        {key: value for key, value in row.items() if not isinstance(value, (list, dict))} for row in result["summary"]
    ]
    if rows:
        title = f"{result['study']} ({result['size']['name']}), n = {result['images']:,} held-out images"
        table = Table(*(escape(key.replace("_", " ")) for key in rows[0]), title=title)
        for row in rows:
            table.add_row(
                *(f"{value:.4f}" if isinstance(value, float) else escape(str(value)) for value in row.values())
            )
        console.print(table)
    claim = result["claim"]
    console.print(escape(f"the paper: {claim['text']}. Here it {HELD[claim['held']]}: {claim['evidence']}"))
    for job in result["jobs"]:
        if job["failed"] is not None:
            console.print(escape(f"failed: {job['job']} ({job['failed']})"))
    if out is not None:
        console.print(f"result: {escape(str(out / result['study'] / 'result.json'))}")


def print_study_plan(console: Console, result: dict[str, Any], out: Path | None) -> None:
    table = Table(title=f"{result['study']} ({result['size']}) on {escape(result['data'])}", show_header=False)
    table.add_row("trains", f"{result['teachers']} teachers, {result['students']} students")
    table.add_row("operations", f"{result['flops']:.3g}")
    table.add_row("time", f"{result['seconds'] / 3600:,.1f} hours on {escape(result['device'])}")
    table.add_row("disk", f"{result['disk'] / 1e9:,.2f} GB of states, while it runs")
    console.print(table)
