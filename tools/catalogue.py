"""Fill the catalogue page of the documentation from the registries, as an mkdocs hook.

A line `<!-- catalogue: NAME -->` in a page is replaced by the table of that name. What a package registers appears here
without a change to the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from raptor.runtime.verbs import VERBS, import_features

MARK = re.compile(r"^<!-- catalogue: (\w+) -->$", re.MULTILINE)


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _first_line(of: Any) -> str:
    return " ".join((of.__doc__ or "").strip().split("\n\n")[0].split())


def verbs() -> str:
    """Return the verbs of the command line."""
    import_features("command")
    return _table(("verb", "what it does"), ((f"`{one.name}`", _first_line(one.function)) for one in VERBS.values()))


def objectives() -> str:
    """Return the objectives of `raptor phases`."""
    from raptor.phases.objectives import OBJECTIVES

    return _table(("objective", "score"), ((f"`{name}`", one.summary) for name, one in OBJECTIVES.items()))


def measures() -> str:
    """Return the measures by layer of `raptor dynamics` and of `raptor fidelity`."""
    import raptor.dynamics.survey  # noqa: F401 (registers the measures)
    from raptor.dynamics.curves.registry import CURVES
    from raptor.evaluation.measures import MEASURES

    rows = [("dynamics", f"`{name}`", one.label) for name, one in CURVES.items()]
    rows += [("fidelity", f"`{name}`", one.title or "") for name, one in MEASURES.items()]
    return _table(("verb", "key in result.json", "measure"), rows)


def tasks() -> str:
    """Return the tasks of `raptor probe`."""
    import raptor.probes.tasks  # noqa: F401 (registers the tasks)
    from raptor.probes.task import TASKS

    rows = ((f"`{name}`", one.needs, ", ".join(f"`{m.name}`" for m in one.kind.metrics)) for name, one in TASKS.items())
    return _table(("task", "needs", "metrics"), rows)


def studies() -> str:
    """Return the studies."""
    from raptor.studies.registry import load_studies

    return _table(("study", "what it does"), ((f"`{name}`", _first_line(one)) for name, one in load_studies().items()))


def figures() -> str:
    """Return the figures with their captions."""
    from raptor.render.registry import FIGURES
    from raptor.studies.registry import load_studies

    import_features("figures")
    load_studies()
    rows = ((f"`{one.verb}`", f"`{one.name}`", one.caption, one.paper or "") for one in FIGURES.values())
    return _table(("verb", "figure", "how to read it", "in the paper"), rows)


TABLES: dict[str, Callable[[], str]] = {
    make.__name__: make for make in (verbs, objectives, measures, tasks, studies, figures)
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page by their tables."""
    return MARK.sub(lambda mark: TABLES[mark[1]](), markdown)
