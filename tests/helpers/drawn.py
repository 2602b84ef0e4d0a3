"""Pictures of figures in tests. Rendering one takes half a second, so most tests write stand-ins.

`tests/reporting/test_pictures.py` renders the figures of the whole pipeline, and tests with the mark `pictures` render
theirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import pytest

from pictures import encoded

MODULES = ("raptor.render.charts", "raptor.reporting.write")


def _stand_in(spec):
    assert isinstance(spec, str)
    vector = {".svg": b"<svg/>", ".pdf": b"%PDF-1.4", "-single.svg": b"<svg/>", "-single.pdf": b"%PDF-1.4"}
    return {**vector, ".png": encoded(0)}


@contextmanager
def _drawing(function):
    with mock.patch(f"{MODULES[0]}.pictures", function), mock.patch(f"{MODULES[1]}.pictures", function):
        yield


@pytest.fixture(autouse=True)
def stand_in_pictures(request):
    """Write stand-ins in place of pictures, unless the test has the mark `pictures`."""
    if "pictures" in request.keywords:
        yield
        return
    with _drawing(_stand_in):
        yield
