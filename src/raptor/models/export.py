"""Models for other runtimes: torch's exported programs and ONNX. What is written is compared with the original.

`FORMATS` lists the formats: add a file name and a function to it and the format works in Python and as `--format`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from raptor.core.flow import last_state
from raptor.errors import MissingDependencyError, RaptorError, UnsupportedModelError, one_line
from raptor.models.teachers.teacher import Teacher
from raptor.runtime.files import explained, replacing

TOLERANCE = 1e-4  # largest difference, relative to the largest output
CHECKED = 3  # images of the comparison; a batch size other than the export's shows that it is dynamic


class _Outputs(nn.Module):
    """A module that returns the tokens after the final norm and, if there is a classifier, logits."""

    def __init__(self, flow: Teacher):
        super().__init__()
        self.flow = flow

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        flow = self.flow
        last = last_state(flow, flow.embed(pixels))
        return (flow.readout(last),) if flow.head is None else (flow.readout(last), flow.head(last))


def _torch_export(module: nn.Module, pixels: Tensor, file: Path) -> Callable[[Tensor], list[Tensor]]:
    program = torch.export.export(module, (pixels,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.export.save(program, file)
    again = torch.export.load(file).module()
    return lambda pixels: list(again(pixels))


def _onnx(module: nn.Module, pixels: Tensor, file: Path) -> Callable[[Tensor], list[Tensor]]:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(f"ONNX export needs the package {package}: pip install 'raptor-vit[export]'")
    import onnxruntime

    names = ["last_hidden_state", "logits"][: len(module(pixels))]
    torch.onnx.export(
        module, (pixels,), file, dynamo=True, external_data=False, verbose=False, input_names=["pixel_values"],
        output_names=names, dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
    )  # fmt: skip
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda pixels: [torch.from_numpy(out) for out in session.run(None, {"pixel_values": pixels.numpy()})]


FIXED_BATCH = "its code fixes the batch size; use x.shape[0] in place of len(x), and no number taken from an example"
FORMATS: dict[str, tuple[str, Callable[[nn.Module, Tensor, Path], Callable[[Tensor], list[Tensor]]]]] = {
    "torch-export": ("model.pt2", _torch_export),
    "onnx": ("model.onnx", _onnx),
}


@torch.no_grad()
def write_export(flow: Teacher, folder: Path, form: str) -> tuple[Path, float]:
    """Write a model in another format; return the file and its largest absolute difference from eager mode.

    Parameters
    ----------
    flow
        What `load_model` returns, on the CPU.
    folder
        Folder to write to.
    form
        A key of `FORMATS`.
    """
    name, write = FORMATS[form]
    module = _Outputs(flow).eval()
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(CHECKED, 3, *flow.image_size, generator=generator)
    wanted = module(pixels)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / form) as made, warnings.catch_warnings(), _quiet("torch.onnx"):
        warnings.simplefilter("ignore")  # about the exporters' internals
        try:
            found: list[Any] = write(module, pixels[:2], made / name)(pixels)
        except RaptorError:
            raise
        except Exception as error:
            # The exporters raise many kinds of errors at operators that they do not support.
            why = FIXED_BATCH if "specialized it to be a constant" in str(error) else one_line(error)
            raise UnsupportedModelError(f"{flow.name!r} cannot be exported as {form}: {why}") from error
        difference = max((a - b).abs().max().item() for a, b in zip(found, wanted, strict=True))
        largest = max(out.abs().max().item() for out in wanted)
        if difference > TOLERANCE * max(1.0, largest):
            raise UnsupportedModelError(
                f"the {form} of {flow.name!r} differs from the original by {difference:.1e}, with outputs of up to "
                f"{largest:.1e}; nothing was written"
            )
    return folder / form / name, difference


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Let a logger report only errors, and give it back its level at the end."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
