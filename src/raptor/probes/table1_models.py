"""The models of Table 1: a teacher, its surrogates, untied controls and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raptor.data.load import parse_source
from raptor.data.options import LoadOptions
from raptor.data.train_val_test import TrainValTest, load_train_val_test
from raptor.errors import OptionError
from raptor.models.load import SHIPPED_SURROGATES, load_model
from raptor.models.pretrained import RaptorModel, with_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.probes.depth import check_eigen_crop
from raptor.probes.options import Table1Options
from raptor.probes.tasks import tasks_of
from raptor.runtime.options import RunOptions

SCENES = 2000  # default number of training images of `scenes`, which has no end
DEFAULT_KS = (2, 3)  # if no surrogates are given or bundled
# `distill(k, kind)` returns the directory of a surrogate that is neither given nor bundled.
Distill = Callable[[int, str], str]


@dataclass(frozen=True)
class TableModel:
    """A model of the table.

    Parameters
    ----------
    label
        Name in the table.
    kind
        `teacher`, `surrogate`, `untied` or `baseline`.
    source
        Name or directory that it was loaded from.
    teacher
        The model.
    """

    label: str
    kind: str
    source: str
    teacher: Teacher

    @property
    def k(self) -> int | None:
        """Number of blocks of a surrogate; None for other models."""
        return self.teacher.module.phases.k if isinstance(self.teacher.module, RaptorModel) else None


def table_models(
    teacher: Teacher,
    source: str,
    data: str,
    options: Table1Options,
    loading: LoadOptions,
    run_options: RunOptions,
    distill: Distill,
) -> list[TableModel]:
    """Load the models of the table, the teacher first, and check that the images have annotations.

    Parameters
    ----------
    teacher, source
        The teacher, and the name that it was loaded from.
    data, loading
        The images, and how they are read.
    options
        Which surrogates, controls and baseline there are.
    run_options
        Image size and device.
    distill
        Distills a surrogate that is neither given nor bundled.
    """
    models = [TableModel(f"teacher, {source}", "teacher", source, teacher), *_baseline(options, run_options)]
    for model in models:  # mistakes in the data are found before anything is distilled
        tasks_of(load_sets(model.teacher, data, options, loading, run_options).train, eigen_crop=options.eigen_crop)
    given = [_surrogate(one, teacher, run_options) for one in options.surrogates or ()]
    have = {(model.k, model.kind) for model in given}
    wanted = [(k, "surrogate") for k in _wanted(source, options.k, given)] + [(k, "untied") for k in options.untied]
    for k, kind in wanted:
        if (k, kind) not in have:
            found = (_bundled(source, k) if kind == "surrogate" else None) or distill(k, kind)
            given.append(_surrogate(found, teacher, run_options))
    models[1:1] = sorted(given, key=lambda model: (model.kind, model.k or 0))
    return models


def load_sets(
    model: Teacher, data: str, options: Table1Options, loading: LoadOptions, run_options: RunOptions
) -> TrainValTest:
    """Load the three sets of images with the preprocessing of a model."""
    check_eigen_crop(model.image_size, options.fit, options.eigen_crop)
    few = SCENES if parse_source(data)[0] == "scenes" else None
    return load_train_val_test(
        data, model.preprocessing.fitted(options.fit), options.eval_data, run_options.images or few,
        options.eval_images, batch_size=run_options.batch, seed=run_options.seed, loading=loading,
    )  # fmt: skip


def missing_notes(models: Sequence[TableModel]) -> tuple[str, ...]:
    """Return which rows of the paper's table are missing, and how to add them."""
    kinds = {model.kind for model in models}
    missing = {
        "untied": "no untied control: --untied K distills one, or give its directory with --surrogates",
        "baseline": "no smaller baseline: --baseline MODEL adds one",
    }
    return tuple(note for kind, note in missing.items() if kind not in kinds)


def _baseline(options: Table1Options, run_options: RunOptions) -> list[TableModel]:
    if (source := options.baseline) is None:
        return []
    model = load_model(source, run_options.size, device=run_options.device)
    return [TableModel(f"baseline, {source}", "baseline", source, model)]


def _surrogate(source: str, teacher: Teacher, run_options: RunOptions) -> TableModel:
    alone = load_model(source, run_options.size, device=run_options.device)
    if not isinstance(alone.module, RaptorModel):
        raise OptionError(
            f"{source!r} is not a surrogate: give a directory that 'raptor distill --out' wrote, scenes:k2 or scenes:k3"
        )
    with_teacher(alone.module, teacher)  # raises an error if it was distilled from another teacher
    kind = "untied" if alone.module.surrogate.raptor.untied else "surrogate"
    phases = alone.module.phases
    label = f"Raptor, k = {phases.k}" if kind == "surrogate" else f"{phases.k} layers, untied"
    return TableModel(f"{label} ({phases})", kind, source, alone)


def _wanted(source: str, ks: Sequence[int] | None, given: Sequence[TableModel]) -> Sequence[int]:
    """Return the numbers of blocks of the surrogates in the table."""
    if ks is not None:
        return ks
    return [] if given else [k for k in range(1, 10) if _bundled(source, k)] or DEFAULT_KS


def _bundled(source: str, k: int) -> str | None:
    name = f"{source}:k{k}"
    return name if name in SHIPPED_SURROGATES else None
