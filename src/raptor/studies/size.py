"""Sizes of studies: `smoke` for tests, `laptop` for all of them in a few core-hours, `paper` for a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of teachers, students and sets of images.

    Parameters
    ----------
    width, heads, depth, patch_size, registers, image_size
        Architecture of the ViTs that are trained as teachers.
    teacher_steps, teacher_batch
        Optimiser steps of a teacher, and images per step.
    drop_paths
        Rates of stochastic depth.
    student_steps, student_batch
        Optimiser steps of each stage of a distillation, and images per step.
    student_images
        Number of images that students learn from; a teacher computes their states once for all students. None for all
        images, with the teacher running live: the states of a million images would be terabytes.
    eval_images
        Number of held-out images that everything is measured on.
    seeds
        Seeds of teachers, each with a student of the same seed; everything with one teacher uses the first.
    drop_path
        Rate of stochastic depth of the condition with several seeds; `drop_paths` have one seed each.
    stops
        Shares of the standard teacher's training from which the early stop is chosen.
    subset_images
        Number of training images on which teachers overfit.
    others, shuffled
        Number of random contiguous partitions and of shuffled assignments that the found ones are compared with.
    ks
        Numbers of blocks in `k-curve`.
    student_lr
        Learning rate of the paper's recipe; the paper's own is for a thousand times as many steps.
    checkpoints
        Shares of a teacher's training at which it is measured in `emergence`.
    """

    width: int
    heads: int
    depth: int
    patch_size: int
    registers: int
    image_size: int
    teacher_steps: int
    teacher_batch: int
    drop_paths: tuple[float, ...]
    student_steps: int
    student_batch: int
    student_images: int | None
    eval_images: int
    seeds: tuple[int, ...]
    drop_path: float
    stops: tuple[float, ...]
    subset_images: int
    others: int
    shuffled: int
    ks: tuple[int, ...]
    student_lr: float
    checkpoints: tuple[float, ...]

    @property
    def seed(self) -> int:
        """Seed of teachers, and of students where there is one of a kind."""
        return self.seeds[0]


SIZES = {
    "smoke": Scale(
        width=16, heads=2, depth=7, patch_size=8, registers=1, image_size=32, teacher_steps=4, teacher_batch=8,
        drop_paths=(0.0, 0.4), student_steps=1, student_batch=4, student_images=8, eval_images=16, seeds=(0, 1),
        drop_path=0.4, stops=(0.5, 1.0), subset_images=8, others=1, shuffled=1, ks=(1, 2, 3), student_lr=1e-3,
        checkpoints=(0.0, 1.0),
    ),
    "laptop": Scale(
        width=64, heads=2, depth=12, patch_size=8, registers=0, image_size=32, teacher_steps=4500, teacher_batch=64,
        drop_paths=tuple(i / 10 for i in range(10)), student_steps=200, student_batch=32, student_images=4096,
        eval_images=1000, seeds=(0, 1, 2), drop_path=0.3, stops=tuple(i / 20 for i in range(1, 21)),
        subset_images=1000, others=5, shuffled=3, ks=(1, 2, 3, 4, 6, 8, 12), student_lr=1e-3,
        checkpoints=(0.0, 0.03, 0.1, 0.3, 1.0),
    ),
    "paper": Scale(
        width=768, heads=12, depth=12, patch_size=14, registers=4, image_size=224, teacher_steps=200_000,
        teacher_batch=512, drop_paths=tuple(i / 10 for i in range(10)), student_steps=312_500, student_batch=64,
        student_images=None, eval_images=10_000, seeds=(0, 1, 2), drop_path=0.3,
        stops=tuple(i / 20 for i in range(1, 21)), subset_images=10_000, others=10, shuffled=3,
        ks=tuple(range(1, 13)), student_lr=1e-4, checkpoints=(0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
    ),
}  # fmt: skip
