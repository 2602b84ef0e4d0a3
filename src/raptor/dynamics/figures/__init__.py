"""Figures of `raptor dynamics`, by the figure of the paper. They are drawn in this order."""

from __future__ import annotations

import importlib

MODULES = ("trajectories", "perturbation", "updates", "spectrum", "further")

for _name in MODULES:
    importlib.import_module(f"{__name__}.{_name}")
