"""Lazy imports of transformers and torchmetrics that survive a broken torchvision, and access to the hub."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType

# What the hub accepts as the id of a model or a dataset.
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", flags=re.ASCII)


@cache
def torchvision_is_broken() -> bool:
    """Return whether torchvision is installed but cannot be imported, as when it was built for another torch."""
    if "torchvision" in sys.modules:
        return sys.modules["torchvision"] is None
    try:
        importlib.import_module("torchvision")
    except ImportError:  # not installed
        return False
    except (RuntimeError, AttributeError, OSError):  # such as "operator torchvision::nms does not exist"
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return True
    return False


@contextlib.contextmanager
def _replaced(modules: dict[str, ModuleType | None]) -> Iterator[None]:
    """Put modules into `sys.modules` (None makes an import fail), and restore it at the end."""
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def import_transformers() -> ModuleType:
    """Import transformers.

    A broken torchvision, which raptor does not need, is hidden while transformers is imported. transformers then
    remembers that there is none, so that `sys.modules` can be restored although it imports its models later.
    """
    if not torchvision_is_broken() or "transformers" in sys.modules:
        return importlib.import_module("transformers")
    with _replaced({"torchvision": None}):
        transformers = importlib.import_module("transformers")
        transformers.utils.is_torchvision_available()  # cached by transformers
        transformers.utils.is_torchvision_v2_available()
    return transformers


def import_torchmetrics() -> ModuleType:
    """Import torchmetrics.functional.

    torchmetrics looks at the installed packages, so empty modules replace a broken torchvision during the import.
    """
    if not torchvision_is_broken() or "torchmetrics" in sys.modules:
        return importlib.import_module("torchmetrics.functional")
    import_transformers()  # torchmetrics imports it too, and it must not see the empty modules
    empty: dict[str, ModuleType | None] = {}
    for name in ("torchvision", "torchvision.models", "torchvision.ops", "torchvision.transforms"):
        module = ModuleType(name)
        vars(module)["__getattr__"] = lambda attribute: None
        empty[name] = module
    with _replaced(empty):
        return importlib.import_module("torchmetrics.functional")


def reachable() -> bool:
    """Return whether the hub answers within five seconds; its client would retry for half a minute."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=5)
    except Exception:  # the class of a connection error depends on the client's version
        return False
    return True


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Turn off transformers' log messages and progress bars, and restore both at the end."""
    logging = import_transformers().utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
