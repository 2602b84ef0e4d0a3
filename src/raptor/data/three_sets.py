"""Three sets that share no image: to train on, to select on, to report on."""

from __future__ import annotations

from typing import Any, NamedTuple

from raptor.data import HELD_OUT, load_images, parse_source, split_names, training_split
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.errors import DataError, OptionError

ImageSet = Images | SceneImages
SELECTED = 500  # images to select on at most: it is a choice among a few learning rates


class ThreeSets(NamedTuple):
    """What a probe needs."""

    train: ImageSet
    select: ImageSet
    report: ImageSet


def load_three_sets(
    data: str,
    teacher: Any,
    eval_data: str | None = None,
    images: int | None = None,
    eval_images: int | None = None,
    **loading: Any,
) -> ThreeSets:
    """Load the train split, the split to report on, and one to select on.

    The latter is the validation split, where that is neither of both; otherwise a tenth of the training images. At most
    500 images are selected on.

    Parameters
    ----------
    data
        What to train on, as in `load_images`.
    teacher
        Whose preprocessing to use, or a `Preprocessing`.
    eval_data
        What to report on; by default the held-out split of `data`.
    images, eval_images
        How many to train on, and to select and report on.
    **loading
        More arguments of `load_images`.
    """
    source, named = parse_source(data)
    names = split_names(source)
    if eval_data is None and names != [""] and not {"test", "validation"} & set(names):
        raise DataError(f"{source!r} has no split to report on, only {', '.join(names)}: name images with --eval-data")
    train = load_images(source, teacher, training_split(named, eval_data), images, **loading)
    report = load_images(eval_data or source, teacher, None if eval_data else HELD_OUT, eval_images, **loading)
    if shared := train.keys & report.keys:
        raise OptionError(
            f"{len(shared)} images would be trained and reported on, {min(shared)} among them: name others with "
            "--eval-data"
        )
    select: ImageSet | None = None
    if "validation" in names:
        select = load_images(source, teacher, "validation", min(eval_images or SELECTED, SELECTED), **loading)
    if select is None or select.keys & (train.keys | report.keys):
        if not isinstance(train, Images):
            raise OptionError("scenes have three splits: train on scenes:train and report on scenes:test")
        train, select = train.parted(SELECTED)
    check_classes(train, select, "select")
    check_classes(train, report, "report")
    return ThreeSets(train, select, report)


def check_classes(train: ImageSet, other: ImageSet, what: str, whole: bool = True) -> None:
    """Raise where a number means one class in images to train on and another in those to `what` on.

    Unless `whole`, the others may lack the last classes: the numbers of those before are the same.
    """
    for name in ("classes", "mask_classes"):
        wanted, found = getattr(train, name), getattr(other, name)
        if found != wanted and (whole or not (wanted and found and wanted[: len(found)] == found)):
            raise DataError(f"the images to train on and to {what} on have different {name.replace('_', ' of ')}")
