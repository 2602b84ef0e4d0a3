"""Measures with one number per layer or step. Each module registers its own; all modules of this folder are imported.

The order of import is the order of the columns in the terminal and of the panels in figures.
"""

from __future__ import annotations

import importlib
import pkgutil

FIRST = ("norms", "convergence", "speed", "ranks", "coherence")

for _name in dict.fromkeys((*FIRST, *(module.name for module in pkgutil.iter_modules(__path__)))):
    importlib.import_module(f"{__name__}.{_name}")
