"""raptor: see a Vision Transformer's depth as what it is, a few blocks applied again and again.

Names are loaded when they are first used, so `import raptor` is instant and needs no optional package.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "TokenLayout": "raptor.tokens",
    "Phases": "raptor.phases",
    "Trajectory": "raptor.trajectory",
    "DepthFlow": "raptor.flow",
    "rollout": "raptor.flow",
    "stitch": "raptor.flow",
    "toy": "raptor.toy",
    "RaptorError": "raptor.errors",
    "Preprocessing": "raptor.preprocessing",
    "Teacher": "raptor.models.teachers.teacher",
    "Parts": "raptor.models.teachers.teacher",
    "load_teacher": "raptor.models.teachers",
    "register_adapter": "raptor.models.teachers",
    "load_images": "raptor.data",
    "measure_dynamics": "raptor.dynamics.survey",
    "intervene": "raptor.interventions",
    "layer_norms": "raptor.dynamics.geometry",
    "layer_similarity": "raptor.similarity",
    "segment": "raptor.segmentation",
    "find_phases": "raptor.selection",
    "inspect": "raptor.inspection",
    "distill": "raptor.training.distill",
    "distillation_named": "raptor.training.recipes",
    "fidelity": "raptor.evaluation",
    "probe": "raptor.probes.run",
    "report": "raptor.commands.python_report",
    "Surrogate": "raptor.models.surrogate",
    "load_released": "raptor.models.released",
    "RaptorModel": "raptor.models.pretrained",
    "RaptorConfig": "raptor.models.pretrained",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'raptor' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    value = getattr(module, name, module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
