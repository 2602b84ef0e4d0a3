"""Figures of `raptor study`: each study registers its own."""

from __future__ import annotations

from raptor.studies.registry import load_studies

load_studies()
