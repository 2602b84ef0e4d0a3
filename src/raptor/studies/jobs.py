"""A study as a table of jobs: what is finished is never done again, and what fails does not take the rest with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from raptor.errors import OutputError, ResumeError, one_line
from raptor.files import LOCK, read_json, writing
from raptor.run import plain, to_json

Results = dict[str, dict[str, Any]]
# A job is given the results of those that it needs and a directory of its own; it goes on from what it finds there.
Work = Callable[[Results, Path], dict[str, Any]]


@dataclass(frozen=True)
class Cost:
    """What a job trains: on how many images, counted as often as they are seen, and at what width."""

    width: int
    teacher_images: int = 0
    student_images: int = 0


@dataclass(frozen=True)
class Job:
    """One row of the table.

    Parameters
    ----------
    name
        Of its directory and of its file of results; `teachers/p0.2` is shared by all studies of one directory.
    about
        All that decides the result beside what it needs.
    work
        What is done.
    needs
        Names of jobs that come before it.
    cost
        What it trains; None where it trains nothing.
    """

    name: str
    about: dict[str, Any]
    work: Work
    needs: tuple[str, ...] = ()
    cost: Cost | None = None


@dataclass(frozen=True)
class Done:
    """What came of a table.

    Parameters
    ----------
    results
        By job.
    seconds
        By job, of the run that finished it.
    failed
        By job, why there is no result.
    """

    results: Results
    seconds: dict[str, float]
    failed: dict[str, str]


def run_jobs(jobs: Sequence[Job], out: Path, announce: Callable[[str], None] = lambda text: None) -> Done:
    """Do all jobs that have no result yet, in order; one that fails is tried once more after the others.

    Parameters
    ----------
    jobs
        A job comes after those that it needs.
    out
        Where `NAME.json` holds a result, and `NAME/` what a job keeps for itself.
    announce
        Told what begins, what fails.
    """
    done = Done({}, {}, {})
    for attempt in (1, 2):
        for job in jobs:
            if job.name in done.results:
                continue
            missing = [name for name in job.needs if name not in done.results]
            if missing:
                done.failed[job.name] = f"it needs {', '.join(missing)}"
                continue
            try:
                _do(job, out, done, announce)
            except (OutputError, ResumeError):
                raise  # the directory cannot be used: every other job would meet the same
            except Exception as error:
                done.failed[job.name] = one_line(error)
                again = "; it is tried once more after the others" if attempt == 1 else ""
                announce(f"{job.name} failed: {one_line(error)}{again}")
    return done


def _do(job: Job, out: Path, done: Done, announce: Callable[[str], None]) -> None:
    def work() -> dict[str, Any]:
        announce(job.name)
        return job.work({name: done.results[name] for name in job.needs}, out / job.name)

    done.results[job.name], done.seconds[job.name] = once(out / f"{job.name}.json", job.about, work)
    done.failed.pop(job.name, None)


def once(file: Path, about: dict[str, Any], work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """Return a result and the seconds that it took: the one that `file` holds, or else what `work` gives now.

    Beside the file there is a directory of its name, in which the work may keep what it goes on from.
    """
    about = plain(about)
    if (kept := _read(file)) is None:
        own = file.with_suffix("")
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write to {str(own)!r}: {error.strerror or error}") from error
        # Another study of this directory may be at a model that both share: wait for it.
        with FileLock(own / LOCK):
            if (kept := _read(file)) is None:
                began = time.perf_counter()
                result = plain(work())
                kept = {"about": about, "seconds": round(time.perf_counter() - began, 1), "result": result}
                with writing(file) as opened:
                    opened.write(to_json(kept).encode() + b"\n")
    for key in sorted(set(about) | set(kept["about"])):
        if about.get(key) != kept["about"].get(key):
            raise ResumeError(
                f"{str(file)!r} was made with {key} = {kept['about'].get(key)!r}, not {about.get(key)!r}; go on with "
                "the same options, or use another --out"
            )
    return kept["result"], kept["seconds"]


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = read_json(file)
        if not isinstance(found, dict) or not {"about", "seconds", "result"} <= set(found):
            raise ValueError("it is no result of a job")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{str(file)!r} cannot be read ({one_line(error)}): remove it, and it is made again"
        ) from error
    return found
