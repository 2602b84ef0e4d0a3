"""`raptor inspect`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from raptor.data.options import LoadOptions
from raptor.runtime.options import Data, Head, Model, RunOptions, Weights
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import MODEL, verb

if TYPE_CHECKING:
    from raptor.inspection.inspect import InspectResult

DEFAULT_IMAGES = 1000


@verb(
    MODEL, "inspection.inspect:InspectResult", name="inspect",
    help={"images": f"Number of images to read from --data. Default: {DEFAULT_IMAGES}."},
)  # fmt: skip
def inspect_command(
    model: Model,
    data: Data = None,
    weights: Weights = None,
    head: Head = None,
    *,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[InspectResult]:
    """Show a model's layers, tokens, cost and preprocessing. With --data, also show token norms and outlier tokens."""
    from raptor.data.load import default_data
    from raptor.dynamics.geometry import layer_norms
    from raptor.inspection import figures  # noqa: F401 (registers them)
    from raptor.inspection.inspect import inspect
    from raptor.inspection.outliers import find_outliers
    from raptor.models.load import load_model
    from raptor.render.charts import draw
    from raptor.runtime.tracked import tracked

    config = run_options.config(loading, model=model, data=data, weights=weights, head=head)
    with Run("inspect", config, run_options.out, run_options.seed) as run:
        teacher = load_model(model, run_options.size, weights, head, run_options.device)
        source = default_data(model) if data is None else data
        result = inspect(teacher)
        if source is None:
            return run.record(result, images=0, layers=teacher.depth)
        images = loading.load(
            source, teacher, None, run_options.images or DEFAULT_IMAGES, run_options.batch, run_options.seed
        )
        run.begin()
        norms = layer_norms(teacher, tracked(images, "norms", run_options.progress), seed=run.seed)
        classes = None if images.classes is None else len(images.classes)
        outliers = find_outliers(teacher, images) if len(images) > 1 else None
        result = replace(result, norm=norms, classes=classes, outliers=outliers)
        return run.record(
            result,
            images=norms.n,
            layers=teacher.depth,
            about={"data": source},
            damaged=images.damaged,
            figures=draw(run, "inspect", result, teacher.name) if run.out is not None else None,
        )
