"""Recipes of distillation by name: `default`, and the hyper-parameters of the `paper` and of the `released` script.

Where the sources give numbers of steps, we take shares of `steps`, so that short runs have the same schedule.
`RECIPES` lists them: add a function to it and the recipe works in Python and as `--recipe`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raptor.distillation.hyperparameters import SHORTEST_WARMUP, Distillation
from raptor.distillation.options import BATCH_SIZE, STEPS
from raptor.errors import OptionError
from raptor.training.config import TrainConfig, check_rates

# Common to both sources: 10,000 warm-up steps, a cosine to 1e-6, weight decay on all parameters. The paper trains each
# stage for 20 epochs of ImageNet in batches of 64, the released script for 312,500 steps.
WARMUP = 10_000
PAPER_STEPS, RELEASED_STEPS = 400_365, 312_500
LAST_RATE = 1e-6
LAST_WEIGHTS = {"cls": 0.34, "register": 0.33, "patch": 0.33}
END_TO_END_WEIGHTS = {"cls": 0.45, "register": 0.10, "patch": 0.45}


def _literal(
    steps: int, batch_size: int, seed: int, lr: float, clip: float | None, forcing: float, warmup_share: float
) -> Distillation:
    """Return the hyper-parameters that the paper and the released script share."""
    recipe = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        warmup=round(warmup_share * steps),
        floor=LAST_RATE / lr,
        weight_decay=1e-4,
        decay_all=True,
        betas=(0.9, 0.999),
        clip=clip,
        seed=seed,
    )
    return Distillation(
        blockwise=recipe,
        end_to_end=recipe,
        kind="swiglu",
        block={"mlp_ratio": 4.0, "layer_scale": 1e-5},
        forcing=forcing,
        forcing_share=0.25,
        last_weights=LAST_WEIGHTS,
        end_to_end_weights=END_TO_END_WEIGHTS,
    )


def _paper(steps: int, batch_size: int, seed: int, lr: float | None) -> Distillation:
    """Return the recipe of section 3 and appendix B.

    The paper sums squares and we average them; the factor does not change what AdamW does.
    """
    return _literal(steps, batch_size, seed, lr or 1e-4, None, 0.5, WARMUP / PAPER_STEPS)


def _released(steps: int, batch_size: int, seed: int, lr: float | None) -> Distillation:
    """Return the recipe of the training script that the authors released."""
    return _literal(steps, batch_size, seed, lr or 3e-4, 1.0, 1.0, WARMUP / RELEASED_STEPS)


def _default(steps: int, batch_size: int, seed: int, lr: float | None) -> Distillation:
    """Return our recipe: the teacher's own blocks, errors relative to each layer's variance, Muon, no teacher forcing.

    Rollouts through all layers need a fifth of the learning rate that rollouts within a phase do.
    """
    blockwise = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        lr=lr or 1e-3,
        muon_lr=1.5e-2,
        warmup=max(SHORTEST_WARMUP, round(0.03 * steps)),
        floor=0.01,
        weight_decay=1e-4,
        betas=(0.9, 0.98),
        seed=seed,
    )
    return Distillation(
        blockwise=blockwise,
        end_to_end=replace(blockwise, muon_lr=3e-3),
        kind="teacher",
        forcing=0.0,
        last_weights=LAST_WEIGHTS,
        end_to_end_weights=END_TO_END_WEIGHTS,
        normalise=True,
        per_token=None,
        crop=None,
        window=None,
        window_keeps=None,
        fit_images=None,
    )


# Errors by name: whether a variance divides them, and whether it is that of each token position.
ERRORS = {"squared": (False, False), "variance": (True, False), "token-variance": (True, True)}

RECIPES = {"default": _default, "paper": _paper, "released": _released}


def distillation_named(
    name: str,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    lr: float | None = None,
    muon_lr: float | None = None,
    kind: str | None = None,
    crop: float | None = None,
    window: float | None = None,
    head_weight: float = 0.0,
    error: str | None = None,
    blockwise_steps: int | None = None,
    **block: Any,
) -> Distillation:
    """Return a recipe by name.

    Parameters
    ----------
    name
        `default`, `paper` or `released`.
    steps
        Steps of each stage.
    batch_size, seed
        Images per step and seed of both stages.
    lr, muon_lr
        Peak learning rates of AdamW and Muon in place of the recipe's. `muon_lr` is that of stage 1, and stage 2 keeps
        its share of it; 0 trains everything with AdamW.
    crop, window
        Random crops, and windows of patches for stage 1, in place of the recipe's.
    head_weight
        As in `Distillation`.
    error
        One of `ERRORS` in place of the recipe's.
    blockwise_steps
        Steps of stage 1 in place of `steps`.
    kind, **block
        Blocks in place of the recipe's, as in `build_raptor`; the recipe's options are kept where the kind is the same.
    """
    check_rates(lr, muon_lr or None)  # 0 is no learning rate of Muon: AdamW trains everything
    if name not in RECIPES:
        raise OptionError(f"unknown recipe {name!r}; choose {', '.join(RECIPES)}")
    chosen = RECIPES[name](steps, batch_size, seed, lr)
    if muon_lr is not None:
        second = muon_lr * (chosen.end_to_end.muon_lr or 1.0) / (chosen.blockwise.muon_lr or 1.0)
        chosen = replace(
            chosen,
            blockwise=replace(chosen.blockwise, muon_lr=muon_lr or None),
            end_to_end=replace(chosen.end_to_end, muon_lr=second or None),
        )
    if blockwise_steps is not None:
        shorter = chosen.with_steps(blockwise_steps)
        chosen = replace(chosen, blockwise=shorter.blockwise)
    chosen = replace(
        chosen, crop=chosen.crop if crop is None else crop, window=chosen.window if window is None else window
    )
    if error is not None:
        if error not in ERRORS:
            raise OptionError(f"unknown error {error!r}; choose {', '.join(ERRORS)}")
        normalise, per_token = ERRORS[error]
        chosen = replace(chosen, normalise=normalise, per_token=per_token)
    kept = chosen.block if kind in (None, chosen.kind) else {}
    return replace(chosen, kind=kind or chosen.kind, block={**kept, **block}, head_weight=head_weight)
