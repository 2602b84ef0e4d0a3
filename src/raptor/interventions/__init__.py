"""Causal layer experiments."""
