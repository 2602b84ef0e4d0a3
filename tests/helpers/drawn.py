"""Pictures of figures in tests. Rendering one takes half a second, so most tests write stand-ins.

The golden `run` draws every figure of the pipeline for real, and so do tests with the mark `pictures`.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import pytest

from pictures import encoded

MODULES = ("raptor.render.charts", "raptor.reporting.write")
REAL = []  # the function that renders, once it was replaced


def _stand_in(spec):
    assert isinstance(spec, str)
    return {"svg": b"<svg/>", "pdf": b"%PDF-1.4", "png": encoded(0)}


@contextmanager
def _drawing(function):
    with mock.patch(f"{MODULES[0]}.pictures", function), mock.patch(f"{MODULES[1]}.pictures", function):
        yield


def real_pictures():
    """Render within this context, also in a test that has stand-ins."""
    from raptor.render.charts import pictures

    return _drawing(REAL[0] if REAL else pictures)


@pytest.fixture(autouse=True)
def stand_in_pictures(request):
    """Write stand-ins in place of pictures, unless the test has the mark `pictures`."""
    if "pictures" in request.keywords:
        yield
        return
    from raptor.render.charts import pictures

    if not REAL:
        REAL.append(pictures)
    with _drawing(_stand_in):
        yield
