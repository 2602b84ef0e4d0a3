"""Bundle slow results of `scenes`, with the command that measured them.

python tools/ship_results.py runs/nulls scenes:k3       # nulls, from `raptor fidelity scenes:k3 --nulls`
python tools/ship_results.py runs/dynamics scenes       # Lyapunov exponents, from `raptor dynamics scenes`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from raptor.dynamics.references.shipped import NAME as EXPONENTS
from raptor.evaluation.shipped import NAME as NULLS
from raptor.models.load import SHIPPED, SHIPPED_SURROGATES


def main(run: Path, name: str) -> None:
    """Keep what is slow, and the command that measured it."""
    result, config = (json.loads((run / file).read_text()) for file in ("result.json", "config.json"))
    given = config["command"]
    out = given.index("--out")
    command = " ".join(["raptor", *given[:out], *given[out + 2 :]])
    if name in SHIPPED_SURROGATES:
        _write(SHIPPED_SURROGATES[name] / NULLS, {"command": command, "nulls": result["nulls"]})
    else:
        kept = {"command": command, "phases": result["phases"], "lyapunov": result["lyapunov"]}
        _write(SHIPPED / EXPONENTS, kept)


def _write(file: Path, kept: dict[str, object]) -> None:
    file.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
