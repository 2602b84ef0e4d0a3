"""What is frozen of the help texts: arguments, options, metavars and defaults; whole texts apart from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from commands import call
from extraction import Extract

WIDTHS = ("80", "120")
ENTRY = re.compile(r"^  (\S.*?)(?:\s{2,}|$)")


def verbs(root: Path) -> list[str]:
    """Return the verbs that the help text lists, in all sections after the options."""
    options, _, listed = call(root, "--help")[1].partition("Options:\n")[2].partition("\n\n")
    assert "--help" in options
    return re.findall(r"^  (\S+)", listed, re.MULTILINE)


def parsed(text: str) -> dict[str, Any]:
    """Return the arguments and options of a verb's help text: their metavars, defaults and ranges."""
    found: dict[str, Any] = {"usage": " ".join(text.partition("\n\n")[0].split())}
    for title in ("Arguments", "Options"):
        part = re.search(rf"^{title}:\n((?:  .*\n|\n)*)", text, re.MULTILINE)
        found[title.lower()] = _entries(part[1]) if part else {}
    return found


def _entries(part: str) -> dict[str, Any]:
    entries: list[list[str]] = []
    for line in part.splitlines():
        if ENTRY.match(line) and not line.startswith("   "):
            entries.append([line.strip()])
        elif line.strip() and entries:
            entries[-1].append(line.strip())
    return dict(_entry(lines) for lines in entries)


def _entry(lines: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the name of an option, its metavar and what stands in brackets at its end."""
    head, _, rest = lines[0].partition("  ")
    name, _, metavar = head.partition(" ")
    text = " ".join([rest.strip(), *lines[1:]])
    bracket = re.search(r"\[([^\[\]]*)\]$", text)
    said = bracket[1].split("; ") if bracket and _is_formal(bracket[1]) else []
    default = next((item.partition(": ")[2] for item in said if item.startswith("default: ")), None)
    rest_said = [item for item in said if not item.startswith("default: ")]
    return name, {"metavar": metavar, "default": default, "said": rest_said}


def _is_formal(text: str) -> bool:
    return all(re.match(r"default: |required$|[-\d.]*<?=?x[<>]=?", item) for item in text.split("; "))


def of_verb(verb: str | None, root: Path) -> Extract:
    """Return values and texts of the help of a verb; None is the command line itself."""
    found = Extract()
    arguments = ("--help",) if verb is None else (verb, "--help")
    for width in WIDTHS:
        code, text, err = call(root, *arguments, columns=width)
        assert (code, err) == (0, ""), (arguments, code, err)
        found.values[f"at {width}"] = parsed(text)
        found.add_text(f"at {width}", text)
        if verb is None:
            found.values[f"verbs at {width}"] = verbs(root)
    return found
