"""What `study` prints for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from raptor.formatting import HELD, cells
from raptor.printing import print_files


def print_study(console: Console, result: dict[str, Any], out: Path | None) -> None:
    rows = cells(result["summary"])
    if rows:
        title = f"{result['study']} ({result['size']['name']}), n = {result['images']:,} held-out images"
        shown = _as_wide_as(console, rows, title)
        console.print(shown)
        if left := len(rows[0]) - len(shown.columns):
            console.print(f"further columns, {left} of them, are in the .csv of its figure")
    claim = result["claim"]
    console.print(escape(f"the paper: {claim['text']}. Here it {HELD[claim['held']]}: {claim['evidence']}"))
    for job in result["jobs"]:
        if job["failed"] is not None:
            console.print(escape(f"failed: {job['job']} ({job['failed']})"))
    print_files(console, None if out is None else out / result["study"])


def _as_wide_as(console: Console, rows: list[dict[str, Any]], title: str) -> Table:
    """Return a table of as many of the first columns as the terminal has room for."""
    columns, boundless = list(rows[0]), console.options.update(max_width=10_000)
    while True:
        table = Table(title=title)
        for key in columns:
            table.add_column(escape(key.replace("_", " ")), no_wrap=True)  # a cell is one line, or it is not shown
        for row in rows:
            table.add_row(*(_cell(row[key]) for key in columns))
        if len(columns) == 1 or Measurement.get(console, boundless, table).maximum <= console.width:
            return table
        columns.pop()


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else escape(str(value))


def print_study_plan(console: Console, result: dict[str, Any]) -> None:
    table = Table(title=f"{result['study']} ({result['size']}) on {escape(result['data'])}", show_header=False)
    table.add_row("trains", f"{result['teachers']} teachers, {result['students']} students")
    table.add_row("operations", f"{result['flops']:.3g}")
    table.add_row("time", f"{result['seconds'] / 3600:,.1f} hours on {escape(result['device'])}")
    table.add_row("disk", f"{result['disk'] / 1e9:,.2f} GB of states, while it runs")
    console.print(table)
