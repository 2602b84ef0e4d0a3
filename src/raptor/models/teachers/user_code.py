"""Models that a function of the user builds: `python:package.module:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import nn

from raptor.core.flow import DepthFlow
from raptor.core.preprocessing import Preprocessing
from raptor.errors import ModelNotFoundError, OptionError, RaptorError, UnsupportedModelError, one_line
from raptor.models.teachers.flows import FlowModel
from raptor.models.teachers.teacher import Teacher

SCHEME = "python:"


def call_function(name: str) -> tuple[nn.Module, Preprocessing | None]:
    """Import a module, call a function of it, and return the model that it returns.

    Parameters
    ----------
    name
        `package.module:function`. The module is searched in the current directory too. The function takes no
        arguments and returns a module, a depth flow, or a pair of one of them and its `Preprocessing`.
    """
    module_name, colon, function_name = name.partition(":")
    if not (colon and function_name.isidentifier() and all(map(str.isidentifier, module_name.split(".")))):
        raise OptionError(f"a model of your own is python:package.module:function, not {SCHEME + name[:200]!r}")
    with _current_directory():
        try:
            function = getattr(importlib.import_module(module_name), function_name)
        except AttributeError as error:
            raise ModelNotFoundError(f"the module {module_name!r} has no function {function_name!r}") from error
        except Exception as error:
            raise ModelNotFoundError(f"the module {module_name!r} cannot be imported: {one_line(error)}") from error
        try:
            made = function()
        except RaptorError:
            raise
        except Exception as error:
            raise ModelNotFoundError(
                f"{function_name}() of {module_name!r} failed: {one_line(error)} (--debug shows where)"
            ) from error
    return _as_model(made, name)


def _as_model(made: Any, name: str) -> tuple[nn.Module, Preprocessing | None]:
    """Return a module and its preprocessing from what a user's function returned."""
    model, preprocessing = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not (preprocessing is None or isinstance(preprocessing, Preprocessing)):
        raise UnsupportedModelError(
            f"{name} returned a pair whose second part is a {type(preprocessing).__name__}, not raptor.Preprocessing"
        )
    if preprocessing is not None:
        preprocessing = replace(preprocessing, source=f"{SCHEME}{name}")
    if isinstance(model, Teacher):
        return model, preprocessing or model.preprocessing
    if isinstance(model, DepthFlow):
        return FlowModel(model), preprocessing
    if isinstance(model, nn.Module):
        return model, preprocessing
    raise UnsupportedModelError(
        f"{name} returned a {type(model).__name__}; it must return an nn.Module, a depth flow, or a pair of one of "
        "them and raptor.Preprocessing"
    )


@contextmanager
def _current_directory() -> Iterator[None]:
    """Search modules in the current directory too, as `python -m` does."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
