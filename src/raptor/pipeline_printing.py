"""What `run`, `demo` and `report` print for a person."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_pipeline(console: Console, result: dict[str, Any]) -> None:
    table = Table("stage", "seconds", "", title=escape(f"{result['model']} on {result['data']}, {result['preset']}"))
    for stage in result["stages"]:
        was = "was done before" if stage["skipped"] else stage["not_done"] or stage["error"] or "done"
        table.add_row(stage["stage"], f"{stage['seconds']:.1f}", escape(was))
    console.print(table)
    for sentence in result["answer"]:
        console.print(escape(sentence))
    console.print(escape(f"the page: {result['report']}"))


def print_report(console: Console, result: dict[str, Any]) -> None:
    for note in result["missing"]:
        console.print(escape(f"missing: {note}"))
    console.print(escape(f"the page: {result['report']}"))
