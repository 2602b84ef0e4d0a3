"""A teacher as a description from which it can be built again, so that a surrogate can stand on its own.

A description is plain JSON: the library, the class or name, its configuration, the image size. Nothing in it is code,
and a class is looked up among those that an adapter knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from torch import nn

from raptor.errors import UnsupportedModelError, WeightsError, one_line
from raptor.hub import import_transformers
from raptor.models.teachers.adapt import ADAPTERS, key_of, parts_of, unwrapped
from raptor.models.teachers.classifiers import CLASSIFIERS
from raptor.models.teachers.heads import with_head
from raptor.models.teachers.teacher import Teacher
from raptor.models.teachers.timm import import_timm
from raptor.models.vit import ViT, ViTConfig
from raptor.preprocessing import Preprocessing

Description = dict[str, Any]

TIMM_OPTIONS = {"img_size", "num_classes", "global_pool"}


def describe(teacher: Teacher) -> Description:
    """Return what `rebuild` needs; raise where a teacher cannot be described."""
    module: Any = unwrapped(teacher.module)
    library = type(module).__module__.partition(".")[0]
    if library not in _OF or (library == "raptor" and not isinstance(module, ViT)):
        raise UnsupportedModelError(
            f"a surrogate can stand alone where its teacher is our ViT or one of transformers or timm, not a "
            f"{key_of(type(module))}"
        )
    linear = teacher.linear
    description = {
        "library": library,
        **_OF[library](module),
        "image_size": list(teacher.image_size),
        "linear": None if linear is None else [linear.in_features, linear.out_features, linear.bias is not None],
    }
    _check(description, module)
    return description


def rebuild(description: Description, preprocessing: Preprocessing, name: str) -> Teacher:
    """Build the teacher of a description, with weights that are still to be loaded."""
    try:
        module = _FROM[description["library"]](description)
        linear = None if description["linear"] is None else nn.Linear(*description["linear"])
        height, width = description["image_size"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WeightsError(f"the description of the teacher cannot be used: {one_line(error)}") from error
    return Teacher(module, lambda model: with_head(parts_of(model, (height, width)), linear), preprocessing, name)


def _check(description: Description, module: nn.Module) -> None:
    """Make sure that what is described is what is there: arguments that a library does not keep would be lost."""
    try:
        again = _FROM[description["library"]](description)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedModelError(
            f"no surrogate of a {key_of(type(module))} can stand alone: {one_line(error)}"
        ) from error
    shapes, wanted = ({name: value.shape for name, value in m.state_dict().items()} for m in (again, module))
    if shapes != wanted:
        odd = min(name for name in {*shapes, *wanted} if shapes.get(name) != wanted.get(name))
        raise UnsupportedModelError(
            f"this {key_of(type(module))} was built with options that it does not keep (its {odd!r} differs), so that "
            "no surrogate of it can stand alone"
        )


def _transformers_class(name: str) -> Any:
    if f"transformers.{name}" not in ADAPTERS and name not in CLASSIFIERS:
        raise ValueError(f"{name!r} is no class of transformers that can be read")
    return getattr(import_transformers(), name)


def _from_transformers(description: Description) -> nn.Module:
    kind = _transformers_class(description["class"])
    return kind(kind.config_class.from_dict(description["config"]))


def _from_timm(description: Description) -> nn.Module:
    name, options = str(description["name"]), description["options"]
    # A description may come from anybody: a name with a scheme would be downloaded, other options may load files.
    if ":" in name or set(options) != TIMM_OPTIONS:
        raise ValueError(f"a timm model is a plain name with {', '.join(sorted(TIMM_OPTIONS))}, not {name!r}")
    return import_timm().create_model(name, pretrained=False, **options)


def _of_timm(module: Any) -> Description:
    name = (getattr(module, "pretrained_cfg", None) or {}).get("architecture")
    if not name:
        raise UnsupportedModelError("a timm model stands alone if timm.create_model built it: it then knows its name")
    options = {
        "img_size": list(module.patch_embed.img_size),
        "num_classes": module.num_classes,
        "global_pool": module.global_pool,
    }
    return {"name": name, "options": options}


_OF: dict[str, Callable[[Any], Description]] = {
    "raptor": lambda module: {"config": asdict(module.config)},
    "transformers": lambda module: {"class": type(module).__name__, "config": module.config.to_dict()},
    "timm": _of_timm,
}
_FROM: dict[str, Callable[[Description], nn.Module]] = {
    "raptor": lambda description: ViT(ViTConfig(**description["config"])),
    "transformers": _from_transformers,
    "timm": _from_timm,
}
