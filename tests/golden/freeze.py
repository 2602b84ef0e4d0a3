"""Compare fresh output with the frozen files, and rewrite them where that is asked for.

python tests/golden/freeze.py                    # show what differs, write nothing
python tests/golden/freeze.py --prose            # rewrite texts
python tests/golden/freeze.py --values [NAME]... # rewrite values, of some cases or of all
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from cases import CASES, extracted
from comparer import (
    PROSE,
    VALUES,
    differences,
    prose_differences,
    read_prose,
    read_values,
    report,
    write_prose,
    write_values,
)


def freeze(name: str, root: Path, values: bool, prose: bool) -> None:
    """Print how a case differs from what is frozen, and rewrite its files."""
    found = extracted(name, root)
    before = read_values(name) if (VALUES / f"{name}.json").exists() else {}
    if changed := list(differences(before, found.values)):
        print(report(f"values of {name}", changed))
    texts = read_prose(name) if (PROSE / f"{name}.json").exists() else {}
    if told := list(prose_differences(texts, found.texts)):
        print(report(f"prose of {name}", told))
    if values:
        write_values(name, found.values)
    if prose:
        write_prose(name, found.texts)


def main() -> None:
    """Read the options and go through the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; default: all")
    parser.add_argument("--values", action="store_true", help="rewrite frozen values")
    parser.add_argument("--prose", action="store_true", help="rewrite frozen texts")
    parser.add_argument("--root", type=Path, help="directory of the commands' output, kept; default: a temporary one")
    given = parser.parse_args()
    if unknown := set(given.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        root = (given.root or Path(temporary)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for name in given.names or CASES:
            freeze(name, root, given.values, given.prose)


if __name__ == "__main__":
    main()
