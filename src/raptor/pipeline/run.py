"""`raptor.run`: the whole pipeline from a model and images to the page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raptor.core.serialize import to_plain
from raptor.data.load import data_for, parse_source
from raptor.data.options import LoadOptions
from raptor.errors import OptionError, OutputError, PipelineError, RaptorError, one_line
from raptor.models.load import SHIPPED_SURROGATES
from raptor.pipeline.options import PipelineOptions
from raptor.pipeline.presets import PRESETS
from raptor.pipeline.result import PipelineResult, StageResult
from raptor.pipeline.stages import NothingToDoError, Stage, Stages
from raptor.reporting.collect import collect
from raptor.reporting.ladder import ladder
from raptor.reporting.subject import summary
from raptor.reporting.write import PAGE, write_page
from raptor.runtime.files import discard
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Record, Run, read_result_json
from raptor.training.resuming import check_same


def run(
    model: str,
    data: str | None = None,
    options: PipelineOptions | None = None,
    *,
    out: str | Path,
    weights: str | Path | None = None,
    loading: LoadOptions | None = None,
    run_options: RunOptions | None = None,
) -> PipelineResult:
    """Run all stages that have no result yet, and write the page.

    Parameters
    ----------
    model
        The model, by name or directory.
    data
        Images, by name or directory; `scenes` has its own.
    options
        Number of phases, preset and further surrogates.
    out
        Directory with one directory per stage, and the page. A run that was interrupted is continued.
    weights
        File with the model's weights.
    loading
        How images are read.
    run_options
        Seed, device, number and size of images.

    Returns
    -------
    PipelineResult
        Raises `PipelineError` where a stage failed; the page then shows the others.
    """
    shared = replace(run_options or RunOptions(quiet=True), out=Path(out))
    file = None if weights is None else Path(weights)
    return run_pipeline(model, data, options or PipelineOptions(), file, loading or LoadOptions(), shared).result


def run_pipeline(
    model: str,
    data: str | None,
    options: PipelineOptions,
    weights: Path | None,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[PipelineResult]:
    """Run the pipeline in `run_options.out`; return its record. The parameters are those of `run`."""
    out = run_options.out
    if options.preset not in PRESETS:
        raise OptionError(f"preset {options.preset!r} is none of {', '.join(PRESETS)}")
    if out is None:
        raise OptionError("run needs --out DIR, where each stage writes its result")
    data = data_for(model, data, "the pipeline needs images")
    if parse_source(data)[1] is not None:
        raise OptionError(f"the pipeline uses the train and the held-out images: leave out the split of {data!r}")
    surrogates = options.surrogates or (list(SHIPPED_SURROGATES) if model == "scenes" else [])
    config = run_options.config(
        loading, model=model, data=data, k=options.k, preset=options.preset, surrogates=surrogates, weights=weights
    )
    with Run("run", config, out, run_options.seed) as run:
        _check_own(out, {**to_plain(config), "seed": run_options.seed})
        stages = Stages(model, data, options.k, PRESETS[options.preset], surrogates, weights, loading, run_options, out)
        run.begin()
        planned = stages.all()
        done = []
        for stage in planned:
            readers = [out / other.name for other in planned if stage.name in other.reads]
            done.append(_run_stage(stage, out / stage.name, readers, run_options))
        page = out / PAGE
        subjects = collect([out])
        sentences = [sentence for subject in subjects for sentence in summary(subject)]
        evidence = [rung for subject in subjects for rung in ladder(subject)]
        result = PipelineResult(model, data, options.preset, done, str(page), sentences, evidence)
        images = (read_result_json(out / "phases") or {}).get("images", 0)
        record = run.record(result, images=images, layers=stages.teacher.depth)
        write_page([out], page)
    failed = "; ".join(f"{stage.stage}: {stage.error}" for stage in done if stage.error)
    if failed:
        raise PipelineError(f"{failed} (the page shows the other stages: {page})")
    return record


def _check_own(out: Path, config: dict[str, Any]) -> None:
    """Raise where a directory has stages of another run, or stages without a run."""
    if not (out / "config.json").exists() and any(out.glob("*/result.json")):
        raise OutputError(f"{str(out)!r} has results, but not of a pipeline: use another --out")
    check_same(out, config)


def _run_stage(stage: Stage, folder: Path, readers: Sequence[Path], run_options: RunOptions) -> StageResult:
    """Run a stage unless it has a result; return what became of it.

    Directories of the stages that read it are discarded before it starts: if the run is killed later, they must not
    have results that were made from an older one.
    """
    began = time.perf_counter()
    skipped, not_done, error = read_result_json(folder) is not None, None, None
    if not skipped:
        run_options.announce(stage.name)
        try:
            for other in readers:
                discard(other)
            stage.work(folder)
        except NothingToDoError as reason:
            not_done = str(reason)
        except Exception as problem:  # an error in one stage must not cost the page either
            if run_options.debug:
                raise
            error = str(problem) if isinstance(problem, RaptorError) else one_line(problem)
            run_options.announce(f"{stage.name} failed: {error}")
    return StageResult(stage.name, skipped, not_done, error, round(time.perf_counter() - began, 3))
