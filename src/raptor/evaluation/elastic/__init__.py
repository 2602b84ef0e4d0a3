"""Fidelity and accuracy of a surrogate against its number of steps."""
