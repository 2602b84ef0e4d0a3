"""The model card of a surrogate: what it is, how good, what it costs, where it comes from."""

from __future__ import annotations

import json
from typing import Any

from raptor.formatting import number
from raptor.models.pretrained import RaptorConfig


def model_card(config: RaptorConfig) -> str:
    """Write the README.md of a saved surrogate from its own configuration."""
    provenance = config.provenance
    teacher, training = provenance.get("teacher", {}), provenance.get("training", {})
    k = config.phases.count("-") + 1
    front = "---\nlibrary_name: raptor-vit\ntags:\n- vision\n- block-recurrent\n- image-feature-extraction\n---\n"
    lines = [
        f"# Raptor {config.phases} of {teacher.get('name', 'a ViT')}",
        "",
        f"A surrogate of a Vision Transformer: {k} block{'s' if k > 1 else ''} of kind `{config.kind}`, "
        f"{_use(config)}, in place of {config.num_hidden_layers} layers. "
        "The embedding, the final norm and the classifier are the teacher's own.",
        "",
        "```python",
        "from raptor import RaptorModel",
        "",
        'model = RaptorModel.from_pretrained("DIRECTORY")',
        "states = model(pixels, output_hidden_states=True).hidden_states  # layers 0..L, before the final norm",
        "```",
        "",
        *_fidelity(provenance.get("fidelity")),
        "## Provenance",
        "",
        f"- teacher: `{teacher.get('name')}`, sha256 of its weights `{teacher.get('sha256')}`",
        *(f"- {name}: {_inline(value)}" for name, value in provenance.items() if name in ("data", "seed", "versions")),
        *(f"- {name}: {_inline(value)}" for name, value in training.items() if name not in ("data", "phases")),
        "",
        "Method: *Block-Recurrent Dynamics in Vision Transformers*, arXiv 2512.19941.",
    ]
    return front + "\n".join(lines) + "\n"


def _use(config: RaptorConfig) -> str:
    if config.block.get("untied"):
        return "each applied once (a control without recurrence)"
    return "weight-tied and applied again and again, to reproduce the whole trajectory of activations"


def _fidelity(measured: dict[str, Any] | None) -> list[str]:
    if not measured:
        return ["No fidelity was measured when it was saved; `raptor fidelity DIRECTORY --data DATA` does.", ""]
    r2 = measured["r2"]["all"]
    lines = [
        "## Fidelity and cost",
        "",
        f"On {measured['images']} held-out images of {measured['data']}, seed {measured['seed']}:",
        "",
        "| layer | " + " | ".join(str(layer) for layer in range(1, len(r2) + 1)) + " |",
        "|" + "---|" * (len(r2) + 1),
        "| R2 | " + " | ".join(number(value) for value in r2) + " |",
        "| R2 of standing still | " + " | ".join(number(value) for value in measured["r2_identity"]["all"]) + " |",
        "",
    ]
    if measured["recovered"] is not None:
        low, high = (number(end, ".1%") for end in measured["recovered_ci"])
        lines.append(
            f"- {measured['recovered']:.1%} [{low}, {high}] of the teacher's accuracy of "
            f"{measured['teacher_top1']:.1%}, with the teacher's own classifier"
        )
    for name in ("parameters", "flops"):
        cost = measured[name]
        lines.append(f"- {name}: {cost['surrogate']:,}, {cost['ratio']:.3f} of the teacher's {cost['teacher']:,}")
    return [*lines, ""]


def _inline(value: Any) -> str:
    return f"`{json.dumps(value)}`" if isinstance(value, (dict, list)) else f"`{value}`"
