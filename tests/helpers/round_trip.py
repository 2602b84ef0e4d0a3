"""A surrogate saved and read again must be the same function, bit by bit."""

from __future__ import annotations

import torch
from transformers import AutoModel

from raptor import rollout
from raptor.core.phases import Phases
from raptor.models.standalone import standalone
from raptor.models.surrogate import build_surrogate
from vits import pixels


def scrambled(surrogate, seed=3):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in surrogate.raptor.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return surrogate


def check_round_trip(teacher, kind, folder, phases=None, **block):
    surrogate = scrambled(build_surrogate(teacher, phases or Phases((2, 1)), kind, **block))
    images = pixels(*teacher.image_size)
    with torch.no_grad():
        wanted = rollout(surrogate, surrogate.embed(images)).states
        standalone(surrogate, kind, block).save_pretrained(folder)
        model = AutoModel.from_pretrained(folder)
        found = model(images, output_hidden_states=True)
        assert torch.equal(torch.stack(found.hidden_states, dim=1), wanted)
        assert torch.equal(found.last_hidden_state, surrogate.readout(wanted[:, -1]))
        if surrogate.head is not None:
            assert torch.equal(model.head(wanted[:, -1]), surrogate.head(wanted[:, -1]))
    return model
