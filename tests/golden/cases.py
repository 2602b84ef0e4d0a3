"""Everything that is frozen, by name: what is extracted from which command."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from commands import COMMANDS, MISTAKES, answered, call, done
from comparer import digest
from extraction import Extract, of_folder
from helptext import of_verb
from page import of_page

# Stages of the whole pipeline, each in a directory of its own: one case each, so that a failure names its stage.
STAGES = (
    "inspect", "phases", "distill", "fidelity-1", "fidelity-2", "fidelity-3", "probe-1", "probe-2", "dynamics",
    "intervene", "film",
)  # fmt: skip
VERBS = (
    "dynamics", "intervene", "inspect", "train", "phases", "run", "report", "demo", "probe", "table1", "study",
    "distill", "fidelity", "export", "plan", "doctor", "bench", "push",
)  # fmt: skip
ELSEWHERE = ("names", "artefacts")  # cases that have tests of their own
ARTEFACTS = Path(__file__).parent / "artefacts"
MACHINE = ("devices", "cores", "threads", "bf16_speed")  # keys of `doctor` that differ from machine to machine


def _verb(name: str, root: Path) -> Extract:
    ran = done(name, root)
    found = of_folder(ran.folder, STAGES if name == "run" else ()) if ran.folder.is_dir() else Extract()
    if COMMANDS[name].as_json:
        found.add("stdout", answered(name, root))
    elif name == "doctor":  # what it prints is of the machine
        for key in MACHINE:
            del found.values["result.json"][key]
    else:
        found.add_text("stdout", ran.printed)
    return found


def _stage(stage: str, root: Path) -> Extract:
    return of_folder(done("run", root).folder / stage)


def _page(command: str, root: Path) -> Extract:
    return of_page(done(command, root).folder / "report.html")


def _mistakes(root: Path) -> Extract:
    found = Extract()
    for name, arguments in MISTAKES.items():
        code, out, err = call(root, *arguments)
        found.values[name] = {"code": code, "stdout": out, "lines": err.count("\n"), "error": err[:7]}
        found.add_text(name, err)
    return found


def _names(root: Path) -> Extract:
    """Return the public names of the package."""
    import raptor

    found = Extract()
    found.values["names"] = sorted(raptor.__all__)
    found.values["here"] = {name: hasattr(raptor, name) for name in sorted(raptor.__all__)}
    return found


def _states(model: Any) -> dict[str, Any]:
    """Return digests of the states of all layers and of the classifier's output, of fixed pixels."""
    import torch

    import raptor

    pixels = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
    with torch.no_grad():
        found = raptor.rollout(model, model.embed(pixels)).states
        head = model.head(found[:, -1])
    return {"states": digest(found.flatten().tolist()), "head": digest(head.flatten().tolist())}


def of_artefacts(folder: Path) -> Extract:
    """Return what a copy of the artefacts gives: the states of its models, and a page of its run directories."""
    import raptor

    code, out, err = call(folder, "report", "phases", "distill", "train", "--out", "report.html", "--json")
    assert code == 0, err
    saved = raptor.RaptorModel.from_pretrained(folder / "surrogate")
    found = of_page(folder / "report.html")
    found.add("report", json.loads(out))
    found.values["models"] = {
        "train": _states(raptor.load_model(folder / "train")),
        "distill": _states(raptor.load_model(folder / "distill")),
        "surrogate": _states(saved.surrogate),
        "phases": str(saved.phases),
    }
    found.values = json.loads(json.dumps(found.values))
    return found


def _artefacts(root: Path) -> Extract:
    with tempfile.TemporaryDirectory(dir=root) as folder:
        return of_artefacts(shutil.copytree(ARTEFACTS, Path(folder) / "old"))


CASES: dict[str, Callable[[Path], Extract]] = {
    **{name: partial(_verb, name) for name in COMMANDS},
    **{f"run-{stage}": partial(_stage, stage) for stage in STAGES},
    "page-run": partial(_page, "run"),
    "page-report": partial(_page, "report"),
    "help": partial(of_verb, None),
    **{f"help-{verb}": partial(of_verb, verb) for verb in VERBS},
    "mistakes": _mistakes,
    "names": _names,
    "artefacts": _artefacts,
}


def extracted(name: str, root: Path) -> Extract:
    """Return the fresh values and texts of a case, as JSON gives them back."""
    found = CASES[name](root)
    found.values = json.loads(json.dumps(found.values))
    return found
