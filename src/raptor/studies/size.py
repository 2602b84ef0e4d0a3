"""Sizes of studies: `smoke` for tests, `laptop` for two cores and an hour, `paper` for a cluster."""

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
        Seeds of students where there are several; everything else uses the first.
    others
        Number of random partitions that the found ones are compared with.
    widths, ks
        Widths of teachers, and numbers of blocks, in `k-curve`.
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
    others: int
    widths: tuple[int, ...]
    ks: tuple[int, ...]
    student_lr: float
    checkpoints: tuple[float, ...]

    @property
    def seed(self) -> int:
        """Seed of teachers, and of students where there is one of a kind."""
        return self.seeds[0]


SIZES = {
    "smoke": Scale(
        width=16, heads=2, depth=6, patch_size=8, registers=1, image_size=32, teacher_steps=4, teacher_batch=8,
        drop_paths=(0.0, 0.4), student_steps=2, student_batch=4, student_images=16, eval_images=24, seeds=(0, 1),
        others=2, widths=(16,), ks=(1, 2), student_lr=1e-3, checkpoints=(0.0, 1.0),
    ),
    "laptop": Scale(
        width=128, heads=4, depth=12, patch_size=8, registers=0, image_size=32, teacher_steps=1500, teacher_batch=96,
        drop_paths=(0.0, 0.2, 0.4, 0.6), student_steps=120, student_batch=64, student_images=8192,
        eval_images=2000, seeds=(0, 1, 2), others=10, widths=(64, 128), ks=(1, 2, 3, 4, 6, 8, 12), student_lr=1e-3,
        checkpoints=(0.0, 0.03, 0.1, 0.3, 1.0),
    ),
    "paper": Scale(
        width=768, heads=12, depth=12, patch_size=14, registers=4, image_size=224, teacher_steps=200_000,
        teacher_batch=512, drop_paths=tuple(i / 10 for i in range(10)), student_steps=312_500, student_batch=64,
        student_images=None, eval_images=10_000, seeds=(0, 1, 2), others=10, widths=(384, 768),
        ks=tuple(range(1, 13)), student_lr=1e-4, checkpoints=(0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
    ),
}  # fmt: skip
