"""The door to `transformers`, its hub and torchmetrics: opened lazily, past what is broken or not there."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType

# What the hub takes as the id of a model or of a data set.
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", flags=re.ASCII)


def _hide_broken_torchvision() -> bool:
    """Hide a torchvision that does not fit the installed torch; return whether it is hidden.

    Libraries import torchvision wherever it is installed, and one built for another torch fails there ("operator
    torchvision::nms does not exist"). Nothing here needs it, so a broken one is hidden from this process; whoever
    imports it later gets an ImportError instead.
    """
    if "torchvision" not in sys.modules:
        try:
            importlib.import_module("torchvision")
        except ImportError:
            pass
        except (RuntimeError, AttributeError, OSError):
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            sys.modules["torchvision"] = None  # type: ignore[assignment]
    return "torchvision" in sys.modules and sys.modules["torchvision"] is None


def import_transformers() -> ModuleType:
    """Import transformers, past a broken torchvision."""
    _hide_broken_torchvision()
    return importlib.import_module("transformers")


def import_torchmetrics() -> ModuleType:
    """Import torchmetrics.functional, past a broken torchvision.

    It believes what is installed rather than what can be imported; empty modules answer it while it is imported.
    """
    if not _hide_broken_torchvision() or "torchmetrics" in sys.modules:
        return importlib.import_module("torchmetrics.functional")
    import_transformers()  # which torchmetrics imports, and which shall not see the empty modules
    names = ["torchvision", *(f"torchvision.{part}" for part in ("models", "ops", "transforms"))]
    for name in names:
        empty = ModuleType(name)
        vars(empty)["__getattr__"] = lambda attribute: None
        sys.modules[name] = empty
    try:
        return importlib.import_module("torchmetrics.functional")
    finally:
        for name in names:
            del sys.modules[name]
        _hide_broken_torchvision()


def reachable() -> bool:
    """Ask the hub for a few seconds at most: its client's own retries take half a minute without a network."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=5)
    except Exception:  # the client's own class of connection errors depends on its version
        return False
    return True


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep transformers' reports and bars out of the way: what matters in them is checked and raised here."""
    logging = import_transformers().utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logging.enable_progress_bar()
