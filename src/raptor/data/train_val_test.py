"""Disjoint training, validation and test sets."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from raptor.core.batches import LoadedImageSet
from raptor.core.preprocessing import Preprocessing
from raptor.data.images import Images
from raptor.data.load import HELD_OUT, parse_source, split_names, training_split
from raptor.data.options import LoadOptions
from raptor.errors import DataError, OptionError
from raptor.models.teachers.teacher import Teacher
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup

MOST_VALIDATION = 500  # validation images; enough to choose among a few learning rates


class TrainValTest(NamedTuple):
    """Three disjoint sets of images: to train on, to select on, and to report on."""

    train: LoadedImageSet
    val: LoadedImageSet
    test: LoadedImageSet


def load_train_val_test(
    data: str,
    teacher: Teacher | Preprocessing,
    eval_data: str | None = None,
    images: int | None = None,
    eval_images: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    loading: LoadOptions | None = None,
    workers: int | None = None,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> TrainValTest:
    """Load disjoint training, validation and test sets.

    The validation set is the validation split, if that is not used otherwise, else a tenth of the training images. It
    has at most 500 images.

    Parameters
    ----------
    data
        Training data, as in `load_images`.
    teacher
        A model whose preprocessing to use, or a `Preprocessing`.
    eval_data
        Test data; by default the held-out split of `data`.
    images, eval_images
        Number of training images, and number of validation and of test images.
    batch_size, seed, workers, process_group
        As in `load_images`.
    loading
        How images are read.
    """
    load = partial(
        (loading or LoadOptions()).load, batch_size=batch_size, seed=seed, workers=workers, process_group=process_group
    )
    source, named = parse_source(data)
    names = split_names(source)
    if eval_data is None and names != [""] and not {"test", "validation"} & set(names):
        raise DataError(f"{source!r} has only the splits {', '.join(names)}, none to report on; use --eval-data")
    train = load(source, teacher, training_split(named, eval_data), images)
    test = load(eval_data or source, teacher, None if eval_data else HELD_OUT, eval_images)
    if shared := train.image_keys() & test.image_keys():
        raise OptionError(
            f"{len(shared)} images are in both the training and the test set, such as {min(shared)}; use other images "
            "with --eval-data"
        )
    val: LoadedImageSet | None = None
    if "validation" in names:
        val = load(source, teacher, "validation", min(eval_images or MOST_VALIDATION, MOST_VALIDATION))
    if val is None or val.image_keys() & (train.image_keys() | test.image_keys()):
        if not isinstance(train, Images):
            raise OptionError(
                f"no validation images remain with {data!r}; train on scenes:train and report on scenes:test"
            )
        train, val = train.hold_out(MOST_VALIDATION)
    check_classes(train, val, "validation")
    check_classes(train, test, "test")
    return TrainValTest(train, val, test)


def check_classes(train: LoadedImageSet, other: LoadedImageSet, what: str, whole: bool = True) -> None:
    """Raise a DataError if class numbers have different meanings in two sets.

    Parameters
    ----------
    train, other
        The training set, and another set.
    what
        Name of the other set, for the message.
    whole
        Whether the class names must be equal; otherwise the other set may lack the last classes.
    """
    for name in ("classes", "mask_classes"):
        wanted, found = getattr(train, name), getattr(other, name)
        if found != wanted and (whole or not (wanted and found and wanted[: len(found)] == found)):
            raise DataError(f"the training and the {what} images have different {name.replace('_', ' ')}")
