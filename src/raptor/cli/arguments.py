"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str, typer.Argument(help="scenes, a hub id, a directory, timm:NAME, dinov2:ARCH with --weights; scenes:k2.")
]
Data = Annotated[
    str | None, typer.Option(help="Images: a folder, class folders, parquet or a dataset id; DATA[:SPLIT].")
]
Weights = Annotated[Path | None, typer.Option(help="File with the weights: .safetensors, or .pth of plain tensors.")]
Head = Annotated[Path | None, typer.Option(help="File with a linear classifier's weight and bias.")]
EvalData = Annotated[str | None, typer.Option(help="Images to report on; by default the held-out split.")]
