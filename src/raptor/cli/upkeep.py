"""Verbs about this machine and this package."""

from __future__ import annotations

import typer

from raptor import printing
from raptor.cli.app import app
from raptor.options import Common, verb


@app.command()
@verb
def doctor(*, common: Common) -> None:
    """This machine: versions, devices, and a toy flow on the chosen device against the CPU."""
    from raptor.doctor import examine
    from raptor.run import Run

    with Run("doctor", common.config(), common.out, common.seed) as run:
        body = examine(common.device, common.seed)
        result = run.finish(body, images=8, layers=body.pop("depth"))
    common.show(result, lambda console: printing.print_doctor(console, result))
    if not result["ok"]:
        raise typer.Exit(1)


@app.command()
@verb
def bench(*, common: Common) -> None:
    """The benchmarks: each a ratio with the most that it may be; exit 1 where one is missed."""
    from raptor.benchmarks import BENCHMARKS
    from raptor.run import Run

    with Run("bench", common.config(), common.out, common.seed) as run:
        measured = {}
        for name, benchmark in BENCHMARKS.items():
            measured[name] = benchmark()
            common.progress.print(str(measured[name]), markup=False, highlight=False, soft_wrap=True)
        ok = all(ratio.ok for ratio in measured.values())
        ratios = {name: {**vars(ratio), "ratio": ratio.ratio, "ok": ratio.ok} for name, ratio in measured.items()}
        result = run.finish({"ok": ok, "ratios": ratios}, images=0, layers=0)
    common.show(result, lambda console: None)
    if not ok:
        raise typer.Exit(1)
