"""The model card of a surrogate: what it is, how close it is to its teacher, what it costs, where it comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from raptor.core.deserialize import from_plain
from raptor.core.serialize import Key
from raptor.evaluation.evaluate import FidelityResult
from raptor.models.pretrained import RaptorConfig
from raptor.models.remote.files import INSTALL, is_self_contained
from raptor.models.remote.metadata import UNKNOWN, Score, front_matter
from raptor.render.tables import Cell, Number, Table


@dataclass(frozen=True)
class SavedFidelity:
    """What a saved surrogate keeps of its fidelity, under `fidelity` of its provenance.

    Parameters
    ----------
    data, seed, images
        Held-out images that it was measured on, the seed of the bootstrap, and the number of images.
    result
        The measures.
    """

    data: str
    seed: int
    images: int
    result: Annotated[FidelityResult, Key(inline=True)]


def model_card(config: RaptorConfig, place: str = "DIRECTORY", licence: str | None = None) -> str:
    """Return the README.md of a saved surrogate.

    Parameters
    ----------
    config
        The configuration that was saved with it.
    place
        Where it is loaded from: its directory or its hub id.
    licence
        Identifier of its licence; None for that of the teacher, whose embedding and norm it contains.
    """
    provenance = config.provenance
    teacher, training = provenance.get("teacher", {}), provenance.get("training", {})
    k = config.phases.count("-") + 1
    front = _front_matter(config, licence or str(provenance.get("license", UNKNOWN)))
    lines = [
        f"# Raptor {config.phases} of {teacher.get('name', 'a ViT')}",
        "",
        f"A surrogate of a Vision Transformer: {k} block{'s' if k > 1 else ''} of kind `{config.kind}`, "
        f"{_use(config)}, in place of {config.num_hidden_layers} layers. "
        "The embedding, the final norm and the classifier are the teacher's own.",
        "",
        *_unfinished(training.get("unfinished")),
        *_usage(config, place),
        "",
        *_fidelity(provenance.get("fidelity")),
        "",
        "## Provenance",
        "",
        f"- teacher: `{teacher.get('name')}`, sha256 of its weights `{teacher.get('sha256')}`",
        *(f"- {name}: {_inline(value)}" for name, value in provenance.items() if name in ("data", "seed", "versions")),
        *(f"- {name}: {_inline(value)}" for name, value in training.items() if name not in ("data", "phases")),
        "",
        "Method: *Block-Recurrent Dynamics in Vision Transformers*, arXiv 2512.19941.",
    ]
    return front + "\n".join(lines) + "\n"


def _front_matter(config: RaptorConfig, licence: str) -> str:
    provenance = config.provenance
    scores, evaluated = [], ""
    if provenance.get("fidelity"):
        measured: SavedFidelity = from_plain(SavedFidelity, provenance["fidelity"], "fidelity")
        evaluated, result = measured.data, measured.result
        by_layer = [float(value) for value in result.by_layer["r2"].mean["all"]]
        scores = [
            Score("r2", "R2 of the states at the last layer", by_layer[-1]),
            Score("r2", "R2 of the states, mean over layers", sum(by_layer) / len(by_layer)),
        ]
        if result.surrogate_top1 is not None:
            top1 = float(result.surrogate_top1.value)
            scores.append(Score("accuracy", "top-1 with the teacher's classifier", top1, "image-classification"))
    teacher = str(provenance.get("teacher", {}).get("name", ""))
    library = "transformers" if is_self_contained(config.teacher) else "raptor-vit"
    name = f"Raptor {config.phases} of {teacher or 'a ViT'}"
    finite = [score for score in scores if math.isfinite(score.value)]  # the hub reads JSON, which has no NaN
    return front_matter(name, library, licence, teacher, [str(provenance.get("data", ""))], evaluated, finite)


def _usage(config: RaptorConfig, place: str) -> list[str]:
    """Return how to load the model: with transformers alone where that is possible, and with raptor."""
    states = "states = model(pixels, output_hidden_states=True).hidden_states  # layers 0..L, before the final norm"
    with_raptor = ["from raptor import RaptorModel", "", f'model = RaptorModel.from_pretrained("{place}")', states]
    if not is_self_contained(config.teacher):
        return [f"Loading it needs raptor (`{INSTALL}`).", "", "```python", *with_raptor, "```"]
    return [
        "With transformers alone; the code that runs is `modeling_raptor.py` of this directory:", "", "```python",
        "from transformers import AutoImageProcessor, AutoModel", "",
        f'model = AutoModel.from_pretrained("{place}", trust_remote_code=True)',
        f'pixels = AutoImageProcessor.from_pretrained("{place}")(image, return_tensors="pt")["pixel_values"]',
        states, "```", "", f"With raptor (`{INSTALL}`), without code of this directory:", "", "```python",
        *with_raptor, "```",
    ]  # fmt: skip


def _unfinished(at: dict[str, Any] | None) -> list[str]:
    if at is None:
        return []
    return [f"**Unfinished**: its training was interrupted at step {at['step']} of {at['steps']} of {at['stage']}.", ""]


def _use(config: RaptorConfig) -> str:
    if config.block.get("untied"):
        return "each applied once (a control without recurrence)"
    return "weight-tied and applied repeatedly, to reproduce the whole trajectory of activations"


def _fidelity(saved: dict[str, Any] | None) -> Iterator[str]:
    if not saved:
        yield "Fidelity was not measured when it was saved; `raptor fidelity DIRECTORY --data DATA` measures it."
        return
    measured: SavedFidelity = from_plain(SavedFidelity, saved, "fidelity")
    result = measured.result
    yield "## Fidelity and cost"
    yield ""
    yield f"On {measured.images} held-out images of {measured.data}, seed {measured.seed}:"
    yield ""
    yield _by_layer(result).markdown()
    yield ""
    if result.recovered is not None and result.teacher_top1 is not None:
        yield (
            f"- {Number(result.recovered, '.1%')} of the teacher's accuracy of {result.teacher_top1.value:.1%}, with "
            "the teacher's own classifier"
        )
    for name, cost in (("parameters", result.parameters), ("flops", result.flops)):
        yield f"- {name}: {cost.surrogate:,}, {cost.ratio:.3f} of the teacher's {cost.teacher:,}"


def _by_layer(result: FidelityResult) -> Table:
    """Return R2 of all tokens, one column per layer."""

    def row(title: str, name: str) -> tuple[Cell, ...]:
        return (title, *(Number(value) for value in result.by_layer[name].mean["all"]))

    rows = (row("R2", "r2"), row("R2 of the identity baseline", "r2_identity"))
    return Table("", ("layer", *map(str, range(1, len(rows[0])))), rows)


def _inline(value: Any) -> str:
    return f"`{json.dumps(value)}`" if isinstance(value, (dict, list)) else f"`{value}`"
