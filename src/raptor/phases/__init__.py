"""Phases of depth: similarity between layers, partitions, and whether they are phases or a drift."""
