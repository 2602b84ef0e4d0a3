"""The registry of adapters, and the search for the ViT inside a module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from raptor.core.preprocessing import Size
from raptor.errors import UnsupportedModelError
from raptor.models.elastic import elastic_parts
from raptor.models.half_steps import half_step_parts
from raptor.models.teachers import flows, huggingface, own, timm
from raptor.models.teachers.classifiers import classifier_of
from raptor.models.teachers.teacher import Adapter, Parts

# Adapter of each supported class; `register_adapter` adds to it.
ADAPTERS: dict[str, Adapter] = {
    **huggingface.ADAPTERS, **timm.ADAPTERS, **own.ADAPTERS, **flows.ADAPTERS,
    "raptor.ElasticModel": elastic_parts, "raptor.HalfStepModel": half_step_parts,
}  # fmt: skip
BUILT_IN = frozenset(ADAPTERS)


def key_of(kind: type) -> str:
    """Return `library.Class`, because several libraries have a class `VisionTransformer`."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def register_adapter(kind: type[nn.Module], adapter: Adapter) -> None:
    """Register an adapter, so that `load_model` can read models of a class of yours.

    Parameters
    ----------
    kind
        The class; the adapter is also used for its subclasses.
    adapter
        `adapter(model, image_size)` returns `Parts`; `image_size` is (height, width) in pixels, or None.
    """
    ADAPTERS[key_of(kind)] = adapter


def _adapter_for(module: nn.Module) -> Adapter | None:
    return next((ADAPTERS[key] for key in map(key_of, type(module).__mro__) if key in ADAPTERS), None)


def is_built_in(module: nn.Module) -> bool:
    """Return whether raptor's own adapter reads a module; those of users are checked when a model is loaded."""
    found = (key for base in _candidates(unwrapped(module)) for key in map(key_of, type(base).__mro__))
    return next((key in BUILT_IN for key in found if key in ADAPTERS), True)


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module inside the wrappers of `DataParallel` and `torch.compile`."""
    for shell in ("module", "_orig_mod"):
        if isinstance(inner := getattr(module, shell, None), nn.Module):
            return unwrapped(inner)
    return module


def _candidates(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the module and its children; a two-tower model or a classifier has its ViT one level down."""
    yield module
    yield from module.children()


def supported() -> str:
    """Return the names of the supported classes as text."""
    return ", ".join(sorted(ADAPTERS))


def parts_of(module: nn.Module, image_size: Size | None = None) -> Parts:
    """Return the parts of a module, including its classifier; raise an UnsupportedModelError without an adapter."""
    module = unwrapped(module)
    for base in _candidates(module):
        if adapter := _adapter_for(base):
            parts = adapter(base, image_size)
            if not isinstance(parts, Parts):
                raise UnsupportedModelError(
                    f"the adapter of {key_of(type(base))} returned a {type(parts).__name__}, not raptor.Parts"
                )
            if parts.classify is None and parts.head is None:
                parts = replace(parts, classify=classifier_of(module, base, parts.layout))
            return parts
    raise UnsupportedModelError(
        f"{key_of(type(module))} has no adapter; supported are {supported()}. You can add an adapter with "
        "raptor.register_adapter: see docs/adapters.md"
    )
