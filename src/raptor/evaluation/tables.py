"""Tables and sentences about a surrogate's fidelity and cost, which `fidelity`, `distill` and model cards share."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.tokens import OUTLIER
from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.linear import PhaseScores
from raptor.evaluation.measures import MEASURES
from raptor.evaluation.nulls import TEACHER
from raptor.render.tables import Cell, Number, Part, Table, format_number, stored_note

# Kinds of map from the input of a phase to its end, as in `LinearBaselines`, with their names in tables.
MAPS = {
    "operator": "affine map, applied once per layer",
    "endpoint": "affine map, applied once",
    "identity": "identity",
    "raptor": "the surrogate's block",
}


HOW_MEASURED = (
    "All values are for held-out images. The teacher's tokens vary over images; R2 is the share of this variance "
    "that the surrogate reproduces. Skill is 1 - e / e0, where e is the squared error of the surrogate and e0 that "
    "of a model which leaves the embedding unchanged. Accuracy recovered is the surrogate's top-1 accuracy divided "
    "by the teacher's. The bits that store the blocks are counted at the lowest precision that increases the error "
    "at the last layer by at most 1%."
)
# Networks of `NULLS`, as tables name them.
NULL_NAMES = {
    "random": "random weights",
    "untrained": "newly initialised ViT",
    "shuffled": "the layers in random order",
}


def shown_measures(result: FidelityResult) -> dict[str, str]:
    """Return the titles of the measures that tables show, by name."""
    return {name: one.title for name, one in MEASURES.items() if one.title is not None and name in result.by_layer}


def by_layer(result: FidelityResult, images: int, at: str = "", group: str = "all") -> Table:
    """Return a table with one row per layer: R2 with its interval, and the other measures, of a token group.

    Parameters
    ----------
    result
        The measures.
    images
        Number of images.
    at
        Beginning of the keys in result.json, such as `fidelity/`.
    group
        The token group; all tokens by default.
    """
    titles = shown_measures(result)
    rows: list[tuple[Cell, ...]] = []
    for layer in range(1, len(result.by_layer["r2"].mean["all"]) + 1):
        cells = []
        for name in titles:
            one = result.by_layer[name].at(group, layer - 1)
            ends = (f"{at}{name}_ci/{group}/0/{layer - 1}", f"{at}{name}_ci/{group}/1/{layer - 1}")
            cells.append(Number(one if name == "r2" else one.value, ".3f", f"{at}{name}/{group}/{layer - 1}", ends))
        rows.append((str(layer), *cells))
    title = f"{group} tokens [95% interval], n = {images:,} held-out images"
    return Table(title, ("layer", *titles.values()), tuple(rows), drop_columns=True)


def parts(result: FidelityResult, images: int) -> Iterator[Part]:
    """Yield what the terminal shows: the table by layer, accuracy, notes and cost."""
    yield by_layer(result, images)
    if result.outliers is not None:
        yield str(result.outliers)
        yield from (by_layer(result, images, group=group) for group in ("patch", OUTLIER))
    if (sentence := accuracy(result)) is not None:
        yield sentence
    for note in result.notes:
        yield f"note: {note}"
    for name, cost in (("parameters", result.parameters), ("flops", result.flops)):
        yield f"{name}: {cost.surrogate:,}, {cost.ratio:.3f} of the teacher's"
    if result.runtime_ratio is not None:
        yield f"runtime: {result.runtime_ratio:.3f} of the teacher's"
    for table in (linear(result), nulls(result)):
        if table is not None:
            yield table


def linear(result: FidelityResult, name: str | None = None, at: str = "") -> Table | None:
    """Return R2 and accuracy of linear maps in place of each phase, beside the surrogate's own block.

    Parameters
    ----------
    result
        The measures; None is returned where it has no linear baselines.
    name
        Name of the surrogate; None leaves its column out.
    at
        Beginning of the keys in result.json, such as `fidelity/`.
    """
    found = result.linear
    if found is None:
        return None
    rows: list[tuple[Cell, ...]] = []
    for phase in range(len(found.identity.r2.mean["all"])):
        for kind, title in MAPS.items():
            score: PhaseScores = getattr(found, kind)
            place = f"{at}linear/{kind}"
            ends = (f"{place}/r2_ci/all/0/{phase}", f"{place}/r2_ci/all/1/{phase}")
            cells = [Number(score.r2.at("all", phase), ".3f", f"{place}/r2/all/{phase}", ends)]
            if score.top1 is not None:
                one = Estimate(score.top1.value[phase], score.top1.low[phase], score.top1.high[phase])
                ends = (f"{place}/top1_ci/0/{phase}", f"{place}/top1_ci/1/{phase}")
                cells.append(Number(one, ".1%", f"{place}/top1/{phase}", ends))
            rows.append((*(() if name is None else (name,)), str(phase + 1), title, *cells))
    columns = ("phase", "replaced by", "R2", *(() if found.identity.top1 is None else ("top-1",)))
    title = (
        "One phase of the teacher replaced, all other layers kept: R2 at the end of the phase, and accuracy. Affine "
        f"maps were fitted on {found.fit_images:,} images; n = {found.n:,} other images [95% interval]"
    )
    return Table(title, columns if name is None else ("surrogate", *columns), tuple(rows))


def nulls(result: FidelityResult, name: str | None = None) -> Table | None:
    """Return what the same surrogate reaches on null teachers at the last layer; None where it was not measured.

    Parameters
    ----------
    result
        The measures.
    name
        Name of the surrogate; None leaves its column out.
    """
    if not result.nulls:
        return None
    measures = {"r2": "R2", "skill": "skill", "update_r2": "R2 of the last update"}
    before: tuple[Cell, ...] = () if name is None else (name,)
    found = [
        Number(result.by_layer[one].at("all", -1), ".3f", f"{one}/all/-1", _last_ends(one))
        for one in measures
        if one in result.by_layer
    ]
    rows: list[tuple[Cell, ...]] = [(*before, "the teacher, full training", "", *found)]
    for null, one in result.nulls.items():
        at = f"nulls/{null}/"
        steps = " + ".join(map(str, one.steps))
        title = "the teacher, short training" if null == TEACHER else NULL_NAMES.get(null, null)
        values = [
            Number(getattr(one, key).at("all", -1), ".3f", f"{at}{key}/all/-1", _last_ends(at + key))
            for key in measures
        ]
        rows.append((*(() if name is None else ("newly trained",)), title, steps, *values))
    n = max(one.n for one in result.nulls.values())
    columns = (*(() if name is None else ("surrogate",)), "trained to reproduce", "training steps", *measures.values())
    title = (
        "Control: surrogates of networks without recurrence, with the same phases; values at the last layer. R2 of the "
        "last update: how well the surrogate predicts the last update from the teacher's tokens one layer before. "
        f"n = {n:,} held-out images for the short trainings [95% interval]"
    )
    return Table(". ".join([title, *stored_note(result.nulls_from)]), columns, tuple(rows))


def _last_ends(at: str) -> tuple[str, str]:
    return f"{at}_ci/all/0/-1", f"{at}_ci/all/1/-1"


def accuracy(result: FidelityResult) -> str | None:
    """Return a sentence on accuracy; None where it was not measured."""
    right, teacher, above = result.surrogate_top1, result.teacher_top1, result.recovered_above_chance
    if result.recovered is None or right is None or teacher is None or above is None:
        return None
    shown, low, high = (format_number(one, ".1%") for one in (result.recovered.value, *result.recovered.ci))
    return (
        f"top-1 {right.value:.2%}; teacher {teacher.value:.2%}: {shown} recovered (95% interval {low} to {high}); "
        f"of the accuracy above chance, {format_number(above.value, '.1%')}"
    )


def cost(result: FidelityResult, name: str, phases: Phases | None, images: int, at: str = "") -> Table:
    """Return the page's row on what a surrogate keeps and costs; rows of all runs become one table.

    Parameters
    ----------
    result
        The measures.
    name, phases
        Name and phases of the surrogate.
    images
        Number of images.
    at
        Beginning of the keys in result.json, such as `fidelity/`.
    """
    on_page = {measure: one.title for measure, one in MEASURES.items() if one.page and measure in result.by_layer}
    last = [Number(result.by_layer[measure].at("all", -1).value, ".3f", f"{at}{measure}/all/-1") for measure in on_page]
    row: tuple[Cell, ...] = (
        name,
        Number(str(phases), "", "phases"),
        Number(result.parameters.surrogate, ",", f"{at}parameters/surrogate"),
        Number(result.parameters.ratio, ".3f", f"{at}parameters/ratio"),
        Number(result.flops.ratio, ".3f", f"{at}flops/ratio"),
        Number(result.runtime_ratio, ".2f", "runtime_ratio"),
        Number(result.levin_bits.at_fewest_bits, ",.0f", f"{at}levin_bits/at_fewest_bits"),
        Number(result.recovered, ".1%", f"{at}recovered"),
        *last,
        Number(images, ",", "images"),
    )
    columns = ("surrogate", "phases", "parameters in blocks", "parameters / teacher's", "operations / teacher's",
               "run time / teacher's", "bits to store the blocks", "accuracy recovered",
               *(f"{title}, last layer" for title in on_page.values()), "images")  # fmt: skip
    return Table("Accuracy and cost of the surrogates", columns, (row,))


def answer(
    result: FidelityResult, name: str, phases: Phases | None, images: int, run: str = "", at: str = ""
) -> Markup:
    """Return the page's sentence on a surrogate; parameters are those of `cost`, and the name of the run's folder."""

    def shown(value: object, form: str, key: str, ends: tuple[str, str] | None = None) -> Markup:
        return Number(value, form, at + key, ends).html(run)

    right, recovered = "", result.recovered
    # A teacher that is never right leaves nothing to recover.
    known = recovered is not None and math.isfinite(recovered.value)
    if known and result.surrogate_top1 is not None and result.teacher_top1 is not None:
        right = Markup("It recovers {} of the teacher's accuracy: its top-1 accuracy is {}, the teacher's {}. ").format(
            shown(result.recovered, ".1%", "recovered"),
            shown(result.surrogate_top1.value, ".1%", "surrogate_top1"),
            shown(result.teacher_top1.value, ".1%", "teacher_top1"),
        )
    last: Estimate[float] = result.by_layer["r2"].at("all", -1)
    return Markup(
        "{} (phases <strong>{}</strong>) has {} times the parameters and {} times the operations of the teacher's "
        "blocks. {}R2 at the last layer is {} (n = {} held-out images)."
    ).format(
        name,
        Number(str(phases), "", "phases").html(run),
        shown(result.parameters.ratio, ".3f", "parameters/ratio"),
        shown(result.flops.ratio, ".3f", "flops/ratio"),
        right,
        shown(last, ".3f", "r2/all/-1", (f"{at}r2_ci/all/0/-1", f"{at}r2_ci/all/1/-1")),
        Number(images, ",", "images").html(run),
    )
