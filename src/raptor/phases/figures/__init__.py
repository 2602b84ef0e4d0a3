"""Figures of `raptor phases`; importing this package registers them, in the order of the page."""

from raptor.phases.figures import linked, of_model  # noqa: F401
