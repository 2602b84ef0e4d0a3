"""Of tables for flows in which nothing is to be found, at most 5% call any claim true beyond its null."""

from __future__ import annotations

import pytest

from chance import Walk, random_network, true_claims

TABLES = 200


@pytest.mark.long
@pytest.mark.parametrize("build", [Walk, random_network])
def test_few_tables_call_anything_true(build, record_property):
    found = [true_claims(build(seed), seed) for seed in range(TABLES)]
    wrong = [one for one in found if one]
    record_property("wrong", wrong)
    assert len(wrong) <= 0.05 * TABLES, wrong
