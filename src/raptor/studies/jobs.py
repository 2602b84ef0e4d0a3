"""A study as a list of jobs: finished jobs are never repeated, and a failed job does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock

from raptor.core.deserialize import from_plain
from raptor.core.json_values import ResultFormatError
from raptor.core.serialize import to_json, to_plain
from raptor.errors import OutputError, ResumeError, one_line
from raptor.runtime.files import LOCK, read_json, writing

NOT_YET = "not measured yet"
T = TypeVar("T")


class Results(dict[str, object]):
    """Results of jobs by name."""

    def find(self, name: str, kind: type[T]) -> T | None:
        """Return the result of a job, which is of the type that the job returns; None where there is none."""
        found = self.get(name)
        assert found is None or isinstance(found, kind)
        return found

    def of(self, name: str, kind: type[T]) -> T:
        """Return the result of a job that has one."""
        found = self[name]
        assert isinstance(found, kind)
        return found


@dataclass(frozen=True)
class Cost:
    """What a job trains and measures.

    Parameters
    ----------
    teacher_images, student_images
        Images that it is trained on as a teacher or as a student, counted as often as they are seen.
    drop_path
        Rate of stochastic depth of the teacher: layers that are dropped are not computed.
    measured_images
        Images that it is measured on.
    trains
        What is trained, where several jobs ask for the same: it is trained and measured once.
    """

    teacher_images: int = 0
    student_images: int = 0
    drop_path: float = 0.0
    measured_images: int = 0
    trains: str = ""


@dataclass(frozen=True)
class Job(Generic[T]):
    """A job of a study.

    Parameters
    ----------
    name
        Name of its directory and of its result file; `teachers/tied-s0` is shared by all studies of one directory.
    cache_key
        Everything that decides the result, apart from the jobs that it needs; JSON values.
    returns
        Type of the result: a dataclass, or a mapping.
    work
        `work(results, out)` gets the results of the jobs that it needs and its own directory, and continues from what
        it finds there.
    needs
        Names of jobs that come before it.
    cost
        What it trains and measures; None where that is next to nothing.
    """

    name: str
    cache_key: Mapping[str, Any]
    returns: Any
    work: Callable[[Results, Path], T]
    needs: tuple[str, ...] = ()
    cost: Cost | None = None


@dataclass(frozen=True)
class Done:
    """What became of jobs, by name.

    Parameters
    ----------
    results
        Results of the finished jobs.
    seconds
        Seconds of the run that finished the job.
    failed
        Why a job has no result.
    """

    results: Results
    seconds: dict[str, float]
    failed: dict[str, str]


def run_jobs(
    jobs: Sequence[Job[Any]],
    out: Path,
    announce: Callable[[str], None] = lambda text: None,
    only: Container[str] | None = None,
) -> Done:
    """Run all jobs that have no result yet, in order; one that fails is tried once more after the others.

    Parameters
    ----------
    jobs
        A job comes after those that it needs.
    out
        Directory in which `NAME.json` is a result and `NAME/` the directory of a job.
    announce
        Called with a line when a job starts or fails.
    only
        Names of the jobs to run now; of the others, those that have a result are read. None for all.
    """
    done = Done(Results(), {}, {})
    for attempt in (1, 2):
        for job in jobs:
            if job.name in done.results:
                continue
            if only is not None and job.name not in only and not (out / f"{job.name}.json").exists():
                done.failed[job.name] = NOT_YET
                continue
            missing = [name for name in job.needs if name not in done.results]
            if missing:
                done.failed[job.name] = f"it needs {', '.join(missing)}"
                continue
            try:
                _run_job(job, out, done, announce)
            except (OutputError, ResumeError):
                raise  # the directory cannot be used: every other job would fail the same way
            except Exception as error:
                done.failed[job.name] = one_line(error)
                again = "; it is tried once more after the others" if attempt == 1 else ""
                announce(f"{job.name} failed: {one_line(error)}{again}")
    return done


def _run_job(job: Job[Any], out: Path, done: Done, announce: Callable[[str], None]) -> None:
    def work() -> Any:
        announce(job.name)
        return job.work(Results({name: done.results[name] for name in job.needs}), out / job.name)

    file = out / f"{job.name}.json"
    done.results[job.name], done.seconds[job.name] = cached(file, job.cache_key, work, job.returns)
    done.failed.pop(job.name, None)


def cached(file: Path, cache_key: Mapping[str, Any], work: Callable[[], Any], returns: Any) -> tuple[Any, float]:
    """Return a result and the seconds that it took: the one in `file`, or else what `work` returns now.

    Beside the file there is a directory of its name, in which the work may keep what it continues from.

    Parameters
    ----------
    file
        JSON file of the result.
    cache_key
        Everything that decides the result; a file that was made with another one is an error.
    work
        Computes the result.
    returns
        Type of the result.
    """
    cache_key = to_plain(cache_key)
    if (kept := _read(file)) is None:
        own = file.with_suffix("")
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write to {str(own)!r}: {error.strerror or error}") from error
        # Another study of this directory may be training a model that both share: wait for it.
        with FileLock(own / LOCK):
            if (kept := _read(file)) is None:
                began = time.perf_counter()
                result = to_plain(work())
                kept = {"about": cache_key, "seconds": round(time.perf_counter() - began, 1), "result": result}
                with writing(file) as opened:
                    opened.write(to_json(kept).encode() + b"\n")
    for key in sorted(set(cache_key) | set(kept["about"])):
        if cache_key.get(key) != kept["about"].get(key):
            raise ResumeError(
                f"{str(file)!r} was made with {key} = {kept['about'].get(key)!r}, not {cache_key.get(key)!r}; use the "
                "same options, or another --out"
            )
    try:
        return from_plain(returns, kept["result"]), float(kept["seconds"])
    except (ResultFormatError, TypeError, ValueError) as error:
        raise _damaged(file, error) from error


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = read_json(file)
        if not isinstance(found, dict) or not {"about", "seconds", "result"} <= set(found):
            raise ValueError("it is not the result of a job")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(file, error) from error
    return found


def _damaged(file: Path, error: Exception) -> OutputError:
    return OutputError(f"{str(file)!r} cannot be read ({one_line(error)}): remove it, and the job runs again")
