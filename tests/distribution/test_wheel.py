"""The wheel has everything inside: built, installed into an empty environment, and run from another directory."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from page import of_page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "raptor"
DEMO = ("demo", "--device", "cpu", "--quiet")


def run(*command, **options):
    """Run a command; raise with its last output if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-1500:]} {done.stderr[-1500:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built without a network."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.long
def test_the_wheel_has_every_file_of_the_package(wheel):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("raptor/")}
    files = {f"raptor/{path.relative_to(SOURCE)}" for path in SOURCE.rglob("*") if path.is_file()}
    assert {name for name in files if "__pycache__" not in name} == inside
    assert "raptor/models/remote/modeling_raptor.py" in inside


@pytest.mark.long
def test_its_demo_has_the_numbers_of_the_checkout(wheel, tmp_path):
    """Requirements come from the package index with torch pinned; without an index, from this environment."""
    place = tmp_path / "empty"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    got = subprocess.run([*map(str, pip), torch], capture_output=True, text=True)
    if got.returncode == 0:
        run(*pip, "-c", ROOT / "constraints.txt", wheel)
    else:
        run(*pip, "--no-deps", wheel)
        site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        others = [path for path in sys.path if path.endswith("site-packages")]
        (Path(site) / "others.pth").write_text("\n".join(others) + "\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = run(python, "-c", "import raptor; print(raptor.__file__)", cwd=elsewhere, env=bare).strip()
    assert Path(where).is_relative_to(place)
    run(place / "bin" / "raptor", *DEMO, "--out", "demo", cwd=elsewhere, env=bare)
    checkout = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    (tmp_path / "checkout").mkdir()
    # In the same words, because labels of figures name the directories of surrogates.
    run(sys.executable, "-m", "raptor", *DEMO, "--out", "demo", cwd=tmp_path / "checkout", env=checkout)
    ours, theirs = (of_page(folder / "demo" / "report.html") for folder in (tmp_path / "checkout", elsewhere))
    assert ours.values == theirs.values
    assert ours.values


def test_the_workflow_runs_what_every_change_must_pass():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = [step.get("run", "") for step in workflow["jobs"]["test"]["steps"]]
    assert ".ci/run" in steps
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert all("@v" in name for name in used)
