"""Descriptions of teachers, from which the parts that a saved surrogate needs are rebuilt.

A description is plain JSON: the library, the class or name, the configuration and the image size. It contains no code,
and only classes with an adapter are accepted. A model of the user's own code is described by the name of its class
alone: whoever loads its surrogate passes the model, because a file must not choose what code runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from torch import nn

from raptor.core.preprocessing import Preprocessing
from raptor.errors import UnsupportedModelError, WeightsError, one_line
from raptor.models.teachers.classifiers import CLASSIFIERS
from raptor.models.teachers.heads import with_head
from raptor.models.teachers.registry import ADAPTERS, key_of, parts_of, unwrapped
from raptor.models.teachers.teacher import Teacher
from raptor.models.teachers.timm import import_timm
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.optional_imports import import_transformers

Description = dict[str, Any]

USER = "python"  # library of a model that is the user's own code
TIMM_OPTIONS = {"img_size", "num_classes", "global_pool"}


def describe(teacher: Teacher) -> Description:
    """Return a description of a teacher for `rebuild`; raise an UnsupportedModelError if that is not possible."""
    module: Any = unwrapped(teacher.module)
    library = type(module).__module__.partition(".")[0]
    if library == "raptor" and not isinstance(module, ViT):
        raise UnsupportedModelError(
            f"a surrogate of {key_of(type(module))} cannot be saved: distill a surrogate of its teacher instead"
        )
    linear = teacher.linear
    description = {
        "library": library if library in _OF else USER,
        **_OF.get(library, _of_user)(module),
        "image_size": list(teacher.image_size),
        "linear": None if linear is None else [linear.in_features, linear.out_features, linear.bias is not None],
    }
    if description["library"] != USER:
        _check(description, module)
    return description


def rebuild(
    description: Description, preprocessing: Preprocessing, name: str, module: nn.Module | None = None
) -> Teacher:
    """Build a teacher from its description.

    Parameters
    ----------
    description
        What `describe` returned.
    preprocessing, name
        Of the teacher.
    module
        A copy of the teacher's module, if it is the user's own; other modules are built, with random weights.
    """
    try:
        if description["library"] == USER:
            module = _of_class(module, description["class"])
        else:
            module = _FROM[description["library"]](description)
        linear = None if description["linear"] is None else nn.Linear(*description["linear"])
        height, width = description["image_size"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WeightsError(f"the description of the teacher in config.json is invalid: {one_line(error)}") from error
    return Teacher(module, lambda model: with_head(parts_of(model, (height, width)), linear), preprocessing, name)


def _of_user(module: Any) -> Description:
    return {"class": key_of(type(module))}


def _of_class(module: nn.Module | None, wanted: str) -> nn.Module:
    """Return the user's module if it is of the right class; raise a WeightsError if it is not, or if there is none."""
    if module is None:
        raise WeightsError(
            f"this surrogate needs the code of its teacher, {wanted}: use "
            "raptor.load_model(DIRECTORY, teacher=...), or --teacher "
            "python:package.module:function with raptor fidelity"
        )
    if key_of(type(module)) != wanted:
        raise WeightsError(f"this surrogate was distilled from a {wanted}, not from a {key_of(type(module))}")
    return module


def _check(description: Description, module: nn.Module) -> None:
    """Raise an UnsupportedModelError if a model built from the description has other weights than the module."""
    try:
        again = _FROM[description["library"]](description)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedModelError(
            f"a surrogate of {key_of(type(module))} cannot be saved: {one_line(error)}"
        ) from error
    shapes, wanted = ({name: value.shape for name, value in m.state_dict().items()} for m in (again, module))
    if shapes != wanted:
        odd = min(name for name in {*shapes, *wanted} if shapes.get(name) != wanted.get(name))
        raise UnsupportedModelError(
            f"a surrogate of this {key_of(type(module))} cannot be saved: {odd!r} depends on settings that its "
            "configuration does not contain"
        )


def _transformers_class(name: str) -> Any:
    if f"transformers.{name}" not in ADAPTERS and name not in CLASSIFIERS:
        raise ValueError(f"{name!r} is not a supported class of transformers")
    return getattr(import_transformers(), name)


def _from_transformers(description: Description) -> nn.Module:
    kind = _transformers_class(description["class"])
    return kind(kind.config_class.from_dict(description["config"]))


def _from_timm(description: Description) -> nn.Module:
    name, options = str(description["name"]), description["options"]
    # The description is untrusted: a name with a prefix would be downloaded, and other options may load files.
    if ":" in name or set(options) != TIMM_OPTIONS:
        raise ValueError(f"timm model {name!r} must be a plain name with the options {', '.join(sorted(TIMM_OPTIONS))}")
    return import_timm().create_model(name, pretrained=False, **options)


def _of_timm(module: Any) -> Description:
    name = (getattr(module, "pretrained_cfg", None) or {}).get("architecture")
    if not name:
        raise UnsupportedModelError(
            "a surrogate of this timm model cannot be saved; build the model with timm.create_model"
        )
    options = {
        "img_size": list(module.patch_embed.img_size),
        "num_classes": module.num_classes,
        "global_pool": module.global_pool,
    }
    return {"name": name, "options": options}


_OF: dict[str, Callable[[Any], Description]] = {
    "raptor": lambda module: {
        "config": {name: value for name, value in asdict(module.config).items() if (name, value) != ("tied", None)}
    },
    "transformers": lambda module: {"class": type(module).__name__, "config": module.config.to_dict()},
    "timm": _of_timm,
}
_FROM: dict[str, Callable[[Description], nn.Module]] = {
    "raptor": lambda description: ViT(ViTConfig(**description["config"])),
    "transformers": _from_transformers,
    "timm": _from_timm,
}
