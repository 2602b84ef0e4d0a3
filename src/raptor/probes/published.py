"""Published numbers, quoted next to measured ones and never mixed with them."""

from __future__ import annotations

from dataclasses import dataclass

from raptor.core.serialize import key

PAPER = "arXiv 2512.19941, Table 1: ImageNet-1k top-1 (%), ADE20k mIoU (%), NYUv2 RMSE"
LATER = "a later version of the paper: means and spreads over seeds"


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table: Raptors of DINOv2 ViT-B and DINOv2 itself, frozen, with linear probes.

    Parameters
    ----------
    row, k
        Name of the model; number of blocks, if it is a Raptor.
    source
        Where it was published.
    top1, miou, rmse
        Top-1 accuracy and mean IoU in percent; RMSE of depth. None where it was not published.
    top1_spread, miou_spread, rmse_spread
        Standard deviations over seeds.
    """

    row: str
    k: int | None
    source: str
    top1: float
    miou: float | None = key(None, omit_none=True)
    rmse: float | None = key(None, omit_none=True)
    top1_spread: float | None = key(None, omit_none=True)
    miou_spread: float | None = key(None, omit_none=True)
    rmse_spread: float | None = key(None, omit_none=True)


TABLE1 = (
    PublishedRow("Raptor, k = 2", 2, PAPER, 79.9, 37.4, 0.707),
    PublishedRow("Raptor, k = 3", 3, PAPER, 82.1, 40.6, 0.640),
    PublishedRow("Raptor, k = 4", 4, PAPER, 82.3, 41.6, 0.630),
    PublishedRow("DINOv2 ViT-S", None, PAPER, 81.1, 44.6, 0.601),
    PublishedRow("DINOv2 ViT-B (the teacher)", None, PAPER, 84.6, 47.6, 0.578),
    PublishedRow("Raptor, k = 2", 2, LATER, 81.2, top1_spread=0.2),
    PublishedRow("Raptor, k = 3", 3, LATER, 83.0, 43.0, 0.618, 0.1, 0.3, 0.006),
    PublishedRow("Raptor, k = 4", 4, LATER, 83.2, top1_spread=0.1),
)
