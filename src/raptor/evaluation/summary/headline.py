"""The numbers at the top of the page: what a surrogate keeps, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from raptor.core.estimate import Estimate
from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.summary.naming import OWN, surrogate_name
from raptor.render.tables import Number, Phrase
from raptor.render.tiles import Tile
from raptor.runtime.rundir import Record

APART = 0.1  # difference of R2 and robust R2 from which on a few tokens dominate R2
# Share of the teacher's ImageNet accuracy that the paper printed for DINOv2-B, by number of blocks.
PAPER = {2: "94.4%", 3: "97.0%", 4: "97.3%"}


def fidelity_tiles(record: Record[FidelityResult]) -> Iterator[Tile]:
    """Yield accuracy, trajectory, parameters and run time of a surrogate.

    Parameters
    ----------
    record
        Fidelity of a surrogate. Of several surrogates, the page shows one that was not trained in the same run, with
        controls if there are any, and the largest skill.
    """
    result, name = record.result, surrogate_name(record)
    k = None if result.phases is None else result.phases.k
    skill = result.by_layer["skill"].at("all", -1).value if "skill" in result.by_layer else -math.inf
    strength = (float(name != OWN), float(bool(result.nulls)), skill)
    who = Phrase((name, "" if k is None else f", k = {k}", "; n = ", Number(record.images, ",", "images"), " images"))
    if result.recovered is not None and result.teacher_top1 is not None and result.surrogate_top1 is not None:
        top1 = Phrase(("Top-1 ", Number(result.surrogate_top1.value, ".1%", "surrogate_top1"), "; teacher ",
                       Number(result.teacher_top1.value, ".1%", "teacher_top1"), ". ", *who.parts, "."))  # fmt: skip
        paper = None if k not in PAPER else f"{PAPER[k]} (DINOv2-B, ImageNet, k = {k})"
        value = Number(result.recovered, ".1%", "recovered")
        yield Tile("recovered", "Accuracy recovered", value, top1, strength, paper=paper)
    yield _trajectory(record, strength, who)
    own, teacher = (
        Number(getattr(result.parameters, side), ",", f"parameters/{side}") for side in ("surrogate", "teacher")
    )
    detail = Phrase((own, " parameters in blocks; teacher ", teacher, ". A count, without interval."))
    value = Number(result.parameters.ratio, ".1%", "parameters/ratio")
    yield Tile("parameters", "Parameters against the teacher", value, detail, strength)
    if result.runtime_ratio is not None:
        rounds = Number(result.runtime_rounds, "", "runtime_rounds")
        why = "Tied blocks are applied as often as the teacher's: they save memory, not time."
        detail = Phrase(("Median of ", rounds, f" rounds, in brackets their range. {why}"))
        ends = ("runtime_range/0", "runtime_range/1")
        measured: float | Estimate[float] = result.runtime_ratio
        if result.runtime_range is not None:
            measured = Estimate(result.runtime_ratio, result.runtime_range[0], result.runtime_range[1])
        time = Number(measured, ".2f", "runtime_ratio", ends)
        yield Tile("runtime", "Run time against the teacher", Phrase((time, " times")), detail, strength)


def fair_r2(result: FidelityResult) -> str:
    """Return the R2 to show: `robust_r2` where a few tokens dominate `r2`, which it then differs from."""
    found = result.by_layer
    if "robust_r2" not in found:
        return "r2"
    apart = abs(found["robust_r2"].at("all", -1).value - found["r2"].at("all", -1).value)
    return "robust_r2" if apart > APART else "r2"


def _trajectory(record: Record[FidelityResult], strength: tuple[float, ...], who: Phrase) -> Tile:
    """Return skill and R2 at the last layer; robust R2 where a few tokens dominate R2."""
    found, used, said = record.result.by_layer, fair_r2(record.result), "R2"
    why: tuple[str | Number, ...] = ()
    if used != "r2":
        said, r2 = "robust R2", found["r2"].at("all", -1)
        why = (" A few outlier tokens hold much of the variance, so that R2 (", Number(r2.value, ".2f", "r2/all/-1"),
               ") mostly describes them; robust R2 limits their weight.")  # fmt: skip
    value: tuple[str | Number, ...] = (f"{said} ", _last(record, used))
    if "skill" in found:
        value = ("skill ", _last(record, "skill"), ", ", *value)
    detail = Phrase(("At the last layer, all tokens. ", *who.parts, ".", *why))
    return Tile("trajectory", "Skill and R2 of the trajectory", Phrase(value), detail, strength)


def _last(record: Record[FidelityResult], measure: str) -> Number:
    ends = (f"{measure}_ci/all/0/-1", f"{measure}_ci/all/1/-1")
    return Number(record.result.by_layer[measure].at("all", -1), ".3f", f"{measure}/all/-1", ends)
