"""The result of `fidelity`, as JSON has it."""

from __future__ import annotations

from typing import Any

from raptor.evaluation import Evaluation, Share

# Key of the result -> field of `Correct`.
SHARES = {
    "teacher_top1": "teacher",
    "surrogate_top1": "surrogate",
    "recovered": "recovered",
    "recovered_above_chance": "above_chance",
}


def describe_fidelity(evaluation: Evaluation) -> dict[str, Any]:
    """Return the keys of the verb; what there is no classifier or no label for is null."""
    by_layer, correct = evaluation.by_layer, evaluation.correct
    body: dict[str, Any] = {}
    for name, groups in by_layer.mean.items():
        body[name] = groups
        body[f"{name}_ci"] = {
            group: [by_layer.low[name][group], by_layer.high[name][group]] for group in by_layer.low[name]
        }
    for name, field in SHARES.items():
        share: Share | None = None if correct is None else getattr(correct, field)
        body[name], body[f"{name}_ci"] = (None, None) if share is None else (share.value, list(share.ci))
    body["stitched"] = correct and {str(layer): _stitched(share) for layer, share in correct.stitched.items()}
    body["parameters"] = _ratio(evaluation.parameters)
    body["flops"] = _ratio(evaluation.flops)
    body["levin_bits"] = evaluation.levin_bits
    body["notes"] = list(evaluation.notes)
    return body


def _stitched(share: Share) -> dict[str, Any]:
    return {"top1": share.value, "top1_ci": list(share.ci)}


def _ratio(counts: dict[str, int]) -> dict[str, float]:
    return {**counts, "ratio": counts["surrogate"] / counts["teacher"]}
