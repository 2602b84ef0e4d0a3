"""Measures of every other image: what is fitted on one half is judged on the other."""

from __future__ import annotations

import torch

from raptor.dynamics.motion import Measure, Motion


class Half:
    """Gives a measure the even or the odd images alone.

    Parameters
    ----------
    measure
        What takes them in.
    which
        0 for the first, third, fifth image and so on; 1 for the others.
    """

    def __init__(self, measure: Measure, which: int):
        self.measure, self.which, self.n = measure, which, 0

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        batch = len(motion.states[0])
        kept = torch.arange(self.n, self.n + batch) % 2 == self.which
        self.n += batch
        if kept.any():
            label = None if motion.label is None else motion.label[kept.to(motion.label.device)]
            states = [state[kept.to(state.device)] for state in motion.states]
            self.measure.add(Motion(states, motion.layout, label))
