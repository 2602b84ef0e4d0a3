"""Small commands of every verb, run once for all tests that compare their output with frozen values.

Commands run in a directory of their own and name everything by relative paths, so that no path of the machine is in
what they write. Code under test is imported inside functions only: shapes are checked in what pytest imports late.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from filelock import FileLock

HERE = Path(__file__).parent
MATRIX = HERE.parent / "data" / "dinov2b_reg_cosine_distance.csv"
WIDTH = "120"  # columns of the terminal
CPU = ("--device", "cpu")
SCENES = ("--data", "scenes")
DISTILL = ("distill", "train", *SCENES, "--batch-size", 4, "--eval-images", 8)
PROBE = ("--epochs", 0.5, "--seeds", 1, "--lrs", "1e-2")


@dataclass(frozen=True)
class Command:
    """A command line, the commands whose directories it reads, and where it writes.

    Parameters
    ----------
    arguments
        The verb and its options.
    needs
        Names of commands that run before.
    out
        What `--out` is; None gives the directory that has the command's name, an empty text none: no figures.
    as_json
        Print JSON instead of text: for commands that write no result.json.
    """

    arguments: tuple[object, ...]
    needs: tuple[str, ...] = ()
    out: str | None = None
    as_json: bool = False


COMMANDS = {
    "inspect": Command(("inspect", "train", *CPU), ("train",)),
    "inspect-data": Command(("inspect", "scenes", *SCENES, "--images", 8, "--batch-size", 8, *CPU)),
    "train": Command(
        ("train", *SCENES, "--steps", 40, "--pool", "cls", "--batch-size", 4, "--depth", 4, "--width", 16, "--heads", 2,
         "--registers", 1, "--drop-path", 0.2, "--muon-lr", 0.003, "--warmup", 5, "--eval-images", 48, *CPU)
    ),
    "phases": Command(("phases", "train", *SCENES, "--images", 16, "--batch-size", 8, *CPU), ("train",)),
    "phases-two": Command(
        ("phases", "train", "scenes", *SCENES, "--images", 8, "--batch-size", 8, *CPU), ("train",)
    ),
    "phases-matrix": Command(("phases", "--matrix", MATRIX.name, "--distance")),
    "distill-phases": Command((*DISTILL, "--phases", "2-2", "--steps", 8, *CPU), ("train",)),
    "distill-k": Command((*DISTILL, "--k", 2, "--steps", 2, "--images", 16, *CPU), ("train",)),
    "distill-untied": Command((*DISTILL, "--phases", "1-3", "--untied", "--steps", 2, *CPU), ("train",)),
    "fidelity": Command(
        ("fidelity", "distill-phases", *SCENES, "--images", 12, "--batch-size", 4, *CPU), ("distill-phases",)
    ),
    "probe": Command(
        ("probe", "train", *SCENES, "--images", 24, "--eval-images", 24, "--epochs", 1, "--seeds", 2,
         "--lrs", "1e-3,1e-2", *CPU),
        ("train",),
    ),
    "table1": Command(
        ("table1", "train", *SCENES, "--surrogates", "distill-phases", "--untied", 2, "--baseline", "scenes:k2",
         "--steps", 2, "--batch-size", 4, "--images", 20, "--eval-images", 20, *PROBE, *CPU),
        ("train", "distill-phases"),
    ),
    "dynamics": Command(
        ("dynamics", "train", *SCENES, "--images", 8, "--batch-size", 8, *CPU), ("train",), out="", as_json=True
    ),
    "dynamics-against": Command(
        ("dynamics", "train", *SCENES, "--phases", "2-2", "--against", "distill-phases", "--images", 16,
         "--batch-size", 8, *CPU),
        ("train", "distill-phases"),
    ),
    "intervene": Command(
        ("intervene", "scenes", "--phases", "5-5-2", "--images", 8, "--batch-size", 8, "--most", 1,
         "--matrix-images", 2, *CPU)
    ),
    "study": Command(("study", "partitions", "--size", "smoke", *CPU)),
    "study-plan": Command(("study", "partitions", "--size", "smoke", "--plan", *CPU), as_json=True),
    "plan": Command(
        ("plan", "train", "--dataset-size", 1000, "--k", 2, "--epochs", 3, "--batch-size", 2, *CPU), ("train",)
    ),
    "export": Command(("export", "distill-phases", "--format", "torch-export", *CPU), ("distill-phases",)),
    "export-onnx": Command(("export", "distill-phases", "--format", "onnx", *CPU), ("distill-phases",)),
    "run": Command(("run", "scenes", "--preset", "quick", "--batch-size", 8, *CPU)),
    "report": Command(
        ("report", "phases", "distill-phases"), ("phases", "distill-phases"), "report/report.html", as_json=True
    ),
    "doctor": Command(("doctor", *CPU)),
}  # fmt: skip

# Wrong calls: each ends with an exit code and one line of text.
MISTAKES = {
    "no model": ("phases",),
    "unknown option": ("phases", "--wrong"),
    "unknown model": ("inspect", "nowhere/nothing"),
    "unknown data": ("inspect", "scenes", "--data", "nowhere"),
    "phases of another depth": ("distill", "scenes", "--phases", "2-3"),
    "phases that are none": ("distill", "scenes", "--phases", "2-x"),
    "k and phases": ("distill", "scenes", "--k", "2", "--phases", "7-5"),
    "unknown recipe": ("distill", "scenes", "--phases", "7-5", "--recipe", "best"),
    "k too large": ("plan", "scenes", "--dataset-size", "10", "--k", "13"),
    "no surrogate": ("fidelity", "scenes"),
    "unknown task": ("probe", "scenes", "--task", "cook"),
    "no out": ("export", "scenes:k2"),
    "unknown format": ("export", "scenes:k2", "--format", "pickle", "--out", "mistake"),
    "unknown preset": ("run", "scenes", "--preset", "huge", "--out", "mistake"),
    "unknown study": ("study", "nothing", "--out", "mistake"),
    "no run directory": ("report", "nowhere"),
    "image size": ("inspect", "scenes", "--image-size", "big"),
    "device": ("inspect", "scenes", "--device", "abacus"),
    "hub id": ("push", "nowhere", "name"),
    "stream of scenes": ("phases", "scenes", "--stream", "10"),
    "steps": ("inspect", "elastic:scenes:k2@1"),
}


@dataclass(frozen=True)
class Done:
    """What a command left: its directory, and what it printed on stdout."""

    folder: Path
    printed: str


@contextlib.contextmanager
def _here(root: Path, columns: str) -> Iterator[None]:
    """Run in a directory, on one thread, with a terminal of a known width and without the network."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with contextlib.chdir(root), mock.patch.dict(os.environ, {"COLUMNS": columns, "HF_HUB_OFFLINE": "1"}):
            yield
    finally:
        torch.set_num_threads(threads)


def call(root: Path, *arguments: object, columns: str = WIDTH) -> tuple[int, str, str]:
    """Run a command line in a directory, with the quick preset as small as can be.

    Returns
    -------
    The exit code, and what was printed on stdout and stderr.
    """
    from demo_run import tiny
    from raptor.__main__ import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        _here(root, columns),
        tiny(),
        mock.patch.object(sys, "argv", ["raptor", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def done(name: str, root: Path) -> Done:
    """Run a command and those that it needs, once for all processes that share `root`."""
    command = COMMANDS[name]
    for need in command.needs:
        done(need, root)
    printed = root / f"{name}.stdout"
    with FileLock(root / f"{name}.lock"):
        if not printed.exists():
            shutil.copy(MATRIX, root)
            if command.out:
                (root / command.out).parent.mkdir(exist_ok=True)
            options = ("--json",) if command.as_json else ()
            out = () if command.out == "" else ("--out", command.out or name)
            code, said, err = call(root, *command.arguments, *out, *options)
            if code:
                raise AssertionError(f"{name} ended with exit code {code}: {err}")
            partial = printed.with_suffix(".partial")
            partial.write_text(said)
            partial.rename(printed)  # a file that is there is whole
    return Done(root / name, printed.read_text())


def answered(name: str, root: Path) -> object:
    """Return the JSON that a command printed."""
    return json.loads(done(name, root).printed)
