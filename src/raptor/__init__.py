"""Measure how well a few weight-tied blocks reproduce a Vision Transformer's depth.

Public names are imported when they are first used: `import raptor` is fast and needs no optional package. Type checkers
and editors read the imports under `TYPE_CHECKING`; at run time `_HOME` says where a name is. A test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from raptor.core import toy as toy
    from raptor.core.estimate import Estimate as Estimate
    from raptor.core.estimate import LayerEstimates as LayerEstimates
    from raptor.core.flow import DepthFlow as DepthFlow
    from raptor.core.flow import rollout as rollout
    from raptor.core.flow import stitch as stitch
    from raptor.core.phases import Phases as Phases
    from raptor.core.preprocessing import Preprocessing as Preprocessing
    from raptor.core.tokens import TokenLayout as TokenLayout
    from raptor.core.trajectory import Trajectory as Trajectory
    from raptor.data.load import load_images as load_images
    from raptor.data.options import LoadOptions as LoadOptions
    from raptor.distillation.distill import distill as distill
    from raptor.distillation.export import ExportResult as ExportResult
    from raptor.distillation.export import export as export
    from raptor.distillation.options import DistillOptions as DistillOptions
    from raptor.distillation.options import ExportOptions as ExportOptions
    from raptor.distillation.options import PushOptions as PushOptions
    from raptor.distillation.planning.cost import PlanResult as PlanResult
    from raptor.distillation.planning.cost import plan as plan
    from raptor.distillation.planning.law import FinishedRun as FinishedRun
    from raptor.distillation.planning.law import Law as Law
    from raptor.distillation.planning.law import fit_law as fit_law
    from raptor.distillation.planning.options import PlanOptions as PlanOptions
    from raptor.distillation.push import PushResult as PushResult
    from raptor.distillation.push import push as push
    from raptor.distillation.recipes import distillation_named as distillation_named
    from raptor.distillation.result import DistillResult as DistillResult
    from raptor.dynamics.compare import compare_dynamics as compare_dynamics
    from raptor.dynamics.geometry import layer_norms as layer_norms
    from raptor.dynamics.options import DynamicsOptions as DynamicsOptions
    from raptor.dynamics.result import DynamicsResult as DynamicsResult
    from raptor.dynamics.survey import measure_dynamics as measure_dynamics
    from raptor.errors import RaptorError as RaptorError
    from raptor.evaluation.evaluate import FidelityResult as FidelityResult
    from raptor.evaluation.evaluate import fidelity as fidelity
    from raptor.evaluation.options import FidelityOptions as FidelityOptions
    from raptor.inspection.inspect import InspectResult as InspectResult
    from raptor.inspection.inspect import inspect as inspect
    from raptor.inspection.outliers import OutlierTokens as OutlierTokens
    from raptor.inspection.outliers import find_outliers as find_outliers
    from raptor.interventions.intervene import InterveneResult as InterveneResult
    from raptor.interventions.intervene import intervene as intervene
    from raptor.interventions.options import InterveneOptions as InterveneOptions
    from raptor.models.load import load_model as load_model
    from raptor.models.load import load_teacher as load_teacher
    from raptor.models.pretrained import RaptorConfig as RaptorConfig
    from raptor.models.pretrained import RaptorModel as RaptorModel
    from raptor.models.pretrained import register_auto_classes as register_auto_classes
    from raptor.models.released import load_released as load_released
    from raptor.models.surrogate import Surrogate as Surrogate
    from raptor.models.teachers.registry import register_adapter as register_adapter
    from raptor.models.teachers.teacher import Parts as Parts
    from raptor.models.teachers.teacher import Teacher as Teacher
    from raptor.phases.find import find_phases as find_phases
    from raptor.phases.function.local import FunctionalSimilarity as FunctionalSimilarity
    from raptor.phases.function.local import functional_similarity as functional_similarity
    from raptor.phases.function.training_free import fit_surrogate as fit_surrogate
    from raptor.phases.options import PhasesOptions as PhasesOptions
    from raptor.phases.result import PhasesResult as PhasesResult
    from raptor.phases.segment import Segmentation as Segmentation
    from raptor.phases.segment import segment as segment
    from raptor.phases.segment import segment_batch as segment_batch
    from raptor.phases.similarity import Similarity as Similarity
    from raptor.phases.similarity import layer_similarity as layer_similarity
    from raptor.pipeline.options import PipelineOptions as PipelineOptions
    from raptor.pipeline.result import PipelineResult as PipelineResult
    from raptor.pipeline.run import run as run
    from raptor.probes.options import ProbeOptions as ProbeOptions
    from raptor.probes.options import Table1Options as Table1Options
    from raptor.probes.results import ProbeResult as ProbeResult
    from raptor.probes.run import probe as probe
    from raptor.probes.table1 import Table1Result as Table1Result
    from raptor.probes.table1 import table1 as table1
    from raptor.reporting.report import Report as Report
    from raptor.reporting.report import report as report
    from raptor.runtime.options import RunOptions as RunOptions
    from raptor.runtime.progress import ProgressState as ProgressState
    from raptor.runtime.records import read_result as read_result
    from raptor.runtime.rundir import Record as Record
    from raptor.studies.every import AllStudies as AllStudies
    from raptor.studies.every import study as study
    from raptor.studies.options import StudyOptions as StudyOptions
    from raptor.studies.study import StudyResult as StudyResult
    from raptor.training.options import TrainOptions as TrainOptions
    from raptor.training.train import TrainResult as TrainResult
    from raptor.training.train import train as train

# Module of each public name; a name that its module lacks is the module itself.
_HOME = {
    # Represent depth
    "DepthFlow": "raptor.core.flow",
    "rollout": "raptor.core.flow",
    "stitch": "raptor.core.flow",
    "Trajectory": "raptor.core.trajectory",
    "TokenLayout": "raptor.core.tokens",
    "Phases": "raptor.core.phases",
    "toy": "raptor.core.toy",
    # Load models and images
    "load_model": "raptor.models.load",
    "load_teacher": "raptor.models.load",
    "Teacher": "raptor.models.teachers.teacher",
    "Parts": "raptor.models.teachers.teacher",
    "register_adapter": "raptor.models.teachers.registry",
    "inspect": "raptor.inspection.inspect",
    "InspectResult": "raptor.inspection.inspect",
    "OutlierTokens": "raptor.inspection.outliers",
    "find_outliers": "raptor.inspection.outliers",
    "load_images": "raptor.data.load",
    "LoadOptions": "raptor.data.options",
    "Preprocessing": "raptor.core.preprocessing",
    # Find phases
    "layer_similarity": "raptor.phases.similarity",
    "Similarity": "raptor.phases.similarity",
    "segment": "raptor.phases.segment",
    "segment_batch": "raptor.phases.segment",
    "Segmentation": "raptor.phases.segment",
    "find_phases": "raptor.phases.find",
    "functional_similarity": "raptor.phases.function.local",
    "FunctionalSimilarity": "raptor.phases.function.local",
    "fit_surrogate": "raptor.phases.function.training_free",
    "PhasesOptions": "raptor.phases.options",
    "PhasesResult": "raptor.phases.result",
    # Train and evaluate surrogates
    "train": "raptor.training.train",
    "TrainOptions": "raptor.training.options",
    "TrainResult": "raptor.training.train",
    "distill": "raptor.distillation.distill",
    "DistillOptions": "raptor.distillation.options",
    "DistillResult": "raptor.distillation.result",
    "distillation_named": "raptor.distillation.recipes",
    "Surrogate": "raptor.models.surrogate",
    "fidelity": "raptor.evaluation.evaluate",
    "FidelityOptions": "raptor.evaluation.options",
    "FidelityResult": "raptor.evaluation.evaluate",
    "export": "raptor.distillation.export",
    "ExportOptions": "raptor.distillation.options",
    "ExportResult": "raptor.distillation.export",
    "plan": "raptor.distillation.planning.cost",
    "FinishedRun": "raptor.distillation.planning.law",
    "Law": "raptor.distillation.planning.law",
    "fit_law": "raptor.distillation.planning.law",
    "PlanOptions": "raptor.distillation.planning.options",
    "PlanResult": "raptor.distillation.planning.cost",
    "push": "raptor.distillation.push",
    "PushOptions": "raptor.distillation.options",
    "PushResult": "raptor.distillation.push",
    "RaptorModel": "raptor.models.pretrained",
    "RaptorConfig": "raptor.models.pretrained",
    "register_auto_classes": "raptor.models.pretrained",
    "load_released": "raptor.models.released",
    # Measure
    "measure_dynamics": "raptor.dynamics.survey",
    "compare_dynamics": "raptor.dynamics.compare",
    "DynamicsOptions": "raptor.dynamics.options",
    "DynamicsResult": "raptor.dynamics.result",
    "layer_norms": "raptor.dynamics.geometry",
    "intervene": "raptor.interventions.intervene",
    "InterveneOptions": "raptor.interventions.options",
    "InterveneResult": "raptor.interventions.intervene",
    "probe": "raptor.probes.run",
    "ProbeOptions": "raptor.probes.options",
    "ProbeResult": "raptor.probes.results",
    "table1": "raptor.probes.table1",
    "Table1Options": "raptor.probes.options",
    "Table1Result": "raptor.probes.table1",
    # Run everything and report
    "run": "raptor.pipeline.run",
    "PipelineOptions": "raptor.pipeline.options",
    "PipelineResult": "raptor.pipeline.result",
    "report": "raptor.reporting.report",
    "Report": "raptor.reporting.report",
    "study": "raptor.studies.every",
    "StudyOptions": "raptor.studies.options",
    "StudyResult": "raptor.studies.study",
    "AllStudies": "raptor.studies.every",
    # Results and options
    "read_result": "raptor.runtime.records",
    "Record": "raptor.runtime.rundir",
    "RunOptions": "raptor.runtime.options",
    "ProgressState": "raptor.runtime.progress",
    "Estimate": "raptor.core.estimate",
    "LayerEstimates": "raptor.core.estimate",
    "RaptorError": "raptor.errors",
}

__all__ = ["__version__", *_HOME]

if not TYPE_CHECKING:  # a type checker must report a name that is not public

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'raptor' has no attribute {name!r}")
        import importlib

        module = importlib.import_module(_HOME[name])
        value = getattr(module, name, module)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
