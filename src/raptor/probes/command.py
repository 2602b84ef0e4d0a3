"""`raptor probe` and `raptor table1`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option, parse_names
from raptor.data.options import LoadOptions
from raptor.probes.options import EigenCrop, Fit, ProbeOptions, Seeds, Table1Options
from raptor.runtime.options import Data, EvalData, Head, Model, RunOptions, Weights
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import MEASURE, verb

if TYPE_CHECKING:
    from raptor.probes.results import ProbeReport
    from raptor.probes.table1 import Table1Result
    from raptor.probes.table1_models import Distill


@verb(
    MEASURE, "probes.results:ProbeReport", name="probe",
    help={"images": "Number of training images. Default: all."},
)  # fmt: skip
def probe_command(
    model: Model,
    data: Data = None,
    task: Annotated[
        Sequence[str] | None,
        Option(
            "One or several of classify, segment and depth, separated by commas. Default: all that the dataset has "
            "annotations for.",
            parse=parse_names,
        ),
    ] = None,
    eval_data: EvalData = None,
    eval_images: Annotated[
        int | None,
        Option("Number of test images. The learning rate is chosen on up to 500 other images.", min=1),
    ] = None,
    seeds: Seeds = 3,
    fit: Fit = "own",
    eigen_crop: EigenCrop = False,
    weights: Weights = None,
    head: Head = None,
    *,
    options: ProbeOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[ProbeReport]:
    """Train linear probes on frozen features: classification, segmentation or depth."""
    from raptor.data.load import data_for
    from raptor.data.train_val_test import load_train_val_test
    from raptor.errors import OptionError
    from raptor.models.load import load_model
    from raptor.probes.depth import check_eigen_crop
    from raptor.probes.results import ProbeReport
    from raptor.probes.run import probe
    from raptor.probes.tasks import tasks_of
    from raptor.runtime.distributed import process_group

    data = data_for(model, data, "a probe needs annotated images")
    options = replace(options, seeds=_seeds(seeds, options, run_options))
    config = run_options.config(
        loading, model=model, data=data, tasks=task, eval_data=eval_data, eval_images=eval_images, layer=options.layer,
        cache=options.cache, live=options.live, fit=fit, eigen_crop=eigen_crop, weights=weights, head=head,
        rates=options.lrs, seeds=list(options.seeds), epochs=options.epochs,
    )  # fmt: skip
    with Run("probe", config, run_options.out, run_options.seed, distributed=True) as run:
        teacher = load_model(model, run_options.size, weights, head, run_options.device)
        check_eigen_crop(teacher.image_size, fit, eigen_crop)
        layer = teacher.depth if options.layer is None else options.layer
        if not 0 <= layer <= teacher.depth:
            raise OptionError(f"{model!r} has layers 0 to {teacher.depth}, not {layer}")
        sets = load_train_val_test(
            data, teacher.preprocessing.fitted(fit), eval_data, run_options.images, eval_images,
            batch_size=run_options.batch, seed=run_options.seed, process_group=process_group(), loading=loading,
        )  # fmt: skip
        tasks = tasks_of(sets.train, task, eigen_crop)
        run.begin()
        results = probe(teacher, *sets, tasks, options, run_options.announce, progress=run_options.progress)
        return run.record(
            ProbeReport.of(results, layer),
            images=next(iter(results.values())).images["report"],
            layers=teacher.depth,
            about={"model": model, "data": data, "eval_data": eval_data},
            damaged=[damage for images in sets for damage in images.damaged],
        )


@verb(
    MEASURE, "probes.table1:Table1Result", name="table1",
    help={
        "out": "Directory for the results, figures and distilled surrogates.",
        "images": "Number of training images. Default: all.",
    },
)  # fmt: skip
def table1_command(
    model: Model,
    data: Data = None,
    seeds: Seeds = 3,
    weights: Weights = None,
    head: Head = None,
    *,
    options: Table1Options,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[Table1Result]:
    """Reproduce the paper's Table 1: linear probes on a model and on its surrogates."""
    from raptor.data.load import data_for
    from raptor.models.load import load_model
    from raptor.probes import figures  # noqa: F401 (registers them)
    from raptor.probes.table1 import probe_models
    from raptor.probes.table1_models import table_models
    from raptor.render.charts import draw

    data = data_for(model, data, "Table 1 needs annotated images")
    given = [source for text in options.surrogates or () for source in text.split(",")]
    options = replace(options, surrogates=given, seeds=_seeds(seeds, options, run_options))
    config = run_options.config(
        loading, model=model, data=data, k=options.k, surrogates=given, baseline=options.baseline,
        untied=list(options.untied), steps=options.steps, eval_data=options.eval_data, eval_images=options.eval_images,
        rates=options.lrs, seeds=list(options.seeds), epochs=options.epochs, fit=options.fit,
        eigen_crop=options.eigen_crop, weights=weights, head=head,
    )  # fmt: skip
    with Run("table1", config, run_options.out, run_options.seed) as run:
        teacher = load_model(model, run_options.size, weights, head, run_options.device)
        distill = _distiller(model, data, options, weights, head, loading, run_options)
        models = table_models(teacher, model, data, options, loading, run_options, distill)
        run.begin()
        result, sets = probe_models(
            models, data, options, loading, run_options, lambda rows: run.save("rows.json", rows)
        )
        return run.record(
            result,
            images=next(iter(result.rows[0].tasks.values())).images["report"],
            layers=teacher.depth,
            about={"model": model, "data": data},
            damaged=[damage for images in sets for damage in images.damaged],
            figures=draw(run, "table1", result, teacher.name),
        )


def _seeds(n: int | None, options: ProbeOptions | Table1Options, run_options: RunOptions) -> Sequence[int]:
    """Return n seeds from the run's seed on; without n those of the options."""
    return options.seeds if n is None else range(run_options.seed, run_options.seed + n)


def _distiller(
    model: str,
    data: str,
    options: Table1Options,
    weights: Weights,
    head: Head,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Distill:
    """Return a function that distills a surrogate into the run's directory, or finds it there."""
    from raptor.core.serialize import to_plain
    from raptor.distillation.command import distill_command
    from raptor.distillation.options import DistillOptions
    from raptor.errors import OptionError
    from raptor.training.resuming import check_same

    def distill(k: int, kind: str) -> str:
        if run_options.out is None:
            raise OptionError(f"a surrogate with k = {k} has to be distilled first: give --out DIR or --surrogates DIR")
        out = run_options.out / f"{'k' if kind == 'surrogate' else 'untied-k'}{k}"
        recipe = DistillOptions(steps=options.steps, untied=kind == "untied")
        given = {"model": model, "data": data, "k": k, "seed": run_options.seed, "recipe": recipe.recipe_config()}
        check_same(out, to_plain(given))
        if not (out / "result.json").exists():
            distill_command(
                model, data, k, eval_data=options.eval_data, eval_images=options.eval_images, weights=weights,
                head=head, resume=out.exists(), options=recipe, loading=loading,
                run_options=replace(run_options, out=out, images=None),
            )  # fmt: skip
        return str(out)

    return distill
