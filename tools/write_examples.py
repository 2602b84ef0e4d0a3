"""Write the pages of the notebooks in `examples/`: their text, code and printed output.

python tools/write_examples.py
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def page_of(path: Path) -> str:
    """Return a notebook as Markdown. Code has the language `py`: the tests run the notebook, not its page."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```py\n{source}\n```")
        text = "".join("".join(output.get("text", "")) for output in cell["outputs"]).rstrip()
        if text:
            parts.append(f"```text\n{text}\n```")
    parts.append(f"This page is the notebook `examples/{path.name}` of the repository.")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write all pages."""
    folder = ROOT / "docs" / "examples"
    folder.mkdir(exist_ok=True)
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        (folder / f"{path.stem}.md").write_text(page_of(path), encoding="utf-8")


if __name__ == "__main__":
    main()
