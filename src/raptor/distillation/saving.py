"""Saving a surrogate with its model card."""

from __future__ import annotations

from pathlib import Path

from raptor.core.serialize import to_plain
from raptor.distillation.model_card import SavedFidelity, model_card
from raptor.models.remote.metadata import licence_of
from raptor.models.standalone import standalone
from raptor.models.surrogate import Surrogate
from raptor.runtime.files import replacing
from raptor.runtime.optional_imports import silence
from raptor.runtime.rundir import versions


def save_surrogate(
    surrogate: Surrogate, out: Path | None, data: str, seed: int, fidelity: SavedFidelity | None = None
) -> None:
    """Write a surrogate that needs no teacher, with its model card, to `model` in a run directory, atomically.

    Parameters
    ----------
    surrogate
        What `distill` returned.
    out
        Run directory; None writes nothing.
    data, seed
        Training images and seed, for its provenance.
    fidelity
        Measures on held-out images, where there are any.
    """
    if out is None:
        return
    licence = licence_of(surrogate.teacher.name)
    provenance = {
        "data": data,
        "seed": seed,
        "license": licence,
        **({} if fidelity is None else {"fidelity": fidelity}),
    }
    recorded = to_plain({**provenance, "versions": versions()})
    model = standalone(surrogate, surrogate.record["kind"], surrogate.record["block"], recorded)
    with silence(), replacing(out / "model") as folder:
        model.save_pretrained(folder)
        (folder / "README.md").write_text(model_card(model.config), encoding="utf-8")
