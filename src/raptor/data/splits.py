"""Names and choice of splits, and a held-out split for datasets that have none."""

from __future__ import annotations

import random

from raptor.errors import DataError

# Aliases of split names.
ALIASES = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
# The default split to measure on: the first of these that a dataset has.
MEASURED = ("validation", "test", "train")
# The split to report on after training: the first of these that a dataset has.
HELD_OUT = "held-out"
REPORTED = ("test", "validation")
HELD_OUT_SHARE = 0.2
SPLIT_SEED = 0


def known_split(name: str) -> str | None:
    """Return the standard name of a split, or None if the name is not known."""
    return ALIASES.get(name.lower())


def choose(available: list[str], wanted: str | None, source: str) -> str:
    """Return the split to use.

    Parameters
    ----------
    available
        Splits of the dataset.
    wanted
        Requested split, or None for the default.
    source
        Name of the dataset, for messages.
    """
    if wanted is None:
        return next((name for name in MEASURED if name in available), available[0])
    plain = known_split(wanted) or wanted
    if wanted == HELD_OUT:
        plain = next((name for name in REPORTED if name in available), wanted)
    if plain not in available:
        raise DataError(f"{source!r} has no split {wanted!r}; it has {', '.join(available)}")
    return plain


def hold_out(n: int, wanted: str, source: str) -> list[int]:
    """Return the indices of a split of a dataset that has no splits.

    A fifth of the images is held out as `test` (or `validation`); the rest is `train`. The split does not depend on the
    seed of the run, so that no run evaluates on images that another run trained on.
    """
    plain = "test" if wanted == HELD_OUT else known_split(wanted)
    if plain is None:
        raise DataError(
            f"{source!r} has no split {wanted!r}; it has no splits of its own, so use train or test (a held-out fifth)"
        )
    if n < 2:
        raise DataError(f"{source!r} has {n} image; at least 2 are needed to hold one out")
    order = list(range(n))
    random.Random(SPLIT_SEED).shuffle(order)
    cut = max(1, round(HELD_OUT_SHARE * n))
    return sorted(order[cut:] if plain == "train" else order[:cut])
