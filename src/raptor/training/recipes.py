"""How a surrogate is trained, by name: `default`, and the `paper`'s and the `released` hyper-parameters literally.

Where the sources give numbers of steps, shares of `steps` are taken, so that short runs have the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from raptor.errors import OptionError
from raptor.training.recipe import Recipe, check_rates

STEPS = 2000  # a stage, where nothing is said
BATCH_SIZE = 64  # both sources'


@dataclass(frozen=True)
class Distillation:
    """How a surrogate is trained.

    Parameters
    ----------
    apart, joined
        The optimisation of stage 1 (every block from the true input of its phase) and of stage 2 (rolled out from
        layer 0).
    kind, block
        Of the tied blocks, and their options, as in `build_raptor`.
    forcing, forcing_share
        Teacher forcing of stage 1: its weight at the start, and the share of steps over which it falls to 0; the rest
        of the weight is on the block's own rollout within its phase.
    last_weights, joined_weights
        Token weights of the last block in stage 1, and of all layers in stage 2; other blocks count every token alike.
    normalise
        Whether each layer's loss is divided by the variance of its states.
    """

    apart: Recipe
    joined: Recipe
    kind: str = "teacher"
    block: dict[str, Any] = field(default_factory=dict)
    forcing: float = 0.5
    forcing_share: float = 0.25
    last_weights: dict[str, float] | None = None
    joined_weights: dict[str, float] | None = None
    normalise: bool = False


# Common to both sources: of 312,500 steps 10,000 are warm-up; a cosine to 1e-6; weight decay on everything.
WARMUP_SHARE = 10_000 / 312_500
LAST_RATE = 1e-6
LAST_WEIGHTS = {"cls": 0.34, "register": 0.33, "patch": 0.33}
JOINED_WEIGHTS = {"cls": 0.45, "register": 0.10, "patch": 0.45}


def _literal(steps: int, batch_size: int, seed: int, lr: float, clip: float | None, forcing: float) -> Distillation:
    """Return what both sources share."""
    recipe = Recipe(
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        warmup=round(WARMUP_SHARE * steps),
        floor=LAST_RATE / lr,
        weight_decay=1e-4,
        decay_all=True,
        betas=(0.9, 0.999),
        clip=clip,
        seed=seed,
    )
    return Distillation(
        apart=recipe,
        joined=recipe,
        kind="swiglu",
        block={"mlp_ratio": 4.0, "layer_scale": 1e-5},
        forcing=forcing,
        forcing_share=0.25,
        last_weights=LAST_WEIGHTS,
        joined_weights=JOINED_WEIGHTS,
    )


def _paper(steps: int, batch_size: int, seed: int, lr: float | None) -> Distillation:
    """Section 3 and appendix B; its sum of squares differs from the mean by a factor, which AdamW does not see."""
    return _literal(steps, batch_size, seed, lr or 1e-4, clip=None, forcing=0.5)


def _released(steps: int, batch_size: int, seed: int, lr: float | None) -> Distillation:
    """The training script that the authors released."""
    return _literal(steps, batch_size, seed, lr or 3e-4, clip=1.0, forcing=1.0)


SHORTEST_WARMUP = 20  # Muon turns the rounding of its first gradients into whole steps where rates start high


def _default(steps: int, batch_size: int, seed: int, lr: float | None) -> Distillation:
    """Ours: the teacher's own blocks, every layer's error in units of its variance, Muon, no teacher forcing.

    Rollouts through all layers bear a fifth of the rate that rollouts within a phase do.
    """
    apart = Recipe(
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
        apart=apart, joined=replace(apart, muon_lr=3e-3), kind="teacher", forcing=0.0, last_weights=LAST_WEIGHTS,
        joined_weights=JOINED_WEIGHTS, normalise=True,
    )  # fmt: skip


RECIPES = {"default": _default, "paper": _paper, "released": _released}


def distillation_named(
    name: str,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    lr: float | None = None,
    muon_lr: float | None = None,
    kind: str | None = None,
    **block: Any,
) -> Distillation:
    """Return a recipe by name.

    Parameters
    ----------
    name
        `default`, `paper` or `released`.
    steps
        Of each stage.
    batch_size, seed
        Of both.
    lr, muon_lr
        Peak learning rates instead of the recipe's; `muon_lr` is that of stage 1, and stage 2 keeps its share of it; 0
        leaves all to AdamW.
    kind, **block
        Blocks instead of the recipe's; options are kept where the kind is the same.
    """
    check_rates(lr, muon_lr or None)  # no rate of Muon leaves all to AdamW
    if name not in RECIPES:
        raise OptionError(f"there is no recipe {name!r}; there are {', '.join(RECIPES)}")
    chosen = RECIPES[name](steps, batch_size, seed, lr)
    if muon_lr is not None:
        second = muon_lr * (chosen.joined.muon_lr or 1.0) / (chosen.apart.muon_lr or 1.0)
        chosen = replace(
            chosen,
            apart=replace(chosen.apart, muon_lr=muon_lr or None),
            joined=replace(chosen.joined, muon_lr=second or None),
        )
    kept = chosen.block if kind in (None, chosen.kind) else {}
    return replace(chosen, kind=kind or chosen.kind, block={**kept, **block})
