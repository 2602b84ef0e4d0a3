"""What `raptor dynamics` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raptor.dynamics import curves  # noqa: F401 (registers them)
from raptor.dynamics.claims.claim import Claim
from raptor.dynamics.curves.registry import CURVES
from raptor.dynamics.references.published import beside_the_paper
from raptor.dynamics.result import Against, DynamicsResult
from raptor.render.registry import Rung, evidence, page_sentences, page_table
from raptor.render.tables import (
    HELD,
    NOT_ABOVE_NULL,
    Cell,
    Link,
    Mark,
    Number,
    Part,
    Table,
    file_lines,
    format_estimate,
    format_number,
)
from raptor.runtime.rundir import Record


def show_dynamics(record: Record[DynamicsResult]) -> Iterator[Part]:
    """Yield, for each token group, its curves and its linear map; then the paper's claims and the distances."""
    result = record.result
    if result.outliers is not None:
        yield str(result.outliers)
    for group, dmd in result.dmd.items():
        yield by_layer(result, group, record.images)
        walk = dmd.random_walk
        radius, median, null_radius, null_median = map(
            format_number,
            (dmd.spectral_radius.value, dmd.median_modulus.value, walk.spectral_radius, walk.median_modulus),
        )
        yield (
            f"{group}: the cosine with the last layer (gamma) is first above 0.9 at layer "
            f"{result.converged_layer[group].value:.0f}; linear map of all layers (DMD, rank {dmd.rank}): spectral "
            f"radius {radius}, median modulus {median} (for a random walk: {null_radius}, {null_median})"
        )
    unread = [group for group, last in result.last_layer.items() if last < max(result.last_layer.values())]
    if unread:
        last = max(result.last_layer.values())
        yield (
            f"The model's head does not read {' and '.join(unread)} tokens of layer {last}, so training did not shape "
            f"them. They are measured up to layer {last - 1}."
        )
    yield claims(result)
    if result.against is not None:
        yield distances(result.against)
        if len(result.against.models) == 1:
            yield "A second --against with another seed shows the distance that the seed alone causes."
    yield from file_lines(record)


def notebook(result: DynamicsResult) -> list[Any]:
    """Return what a notebook shows: the claims, and the speed by layer."""
    from raptor.render.layer_charts import STEPS, by_layer

    figure = by_layer(result.curves["speed"], "Angular speed", CURVES["speed"].label, STEPS)
    return [claims(result), figure.chart]


def by_layer(result: DynamicsResult, group: str, images: int) -> Table:
    """Return the registered measures of a token group by layer, one column each.

    Parameters
    ----------
    result
        The dynamics of a model.
    group
        The token group.
    images
        Number of images.
    """
    shown = {
        name: curve.column
        for name, curve in CURVES.items()
        if curve.column is not None and group in getattr(result.curves.get(name), "mean", {})
    }
    length = max(len(result.curves[name].mean[group]) for name in shown)
    rows = []
    for layer in range(length):
        cells: list[Cell] = [str(layer)]
        for name in shown:
            values = result.curves[name].mean[group]
            cells.append(Number(values[layer], key=f"{name}/{group}/{layer}") if layer < len(values) else "")
        rows.append(tuple(cells))
    return Table(f"{group}, n = {images:,} images", ("layer", *shown.values()), tuple(rows))


def verdict(claim: Claim) -> str:
    """Return the verdict on a claim in words."""
    return f"{HELD[claim.held]}, not significantly above its null" if claim.beyond_null is False else HELD[claim.held]


def claims(result: DynamicsResult) -> Table:
    """Return the paper's claims and what this model says about each."""
    columns = ("claim", "result", "effect [95% interval]", "threshold", "null", "p")
    return Table("Claims of the paper", columns, tuple(_row(i, one) for i, one in enumerate(result.claims)))


def _row(i: int, claim: Claim) -> tuple[Cell, ...]:
    ends = (f"claims/{i}/ci/0", f"claims/{i}/ci/1")
    effect: Cell = "" if claim.effect is None else Number(claim.effect, ".3f", f"claims/{i}/effect", ends)
    null: Cell = "" if claim.null is None else Number(claim.null, ".3f", f"claims/{i}/null")
    p: Cell = "" if claim.p_adjusted is None else Number(claim.p_adjusted, ".3f", f"claims/{i}/p_adjusted")
    result = Mark(claim.held, verdict(claim), NOT_ABOVE_NULL if claim.beyond_null is False else "")
    return Link(claim.text, claim.figure or ""), result, effect, f"{claim.smallest_effect:g}", null, p


@page_table("dynamics", "dynamics")
def page_claims(record: Record[DynamicsResult]) -> Table:
    """Return the claims for the page, with the evidence."""
    table = claims(record.result)
    rows = tuple((*row, one.evidence) for row, one in zip(table.rows, record.result.claims, strict=True))
    return Table(table.title, (*table.columns, "measured"), rows)


@page_table("dynamics", "dynamics")
def page_published(record: Record[DynamicsResult]) -> Table:
    """Return the numbers that the paper printed, beside those of this model."""
    return beside_the_paper(record.result)


@page_sentences("dynamics", "dynamics")
def outliers(record: Record[DynamicsResult]) -> list[str]:
    """Return which patches are a token group of their own."""
    return [] if record.result.outliers is None else [str(record.result.outliers)]


@page_sentences("dynamics", "dynamics")
def how_judged(record: Record[DynamicsResult]) -> list[str]:
    """Return how to read the table of claims."""
    return [
        "The direction of a token is the token divided by its norm. Step l leads from layer l to layer l + 1. In "
        "this section, the update of a step is the change of a token's direction, and its speed is the angle between "
        "the old and the new direction.",
        "The table tests the claims of the paper. The effect measures how strongly the "
        "data support a claim; it has an interval over images. A claim holds if the whole interval is at or above "
        "the threshold, the smallest effect of interest. It does not hold if the whole interval is below the "
        "threshold; otherwise it is inconclusive. The null is the effect expected without the claimed phenomenon, "
        "for example with updates in random directions; p is the probability of an effect at least as large under "
        "the null, corrected for the number of claims. A claim can hold and yet not be significantly above its "
        "null; a half circle marks it, because the same would be seen without the phenomenon. docs/claims.md defines "
        "effect, threshold and null of each claim.",
    ]


@page_sentences("dynamics", "refuted")
def refuted(record: Record[DynamicsResult]) -> list[str]:
    """Return the claims that do not hold; the table of claims has the evidence."""
    return [_sentence(one.text) for one in record.result.claims if one.held is False]


@page_sentences("dynamics", "open")
def unresolved(record: Record[DynamicsResult]) -> list[str]:
    """Return the claims that are inconclusive, or hold but not significantly above their null."""
    return [
        f"{_sentence(one.text)[:-1]}: {verdict(one)}."
        for one in record.result.claims
        if one.held is None or one.beyond_null is False
    ]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def distances(against: Against) -> Table:
    """Return the distances between the curves of models, one column per pair."""
    pairs = against.distances
    first = next(iter(pairs.values()))
    rows: list[tuple[Cell, ...]] = []
    for name, groups in first.items():
        for group in groups:
            keys = {pair: f"against/distances/{pair}/{name}/{group}/relative" for pair in pairs}
            cells = (Number(found[name][group].relative, key=keys[pair]) for pair, found in pairs.items())
            rows.append((name.replace("_", " "), group, *cells))
    for group in next(iter(against.operators.values()), {}):
        keys = {pair: f"against/operators/{pair}/{group}" for pair in against.operators}
        maps = (Number(found[group], key=keys[pair]) for pair, found in against.operators.items())
        rows.append(("linear map (DSA)", group, *maps))
    title = "Mean distance between two curves, relative to the range of the first"
    return Table(title, ("measure", "tokens", *pairs), tuple(rows))


@evidence("dynamics")
def same_dynamics(record: Record[DynamicsResult]) -> Rung | None:
    """Return whether a surrogate has the dynamics of its teacher."""
    systems = record.result.against.same_system if record.result.against is not None else {}
    if not systems:
        return None
    pair, found = min(systems.items(), key=lambda item: item[1].distance.value)
    first, _, second = pair.partition(" | ")
    text = (
        f"For each group of tokens, linear maps were fitted to {first} and to {second}; they predict the mean token "
        "of every layer from that of the layer before (dynamic mode decomposition, DMD). The relative distance of the "
        f"maps, up to a rotation, is {format_estimate(found.distance, '.2f')} (0 means equal; n = {record.images} "
        "images)."
    )
    if found.null is not None:
        text += (
            f" For comparison, maps fitted to different groups of tokens (cls, registers, patches) of {first} have "
            f"distance {found.null:.2f}. The answer is yes if the first distance is at most half of the second."
        )
    short = {
        True: "the surrogate has the same dynamics",
        False: "the surrogate has other dynamics",
        None: "whether the surrogate has the same dynamics is inconclusive",
    }[found.held]
    at = f"against/same_system/{pair}"
    return Rung(
        "same_system", found.held, found.distance, found.null, text, short=short, value_key=f"{at}/distance",
        null_key=f"{at}/null",
    )  # fmt: skip
