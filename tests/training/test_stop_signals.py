"""A signal to stop is never lost, whenever it comes."""

from __future__ import annotations

import signal
from itertools import repeat

import pytest
import torch
from torch import nn

from raptor.training.checkpoint import NAME
from raptor.training.config import TrainConfig
from raptor.training.loop import fit

STEPS = 3


@pytest.mark.parametrize("at", [1, STEPS])
@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_stops_the_training_also_in_its_last_step(tmp_path, at, number, error):
    """In the last step, the loop has asked for signals already when it comes."""
    before = signal.getsignal(number)

    def objective(batch, step):
        return model(batch).square().mean(), {}

    def signalled(step, loss):
        if step == at:
            signal.raise_signal(number)

    model = nn.Linear(2, 1)
    with pytest.raises(error):
        fit(model, objective, lambda *part: repeat(torch.ones(4, 2)), TrainConfig(STEPS, 4, warmup=1), tmp_path,
            on_step=signalled)  # fmt: skip
    assert signal.getsignal(number) is before
    assert torch.load(tmp_path / NAME, weights_only=True)["step"] == min(at + 1, STEPS)
