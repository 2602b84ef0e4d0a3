"""`raptor phases`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.data.options import LoadOptions
from raptor.errors import MatrixError, OptionError
from raptor.inspection.command import DEFAULT_IMAGES
from raptor.phases.options import PhasesOptions
from raptor.runtime.options import Data, RunOptions, Weights
from raptor.runtime.rundir import Damage, Record, Run
from raptor.runtime.verbs import MODEL, verb

if TYPE_CHECKING:
    from raptor.phases.comparison import AnyPhasesResult, ModelPhases

Models = Annotated[
    list[str] | None,
    Option(
        "One model, or several to compare: scenes (the bundled ViT), scenes:k2 or scenes:k3 (bundled surrogates of "
        "it), a Hugging Face id, a model directory, timm:NAME, dinov2:ARCH with --weights, or "
        "python:package.module:function (your own model).",
        positional=True,
        metavar="MODEL",
    ),
]
MatrixFile = Annotated[
    Path | None, Option("CSV file with a layer-by-layer similarity matrix, to use in place of a model.")
]
Distance = Annotated[bool, Option("The --matrix file holds distances (1 - similarity).", flags=("--distance",))]


@verb(
    MODEL, "phases.comparison:AnyPhasesResult", name="phases",
    help={"images": f"Number of images to read from --data. Default: {DEFAULT_IMAGES}."},
)  # fmt: skip
def phases_command(
    models: Models = None,
    data: Data = None,
    matrix: MatrixFile = None,
    distance: Distance = False,
    weights: Weights = None,
    *,
    options: PhasesOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[AnyPhasesResult]:
    """Group consecutive layers into phases; report their number, their boundaries and how certain these are."""
    if (matrix is None) == (not models):
        raise OptionError("phases needs either a MODEL or --matrix FILE")
    if matrix is None and distance:
        raise OptionError("--distance needs --matrix FILE")
    if matrix is None:
        return _of_models(models or [], data, weights, options, loading, run_options)
    given = {"--data": data, "--weights": weights, "--images": run_options.images,
             "--image-column": loading.image_column, "--label-column": loading.label_column,
             "--group": None if options.group == PhasesOptions.group else options.group,
             "--outliers": None if options.outliers == PhasesOptions.outliers else options.outliers}  # fmt: skip
    if names := [name for name, value in given.items() if value is not None]:
        raise OptionError(f"a matrix has neither images nor token groups: leave out {', '.join(names)}")
    return _of_matrix(matrix, distance, options, run_options)


def _of_models(
    models: list[str],
    data: str | None,
    weights: Path | None,
    options: PhasesOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[AnyPhasesResult]:
    """Find the phases of each model, with images preprocessed for it."""
    from raptor.data.load import data_for
    from raptor.phases import figures  # noqa: F401 (registers them)
    from raptor.phases.comparison import PhasesComparison
    from raptor.render.charts import draw

    config = run_options.config(options, loading, models=models, data=data, weights=weights)
    with Run("phases", config, run_options.out, run_options.seed, distributed=True) as run:
        sources = [data_for(model, data, f"finding the phases of {model!r} needs images") for model in models]
        done: list[ModelPhases] = []
        for number, (model, source) in enumerate(zip(models, sources, strict=True), 1):
            prefix = f"{number}-" if len(models) > 1 else ""
            done.append(_of_model(run, model, source, weights, options, loading, run_options, prefix))
        images, layers = max(one.images for one in done), max(one.layers for one in done)
        if len(done) == 1:
            (one,) = done
            return run.record(
                one.result,
                images=images,
                layers=layers,
                about={"model": one.model, "data": one.data},
                damaged=[vars(damage) for damage in one.damaged],
                figures=one.figures,
            )
        result = PhasesComparison(done)
        return run.record(result, images=images, layers=layers, figures=draw(run, "phases", result, ""))


def _of_model(
    run: Run,
    model: str,
    source: str,
    weights: Path | None,
    options: PhasesOptions,
    loading: LoadOptions,
    run_options: RunOptions,
    prefix: str,
) -> ModelPhases:
    from raptor.models.load import load_model
    from raptor.phases.comparison import ModelPhases
    from raptor.phases.find import find_phases
    from raptor.render.charts import draw
    from raptor.runtime.distributed import process_group

    teacher = load_model(model, run_options.size, weights, None, run_options.device)
    images = loading.load(
        source, teacher, None, run_options.images or DEFAULT_IMAGES, run_options.batch, run_options.seed,
        process_group(),
    )  # fmt: skip
    result = find_phases(teacher, images, options=options, seed=run.seed, progress=run_options.progress)
    return ModelPhases(
        model=teacher.name,
        data=source,
        images=result.n,
        layers=teacher.depth,
        result=result,
        damaged=[Damage(**damage) for damage in images.damaged],
        figures=draw(run, "phases", result, teacher.name, prefix),
    )


def _of_matrix(file: Path, distance: bool, options: PhasesOptions, run_options: RunOptions) -> Record[AnyPhasesResult]:
    """Find the phases in a matrix of the layers 1..L."""
    from raptor.phases import figures  # noqa: F401 (registers them)
    from raptor.phases.find import find_phases
    from raptor.phases.matrix import is_similarity, read_matrix
    from raptor.render.charts import draw

    config = run_options.config(options, matrix=file, distance=distance)
    with Run("phases", config, run_options.out, run_options.seed, distributed=True) as run:
        matrix = read_matrix(file)
        try:
            result = find_phases(1 - matrix if distance else matrix, options=options, seed=run.seed)
        except MatrixError as error:
            if not is_similarity(matrix if distance else 1 - matrix):
                raise
            kind, hint = ("similarities", "remove") if distance else ("distances", "add")
            raise MatrixError(f"{error}. Does {str(file)!r} hold {kind}? Then {hint} --distance") from error
        about, drawn = {"matrix": str(file)}, draw(run, "phases", result, file.name)
        return run.record(result, images=0, layers=len(matrix), about=about, figures=drawn)
