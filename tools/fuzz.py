"""Fuzz the parsers of what users write, guided by coverage: `python tools/fuzz.py [PARSER...] [--inputs N]`.

Each parser runs in a process of its own, from the valid texts of tests/parsers.py on, until N texts were given to it. A
text that makes it fail is kept in a file. It needs atheris, which nothing else here does: `pip install atheris`.
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

TESTS = Path(__file__).parents[1] / "tests"
LONGEST = 200  # bytes of a text
# What parsers import when they need it.
LAZY = (
    "raptor.models.teachers.hub", "raptor.models.teachers.dinov2_official", "raptor.models.teachers.processors",
    "raptor.models.pretrained", "raptor.data.tables",
)  # fmt: skip


def fuzz(name: str) -> None:
    """Be the process of one parser; libFuzzer's own options are on the command line, and it never returns."""
    import atheris

    sys.path.insert(0, str(TESTS))
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
    """Fuzz one parser; say how it went, and return whether nothing failed."""
    sys.path.insert(0, str(TESTS))
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
    said = "nothing failed" if done.returncode == 0 else f"FAILED, the text is in {kept}"
    print(
        f"{name}: {given:,} texts in {seconds:.0f} s, {found} kept for what they reached ({grown}): {said}", flush=True
    )
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
    return done.returncode == 0 and given >= inputs


def main() -> int:
    """Fuzz the parsers that are named, or all."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzzing needs atheris, which is not installed: pip install atheris", file=sys.stderr)
        return 2
    from_tests = sorted(re.findall(r'^    "(\w+)": check_', (TESTS / "parsers.py").read_text(), flags=re.M))
    known = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    known.add_argument("parsers", nargs="*", choices=[*from_tests, []], help="which; default: all")
    known.add_argument("--inputs", type=int, default=20_000, help="texts for each")
    known.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()), help="where failing texts are kept")
    given = known.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    well = [run(name, given.inputs, given.kept) for name in given.parsers or from_tests]
    return int(not all(well))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2])
    sys.exit(main())
