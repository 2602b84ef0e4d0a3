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


def rewritable_rung(result: FidelityResult, images: int, name: str = "The surrogate") -> Rung | None:
    """Return the verdict with its value and null; None for results without skill.

    Parameters
    ----------
    result
        Fidelity of a surrogate. If the nulls were trained for fewer steps, the teacher's surrogate with as many steps
        is compared with them.
    images
        Number of held-out images.
    name
        What the surrogate is called.
    """
    if "skill" not in result.by_layer or result.phases is None:
        return None
    skill, blocks = result.by_layer["skill"].at("all", -1), f"{result.phases.k} blocks"
    said = (
        f"{name} has {blocks} (phases {result.phases}). Its skill at the last layer is "
        f"{format_estimate(skill, '.2f')} (n = {images} held-out images): 1 means no error, and 0 means the error of a "
        "model that leaves the embedding unchanged."
    )
    reached = {name: one.skill.at("all", -1) for name, one in (result.nulls or {}).items() if name != TEACHER}
    if not reached:
        held = False if skill.high < SMALLEST_SKILL else None
        text = f"{said} To compare with networks without recurrence, run `raptor fidelity --nulls`."
        short = f"{blocks} are not enough" if held is False else f"whether {blocks} can replace the layers is open"
        return Rung("rewritable", held, skill, None, text, short=short, value_key="skill/all/-1")
    assert result.nulls is not None
    same_budget = result.nulls[TEACHER].skill.at("all", -1) if TEACHER in result.nulls else skill
    best = max(reached, key=lambda name: reached[name].value)
    null = reached[best]
    held = None
    # Skill is at most 1: above a control near 1 no surrogate can be ahead by the margin, and the answer cannot be yes.
    possible = null.value + MARGIN < 1
    if min(skill.low, same_budget.low) >= SMALLEST_SKILL and same_budget.low >= null.high + MARGIN:
        held = True
    elif skill.high < SMALLEST_SKILL or same_budget.high < null.low + (MARGIN if possible else 0):
        held = False
    nulls = ", ".join(f"{one.value:.2f} ({WHERE[name]})" for name, one in reached.items())
    steps = result.nulls[best].steps
    budget = (
        f"Surrogates of networks without recurrence, trained in the same way, have skill {nulls}. The answer is yes "
        f"only if the surrogate's skill is at least {MARGIN} above the largest of these."
    )
    if TEACHER in result.nulls:
        own = format_estimate(same_budget, ".2f")
        budget = (
            f"After a short training ({steps[0]} steps in each of two stages), surrogates of control networks have "
            f"skill {nulls}. A surrogate of this model, trained equally long, has skill {own}. "
            f"The answer is yes only if the skill of {same_budget.value:.2f} is at least {MARGIN} above the skill "
            "of every control network."
        )
    if not possible:
        budget += f" With a control at {null.value:.2f} it cannot be yes, because skill is at most 1."
    short = f"whether {blocks} can replace the layers is inconclusive"
    if held:
        short = f"{blocks} can replace the layers"
    elif skill.high < SMALLEST_SKILL:
        short = f"{blocks} are not enough"
    elif held is False:
        short = f"{blocks} can replace the layers, but {blocks} can also replace those of a control network"
    source = (
        ""
        if result.nulls_from is None
        else f" The short trainings were not repeated now; their results were stored by `{result.nulls_from}`."
    )
    return Rung(
        "rewritable", held, same_budget, null.value, f"{said} {budget}{source}", short=short,
        value_key=f"nulls/{TEACHER}/skill/all/-1" if TEACHER in result.nulls else "skill/all/-1",
        null_key=f"nulls/{best}/skill/all/-1",
    )  # fmt: skip


# Where nulls come from, in a sentence.
WHERE = {
    "random": "random weights with the same norms",
    "untrained": "a newly initialised ViT",
    "shuffled": "the same layers in random order",
}  # fmt: skip
