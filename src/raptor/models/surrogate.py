"""A surrogate: the teacher's frozen embedding, a Raptor, the teacher's frozen norm and head."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.errors import LayerError, OptionError
from raptor.flow import Head
from raptor.models.raptor import Raptor, SwiGLUBlock, TeacherBlock
from raptor.models.relaxation import RelaxedBlock
from raptor.models.teachers.teacher import Teacher
from raptor.phases import Phases

KINDS = ("teacher", "swiglu", "gelu")


class Surrogate(nn.Module):
    """A depth flow like any other; only the Raptor in it is trained.

    Parameters
    ----------
    teacher
        Whose trajectory it reproduces.
    raptor
        The tied blocks; their phases cover the teacher's depth.
    record
        How it was trained, for its model card.
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
        """Which block makes which layer."""
        return self.raptor.phases

    @property
    def head(self) -> Head | None:
        """The teacher's own classifier."""
        return self.teacher.head

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return layer 0, the teacher's."""
        return self.teacher.embed(pixels)

    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Go from `layer` (0..L-1) to the next by the block of its phase."""
        if not 0 <= layer < self.depth:
            raise LayerError(f"this surrogate has steps 0 to {self.depth - 1}, not {layer}")
        return self.raptor.step(tokens, layer)

    def readout(self, tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch tokens features"]:
        """Apply the teacher's final norm."""
        return self.teacher.readout(tokens)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.teacher.device


def build_raptor(
    teacher: Teacher,
    phases: Phases,
    kind: str = "teacher",
    relax_rank: int = 0,
    untied: bool = False,
    **options: Any,
) -> Raptor:
    """Make the untrained tied blocks of a surrogate.

    Parameters
    ----------
    teacher
        Whose trajectory they are to reproduce.
    phases
        One block a phase.
    kind
        `teacher`, copies of the block in the middle of each phase; `swiglu` and `gelu`, the paper's block and its
        variant with a plain MLP, from random weights.
    relax_rank
        Rank of a correction of the tied weights for each layer; 0 for none.
    untied
        The control in which each block is applied once.
    **options
        Of `SwiGLUBlock` or `TeacherBlock`.
    """
    phases.check_depth(teacher.depth)
    if kind not in KINDS:
        raise OptionError(f"block kind {kind!r} is none of {', '.join(KINDS)}")
    blocks: list[nn.Module] = []
    for span in phases.ranges:
        block: nn.Module
        if kind == "teacher":
            middle = span[(len(span) - 1) // 2] - 1
            block = TeacherBlock(teacher.parts.blocks[middle], middle, teacher.parts.call, teacher.width, **options)
        else:
            block = SwiGLUBlock(teacher.width, teacher.parts.heads, activation=kind, **options)
        block = block.to(next(teacher.module.parameters()))  # its device and precision
        if relax_rank:
            like = next(block.parameters())
            tokens = like.new_zeros(2, teacher.layout.n_tokens, teacher.width)
            block = RelaxedBlock(block, span, relax_rank, tokens)
        blocks.append(block)
    return Raptor(phases, blocks, untied)


def build_surrogate(teacher: Teacher, phases: Phases, kind: str = "teacher", **options: Any) -> Surrogate:
    """Make an untrained surrogate of a teacher.

    Parameters
    ----------
    teacher, phases, kind, **options
        As in `build_raptor`.
    """
    return Surrogate(teacher, build_raptor(teacher, phases, kind, **options))
