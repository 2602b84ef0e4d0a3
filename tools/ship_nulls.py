"""Bundle the nulls of a bundled surrogate, from a run of `raptor fidelity scenes:k3 --nulls`.

python tools/ship_nulls.py runs/nulls scenes:k3
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from raptor.evaluation.shipped import NAME
from raptor.models.load import SHIPPED_SURROGATES


def main(run: Path, name: str) -> None:
    """Keep the nulls and the command that measured them."""
    result, config = (json.loads((run / file).read_text()) for file in ("result.json", "config.json"))
    given = config["command"]
    out = given.index("--out")
    kept = {"command": " ".join(["raptor", *given[:out], *given[out + 2 :]]), "nulls": result["nulls"]}
    (SHIPPED_SURROGATES[name] / NAME).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
