"""Three sets that share no image: to train on, to select on, to report on."""

from __future__ import annotations

from typing import Any, NamedTuple

from raptor.data import HELD_OUT, load_images, parse_source, split_names, training_split
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.data.splits import choose
from raptor.errors import DataError, OptionError


class ThreeSets(NamedTuple):
    """What a probe needs."""

    train: Images | SceneImages
    select: Images | SceneImages
    report: Images | SceneImages


def load_three_sets(
    data: str,
    teacher: Any,
    eval_data: str | None = None,
    images: int | None = None,
    eval_images: int | None = None,
    **loading: Any,
) -> ThreeSets:
    """Load the train split, the split to report on, and one to select on.

    The latter is the validation split, where that is neither of both; otherwise a tenth of the training images.

    Parameters
    ----------
    data
        What to train on, as in `load_images`.
    teacher
        Whose preprocessing to use.
    eval_data
        What to report on; by default the held-out split of `data`.
    images, eval_images
        How many to train on, and to select and report on.
    **loading
        More arguments of `load_images`.
    """
    source, named = parse_source(data)
    used = {_split(source, training_split(named, eval_data))}
    reported, split = parse_source(eval_data or source)
    used.add(report := _split(reported, split if eval_data else HELD_OUT))
    if len(used) == 1:
        raise OptionError(f"{data!r} would be trained and reported on: name other images with --eval-data")
    train = load_images(source, teacher, training_split(named, eval_data), images, **loading)
    validation = (source, "validation")
    if "validation" in split_names(source) and validation not in used:
        select = load_images(*validation[:1], teacher, validation[1], eval_images, **loading)
    elif isinstance(train, Images):
        train, select = train.parted()
    else:
        raise OptionError("scenes have three splits: train on scenes:train and report on scenes:test")
    found = load_images(reported, teacher, report[1] or None, eval_images, **loading)
    for name in ("classes", "mask_classes"):
        if getattr(train, name) != getattr(found, name):
            raise DataError(f"{data!r} and {eval_data!r} have other {name.replace('_', ' ')} than one another")
    return ThreeSets(train, select, found)


def _split(source: str, wanted: str | None) -> tuple[str, str]:
    """Name a set: where it is, and which of its splits is meant."""
    names = split_names(source)
    if names == [""]:
        return source, wanted or ""
    return source, choose(names, wanted, source)
