"""`raptor study`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from raptor.core.options import Option
from raptor.data.options import LoadOptions
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import RESEARCH, verb
from raptor.studies.options import ALL, NAMES, StudyOptions

if TYPE_CHECKING:
    from raptor.studies.cost import StudyPlan
    from raptor.studies.every import AllStudies
    from raptor.studies.study import StudyResult

Name = Annotated[
    str,
    Option(f"Study: {', '.join(NAMES)} (every study); docs/studies.md describes them.", positional=True),
]
Plan = Annotated[bool, Option("Only estimate what the study costs on this device.", flags=("--plan",))]


@verb(
    RESEARCH, "studies.study:StudyResult", name="study",
    help={"image_size": "Image size in pixels. Default: 32, or 224 with --size paper."},
)  # fmt: skip
def study_command(
    name: Name, plan: Plan = False, *, options: StudyOptions, loading: LoadOptions, run_options: RunOptions
) -> Record[StudyResult[Any]] | Record[AllStudies] | Record[StudyPlan]:
    """Train many small ViTs and their surrogates to test the claims of the paper."""
    from raptor.studies import figures  # noqa: F401 (registers them)
    from raptor.studies.cost import plan_study
    from raptor.studies.every import run_all
    from raptor.studies.study import run_study

    if name == ALL and not plan:
        return run_all(options, loading, run_options)
    if not plan:
        return run_study(name, options, loading, run_options)
    config = run_options.config(study=name, size=options.size, data=options.data)
    with Run("study", config, None, run_options.seed) as run:
        result, layers = plan_study(name, options, loading, run_options)
        return run.record(result, images=0, layers=layers)
