"""Results of earlier runs, read back as the dataclasses that Python functions return."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, overload

from raptor.core.deserialize import from_plain
from raptor.core.json_values import ResultFormatError
from raptor.errors import DataError, one_line
from raptor.runtime.files import read_json
from raptor.runtime.rundir import SCHEMA, Record
from raptor.runtime.verbs import RESULTS, find_result_type, import_features

R = TypeVar("R")


@overload
def read_result(directory: str | Path) -> Record[Any]: ...


@overload
def read_result(directory: str | Path, kind: type[R]) -> Record[R]: ...


def read_result(directory: str | Path, kind: type[Any] | None = None) -> Record[Any]:
    """Read the result of a run back as a typed record.

    Parameters
    ----------
    directory
        Run directory, the --out of a command.
    kind
        Class of the result, such as `raptor.InspectResult`, for type checkers; a run with another result is an error.
        By default, the class that belongs to the verb of the run.

    Returns
    -------
    Record
        The envelope, with the result in `record.result`.
    """
    file = Path(directory) / "result.json"
    try:
        content = read_json(file)
    except OSError as error:
        raise DataError(f"{str(directory)!r} is not a finished run: {str(file)!r} cannot be read") from error
    except ValueError as error:
        raise DataError(f"{str(file)!r} is not valid JSON: {one_line(error)}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise DataError(f"{str(file)!r} is not a result of raptor with schema {SCHEMA}")
    import_features("command")  # registers the dataclasses of results
    verb = str(content.get("verb"))
    expected = find_result_type(verb)
    if expected is None:
        raise DataError(f"{str(file)!r} is a result of {verb!r}; known verbs are {', '.join(RESULTS)}")
    record_type: Any = Record
    try:
        record: Record[Any] = from_plain(record_type[expected], content)
    except ResultFormatError as error:
        raise DataError(f"{str(file)!r} cannot be read as a result of {verb}: {error}") from error
    if kind is not None and not isinstance(record.result, kind):
        found = type(record.result).__name__
        raise DataError(f"{str(file)!r} is a result of {verb}, a {found}, not a {kind.__name__}")
    return record
