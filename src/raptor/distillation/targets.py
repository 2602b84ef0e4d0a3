"""What a surrogate learns from: the teacher's states of a batch, augmented for training and as it is for validation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from raptor.core.batches import Batch
from raptor.core.flow import layers_of
from raptor.core.tokens import TokenLayout
from raptor.distillation.losses import States
from raptor.distillation.windows import Window, tokens_at
from raptor.models.teachers.teacher import Teacher
from raptor.training.augment import flip, random_crop


@dataclass(frozen=True)
class Seen:
    """What training sees of a batch.

    Parameters
    ----------
    states
        The teacher's states at the layers 0..L.
    layout
        Token groups of these states.
    tokens
        Numbers of the tokens that are seen of each image; None for all.
    """

    states: States
    layout: TokenLayout
    tokens: Int[Tensor, "batch some_tokens"] | None = None


@dataclass(frozen=True)
class Targets:
    """The teacher's states, computed without gradients or as they were cached.

    Parameters
    ----------
    teacher
        The model to reproduce.
    crop
        Smallest share of an image that a random crop shows; 1 for no crops and no mirrored images.
    window
        Part of the patches that training sees.
    """

    teacher: Teacher
    crop: float
    window: Window

    @torch.no_grad()
    def whole(self, batch: Batch | States) -> States:
        """Return the states of whole images, for validation."""
        if isinstance(batch, Tensor):
            return batch.to(next(self.teacher.module.parameters()))  # its device and precision
        return self.states_of(self.teacher.embed(batch.pixels.to(self.teacher.device)))

    @torch.no_grad()
    def augmented(self, batch: Batch | States, all_patches: bool = False) -> Seen:
        """Return the states of random crops and windows.

        Parameters
        ----------
        batch
            Images, or cached states, which are returned as they are.
        all_patches
            Whether to use all patches in place of a window.
        """
        if isinstance(batch, Tensor) or (self.crop == 1 and (all_patches or self.window.share == 1)):
            return Seen(self.whole(batch), self.teacher.layout)
        pixels = batch.pixels.to(self.teacher.device)
        if self.crop < 1:
            pixels = flip(random_crop(pixels, self.crop))
        tokens = self.teacher.embed(pixels)
        if all_patches:
            return Seen(self.states_of(tokens), self.teacher.layout)
        numbers = self.window.draw(len(tokens), tokens.device)
        return Seen(self.states_of(tokens_at(tokens, numbers)), self.window.inside, numbers)

    def states_of(self, tokens: Float[Tensor, "batch tokens width"]) -> States:
        """Return the states at the layers 0..L; `rollout` would not allow a part of the tokens."""
        return torch.stack([states for _, states in layers_of(self.teacher, tokens)], dim=1)
