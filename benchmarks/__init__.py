"""Benchmarks: ratios of two sides that alternate in one run, never times alone."""
