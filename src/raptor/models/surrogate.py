"""A surrogate: the teacher's frozen embedding, weight-tied blocks, and the teacher's frozen norm and classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.core.flow import DepthFlow, Head
from raptor.core.phases import Phases
from raptor.errors import LayerError, OptionError
from raptor.models.raptor import Raptor, SwiGLUBlock, TeacherBlock
from raptor.models.relaxation import RelaxedBlock
from raptor.models.teachers.teacher import Teacher

KINDS = ("teacher", "swiglu", "gelu")


class Surrogate(nn.Module):
    """A depth flow in which weight-tied blocks replace the teacher's layers; only they are trained.

    Parameters
    ----------
    teacher
        The model whose states it reproduces.
    raptor
        The tied blocks; their phases must cover the teacher's depth.
    record
        How it was made: kind and options of its blocks, and its training; for the model card.
    """

    def __init__(self, teacher: Teacher, raptor: Raptor, record: dict[str, Any] | None = None):
        super().__init__()
        raptor.phases.check_depth(teacher.depth)
        self.teacher = teacher.requires_grad_(False)
        self.raptor = raptor
        self.record = record or {}
        self.depth, self.width, self.layout = teacher.depth, teacher.width, teacher.layout

    @property
    def phases(self) -> Phases:
        """Phases of the tied blocks."""
        return self.raptor.phases

    @property
    def head(self) -> Head | None:
        """The teacher's classifier, or None."""
        return self.teacher.head

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return the states at layer 0, computed by the teacher."""
        return self.teacher.embed(pixels)

    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Return the states at `layer + 1` from those at `layer` (0..L-1), with the block of its phase."""
        if not 0 <= layer < self.depth:
            raise LayerError(f"step {layer} is outside 0..{self.depth - 1}, the steps of this surrogate")
        return self.raptor.step(tokens, layer)

    def readout(self, tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch tokens features"]:
        """Apply the teacher's final norm."""
        return self.teacher.readout(tokens)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.teacher.device

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the surrogate as a model of transformers that needs no teacher; `raptor.push` publishes the directory.

        Parameters
        ----------
        folder
            Directory; created if it does not exist.
        """
        from raptor.models.remote.metadata import licence_of
        from raptor.models.standalone import standalone
        from raptor.runtime.optional_imports import silence

        # The record of a surrogate that was loaded is its whole provenance.
        training = self.record.get("training", self.record)
        provenance = self.record if "training" in self.record else {"license": licence_of(self.teacher.name)}
        model = standalone(self, training.get("kind", "teacher"), training.get("block"), provenance)
        with silence():
            model.save_pretrained(folder)


def build_raptor(
    teacher: Teacher,
    phases: Phases,
    kind: str = "teacher",
    relax_rank: int = 0,
    untied: bool = False,
    **options: Any,
) -> Raptor:
    """Create the untrained tied blocks of a surrogate.

    Parameters
    ----------
    teacher
        The model to reproduce.
    phases
        Phases, with one block each.
    kind
        `teacher` for a copy of the block in the middle of each phase, `swiglu` for the paper's block, or `gelu` for its
        variant with a plain MLP; the last two have random weights.
    relax_rank
        Rank of a correction of the tied weights for each layer, clamped to the full rank of each matrix; 0 for none.
    untied
        Whether to apply each block only once, as a control.
    **options
        Options of `SwiGLUBlock` or `TeacherBlock`.
    """
    phases.check_depth(teacher.depth)
    if kind not in KINDS:
        raise OptionError(f"unknown block kind {kind!r}; use {', '.join(KINDS)}")
    blocks: list[nn.Module] = []
    for span in phases.layers:
        block: nn.Module
        if kind == "teacher":
            middle = span[(len(span) - 1) // 2] - 1
            parts = teacher.parts
            options = {"projections": parts.output_projections, **options}
            block = TeacherBlock(parts.blocks[middle], middle, parts.call, teacher.width, **options)
        else:
            block = SwiGLUBlock(teacher.width, teacher.parts.heads, activation=kind, **options)
        block = block.to(next(teacher.module.parameters()))  # same device and dtype
        if relax_rank:
            block = RelaxedBlock(block, span, relax_rank)
        blocks.append(block)
    return Raptor(phases, blocks, untied)


def build_surrogate(teacher: Teacher, phases: Phases, kind: str = "teacher", **options: Any) -> Surrogate:
    """Create an untrained surrogate of a teacher. Relaxed copies of its blocks start near each of its layers.

    Parameters
    ----------
    teacher, phases, kind, **options
        As in `build_raptor`.
    """
    raptor = build_raptor(teacher, phases, kind, **options)
    for span, block in zip(phases.layers, raptor.blocks, strict=True):
        if kind == "teacher" and isinstance(block, RelaxedBlock):
            block.start_from([teacher.parts.blocks[layer - 1] for layer in span])
    return Surrogate(teacher, raptor, {"kind": kind, "block": options})


def surrogate_in(flow: DepthFlow) -> Surrogate | None:
    """Return the surrogate that a flow is, or that was loaded as a model; None for other flows."""
    # RaptorModel has it as an attribute; its class is not imported here, because that imports transformers.
    module = getattr(flow.module, "surrogate", None) if isinstance(flow, Teacher) else flow
    return module if isinstance(module, Surrogate) else None
