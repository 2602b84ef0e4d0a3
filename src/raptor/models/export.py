"""Surrogates for other runtimes: torch's exported programs, and ONNX. What is written is checked against eager."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from raptor.errors import MissingDependencyError, OptionError, RaptorError, UnsupportedModelError, one_line
from raptor.files import replacing
from raptor.flow import last_state
from raptor.models.teachers.teacher import Teacher

TOLERANCE = 1e-4  # of the largest output, by which an export may differ
CHECKED = 3  # images of the check; another number than that of the export shows that the batch is free


class _Outputs(nn.Module):
    """Tokens after the final norm and, where there is a classifier, logits."""

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
            raise MissingDependencyError(f"ONNX needs the package {package}: pip install 'raptor-vit[export]'")
    import onnxruntime

    names = ["last_hidden_state", "logits"][: len(module(pixels))]
    torch.onnx.export(
        module, (pixels,), file, dynamo=True, external_data=False, verbose=False, input_names=["pixel_values"],
        output_names=names, dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
    )  # fmt: skip
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda pixels: [torch.from_numpy(out) for out in session.run(None, {"pixel_values": pixels.numpy()})]


FORMATS: dict[str, tuple[str, Callable[[nn.Module, Tensor, Path], Callable[[Tensor], list[Tensor]]]]] = {
    "torch-export": ("model.pt2", _torch_export),
    "onnx": ("model.onnx", _onnx),
}


@torch.no_grad()
def export(flow: Teacher, folder: Path, form: str) -> tuple[Path, float]:
    """Write a model in another format; return the file and its largest difference from eager, over all outputs.

    Parameters
    ----------
    flow
        What `load_teacher` gives, on the CPU.
    folder
        Where to write.
    form
        `torch-export` or `onnx`.
    """
    if form not in FORMATS:
        raise OptionError(f"there is no format {form!r}; there are {', '.join(FORMATS)}")
    name, write = FORMATS[form]
    module = _Outputs(flow).eval()
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(CHECKED, 3, *flow.image_size, generator=generator)
    wanted = module(pixels)
    with replacing(folder / form) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporters' own internals
        try:
            found: list[Any] = write(module, pixels[:2], made / name)(pixels)
        except RaptorError:
            raise
        except Exception as error:
            # The exporters raise many kinds at what they do not know.
            raise UnsupportedModelError(f"{flow.name!r} cannot be exported as {form}: {one_line(error)}") from error
        difference = max((a - b).abs().max().item() for a, b in zip(found, wanted, strict=True))
        largest = max(out.abs().max().item() for out in wanted)
        if difference > TOLERANCE * max(1.0, largest):
            raise UnsupportedModelError(
                f"the {form} of {flow.name!r} differs from what it was made from by {difference:.1e}, in numbers of up "
                f"to {largest:.1e}; nothing is written"
            )
    return folder / form / name, difference
