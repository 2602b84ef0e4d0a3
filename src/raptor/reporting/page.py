"""The page: one self-contained file that shows what run directories have."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup, escape

from raptor import __version__
from raptor.render.charts import GROUP_COLOURS, PALETTE
from raptor.reporting.collect import Json, Subject
from raptor.reporting.provenance import result_files
from raptor.reporting.side_by_side import side_by_side, small_multiples
from raptor.reporting.subject import SubjectPage
from raptor.runtime.verbs import import_features

SCRIPTS = ("state.js", "charts.js", "overlay.js", "film.js", "reels.js", "controls.js", "sources.js", "page.js")


def render(subjects: Sequence[Subject], beside: Path | None = None) -> str:
    """Return the page of one or several models.

    Parameters
    ----------
    subjects
        What `collect` returned; notes on what cannot be shown are added to theirs.
    beside
        Directory of the page, from which numbers link to their result files; None for no links.
    """
    import vl_convert

    import_features("command", "text", "figures")
    data: Json = {
        "phaseColours": PALETTE, "groupColours": GROUP_COLOURS, "models": {}, "figures": {}, "films": {},
        "files": {f"m{index}": result_files(one, beside) for index, one in enumerate(subjects) if beside is not None},
    }  # fmt: skip
    films = sum(len(subject.of("film")) for subject in subjects)
    shown = [SubjectPage(subject, f"m{index}", data, films).shown() for index, subject in enumerate(subjects)]
    several = len(subjects) > 1
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = with_code
    template = environment.from_string(_asset("page.html.jinja"))
    return template.render(
        title=", ".join(subject.short for subject in subjects) or "nothing was found",
        subjects=shown,
        beside=side_by_side(shown) if several else None,
        multiples=small_multiples(shown, data) if several else [],
        version=__version__,
        style=Markup(_asset("page.css") + _asset("parts.css")),
        script=Markup("\n".join(_asset(name) for name in SCRIPTS)),
        vega=Markup(vl_convert.javascript_bundle().replace("</script", "<\\/script")),  # type: ignore[call-arg]
        # Inside a script element nothing may look like its end.
        data=Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")),
    )


def with_code(text: str) -> Markup:
    """Return a text with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _asset(name: str) -> str:
    return resources.files("raptor.reporting").joinpath("assets", name).read_text()
