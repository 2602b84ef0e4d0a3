"""The table of elastic depth."""

from __future__ import annotations

from collections.abc import Mapping

from raptor.evaluation.elastic.measure import ElasticDepth
from raptor.render.tables import Number, Table


def elastic_table(depths: Mapping[int, ElasticDepth]) -> Table:
    """Return fidelity and accuracy by number of steps.

    Parameters
    ----------
    depths
        What `elastic_depths` returned.
    """
    columns = ("steps", "by phase", "R2 at the last layer", "cosine", "relative error", "top-1")
    rows = tuple(
        (
            str(total), str(one.steps), Number(one.r2, ".3f", f"elastic/{total}/r2"),
            Number(one.cosine, ".3f", f"elastic/{total}/cosine"),
            Number(one.relative_epsilon, ".3f", f"elastic/{total}/relative_epsilon"),
            "" if one.top1 is None else Number(one.top1, ".1%", f"elastic/{total}/top1"),
        )
        for total, one in depths.items()
    )  # fmt: skip
    return Table("Elastic depth", columns, rows)
