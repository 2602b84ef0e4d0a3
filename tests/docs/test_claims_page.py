"""The page on claims has the rules of the code."""

from __future__ import annotations

from doc_blocks import DOCS
from raptor.dynamics.claims.claim import RULES
from raptor.dynamics.claims.table import ORDER


def test_every_rule_is_on_the_page_as_it_is_in_the_code():
    lines = (DOCS / "claims.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    expected = [
        f"| {one.text} | {one.statistic} | {one.smallest_effect:g} | {one.null_model} |"
        for one in (RULES[name] for name in ORDER)
    ]
    assert rows == expected
