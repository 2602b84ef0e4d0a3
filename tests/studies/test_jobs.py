"""Tables of jobs: nothing is done twice or lost, and failures are reported."""

from __future__ import annotations

import json

import pytest

from raptor.errors import OutputError, ResumeError, TrainingError
from raptor.studies.jobs import NOT_YET, Job, run_jobs

VALUE = dict[str, int]


class Table:
    """Three jobs, the last of which adds what the first two found; `breaks` fail that many times."""

    def __init__(self, **breaks):
        self.breaks, self.log = breaks, []

    def work(self, name):
        def do(results, out):
            self.log.append(name)
            if self.breaks.get(name, 0):
                self.breaks[name] -= 1
                raise TrainingError(f"{name} broke")
            (out / "kept").write_text(name)
            return {"value": sum(one["value"] for one in results.values()) or len(self.log)}

        return do

    def jobs(self, seed=0):
        both = ("one", "two")
        single = [Job(name, {"seed": seed}, VALUE, self.work(name)) for name in both]
        return [*single, Job("sum", {"seed": seed}, VALUE, self.work("sum"), both)]


def test_what_is_finished_is_not_done_again(tmp_path):
    first, again = Table(), Table()
    done = run_jobs(first.jobs(), tmp_path)
    assert done.results == {"one": {"value": 1}, "two": {"value": 2}, "sum": {"value": 3}}
    assert (tmp_path / "two" / "kept").read_text() == "two"
    assert run_jobs(again.jobs(), tmp_path).results == done.results
    assert again.log == []
    (tmp_path / "sum.json").unlink()
    assert run_jobs(again.jobs(), tmp_path).results == done.results
    assert again.log == ["sum"]


def test_a_failure_is_tried_once_more_and_takes_nothing_with_it(tmp_path):
    table, said = Table(one=1), []
    done = run_jobs(table.jobs(), tmp_path, said.append)
    assert table.log == ["one", "two", "one", "sum"]
    assert set(done.results) == {"one", "two", "sum"}
    assert done.failed == {}
    assert any("one broke" in text and "once more" in text for text in said)


def test_an_error_of_any_kind_is_one_job_s_own(tmp_path):
    def divide(results, out):
        return {"value": 1 / 0}

    table = Table()
    done = run_jobs([Job("zero", {}, VALUE, divide), *table.jobs()], tmp_path)
    assert done.failed == {"zero": "ZeroDivisionError: division by zero"}
    assert set(done.results) == {"one", "two", "sum"}


@pytest.mark.parametrize(
    "content",
    ["{}", "[]", "5", '{"about": {}}', "[" * 100_000, '{"about": {"seed": 0}, "seconds": 1, "result": [2]}'],
)
def test_a_file_that_is_no_result_is_named(tmp_path, content):
    (tmp_path / "one.json").write_text(content)
    with pytest.raises(OutputError, match=r"one\.json' cannot be read .* remove it"):
        run_jobs(Table().jobs(), tmp_path)


def test_what_fails_twice_is_told_with_what_needs_it(tmp_path):
    table = Table(two=2)
    done = run_jobs(table.jobs(), tmp_path)
    assert done.results == {"one": {"value": 1}}
    assert done.failed == {"two": "TrainingError: two broke", "sum": "it needs two"}
    assert json.loads((tmp_path / "one.json").read_text())["result"] == {"value": 1}
    # Another run does what is missing.
    assert set(run_jobs(table.jobs(), tmp_path).results) == {"one", "two", "sum"}


def test_other_options_and_damaged_files_are_refused(tmp_path):
    run_jobs(Table().jobs(), tmp_path)
    with pytest.raises(ResumeError, match="seed = 0, not 1"):
        run_jobs(Table().jobs(seed=1), tmp_path)
    (tmp_path / "two.json").write_text("{")
    with pytest.raises(OutputError, match=r"two\.json.*remove it"):
        run_jobs(Table().jobs(), tmp_path)


def test_an_interruption_keeps_what_is_done(tmp_path):
    table = Table()

    def stop(results, out):
        raise KeyboardInterrupt

    jobs = [*table.jobs()[:2], Job("sum", {"seed": 0}, VALUE, stop)]
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, tmp_path)
    table.log.clear()
    assert set(run_jobs(table.jobs(), tmp_path).results) == {"one", "two", "sum"}
    assert table.log == ["sum"]


def test_only_chosen_jobs_run_and_others_count_if_they_have_a_result(tmp_path):
    table = Table()
    done = run_jobs(table.jobs(), tmp_path, only={"one"})
    assert table.log == ["one"]
    assert done.results == {"one": {"value": 1}}
    assert done.failed == {"two": NOT_YET, "sum": NOT_YET}
    assert run_jobs(table.jobs(), tmp_path, only=()).results == {"one": {"value": 1}}
    assert set(run_jobs(table.jobs(), tmp_path).results) == {"one", "two", "sum"}
    assert run_jobs(table.jobs(), tmp_path, only=()).failed == {}
    assert table.log == ["one", "two", "sum"]
