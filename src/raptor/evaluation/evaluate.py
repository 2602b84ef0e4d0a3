"""`raptor.fidelity`: how close a surrogate is to its teacher, how often it is right, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.accuracy import no_accuracy
from raptor.core.batches import ImageSource, LoadedImageSet, as_image_set
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow
from raptor.core.phases import Phases
from raptor.core.serialize import Key, key
from raptor.errors import OptionError
from raptor.evaluation.accuracy import AccuracyMeasure, StitchedAccuracy
from raptor.evaluation.cost import (
    CostRatio,
    DescriptionLength,
    cost_ratio,
    description_length,
    runtime_ratio,
)
from raptor.evaluation.elastic.measure import ElasticDepth, elastic_depths
from raptor.evaluation.fidelity import Observe, trajectory_fidelity
from raptor.evaluation.linear import LinearBaselines, linear_baselines, take
from raptor.evaluation.nulls import NullFidelity, check_disjoint, measure_nulls, recorded_recipe
from raptor.evaluation.options import FidelityOptions
from raptor.inspection.separate import OutlierGroup, Separation, separation
from raptor.models.complexity import count_flops, count_parameters
from raptor.models.elastic import ElasticModel
from raptor.models.surrogate import Surrogate
from raptor.render.notebook import HtmlRepr
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

TOKENS_PER_FEATURE = 10  # with fewer tokens to fit a linear map on, a note says so


@dataclass(frozen=True)
class FidelityResult(HtmlRepr):
    """How close a surrogate is to its teacher on held-out images, and what it costs.

    Parameters
    ----------
    by_layer
        Every measure of `measures.MEASURES`, such as `by_layer["r2"]`, by token group at the layers 1..L.
    teacher_top1, surrogate_top1
        Top-1 accuracy with the teacher's classifier; None without a classifier or labels, as the next three.
    recovered, recovered_above_chance
        Share of the teacher's accuracy that the surrogate reaches, and the same of what is above chance.
    stitched
        By the last layer of each phase: accuracy of the surrogate up to there and the teacher after it.
    parameters, flops
        Parameters of the blocks; operations of one image from embedding to readout.
    levin_bits
        Length of a description of the surrogate.
    notes
        Why something was not measured.
    phases
        Phases of the surrogate; None where the result is part of a `DistillResult`, which has them.
    runtime_ratio, runtime_rounds, runtime_range
        Time of one pass, surrogate over teacher, the number of timed rounds, and their smallest and largest ratio; None
        where it was not timed.
    linear
        Linear maps in place of each phase, and the surrogate's own block from the same input; None where they were not
        measured.
    nulls
        Fidelity of the same surrogate trained on null teachers, by their names; None where they were not trained.
    nulls_from
        The command that measured the nulls, if they come with a bundled surrogate.
    outliers
        Which patches are the token group `outlier`; None where outliers are not separate.
    elastic
        The surrogate in other numbers of steps, by their total; None where it was run for its own alone.
    """

    teacher_top1: Estimate[float] | None
    surrogate_top1: Estimate[float] | None
    recovered: Estimate[float] | None
    recovered_above_chance: Estimate[float] | None
    stitched: dict[int, StitchedAccuracy] | None
    parameters: CostRatio
    flops: CostRatio
    levin_bits: DescriptionLength
    notes: list[str]
    by_layer: Annotated[dict[str, LayerEstimates], Key(inline=True)]
    phases: Phases | None = key(None, omit_none=True)
    runtime_ratio: float | None = key(None, omit_none=True)
    runtime_rounds: int | None = key(None, omit_none=True)
    runtime_range: list[float] | None = key(None, omit_none=True)
    linear: LinearBaselines | None = key(None, omit_none=True)
    nulls: dict[str, NullFidelity] | None = key(None, omit_none=True)
    nulls_from: str | None = key(None, omit_none=True)
    outliers: OutlierGroup | None = key(None, omit_none=True)
    elastic: dict[int, ElasticDepth] | None = key(None, omit_none=True)

    @property
    def n(self) -> int:
        """Number of images."""
        return self.by_layer["r2"].n

    def __str__(self) -> str:
        r2 = self.by_layer["r2"].mean["all"]
        mean = sum(r2) / len(r2)
        text = f"R2 {r2[-1]:.3f} at the last layer, {mean:.3f} on average over layers ({self.n} images)"
        if self.recovered is None or self.teacher_top1 is None:
            return text
        return f"{text}; {self.recovered.value:.1%} of the teacher's accuracy of {self.teacher_top1.value:.1%}"


def fidelity(
    surrogate: Surrogate,
    images: ImageSource,
    seed: int = 0,
    runtime_batch_size: int | None = None,
    progress: ProgressLike = True,
    options: FidelityOptions | None = None,
    train_images: LoadedImageSet | None = None,
) -> FidelityResult:
    """Measure a surrogate against its teacher.

    Parameters
    ----------
    surrogate
        A surrogate with its teacher.
    images
        Held-out images, on which neither was trained. They are iterated over more than once.
    seed
        Seed of the bootstrap over images.
    runtime_batch_size
        Images per batch of the comparison of run times; None skips it.
    progress
        As in `measure_dynamics`.
    options
        Linear baselines, null teachers, and whether outliers are a token group of their own.
    train_images
        Images to train on with the null teachers, none of which may be in `images`; only needed with `nulls`.
    """
    images, options = as_image_set(images), options or FidelityOptions()
    if options.nulls:
        if train_images is None:
            raise OptionError("null teachers need images to train on: pass train_images=")
        check_disjoint(images, train_images)
        recorded_recipe(surrogate.record)  # a mistake is found before anything is measured
    for steps in options.elastic or ():
        ElasticModel(surrogate, steps)  # likewise
    first = next(iter(images))
    reason = no_accuracy(surrogate, first, images.classes)
    measure = AccuracyMeasure(surrogate) if reason is None else None
    separated = separation(options.outliers, surrogate.teacher, images)
    flows: tuple[DepthFlow, DepthFlow] = (surrogate.teacher, surrogate)
    if separated is not None:
        flows = separated.of(surrogate.teacher), separated.of(surrogate)
    by_layer = trajectory_fidelity(
        *flows, tracked(images, "fidelity", progress), surrogate.phases, seed,
        observe=None if measure is None else _restored(measure.update, separated),
    )  # fmt: skip
    right = None if measure is None else measure.compute(seed)
    notes = [] if reason is None else [f"no accuracy: {reason}"]
    linear, nulls, elastic = None, None, None
    if options.elastic:
        elastic = elastic_depths(surrogate, images, options.elastic, seed, reason is None)
    if options.linear_images:
        some = take(images, options.linear_images)
        some = as_image_set(tracked(some, "linear baselines", progress))
        linear = linear_baselines(*flows, some, surrogate.phases, reason is None, seed)
        notes += _linear_notes(surrogate, linear)
    if options.nulls:
        assert train_images is not None
        nulls = measure_nulls(surrogate, images, train_images, options.null_steps, seed, progress)
    flops = cost_ratio(count_flops(surrogate, first.pixels[:1]), count_flops(surrogate.teacher, first.pixels[:1]))
    blocks = surrogate.teacher.parts.blocks
    parameters = cost_ratio(count_parameters(surrogate.raptor), sum(map(count_parameters, blocks)))
    timed = None if runtime_batch_size is None else runtime_ratio(surrogate, runtime_batch_size)
    return FidelityResult(
        by_layer=by_layer,
        teacher_top1=None if right is None else right.teacher,
        surrogate_top1=None if right is None else right.surrogate,
        recovered=None if right is None else right.recovered,
        recovered_above_chance=None if right is None else right.above_chance,
        stitched=None if right is None else right.stitched,
        parameters=parameters,
        flops=flops,
        levin_bits=description_length(surrogate, images, parameters.surrogate, flops.surrogate),
        notes=notes,
        phases=surrogate.phases,
        runtime_ratio=None if timed is None else timed.ratio,
        runtime_rounds=None if timed is None else timed.rounds,
        runtime_range=None if timed is None else [min(timed.by_round), max(timed.by_round)],
        linear=linear,
        nulls=nulls,
        outliers=None if separated is None else separated.group,
        elastic=elastic,
    )


def _restored(observe: Observe, separated: Separation | None) -> Observe:
    """Return an observer of separated tokens that sees them in the order of the model."""
    if separated is None:
        return observe
    order = separated.order
    return lambda batch, layer, y, s: observe(batch, layer, order.restored(y), order.restored(s))


def _linear_notes(surrogate: Surrogate, linear: LinearBaselines | None) -> list[str]:
    """Return why there are no linear baselines, or that few tokens were fitted."""
    if linear is None:
        return ["no linear baselines: they need at least 4 images, two of them to evaluate on"]
    tokens, width = linear.fit_images * surrogate.layout.n_tokens, surrogate.width
    if tokens >= TOKENS_PER_FEATURE * width:
        return []
    return [
        f"the linear baselines may overfit: {tokens:,} tokens for maps of width {width:,}; use more images "
        "(--linear-images)"
    ]
