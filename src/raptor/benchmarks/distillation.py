"""A step of distillation against a plain re-statement of the released one, on the same states; inference too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, silu

from raptor.benchmarks.rollout import dinov2_small
from raptor.core.flow import DepthFlow, last_state, rollout
from raptor.core.phases import Phases
from raptor.distillation.losses import TrajectoryLoss
from raptor.distillation.recipes import END_TO_END_WEIGHTS, distillation_named
from raptor.distillation.stage_losses import end_to_end_loss
from raptor.models.load import load_model
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.timing import Ratio, compare, compare_peaks
from raptor.training.config import build_optimizers

PHASES = Phases((7, 3, 2))
BATCH = 16


class PlainBlock(nn.Module):
    """The paper's block as one would first write it: torch's attention module, which returns its weights too."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.inner, self.outer = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.gamma1, self.gamma2 = (nn.Parameter(torch.full((width,), 1e-5)) for _ in range(2))
        self.t_proj = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 3 * width))

    def forward(self, tokens: Tensor, layer: int) -> Tensor:
        """Make one layer."""
        time = torch.full((len(tokens), 1), float(layer), device=tokens.device)
        first, second, whole = (1 + self.t_proj(time))[:, None].chunk(3, dim=-1)
        normed = self.norm1(tokens)
        tokens = tokens + first * self.gamma1 * self.attn(normed, normed, normed)[0]
        gate, value = self.inner(self.norm2(tokens)).chunk(2, dim=-1)
        return whole * (tokens + second * self.gamma2 * self.outer(silu(gate) * value))


@dataclass(frozen=True)
class Size:
    """Of blocks and images; without registers the tokens are cls and a square of patches."""

    width: int
    heads: int
    side: int
    n_register: int

    @property
    def tokens(self) -> int:
        """How many there are."""
        return 1 + self.n_register + self.side**2


SMALL = Size(width=192, heads=3, side=8, n_register=0)
WIDE = Size(width=384, heads=6, side=7, n_register=4)


def _ours(size: Size, recipe: str) -> Callable[[], None]:
    """Return our own step of stage 2, with the released optimiser, AdamW: what is compared are the blocks."""
    surrogate, truth = _given(size, recipe)
    chosen = distillation_named(recipe, muon_lr=0)
    optimizers = build_optimizers(surrogate.raptor, chosen.end_to_end)
    loss = TrajectoryLoss(chosen.end_to_end_weights)

    def step() -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        end_to_end_loss(surrogate.raptor, truth, surrogate.layout, loss).backward()
        nn.utils.clip_grad_norm_(surrogate.raptor.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()

    return step


def _theirs(size: Size) -> Callable[[], None]:
    """Return the released step of stage 2: roll out, weighted errors layer by layer, clip, AdamW."""
    _, truth = _given(size, "released")
    torch.manual_seed(0)
    blocks = nn.ModuleList(PlainBlock(size.width, size.heads) for _ in PHASES.lengths)
    optimizer = torch.optim.AdamW(blocks.parameters(), lr=3e-4, weight_decay=1e-4)
    groups = {"cls": slice(0, 1), "patch": slice(1 + size.n_register, None)}
    if size.n_register:
        groups["register"] = slice(1, 1 + size.n_register)

    def step() -> None:
        optimizer.zero_grad()
        tokens, losses = truth[:, 0], []
        for layer in range(1, PHASES.depth + 1):
            tokens = blocks[PHASES.block_of(layer)](tokens, layer)
            target = truth[:, layer]
            parts = {name: mse_loss(tokens[:, where], target[:, where]) for name, where in groups.items()}
            losses.append(torch.stack([END_TO_END_WEIGHTS[name] * part for name, part in parts.items()]).sum())
        torch.stack(losses).mean().backward()
        nn.utils.clip_grad_norm_(blocks.parameters(), 1.0)
        optimizer.step()

    return step


def _given(size: Size, recipe: str) -> tuple[Surrogate, Tensor]:
    """Return an untrained surrogate and its teacher's states, which both sides are given."""
    torch.manual_seed(0)
    config = ViTConfig(image_size=8 * size.side, width=size.width, heads=size.heads, n_register=size.n_register)
    chosen = distillation_named(recipe)
    surrogate = build_surrogate(load_model(ViT(config)), PHASES, chosen.kind, **chosen.block)
    pixels = torch.randn(BATCH, 3, *surrogate.teacher.image_size)
    with torch.no_grad():
        return surrogate, rollout(surrogate.teacher, surrogate.embed(pixels)).states


def _against_released(recipe: str, size: Size, limit: float) -> Ratio:
    kind = distillation_named(recipe).kind
    name = f"a step with blocks of kind {kind} against the released one, width {size.width}, {size.tokens} tokens"
    return compare(name, _ours(size, recipe), _theirs(size), limit)


def same_block_small() -> Ratio:
    """The same block at width 192 and 65 tokens."""
    return _against_released("released", SMALL, limit=1 / 1.10)


def same_block_wide() -> Ratio:
    """The same block at width 384 and 54 tokens."""
    return _against_released("released", WIDE, limit=1 / 1.03)


def default_block_small() -> Ratio:
    """The default kind at width 192 and 65 tokens."""
    return _against_released("default", SMALL, limit=1 / 1.3)


def default_block_wide() -> Ratio:
    """The default kind at width 384 and 54 tokens."""
    return _against_released("default", WIDE, limit=1 / 1.3)


def peak_memory() -> Ratio:
    """What a step with the same block adds to the peak of memory."""
    name = f"peak memory of a step with the same block against the released one, width {WIDE.width}"
    return compare_peaks(name, (_ours, (WIDE, "released")), (_theirs, (WIDE,)), limit=1.0)


def inference() -> Ratio:
    """A surrogate of the default kind against its teacher, a DINOv2-S."""
    _, teacher, pixels = dinov2_small()
    surrogate = build_surrogate(teacher, PHASES, distillation_named("default").kind).eval()

    @torch.no_grad()
    def run(flow: DepthFlow) -> Tensor:
        return flow.readout(last_state(flow, flow.embed(pixels)))

    name = "inference of a surrogate of DINOv2-S against its teacher"
    return compare(name, lambda: run(surrogate), lambda: run(teacher), limit=1.03, rounds=31)
