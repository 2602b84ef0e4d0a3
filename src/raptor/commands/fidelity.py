"""What `raptor fidelity` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from raptor.benchmarks.ratio import compare
from raptor.data import HELD_OUT, data_for, load_images, parse_source
from raptor.device import synchronise
from raptor.errors import OptionError
from raptor.evaluation import Evaluation, fidelity
from raptor.fidelity_result import describe_fidelity
from raptor.flow import last_state
from raptor.models.pretrained import RaptorModel, with_teacher
from raptor.models.surrogate import Surrogate
from raptor.models.teachers import load_teacher
from raptor.options import Common
from raptor.progress import Tracked
from raptor.run import Run

IMAGES = 5000  # held-out images unless told otherwise


def fidelity_of(
    source: str, data: str | None, teacher: str | None, weights: Path | None, common: Common, loading: dict[str, Any]
) -> dict[str, Any]:
    """Measure a saved surrogate against its teacher on held-out images."""
    config = common.config(surrogate=source, data=data, teacher=teacher, weights=weights, **loading)
    with Run("fidelity", config, common.out, common.seed) as run:
        alone = load_teacher(source, common.size, device=common.device)
        if not isinstance(alone.module, RaptorModel):
            raise OptionError(f"{source!r} is no surrogate; give a directory that 'raptor distill --out' wrote")
        name = teacher or alone.module.teacher_name
        data = data_for(name, data, "fidelity is measured on images")
        head = alone.module.surrogate.teacher.linear
        surrogate = with_teacher(alone.module, load_teacher(name, alone.image_size, weights, head, common.device))
        name_of_data, split = parse_source(data)
        # Never what it was trained on, unless a split is named.
        pictures = load_images(
            name_of_data, surrogate.teacher, split or HELD_OUT, common.images or IMAGES, batch_size=common.batch,
            seed=common.seed, **loading,
        )  # fmt: skip
        measured = fidelity(surrogate, Tracked(pictures, "fidelity", common.progress), common.seed)
        body = {
            "surrogate": source,
            "teacher": name,
            "data": data,
            "phases": str(surrogate.phases),
            **describe_fidelity(measured),
            **runtime(surrogate, common.batch),
            "damaged": pictures.damaged,
            "figures": draw_fidelity(run, measured, surrogate),
        }
        return run.finish(body, images=measured.by_layer.n, layers=surrogate.depth)


def draw_fidelity(run: Run, measured: Evaluation, surrogate: Surrogate) -> list[str]:
    """Draw R2 by layer into the run's directory, where there is one."""
    if run.out is None:
        return []
    from raptor.reporting import drawing, fidelity_figures

    title = f"Raptor {surrogate.phases} of {surrogate.teacher.name}"
    return [drawing.save(fidelity_figures.by_group(measured.by_layer, surrogate.phases, title), run, "fidelity")]


@torch.no_grad()
def runtime(surrogate: Surrogate, batch_size: int, rounds: int = 5) -> dict[str, float]:
    """Time one pass of the surrogate and of its teacher in turn; return the ratio of medians."""
    pixels = torch.zeros(batch_size, 3, *surrogate.teacher.image_size, device=surrogate.device)

    def run(flow: Any) -> None:
        flow.readout(last_state(flow, flow.embed(pixels)))
        synchronise(pixels.device)

    ratio = compare("", lambda: run(surrogate), lambda: run(surrogate.teacher), limit=1.0, rounds=rounds)
    return {"runtime_ratio": ratio.ratio, "runtime_rounds": rounds}
