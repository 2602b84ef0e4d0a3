"""The documentation is true: its code runs, and its commands are commands."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import subprocess
from unittest import mock

import pytest

from demo_run import tiny
from doc_blocks import DOCS, FENCED, ROOT, blocks

PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


PYTHON = [
    pytest.param(block, id=f"{path.relative_to(DOCS)}-{index}")
    for path in PAGES
    if path.is_relative_to(DOCS)
    for index, block in enumerate(blocks(path, "python"))
]


@pytest.mark.parametrize("block", PYTHON)
def test_the_documentation_runs(block, monkeypatch, tmp_path):
    from raptor.dynamics.curves import registry as dynamics
    from raptor.evaluation import measures
    from raptor.models.teachers import registry as adapt
    from raptor.phases import objectives
    from raptor.probes import task
    from raptor.render import registry as rendering

    for module, table in (
        (adapt, "ADAPTERS"), (objectives, "OBJECTIVES"), (measures, "MEASURES"), (dynamics, "CURVES"),
        (rendering, "FIGURES"),
    ):  # fmt: skip
        monkeypatch.setattr(module, table, dict(getattr(module, table)))  # what an example registers stays in it
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(task.TASKS), tiny():
        exec(compile(block, "docs", "exec"), {"__name__": "docs"})


def test_the_readme_runs(monkeypatch, tmp_path):
    """Its lines on a hub model, with a small model of the same family in a directory of that name."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    from pictures import picture

    recipes = importlib.import_module("raptor.distillation.recipes")
    page = importlib.import_module("raptor.reporting.report")
    monkeypatch.chdir(tmp_path)
    config = Dinov2WithRegistersConfig(
        hidden_size=16, num_hidden_layers=6, num_attention_heads=2, image_size=28, patch_size=14, num_register_tokens=2
    )
    Dinov2WithRegistersModel(config).save_pretrained("facebook/dinov2-with-registers-base")
    (tmp_path / "photos").mkdir()
    for value in range(30):
        picture(value * 5).save(tmp_path / "photos" / f"{value}.png")
    named = recipes.distillation_named
    monkeypatch.setattr(recipes, "distillation_named", lambda name, **_: named(name, steps=2, batch_size=4))
    monkeypatch.setattr(inspect.unwrap(page.report), "__defaults__", (0, 1, 1))
    (block,) = blocks(ROOT / "README.md", "python")
    with tiny():
        exec(compile(block, "README", "exec"), {"__name__": "README"})
    assert "Depth film" in (tmp_path / "report.html").read_text()


# Commands. Each is read by the real command line, and the launcher before it by the launcher's own, without running.

# What options take beyond what the command line's own types say.
CHOICES = {
    "recipe": ("raptor.distillation.recipes", "RECIPES"),
    "objective": ("raptor.phases.objectives", "OBJECTIVES"),
    "solver": ("raptor.phases.solvers", "SOLVERS"),
    "task": ("raptor.probes.tasks", "TASKS"),
    "preset": ("raptor.pipeline.presets", "PRESETS"),
    "name": ("raptor.studies.options", "NAMES"),
    "size": ("raptor.studies.size", "SIZES"),
    "kind": ("raptor.models.surrogate", "KINDS"),
    "precision": ("raptor.training.accelerate", "PRECISIONS"),
    "format": ("raptor.models.export", "FORMATS"),
}


def commands_of(text: str) -> list[str]:
    """Return the lines of a block that run raptor, whole where they go on after a backslash."""
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return [line for line in lines if line.startswith("raptor ") or re.search(r"(^|\s)-m raptor\s", line)]


def verbs():
    import typer

    from raptor.cli import app

    return typer.main.get_command(app).commands


def read_command(line: str) -> None:
    """Read one command line to its end, values included; raise where it is wrong."""
    from accelerate.commands.launch import launch_command_parser
    from torch.distributed.run import get_args_parser

    from raptor.core.options import parse_numbers
    from raptor.core.phases import Phases
    from raptor.runtime.options import parse_size

    words = shlex.split(line, comments=True)
    if words[0] != "raptor":
        at = next(i for i in range(len(words)) if words[i : i + 2] == ["-m", "raptor"]) + 1
        launcher, words = words[:at], words[at:]
        while launcher[0] != "torchrun" and launcher[:2] != ["accelerate", "launch"]:
            launcher = launcher[1:]  # srun and its options
        if launcher[0] == "torchrun":
            get_args_parser().parse_args([*launcher[1:], "raptor"])
        else:
            launch_command_parser().parse_args([*launcher[2:], "raptor"])
    verb, rest = words[1], words[2:]
    assert verb in verbs(), f"there is no verb {verb!r}"
    given = verbs()[verb].make_context(verb, rest).params
    for option, (module, table) in CHOICES.items():
        for value in str(given.get(option) or "").split(","):
            assert not value or value in getattr(importlib.import_module(module), table), f"{option} {value!r}"
    parse_size(given["image_size"])
    for option in ("lrs", "k"):
        if given.get(option) not in (None, "auto"):
            parse_numbers(str(given[option]), option)
    if given.get("phases") not in (None, "auto"):
        Phases.parse(given["phases"])


COMMANDS = [
    pytest.param(line, id=f"{path.name}-{line}")
    for path in PAGES
    for block in blocks(path)
    for line in commands_of(block)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_documentation_are_real(line):
    read_command(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raptor nothing scenes", "there is no verb 'nothing'"),
        ("raptor phases scenes --objektive weighted", "No such option"),
        ("raptor phases scenes --objective heaviest", "objective 'heaviest'"),
        ("raptor phases scenes --k some", "not 'some'"),
        ("raptor phases scenes --data", "requires an argument"),
        ("raptor distill scenes --k 3 --steps many", "Invalid value for '--steps'"),
        ("raptor distill scenes --phases 7-x --out runs/raptor  # a comment", "'7-x'"),
        ("raptor plan scenes", "Missing option"),
        ("raptor demo scenes", "unexpected extra argument"),
        ("raptor study nothing", "name 'nothing'"),
        ("raptor inspect scenes --image-size wide", "'wide'"),
        ("torchrun --processes 2 -m raptor distill scenes --k 3", "unrecognized arguments"),
        ("torchrun --nproc-per-node 2 -m raptor distill scenes --many 3", "No such option"),
        ("accelerate launch --num_processes two -m raptor phases scenes", "invalid int value: 'two'"),
    ],
)
def test_a_wrong_command_is_found(line, said, capsys):
    (found,) = commands_of(f"{line}\n")
    with pytest.raises((Exception, SystemExit)) as error:
        read_command(found)
    told = getattr(error.value, "format_message", error.value.__str__)()
    assert said in told + capsys.readouterr().err


def options_spoken_of(text: str) -> list[tuple[str, str]]:
    """Return (verb, option) of what prose says in `raptor VERB ... --option` between backticks; option may be ''."""
    prose, found = FENCED.sub("", text), []
    for span in re.findall(r"`raptor\s+([a-z][^`]*)`", prose):
        verb, *rest = span.split()
        found += [(verb, ""), *((verb, word) for word in rest if word.startswith("--"))]
    return found


def test_prose_names_verbs_and_options_that_there_are():
    known = {
        verb: {o for p in command.params for o in (*p.opts, *p.secondary_opts)} for verb, command in verbs().items()
    }
    spoken = {pair for path in PAGES for pair in options_spoken_of(path.read_text())}
    assert len(spoken) > 20
    assert [
        pair for pair in spoken if pair[1] not in known.get(pair[0], ()) and (pair[1] or pair[0] not in known)
    ] == []
    assert options_spoken_of("as `raptor\nphases X --kk` says") == [("phases", ""), ("phases", "--kk")]


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "bash")], ids=lambda path: path.name)
def test_shell_scripts_are_shell(path):
    for block in blocks(path, "bash"):
        subprocess.run(["bash", "-n"], input=block.encode(), check=True)
