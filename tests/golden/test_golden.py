"""Every verb, the pages and the help texts give the frozen values and texts.

Values must not change. Texts may: `python tests/golden/freeze.py --prose` rewrites them. With RAPTOR_GOLDEN_EXACT=1
numbers are equal to the last digit, which holds on the machine that froze them.
"""

from __future__ import annotations

import pytest

from cases import CASES, ELSEWHERE, VERBS, extracted
from comparer import differences, prose_differences, read_prose, read_values, report
from helptext import verbs


def compare(name, root):
    """Fail with the paths, the frozen values and the fresh ones where a case differs."""
    found = extracted(name, root)
    changed = list(differences(read_values(name), found.values))
    assert not changed, report(f"values of {name}", changed)
    told = list(prose_differences(read_prose(name), found.texts))
    assert not told, report(f"prose of {name}", told)


LONG = ("export-onnx",)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else []) for name in CASES if name not in ELSEWHERE],
)
def test_golden(name, golden):
    compare(name, golden)


def test_all_verbs_have_a_case(golden):
    assert set(verbs(golden)) == set(VERBS)


def test_public_names_stay(golden):
    """Names may be added; none may go."""
    frozen, fresh = read_values("names"), extracted("names", golden).values
    gone = sorted(set(frozen["names"]) - {name for name, here in fresh["here"].items() if here})
    assert not gone, f"public names are gone: {', '.join(gone)}"
