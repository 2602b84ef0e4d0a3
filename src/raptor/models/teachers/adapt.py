"""From a module to its parts: which adapter knows it, and where inside a wrapper the ViT is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from raptor.errors import UnsupportedModelError
from raptor.models.teachers import huggingface, own, timm
from raptor.models.teachers.classifiers import classifier_of
from raptor.models.teachers.teacher import Adapter, Parts
from raptor.preprocessing import Size

# One row for each class that can be read; `register_adapter` adds to it.
ADAPTERS: dict[str, Adapter] = {**huggingface.ADAPTERS, **timm.ADAPTERS, **own.ADAPTERS}


def key_of(kind: type) -> str:
    """Return `library.Class`: several libraries have a class `VisionTransformer`."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def register_adapter(kind: type[nn.Module], adapter: Adapter) -> None:
    """Teach `load_teacher` a class of your own.

    Parameters
    ----------
    kind
        The class; its subclasses are read in the same way.
    adapter
        `adapter(model, image_size)` returns `Parts`; `image_size` is None or (height, width).
    """
    ADAPTERS[key_of(kind)] = adapter


def _adapter_for(module: nn.Module) -> Adapter | None:
    return next((ADAPTERS[key] for key in map(key_of, type(module).__mro__) if key in ADAPTERS), None)


def unwrapped(module: nn.Module) -> nn.Module:
    """Return what `DataParallel` and `torch.compile` have put a shell around."""
    for shell in ("module", "_orig_mod"):
        if isinstance(inner := getattr(module, shell, None), nn.Module):
            return unwrapped(inner)
    return module


def _candidates(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the module itself, then what it wraps: a two-tower model or a head keeps its ViT one level down."""
    yield module
    yield from module.children()


def supported() -> str:
    """Return the supported classes as one line."""
    return ", ".join(sorted(ADAPTERS))


def parts_of(module: nn.Module, image_size: Size | None = None) -> Parts:
    """Return the parts of a module that some adapter knows, its classifier included."""
    module = unwrapped(module)
    for base in _candidates(module):
        if adapter := _adapter_for(base):
            parts = adapter(base, image_size)
            if parts.classify is None:
                parts = replace(parts, classify=classifier_of(module, base, parts.layout))
            return parts
    raise UnsupportedModelError(
        f"no adapter knows {key_of(type(module))}; supported are {supported()}. "
        "raptor.register_adapter teaches it a new one in about 20 lines: see docs/adapters.md"
    )
