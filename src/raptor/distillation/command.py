"""`raptor distill`, `raptor plan`, `raptor export` and `raptor push`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.data.options import LoadOptions
from raptor.distillation.options import DistillOptions, ExportOptions, PushOptions
from raptor.distillation.planning.options import PlanOptions
from raptor.errors import DataError, OptionError
from raptor.phases.options import parse_k
from raptor.runtime.options import Data, EvalData, Head, Model, RunOptions, Weights
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import SURROGATE, verb

if TYPE_CHECKING:
    from raptor.core.batches import LoadedImageSet
    from raptor.distillation.export import ExportResult
    from raptor.distillation.planning.cost import PlanResult
    from raptor.distillation.push import PushResult
    from raptor.distillation.result import DistillResult
    from raptor.models.teachers.teacher import Teacher


@verb(
    SURROGATE, "distillation.result:DistillResult", name="distill",
    help={
        "out": "Directory for the surrogate, its checkpoints and its results.",
        "batch_size": "Images per training step. Default: 64.",
        "images": "Number of training images. Default: all.",
    },
)  # fmt: skip
def distill_command(
    model: Model,
    data: Data = None,
    k: Annotated[
        int | str | None,
        Option("Number of blocks, or auto to let raptor choose it. Give either --k or --phases.", parse=parse_k),
    ] = None,
    phases: Annotated[
        str | None, Option("Number of layers in each phase, such as 7-3-2. Give either --k or --phases.")
    ] = None,
    eval_data: EvalData = None,
    eval_images: Annotated[int, Option("Number of evaluation images.", min=2)] = 1000,
    cache: Annotated[
        Path | None,
        Option("Directory for caching the teacher's tokens at every layer (float16). Default: no cache."),
    ] = None,
    weights: Weights = None,
    head: Head = None,
    resume: Annotated[bool, Option("Continue from the checkpoints in --out.", flags=("--resume",))] = False,
    *,
    options: DistillOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[DistillResult] | None:
    """Train a surrogate: a few weight-tied blocks that reproduce the tokens of the model at every layer."""
    from raptor.data.load import HELD_OUT, data_for, parse_source, training_split
    from raptor.distillation import figures  # noqa: F401 (registers them)
    from raptor.distillation.activation_cache import open_states
    from raptor.distillation.distill import STAGES, distill
    from raptor.distillation.model_card import SavedFidelity
    from raptor.distillation.result import DistillResult, read_losses
    from raptor.distillation.saving import save_surrogate
    from raptor.evaluation.evaluate import fidelity
    from raptor.evaluation.fidelity import MIN_IMAGES
    from raptor.models.load import load_model
    from raptor.models.teachers.skeleton import describe
    from raptor.render.charts import draw
    from raptor.runtime.distributed import is_main_process, is_restarted
    from raptor.training.resuming import check_fresh

    if (k is None) == (phases is None):
        raise OptionError("distill needs either --k, such as --k 3, or --phases, such as --phases 7-3-2")
    given = None if phases is None else Phases.parse(phases)
    data = data_for(model, data, f"a surrogate of {model!r} is trained on images")
    options = replace(options, batch_size=run_options.batch_size, seed=run_options.seed)
    recipe, _ = options.distillation(), options.launch()  # mistakes in options are found before anything is loaded
    teacher = load_model(model, run_options.size, weights, head, run_options.device)
    if given is not None:
        given.check_depth(teacher.depth)
    source, split = parse_source(data)
    # Everything that could be missing after the training is looked at before it.
    images = _training_images(teacher, source, training_split(split, eval_data), options, loading, run_options)
    evaluated = eval_data or source
    held_out = loading.load(evaluated, teacher, None if eval_data else HELD_OUT, eval_images, run_options.batch)
    if len(held_out) < MIN_IMAGES:
        raise DataError(f"{evaluated!r} holds out {len(held_out)} image; fidelity needs at least {MIN_IMAGES}")
    if run_options.out is not None:
        describe(teacher)
    config = run_options.config(
        loading, model=model, data=data, k=k, phases=phases, recipe=options.recipe_config(),
        launch=options.launch_config(), eval_data=eval_data, eval_images=eval_images, weights=weights, head=head,
        cache=cache,
    )  # fmt: skip
    resume = resume or is_restarted()
    with Run("distill", config, run_options.out, run_options.seed, distributed=True) as run:
        check_fresh(run_options.out, resume, {**config, "seed": run_options.seed}, STAGES)
        states = None if cache is None else open_states(cache, teacher, images, run_options.announce)
        run.begin()
        found = given or _find_phases(teacher, source, split or "train", k, loading, run_options)
        surrogate = distill(
            teacher, images, found, options, run_options.out, resume,
            extra_config={"data": data, "images": len(images), "recipe": options.recipe, "loading": to_plain(loading)},
            cache=states, progress=run_options.progress,
        )  # fmt: skip
        if not is_main_process():
            return None
        if "unfinished" in surrogate.record:
            save_surrogate(surrogate, run.out, data, run.seed)
            raise KeyboardInterrupt
        save_surrogate(surrogate, run.out, data, run.seed)  # before it is measured: nothing is lost if that fails
        measured = fidelity(surrogate, held_out, run.seed, progress=run_options.progress)
        images_seen = _images_seen(options)
        seconds: float = surrogate.record["seconds"]
        result = DistillResult(
            phases=found,
            recipe=options.recipe,
            steps=[recipe.blockwise.steps, recipe.end_to_end.steps],
            train_images=len(images),
            train_seconds=seconds,
            images_per_second=images_seen / max(seconds, 1e-9),
            fidelity=replace(measured, phases=None),
            head_weight=options.head_weight or None,
            precision=None if options.precision == "no" else options.precision,
            losses=read_losses(run.out),
        )
        evaluated_on = f"{evaluated}:held-out" if eval_data is None else evaluated
        saved = SavedFidelity(evaluated_on, run.seed, measured.n, result.fidelity)
        save_surrogate(surrogate, run.out, data, run.seed, saved)
        return run.record(
            result,
            images=measured.n,
            layers=teacher.depth,
            about={"model": teacher.name, "data": data, "eval_data": evaluated_on},
            damaged=[*images.damaged, *held_out.damaged],
            figures=draw(run, "distill", result, teacher.name),
        )


def _images_seen(options: DistillOptions) -> int:
    """Return the number of images that both stages take, repetitions included."""
    recipe = options.distillation()
    return sum(stage.steps * stage.batch_size for stage in (recipe.blockwise, recipe.end_to_end))


def _training_images(
    teacher: Teacher, source: str, split: str, options: DistillOptions, loading: LoadOptions, run_options: RunOptions
) -> LoadedImageSet:
    """Load the training images; of scenes, which are generated, as many as one stage needs."""
    n = run_options.images
    if source == "scenes" and n is None:
        recipe = options.distillation()
        n = max(stage.steps * stage.batch_size for stage in (recipe.blockwise, recipe.end_to_end))
    return loading.load(source, teacher, split, n, seed=run_options.seed)


def _find_phases(
    teacher: Teacher, source: str, split: str, k: int | str | None, loading: LoadOptions, run_options: RunOptions
) -> Phases:
    """Find the phases on images of the training split."""
    from raptor.inspection.command import DEFAULT_IMAGES
    from raptor.phases.find import find_phases

    assert k is not None
    n = run_options.images or DEFAULT_IMAGES
    images = loading.load(source, teacher, split, n, run_options.batch, run_options.seed)
    return find_phases(teacher, images, k=k, seed=run_options.seed, progress=run_options.progress).phases


@verb(SURROGATE, "distillation.planning.cost:PlanResult", name="plan", help={"images": None})
def plan_command(
    model: Model, weights: Weights = None, *, options: PlanOptions, run_options: RunOptions
) -> Record[PlanResult]:
    """Estimate the time, memory and disk space of a distillation, from a few timed training steps."""
    from raptor.distillation.planning.cost import plan
    from raptor.models.load import load_model

    options = replace(options, batch_size=run_options.batch)
    config = run_options.config(options, model=model, weights=weights)
    with Run("plan", config, run_options.out, run_options.seed) as run:
        teacher = load_model(model, run_options.size, weights, device=run_options.device)
        return run.record(plan(teacher, options), images=0, layers=teacher.depth, about={"model": teacher.name})


@verb(
    SURROGATE, "distillation.export:ExportResult", name="export",
    help={
        "out": "Directory for the exported model (required).",
        "seed": None, "device": None, "batch_size": None, "images": None,
    },
)  # fmt: skip
def export_command(
    surrogate: Annotated[
        str,
        Option(
            "Surrogate or other model: a directory, scenes, scenes:k2, scenes:k3 or a Hugging Face id.", positional=True
        ),
    ],
    weights: Weights = None,
    *,
    options: ExportOptions,
    run_options: RunOptions,
) -> Record[ExportResult]:
    """Convert a surrogate to ONNX or torch.export, and check that its output is unchanged."""
    from raptor.distillation.export import check_format, export
    from raptor.models.load import load_model

    check_format(options.format)
    if run_options.out is None:
        raise OptionError("export needs --out DIR")
    config = run_options.config(options, model=surrogate, weights=weights)
    with Run("export", config, run_options.out, run_options.seed) as run:
        teacher = load_model(surrogate, run_options.size, weights, device="cpu")
        run.begin()
        result = export(teacher, run_options.out, options)
        return run.record(result, images=0, layers=teacher.depth, about={"model": surrogate})


@verb(
    SURROGATE, "distillation.push:PushResult", name="push",
    help=dict.fromkeys(("out", "seed", "device", "batch_size", "images", "image_size")),
)  # fmt: skip
def push_command(
    run: Annotated[str, Option("Directory that raptor distill wrote.", positional=True)],
    id: Annotated[str, Option("Hugging Face id to upload to, OWNER/NAME.", positional=True)],
    *,
    options: PushOptions,
    run_options: RunOptions,
) -> Record[PushResult]:
    """Publish a surrogate on the Hugging Face hub, after showing what is uploaded."""
    from raptor.distillation.push import push

    config = run_options.config(options, run=run, id=id)
    with Run("push", config, run_options.out, run_options.seed) as directory:
        return directory.record(push(run, id, options, run_options.announce), images=0, layers=0, about={"model": id})
