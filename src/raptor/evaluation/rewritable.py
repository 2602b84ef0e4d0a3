"""Whether k tied blocks can replace the layers: the rule, fixed before any measurement.

Skill is 1 - error / error of holding layer 0 constant, at the last layer over all tokens. The layers are rewritable if

- skill is at least 0.5: the blocks reproduce at least half of how far states move from layer 0; and
- skill is at least 0.1 above that of the same blocks, recipe and budget on each null teacher (random weights with the
  teacher's norms, untrained, shuffled layers).

The whole 95% interval over images must be on that side. Without nulls the result is inconclusive, unless skill is too
low for any null.
"""

from __future__ import annotations

from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.nulls import TEACHER
from raptor.render.registry import Rung
from raptor.render.tables import format_estimate

SMALLEST_SKILL, MARGIN = 0.5, 0.1


def rewritable_rung(result: FidelityResult, images: int) -> Rung | None:
    """Return the verdict with its value and null; None for results without skill.

    Parameters
    ----------
    result
        Fidelity of a surrogate. If the nulls were trained for fewer steps, the teacher's surrogate with as many steps
        is compared with them.
    images
        Number of held-out images.
    """
    if "skill" not in result.by_layer or result.phases is None:
        return None
    skill, blocks = result.by_layer["skill"].at("all", -1), f"{result.phases.k} blocks"
    said = (
        f"With the phases {result.phases}, {blocks} reproduce the trajectory with skill {skill.value:.2f} "
        f"[{skill.low:.2f}, {skill.high:.2f}] at the last layer (0: layer 0 held constant, 1: exact; n = {images} "
        "held-out images)."
    )
    reached = {name: one.skill.at("all", -1) for name, one in (result.nulls or {}).items() if name != TEACHER}
    if not reached:
        held = False if skill.high < SMALLEST_SKILL else None
        text = f"{said} No null was measured; `raptor fidelity --nulls` trains the same blocks on null teachers."
        short = f"{blocks} are not enough" if held is False else f"whether {blocks} can replace the layers is open"
        return Rung("rewritable", held, skill, None, text, short=short)
    assert result.nulls is not None
    same_budget = result.nulls[TEACHER].skill.at("all", -1) if TEACHER in result.nulls else skill
    best = max(reached, key=lambda name: reached[name].value)
    null = reached[best]
    held = None
    if min(skill.low, same_budget.low) >= SMALLEST_SKILL and same_budget.low >= null.high + MARGIN:
        held = True
    elif skill.high < SMALLEST_SKILL or same_budget.high < null.low + MARGIN:
        held = False
    nulls = ", ".join(f"{one.value:.2f} on {WHERE[name]}" for name, one in reached.items())
    steps = result.nulls[best].steps
    budget = f"The same blocks and training reach {nulls}."
    if TEACHER in result.nulls:
        own = format_estimate(same_budget, ".2f")
        budget = f"With {steps[0]} + {steps[1]} training steps, they reach {own} on this model, and {nulls}."
    short = f"whether {blocks} can replace the layers is inconclusive"
    if held:
        short = f"rewritable by {blocks}"
    elif skill.high < SMALLEST_SKILL:
        short = f"{blocks} are not enough"
    elif held is False:
        short = f"{blocks} reproduce the trajectory, but no better than that of {WHERE[best]}"
    source = "" if result.nulls_from is None else f" These nulls were measured before, with `{result.nulls_from}`."
    return Rung("rewritable", held, same_budget, null.value, f"{said} {budget}{source}", short=short)


# Where nulls come from, in a sentence.
WHERE = {
    "random": "a network with random weights", "untrained": "an untrained network", "shuffled": "shuffled layers",
}  # fmt: skip
