"""Splits: which there are, which is meant, and one held out where a set has none."""

from __future__ import annotations

import random

from raptor.errors import DataError

# Names that people give the same split.
ALIASES = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
# What is measured on when nobody says: the first of these that a set has.
MEASURED = ("validation", "test", "train")
# What is reported on after a training: the first of these that a set has.
HELD_OUT = "held-out"
REPORTED = ("test", "validation")
HELD_OUT_SHARE = 0.2
SPLIT_SEED = 0


def known_split(name: str) -> str | None:
    """Return the plain name of a split, or None where the word is not one."""
    return ALIASES.get(name.lower())


def choose(available: list[str], wanted: str | None, source: str) -> str:
    """Return the split to use of those that a set brings."""
    if wanted is None:
        return next((name for name in MEASURED if name in available), available[0])
    plain = known_split(wanted) or wanted
    if wanted == HELD_OUT:
        plain = next((name for name in REPORTED if name in available), wanted)
    if plain not in available:
        raise DataError(f"{source!r} has no split {wanted!r}; it has {', '.join(available)}")
    return plain


def hold_out(n: int, wanted: str, source: str) -> list[int]:
    """Return the indices of a split of a set that brings none.

    A fifth of the images is held out as `test` (also called `validation`), the rest is `train`. The
    seed is the split's own and not the run's, so that what one run trained on is never what another evaluates.
    """
    plain = "test" if wanted == HELD_OUT else known_split(wanted)
    if plain is None:
        raise DataError(
            f"{source!r} has no splits of its own, so one is held out: ask for train or test, not {wanted!r}"
        )
    if n < 2:
        raise DataError(f"{source!r} has {n} image, too few to hold one out")
    order = list(range(n))
    random.Random(SPLIT_SEED).shuffle(order)
    cut = max(1, round(HELD_OUT_SHARE * n))
    return sorted(order[cut:] if plain == "train" else order[:cut])
