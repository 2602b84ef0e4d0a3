"""Old keyword names, which still work and give a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def renamed_keywords(**renamed: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator that accepts old keyword names: `renamed_keywords(old="new")`.

    An old name gives a FutureWarning. A call with both names is a TypeError.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            for old, new in renamed.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() got both {new!r} and its old name {old!r}")
                warnings.warn(
                    f"{old!r} of {function.__name__}() is deprecated: use {new!r}", FutureWarning, stacklevel=2
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapped

    return decorate
