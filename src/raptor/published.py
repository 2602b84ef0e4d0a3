"""Published numbers, quoted beside ours and never taken for them."""

from __future__ import annotations

from typing import Any

PAPER = "arXiv 2512.19941, Table 1: ImageNet-1k top-1 (%), ADE20k mIoU (%), NYUv2 RMSE"
LATER = "a later version of the paper: means and spreads over seeds"

# Of Raptors of DINOv2 ViT-B and of DINOv2 itself, frozen, with linear probes.
TABLE1: tuple[dict[str, Any], ...] = (
    {"row": "Raptor, k = 2", "k": 2, "top1": 79.9, "miou": 37.4, "rmse": 0.707, "source": PAPER},
    {"row": "Raptor, k = 3", "k": 3, "top1": 82.1, "miou": 40.6, "rmse": 0.640, "source": PAPER},
    {"row": "Raptor, k = 4", "k": 4, "top1": 82.3, "miou": 41.6, "rmse": 0.630, "source": PAPER},
    {"row": "DINOv2 ViT-S", "k": None, "top1": 81.1, "miou": 44.6, "rmse": 0.601, "source": PAPER},
    {"row": "DINOv2 ViT-B (the teacher)", "k": None, "top1": 84.6, "miou": 47.6, "rmse": 0.578, "source": PAPER},
    {"row": "Raptor, k = 2", "k": 2, "top1": 81.2, "top1_spread": 0.2, "source": LATER},
    {"row": "Raptor, k = 3", "k": 3, "top1": 83.0, "top1_spread": 0.1, "miou": 43.0, "miou_spread": 0.3, "rmse": 0.618,
     "rmse_spread": 0.006, "source": LATER},
    {"row": "Raptor, k = 4", "k": 4, "top1": 83.2, "top1_spread": 0.1, "source": LATER},
)  # fmt: skip
