"""Conversion of a surrogate to a model of transformers, which needs no teacher."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from raptor.core.flow import rollout
from raptor.errors import UnsupportedModelError, WeightsError
from raptor.models.pretrained import RaptorConfig, RaptorModel
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.registry import unwrapped
from raptor.models.teachers.skeleton import USER, describe
from raptor.models.weights import fingerprint
from raptor.runtime.random_state import preserve_random_state


@preserve_random_state()
def standalone(
    surrogate: Surrogate, kind: str, block: dict[str, Any] | None = None, provenance: dict[str, Any] | None = None
) -> RaptorModel:
    """Convert a surrogate to a model of transformers, for `save_pretrained`.

    Parameters
    ----------
    surrogate
        The surrogate, with its teacher.
    kind, block
        Kind and options of its blocks, as in `build_raptor`.
    provenance
        Origin of the surrogate, as JSON values; stored in the configuration and shown in the model card.
    """
    teacher = surrogate.teacher
    config = RaptorConfig(
        phases=str(surrogate.phases),
        kind=kind,
        block=block,
        teacher=describe(teacher),
        preprocessing=asdict(teacher.preprocessing),
        provenance={
            "teacher": {"name": teacher.name, "sha256": fingerprint(teacher.module)},
            "training": surrogate.record,
            **(provenance or {}),
        },
        names=2,
        hidden_size=teacher.width,
        num_hidden_layers=teacher.depth,
        num_attention_heads=teacher.parts.heads,
    )
    model = RaptorModel(config, unwrapped(teacher.module) if config.teacher["library"] == USER else None)
    state = surrogate.state_dict()
    for name, buffer in surrogate.named_buffers():
        state.setdefault(name, buffer)
    wanted = model.surrogate.state_dict()
    model.surrogate.load_state_dict({name: state[name] for name in wanted})
    model = model.to(next(teacher.module.parameters()))
    _check_same(model, surrogate)
    return model


@torch.no_grad()
def _check_same(model: RaptorModel, surrogate: Surrogate) -> None:
    """Raise an error if the rebuilt model computes something else than the surrogate."""
    pixels = torch.randn(1, 3, *surrogate.teacher.image_size, generator=torch.Generator().manual_seed(0))
    ours, theirs = (rollout(flow, flow.embed(pixels)).states for flow in (model.surrogate, surrogate))
    if not theirs.isfinite().all():
        raise WeightsError(
            f"the surrogate of {surrogate.teacher.name!r} has states that are not finite; it was not saved"
        )
    if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max())):
        raise UnsupportedModelError(
            f"the surrogate of {surrogate.teacher.name!r} cannot be saved: its teacher has settings that its "
            "configuration does not contain, so the rebuilt model computes different states"
        )
