"""`raptor dynamics`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.data.options import LoadOptions
from raptor.dynamics.options import DynamicsOptions
from raptor.errors import OptionError
from raptor.runtime.options import Data, Head, Model, RunOptions, Weights
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import MEASURE, verb

if TYPE_CHECKING:
    from raptor.dynamics.result import DynamicsResult

DEFAULT_IMAGES = 1000


def _as_typed(text: str, name: str) -> str:
    return text


@verb(
    MEASURE, "dynamics.result:DynamicsResult", name="dynamics",
    help={"images": f"Number of images to read from --data. Default: {DEFAULT_IMAGES}."},
)  # fmt: skip
def dynamics_command(
    model: Model,
    data: Data = None,
    phases: Annotated[
        str | int,
        Option(
            "Number of layers in each phase, such as 7-3-2. auto uses the phases of MODEL if it is a surrogate, and "
            "finds phases otherwise.",
            parse=_as_typed,
        ),
    ] = "auto",
    against: Annotated[list[str] | None, Option("Model to compare with, such as a surrogate (repeatable).")] = None,
    weights: Weights = None,
    head: Head = None,
    *,
    options: DynamicsOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[DynamicsResult]:
    """Analyse depth as a dynamical system: how tokens converge, how fast they change, and how perturbations spread."""
    from raptor.core.phases import Phases
    from raptor.data.load import data_for
    from raptor.dynamics import figures  # noqa: F401 (registers them)
    from raptor.dynamics.compare import compare_dynamics
    from raptor.dynamics.references.shipped import with_shipped_exponents
    from raptor.models.load import load_model
    from raptor.phases.options import AUTO
    from raptor.render.charts import draw
    from raptor.runtime.distributed import process_group

    data, against = data_for(model, data, "raptor dynamics needs images"), against or []
    config = run_options.config(
        options, loading, model=model, data=data, phases=phases, against=against, weights=weights, head=head
    )
    with Run("dynamics", config, run_options.out, run_options.seed, distributed=True) as run:
        given = phases if isinstance(phases, int) or phases == AUTO else Phases.parse(phases)
        teacher = load_model(model, run_options.size, weights, head, run_options.device)
        if isinstance(given, Phases):
            given.check_depth(teacher.depth)
        if len({model, *against}) <= len(against):
            raise OptionError(f"--against names a model twice, or the model itself: {', '.join([model, *against])}")
        others = {name: load_model(name, teacher.image_size, device=run_options.device) for name in against}
        images = loading.load(
            data, teacher, None, run_options.images or DEFAULT_IMAGES, run_options.batch, run_options.seed,
            process_group(),
        )  # fmt: skip
        result = compare_dynamics(
            {model: teacher, **others},
            images,
            given,
            replace(options, seed=run_options.seed),
            progress=run_options.progress,
        )
        result = with_shipped_exponents(result, model)
        return run.record(
            result,
            images=result.n,
            layers=teacher.depth,
            about={"model": model, "data": data},
            damaged=images.damaged,
            figures=draw(run, "dynamics", result, model),
        )
