"""Comparison of fresh output with frozen output, and the files that hold the latter."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parent / "frozen"
VALUES, PROSE = FROZEN / "values", FROZEN / "prose"
# On another machine the processor rounds differently, and training amplifies that: gradients that are zero but for
# rounding become steps of full size. Then numbers of one array are compared relative to the largest of them, sums of
# long arrays relative to their terms, weights by their norm, and what turns on a threshold or a hash not at all.
RELATIVE, ABSOLUTE, OF_SUM = 1e-2, 1e-5, 1e-3
COUNTS = 1e-4  # of whole numbers in texts
# One minus a ratio of errors, which is near 0 after a few steps of training: the ratio is what is as exact as other
# numbers. Processors with and without AVX-512 were seen to differ by 1.4% of it (`distill-untied`).
OF_RATIOS, RATIOS = 2e-2, {"phase_skill", "phase_skill_ci"}
CHAOTIC = {"amplitudes", "bits_a_parameter", "at_fewest_bits", "at_32_bits"}
BY_HASH = "students/"  # files named by a hash of the teacher's weights; results of the study repeat what they say
HASH = re.compile(r"\b(?=[0-9]*[a-f])[0-9a-f]{16,64}\b")
LONGEST = 160  # numbers of an array that is stored whole
ENDS = 4  # numbers at either end of an array that is stored as a digest
DIGEST = "sha256"
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)


def exact() -> bool:
    """Return whether numbers must be equal to the last digit."""
    return os.environ.get("RAPTOR_GOLDEN_EXACT") == "1"


def is_number(value: Any) -> bool:
    """Return whether a value is a number; booleans are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def digest(values: list[Any]) -> dict[str, Any]:
    """Return the length, ends, sum and hash of numbers, nulls and texts."""
    numbers = [float(value) for value in values if is_number(value)]
    canonical = json.dumps([float(value) if is_number(value) else value for value in values])
    return {
        "length": len(values),
        "first": values[:ENDS],
        "last": values[-ENDS:],
        "sum": math.fsum(numbers),
        "sum_of_squares": math.fsum(number * number for number in numbers),
        DIGEST: hashlib.sha256(canonical.encode()).hexdigest()[:16],
    }


def compact(value: Any) -> Any:
    """Replace long arrays of numbers by their digests."""
    if isinstance(value, dict):
        return {key: compact(item) for key, item in value.items()}
    if isinstance(value, list):
        leaves = list(_leaves(value))
        if len(leaves) > LONGEST and not any(isinstance(leaf, dict) for leaf in leaves):
            return digest(leaves)
        return [compact(item) for item in value]
    return value


def _close(frozen: float, fresh: float, scale: float = 0.0) -> bool:
    if exact():
        return frozen == fresh
    if isinstance(frozen, int) and isinstance(fresh, int):
        return frozen == fresh  # counts
    return math.isclose(frozen, fresh, rel_tol=RELATIVE, abs_tol=max(ABSOLUTE, RELATIVE * scale))


def _scale(values: list[Any]) -> float:
    """Return the largest size of the numbers in a list."""
    return max((abs(value) for value in values if is_number(value)), default=0.0)


def _comparable(key: str, weights: bool) -> bool:
    """Return whether a key has the same value on every machine, up to rounding."""
    return key not in (CHAOTIC | {DIGEST}) and not (weights and key in ("first", "last", "sum"))


def _without_hashes(value: Any) -> Any:
    """Return a value without what depends on the last digit of weights."""
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if not key.startswith(BY_HASH)}
    if isinstance(value, list):
        return [item for item in value if not (isinstance(item, str) and item.startswith(BY_HASH))]
    return HASH.sub("#", value) if isinstance(value, str) else value


def differences(frozen: Any, fresh: Any, path: str = "$", scale: float = 0.0) -> Iterator[str]:
    """Yield one line for each difference, with its JSON path, the frozen value and the fresh one."""
    frozen, fresh = (value if exact() else _without_hashes(value) for value in (frozen, fresh))
    if isinstance(frozen, dict) and isinstance(fresh, dict):
        for key in sorted(frozen.keys() - fresh.keys()):
            yield f"{path}.{key}: missing (frozen {_short(frozen[key])})"
        for key in sorted(fresh.keys() - frozen.keys()):
            yield f"{path}.{key}: added (fresh {_short(fresh[key])})"
        is_digest = DIGEST in frozen and DIGEST in fresh and "length" in frozen
        # A sum of many numbers is as inexact as its terms are large.
        most = OF_SUM * math.sqrt(abs(frozen["sum_of_squares"]) * frozen["length"]) if is_digest else 0.0
        for key in frozen:
            if key not in fresh or not (exact() or _comparable(key, "dtype" in frozen)):
                continue
            if is_digest and key == "sum" and not exact():
                if abs(frozen[key] - fresh[key]) > max(most, ABSOLUTE):
                    yield f"{path}.{key}: frozen {frozen[key]!r}, fresh {fresh[key]!r}"
            else:
                near_one = OF_RATIOS / RELATIVE if key in RATIOS else 0.0
                yield from differences(frozen[key], fresh[key], f"{path}.{key}", max(scale, near_one))
    elif isinstance(frozen, list) and isinstance(fresh, list):
        if len(frozen) != len(fresh):
            yield f"{path}: frozen has {len(frozen)} items, fresh has {len(fresh)}"
        for index, (one, other) in enumerate(zip(frozen, fresh, strict=False)):
            yield from differences(one, other, f"{path}[{index}]", max(scale, _scale(frozen)))
    elif is_number(frozen) and is_number(fresh):
        if not _close(frozen, fresh, scale):
            yield f"{path}: frozen {frozen!r}, fresh {fresh!r}"
    elif type(frozen) is not type(fresh) or frozen != fresh:
        yield f"{path}: frozen {_short(frozen)}, fresh {_short(fresh)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def prose_differences(frozen: dict[str, str], fresh: dict[str, str]) -> Iterator[str]:
    """Yield one line for each text that differs.

    Numbers in texts are compared as values are: on another machine the last digit that is shown may differ by one.
    """
    for key in sorted(frozen.keys() - fresh.keys()):
        yield f"{key}: missing"
    for key in sorted(fresh.keys() - frozen.keys()):
        yield f"{key}: added: {_short(fresh[key])}"
    for key in frozen:
        if key in fresh and not same_text(frozen[key], fresh[key]):
            yield f"{key}: {_first_difference(frozen[key], fresh[key])}"


def same_text(frozen: str, fresh: str) -> bool:
    """Return whether two texts are equal, or equal up to the rounding of their numbers where that is allowed."""
    if exact():
        return frozen == fresh
    frozen, fresh = _without_hashes(frozen), _without_hashes(fresh)
    one, other = _shape(frozen), _shape(fresh)
    numbers = zip(NUMBER.findall(frozen), NUMBER.findall(fresh), strict=False)
    return one == other and all(_close_as_shown(*pair) for pair in numbers)


def _shape(text: str) -> str:
    """Return a text without its numbers and without the widths of its columns."""
    return re.sub(r"[\s─━]+", " ", NUMBER.sub("#", text))


def _close_as_shown(frozen: str, fresh: str) -> bool:
    one, other = (float(text.replace(",", "")) for text in (frozen, fresh))
    mantissa, _, exponent = frozen.lower().partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) if "." in mantissa or exponent else 0.0
    return abs(one - other) <= max(1.01 * unit, (RELATIVE if unit else COUNTS) * abs(one))


def _first_difference(frozen: str, fresh: str) -> str:
    for one, other in zip(frozen.split("\n"), fresh.split("\n"), strict=False):
        if not same_text(one, other):
            return f"frozen {_short(one)}, fresh {_short(other)}"
    return f"frozen has {frozen.count(chr(10)) + 1} lines, fresh has {fresh.count(chr(10)) + 1}"


def read_values(name: str) -> Any:
    """Return the frozen values of a name."""
    return json.loads((VALUES / f"{name}.json").read_text())


def read_prose(name: str) -> dict[str, str]:
    """Return the frozen texts of a name."""
    found = json.loads((PROSE / f"{name}.json").read_text())
    return {key: "\n".join(lines) for key, lines in found.items()}


def write_values(name: str, values: dict[str, Any]) -> None:
    """Write frozen values, one line for each key."""
    lines = [f"{json.dumps(key)}: {_dump(value)}" for key, value in sorted(values.items())]
    _write(VALUES / f"{name}.json", "{\n" + ",\n".join(lines) + "\n}\n")


def write_prose(name: str, texts: dict[str, str]) -> None:
    """Write frozen texts, line by line."""
    lines = {key: text.split("\n") for key, text in sorted(texts.items())}
    _write(PROSE / f"{name}.json", json.dumps(lines, indent=1, ensure_ascii=False) + "\n")


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def report(name: str, lines: list[str], shown: int = 25) -> str:
    """Return the message of a failed comparison."""
    more = f"\n... and {len(lines) - shown} more" if len(lines) > shown else ""
    return f"{name}: {len(lines)} differences, the first: " + "\n".join(lines[:shown]) + more
