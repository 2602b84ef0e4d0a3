"""What is frozen of a run directory: values, and texts apart from them.

Left out is what differs from run to run or from machine to machine: seconds, rates, ratios of run times, versions,
the machine, and pictures. Paths are relative already.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from comparer import compact, digest

# Keys and columns whose values vary.
VARYING = {
    "seconds", "core_seconds", "train_seconds", "step_seconds", "images_per_second", "runtime_ratio", "runtime_range",
    "runtime", "versions", "version", "machine", "transformers_version",
}  # fmt: skip
# Keys under which everything is text for a person. A string elsewhere is a value.
TEXTS = {
    "words", "text", "evidence", "notes", "answer", "why_not_held_out", "source", "preprocessing", "determinism",
    "error", "not_done", "failed", "note",
}  # fmt: skip
PICTURES = {".png", ".svg", ".pdf"}
BINARY = {".pt2", ".onnx", ".pt"}  # read by other tests: their bytes vary
TIMES = [
    (re.compile(r"at \d[\d,.]*( images)?/s"), "at #/s"),
    (re.compile(r"runtime: [\d.]+"), "runtime: #"),
    (re.compile(r"run time against the teacher: [\d.]+ \[[\d., ]+\]"), "run time against the teacher: #"),
    (re.compile(r"(│ [\w-]+ +│ )[\d.]+ +│ (done|there)"), r"\1# │ \2"),
    (re.compile(r"[\d.]+ hours"), "# hours"),
    (re.compile(r"seconds: `[\d.]+`"), "seconds: `#`"),
    (re.compile(r"versions: `\{.*\}`"), "versions: `#`"),
]


class Extract:
    """Values and texts of one name, collected from several files."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.texts: dict[str, str] = {}

    def add(self, name: str, value: Any) -> None:
        """Add JSON: values of what is no text for a person, texts of what is."""
        self.values[name] = compact(self._parted(value, name))

    def add_text(self, name: str, text: str) -> None:
        """Add a text for a person."""
        self.texts[name] = without_times(text)

    def _parted(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {key: self._item(key, item, path) for key, item in value.items() if key not in VARYING}
        if isinstance(value, list):
            return [self._parted(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return value

    def _item(self, key: str, value: Any, path: str) -> Any:
        if key in TEXTS and isinstance(value, (str, list)):
            if texts := list(_strings(value)):  # none today may be one tomorrow
                self.texts[f"{path}.{key}"] = without_times("\n".join(texts))
            return "(text)"
        return self._parted(value, f"{path}.{key}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def without_times(text: str) -> str:
    """Replace times and rates in a text."""
    for pattern, plain in TIMES:
        text = pattern.sub(plain, text)
    return text


def table_in(text: str) -> dict[str, Any]:
    """Return the columns of a CSV text, with numbers as numbers."""
    rows = list(csv.reader(io.StringIO(text)))
    head, body = (rows[0], rows[1:]) if rows else ([], [])
    return {"rows": len(body), **_columns(head, [dict(zip(head, row, strict=True)) for row in body])}


def _columns(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    kept = [name for name in names if name not in VARYING]
    return {"order": kept, "columns": {name: _column([_plain(row.get(name)) for row in rows]) for name in kept}}


def _column(values: list[Any]) -> Any:
    return digest(values) if len(values) > 16 else values


def _plain(value: Any) -> Any:
    """Return a cell as a number where it is one, and null where it is not finite."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return value
        return number if abs(number) < float("inf") else None
    return value


def tables_of(spec: Any) -> Iterator[dict[str, Any]]:
    """Yield the data of a figure's specification, in the order in which it stands there."""
    if isinstance(spec, dict):
        values = spec.get("values")
        if isinstance(values, list) and values and all(isinstance(row, dict) for row in values):
            names = sorted({name for row in values for name in row})
            yield {"rows": len(values), **_columns(names, values)}
        for key, item in spec.items():
            if key == "datasets":
                for rows in item.values():
                    yield from tables_of({"values": rows})
            else:
                yield from tables_of(item)
    elif isinstance(spec, list):
        for item in spec:
            yield from tables_of(item)


def titles_of(spec: Any) -> Iterator[str]:
    """Yield the titles in a figure's specification."""
    if isinstance(spec, dict):
        for key, item in spec.items():
            if key in ("title", "subtitle", "text") and isinstance(item, (str, list)):
                yield from _strings(item)
            elif key not in ("values", "datasets"):
                yield from titles_of(item)
    elif isinstance(spec, list):
        for item in spec:
            yield from titles_of(item)


def of_folder(folder: Path, skip: tuple[str, ...] = ()) -> Extract:
    """Return everything of a run directory except the folders in `skip`."""
    found = Extract()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    names = [path.relative_to(folder).as_posix() for path in files]
    kept = [name for name in names if name.partition("/")[0] not in skip]
    found.values["files"] = kept
    for name in kept:
        _add_file(found, name, folder / name)
    return found


def _add_file(found: Extract, name: str, path: Path) -> None:
    suffix = path.suffix
    if name.endswith(".vl.json"):
        spec = json.loads(path.read_text())
        found.values[name] = list(tables_of(spec))
        found.add_text(name, "\n".join(titles_of(spec)))
    elif suffix == ".json":
        found.add(name, json.loads(path.read_text()))
    elif suffix == ".jsonl":
        found.add(name, [json.loads(line) for line in path.read_text().splitlines()])
    elif suffix == ".csv":
        found.values[name] = table_in(path.read_text())
    elif suffix == ".md":
        found.add_text(name, path.read_text())
    elif suffix in (".npz", ".safetensors"):
        found.values[name] = dict(_arrays(path))
    elif suffix not in PICTURES | BINARY | {".html"}:
        raise AssertionError(f"nothing says what to freeze of {name}")


def _arrays(path: Path) -> Iterator[tuple[str, Any]]:
    import numpy as np
    from safetensors.numpy import load_file

    arrays = load_file(path) if path.suffix == ".safetensors" else dict(np.load(path))
    for name, array in sorted(arrays.items()):
        kind = {"dtype": str(array.dtype), "shape": list(array.shape)}
        yield name, {**kind, **digest(array.ravel().tolist())}
