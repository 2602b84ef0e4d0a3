"""`raptor fidelity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.data.options import LoadOptions
from raptor.errors import OptionError, RaptorError
from raptor.evaluation.options import FidelityOptions
from raptor.runtime.options import Data, RunOptions, Weights
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import MEASURE, verb

if TYPE_CHECKING:
    from raptor.core.batches import LoadedImageSet
    from raptor.evaluation.evaluate import FidelityResult
    from raptor.models.surrogate import Surrogate

DEFAULT_IMAGES = 5000
DEFAULTS = FidelityOptions()


@verb(
    MEASURE, "evaluation.evaluate:FidelityResult", name="fidelity",
    help={
        "images": f"Number of images to read from --data. Default: {DEFAULT_IMAGES}.",
        "weights": "File with the teacher's weights (.safetensors, or .pth with tensors only).",
    },
)  # fmt: skip
def fidelity_command(
    surrogate: Annotated[
        str, Option("A directory that raptor distill wrote, scenes:k2 or scenes:k3.", positional=True)
    ],
    data: Data = None,
    teacher: Annotated[
        str | None,
        Option("Model to compare with. Default: the teacher that the surrogate was distilled from."),
    ] = None,
    weights: Weights = None,
    *,
    options: FidelityOptions = DEFAULTS,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[FidelityResult]:
    """Compare a surrogate with its teacher: error at every layer, accuracy, parameters and speed."""
    from raptor.data.load import HELD_OUT, data_for, parse_source
    from raptor.evaluation import figures  # noqa: F401 (registers them)
    from raptor.evaluation.evaluate import fidelity
    from raptor.evaluation.shipped import with_shipped_nulls
    from raptor.models.load import load_model
    from raptor.models.pretrained import RaptorModel, with_teacher
    from raptor.render.charts import draw

    config = run_options.config(options, loading, surrogate=surrogate, data=data, teacher=teacher, weights=weights)
    with Run("fidelity", config, run_options.out, run_options.seed) as run:
        own_code = teacher if teacher is not None and teacher.startswith("python:") else None
        alone = load_model(surrogate, run_options.size, device=run_options.device, teacher=own_code)
        if not isinstance(alone.module, RaptorModel):
            raise OptionError(
                f"{surrogate!r} is not a surrogate: give a directory that 'raptor distill "
                f"--out' wrote, scenes:k2 or scenes:k3"
            )
        name = teacher or alone.module.teacher_name
        data = data_for(name, data, "fidelity is measured on images")
        head = alone.module.surrogate.teacher.linear
        both = with_teacher(alone.module, load_model(name, alone.image_size, weights, head, run_options.device))
        source, split = parse_source(data)
        # Never what it was trained on, unless a split is named.
        images = loading.load(
            source, both.teacher, split or HELD_OUT, run_options.images or DEFAULT_IMAGES, run_options.batch,
            run_options.seed,
        )  # fmt: skip
        training = _training_images(both, source, options, loading) if options.nulls else None
        result = fidelity(
            both, images, run_options.seed, run_options.batch, run_options.progress, options, training
        )  # fmt: skip
        result = with_shipped_nulls(result, surrogate)
        return run.record(
            result,
            images=result.n,
            layers=both.depth,
            about={"surrogate": surrogate, "teacher": name, "data": data, **_trained(both)},
            damaged=images.damaged,
            figures=draw(run, "fidelity", result, both.teacher.name),
        )


def _trained(surrogate: Surrogate) -> dict[str, list[int]]:
    """Return the steps of both stages of the training that a surrogate records; nothing where it has no such record."""
    from raptor.evaluation.nulls import recorded_recipe

    try:
        recipe = recorded_recipe(surrogate.record)
        return {"steps": [recipe.blockwise.steps, recipe.end_to_end.steps]}
    except (RaptorError, KeyError, TypeError, ValueError):  # surrogates may come from anybody
        return {}


def _training_images(
    surrogate: Surrogate, source: str, options: FidelityOptions, loading: LoadOptions
) -> LoadedImageSet:
    """Load as many images of the training split as the surrogate was trained on; of scenes, what a stage needs."""
    from raptor.evaluation.nulls import recorded_recipe

    recipe = recorded_recipe(surrogate.record)
    if options.null_steps is not None:
        recipe = recipe.with_steps(options.null_steps)
    training = surrogate.record.get("training", surrogate.record)
    n = training.get("images")
    if source == "scenes":
        n = max(stage.steps * stage.batch_size for stage in (recipe.blockwise, recipe.end_to_end))
    n = n if isinstance(n, int) and n > 0 else None
    return loading.load(source, surrogate.teacher, "train", n, recipe.blockwise.batch_size, recipe.blockwise.seed)
