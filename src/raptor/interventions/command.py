"""`raptor intervene`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.data.options import LoadOptions
from raptor.interventions.options import InterveneOptions
from raptor.runtime.options import Data, Head, Model, RunOptions, Weights
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import MEASURE, verb

if TYPE_CHECKING:
    from raptor.interventions.intervene import InterveneResult

DEFAULT_IMAGES = 500


@verb(
    MEASURE, "interventions.intervene:InterveneResult", name="intervene",
    help={"images": f"Number of images to read from --data. Default: {DEFAULT_IMAGES}."},
)  # fmt: skip
def intervene_command(
    model: Model,
    phases: Annotated[str, Option("Number of layers in each phase, such as 7-3-2.")],
    data: Data = None,
    weights: Weights = None,
    head: Head = None,
    *,
    options: InterveneOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[InterveneResult]:
    """Replace, swap, skip or repeat layers of a model, and measure how its output changes."""
    from raptor.core.phases import as_phases
    from raptor.data.load import data_for
    from raptor.interventions import figures  # noqa: F401 (registers them)
    from raptor.interventions.intervene import intervene
    from raptor.models.load import load_model
    from raptor.render.charts import draw

    data = data_for(model, data, "interventions are measured on images")
    config = run_options.config(options, loading, model=model, data=data, phases=phases, weights=weights, head=head)
    given = as_phases(phases)
    with Run("intervene", config, run_options.out, run_options.seed) as run:
        teacher = load_model(model, run_options.size, weights, head, run_options.device)
        given.check_depth(teacher.depth)
        n = run_options.images or DEFAULT_IMAGES
        images = loading.load(data, teacher, None, n, run_options.batch, run_options.seed)
        result = intervene(teacher, images, given, options, run_options.seed, progress=run_options.progress)
        return run.record(
            result,
            images=result.untouched.score.n,
            layers=teacher.depth,
            about={"model": model, "data": data},
            damaged=images.damaged,
            figures=draw(run, "intervene", result, teacher.name),
        )
