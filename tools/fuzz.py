"""Run coverage-guided fuzzing of the user-input parsers: `python tools/fuzz.py [PARSER...] [--inputs N]`.

Each parser runs in its own process. The fuzzer starts from the valid texts in tests/helpers/parsers.py and stops after
N texts. A text that makes the parser fail is saved to a file. This tool needs atheris: `pip install atheris`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HELPERS = Path(__file__).parents[1] / "tests" / "helpers"
LONGEST = 200  # maximum bytes of a text
# Modules that the parsers import lazily.
LAZY = (
    "raptor.models.teachers.hub", "raptor.models.teachers.dinov2_official", "raptor.models.teachers.processors",
    "raptor.models.pretrained", "raptor.data.tables",
)  # fmt: skip


def fuzz(name: str) -> None:
    """Fuzz one parser in this process. Reads libFuzzer options from the command line and never returns."""
    import atheris

    sys.path.insert(0, str(HELPERS))
    atheris.enabled_hooks.add("str")
    with atheris.instrument_imports(include=["raptor"], enable_loader_override=False):
        from parsers import check

        for part in LAZY:
            importlib.import_module(part)

    def one(content: bytes) -> None:
        check(name, content.decode("utf-8", "surrogateescape"))

    atheris.Setup([sys.argv[0], *sys.argv[3:]], one)
    atheris.Fuzz()


def run(name: str, inputs: int, kept: Path) -> bool:
    """Fuzz one parser in a subprocess, print a summary, and return whether it passed."""
    sys.path.insert(0, str(HELPERS))
    from parsers import SEEDS

    with tempfile.TemporaryDirectory() as corpus:
        for number, text in enumerate(SEEDS[name]):
            (Path(corpus) / str(number)).write_bytes(text.encode())
        began = time.monotonic()
        options = [f"-atheris_runs={inputs}", f"-max_len={LONGEST}", "-timeout=60", "-seed=1",
                   f"-artifact_prefix={kept}/{name}-", corpus]  # fmt: skip
        command = [sys.executable, __file__, "--one", name, *options]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        found = len(os.listdir(corpus)) - len(SEEDS[name])
    counted, covered = re.search(r"^Done (\d+) in", done.stderr, flags=re.M), re.findall(r"cov: (\d+)", done.stderr)
    given, seconds = int(counted[1]) if counted else 0, time.monotonic() - began
    grown = f"coverage {covered[0]} to {covered[-1]}" if covered else "no coverage"
    said = "passed" if done.returncode == 0 else f"FAILED, see the saved text in {kept}"
    print(f"{name}: {given:,} texts in {seconds:.0f} s, {found} added to the corpus ({grown}): {said}", flush=True)
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
    return done.returncode == 0 and given >= inputs


def main() -> int:
    """Fuzz the given parsers, or all of them."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzzing needs atheris: pip install atheris", file=sys.stderr)
        return 2
    from_tests = sorted(re.findall(r'^    "(\w+)": check_', (HELPERS / "parsers.py").read_text(), flags=re.M))
    known = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    known.add_argument("parsers", nargs="*", choices=[*from_tests, []], help="parsers to fuzz; default: all")
    known.add_argument("--inputs", type=int, default=20_000, help="number of texts per parser")
    known.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()), help="directory for failing texts")
    given = known.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    well = [run(name, given.inputs, given.kept) for name in given.parsers or from_tests]
    return int(not all(well))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2])
    sys.exit(main())
