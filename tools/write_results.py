"""Write docs/results.md from the result files in docs/results. No number on that page is typed by hand.

    python tools/keep_results.py runs/studies docs/results     # first: from the stored jobs of `raptor study all`
    python tools/write_results.py

What has no result is "not measured yet" on the page, so that the page of an interrupted run is true as well.
`tests/docs/test_results_page.py` checks that the page matches the files.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from study_sections import markdown, shown, study_pages

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "results"

HEAD = """# Results of the studies

This page has the results of the [small-scale studies](studies.md) on CIFAR-100, one question after another: what the
paper says, what was found here, and what remains open. After it come the power of the design, and a larger ViT with its
Raptors.

`make results` generates this page from the stored jobs of `raptor study all`; `docs/results` has results, figures and
jobs as the commands wrote them, without the paths of the images. Values in tables are means over teachers with 95%
t-intervals; n of a difference counts the teachers of both conditions. *Excess* is the skill of a student less that of a
student of a random network with the same norms, and *error ratio* its error divided by that student's: a network with a
higher excess is easier to reproduce with three tied blocks than a random one, after a short training. That is less than
recurrence ([studies](studies.md) says what the outcome cannot tell, and defines conditions and verdicts). Fidelity and
accuracy are measured on held-out images, similarity and phases on training images. *Recovered* says nothing where the
teacher's top-1 is near chance. These are small models, without a GPU. The paper's numbers are for ViT-B, so the model
size may explain a difference.
"""


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _result(name: str) -> dict[str, Any] | None:
    file = KEPT / name / "result.json"
    return json.loads(file.read_text()) if file.exists() else None


def _command(name: str) -> str:
    command = "raptor " + " ".join(json.loads((KEPT / name / "config.json").read_text())["command"])
    return " \\\n    ".join(textwrap.wrap(command, 116, break_long_words=False, break_on_hyphens=False))


def _surrogate(name: str) -> list[str]:
    """Return the row of one Raptor of the CIFAR-100 teacher."""
    found = _result(name)
    assert found is not None
    own, (first, second) = found["fidelity"], found["steps"]
    low, high = own["recovered_ci"]
    r2 = own["r2"]["all"]
    return [
        str(found["phases"].count("-") + 1), found["phases"], f"{first} + {second}", _percent(own["surrogate_top1"]),
        f"{_percent(own['recovered'])} [{100 * low:.1f}, {100 * high:.1f}]", _percent(own["recovered_above_chance"]),
        f"{r2[0]:.3f}, {r2[-1]:.3f}", f"{found['train_seconds']:,.0f}",
    ]  # fmt: skip


def _teacher() -> str:
    """Return the section on the CIFAR-100 teacher and its Raptors."""
    teacher = _result("cifar-teacher")
    assert teacher is not None
    low, high = teacher["top1_ci"]
    depth = _result("cifar-phases")
    assert depth is not None
    left = {name: depth["structure"][name] for name in ("blocks", "paced_drift")}
    made = [name for name in ("cifar-k2", "cifar-k2-long", "cifar-k3", "cifar-k3-long") if _result(name) is not None]
    head = ("k", "phases", "steps of 64 images", "top-1", "recovered", "above chance", "R2 at layers 1, 12", "seconds")
    return "\n".join(
        (
            "## A CIFAR-100 ViT and its Raptors\n",
            "**The paper.** Raptors of DINOv2-B recover 94.4% (k = 2) and 97.0% (k = 3) of its top-1 on ImageNet, "
            "with fitted probes. Its CIFAR-100 ViT has 90.7%, reported as trained from random weights.\n",
            f"**raptor.** A 12-layer ViT with {teacher['parameters']:,} parameters and 17 tokens, trained from random "
            f"weights for {teacher['epochs']:.1f} epochs: top-1 {_percent(teacher['top1'])} [{100 * low:.1f}, "
            f"{100 * high:.1f}], n = {teacher['images']:,}, seed {teacher['seed']}, {teacher['train_seconds']:,.0f} s "
            f"of training on one core, shared with other work. raptor classifies its structure as "
            f"{shown(depth['verdict'])}: on held-out images, four blocks leave an error of "
            f"{left['blocks']['4']['held_out']:.3f} in the similarity and a non-uniform drift leaves "
            f"{left['paced_drift']['held_out']:.3f} (n = {depth['images']:,}). The useful k is {depth['useful_k']} (by "
            "an earlier rule, which chose the largest k that is worth adding instead of the elbow), "
            f"the suggested k is {depth['suggested_k']}. The table uses the teacher's classifier unchanged, "
            "intervals over the same images, and one seed:\n",
            markdown(list(head), [_surrogate(name) for name in made]),
            "```\n" + "\n".join(map(_command, ("cifar-teacher", "cifar-phases", *made))) + "\n```\n",
        )
    )


def page() -> str:
    """Return the page for the current result files."""
    return "\n".join((HEAD, study_pages(KEPT), _teacher()))


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page())
