"""`raptor study all`: its cost, the order of its jobs, and what an interruption leaves."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from unittest import mock

import pytest

from raptor.core.serialize import to_plain
from raptor.data.options import LoadOptions
from raptor.distillation.planning.cost import Timed
from raptor.runtime.options import RunOptions
from raptor.studies import cost as costs
from raptor.studies import every
from raptor.studies.cost import MEASURING, _costs, _Price, jobs_of
from raptor.studies.every import Countdown, run_all
from raptor.studies.jobs import NOT_YET, Cost, Job
from raptor.studies.options import ALL, StudyOptions
from raptor.studies.registry import load_studies
from raptor.studies.size import SIZES
from raptor.studies.study import summarise_stored
from study_results import setting

STUDIES = load_studies()


def test_the_laptop_size_fits_five_and_a_half_core_hours():
    """CPU time of steps on one thread of a busy machine: median of 25 steps of a teacher, mean of 6 of a student.

    An image takes a teacher 2.3 ms, of which stochastic depth saves a share, and its optimiser takes 25 ms per step. An
    image takes a student 2.9 ms, and measuring it about 4.5 ms.
    """
    used = setting(**asdict(SIZES["laptop"]))
    price = _Price(1.0, 1.0, 1, Timed(2.3e-3, 25e-3), Timed(2.9e-3, 0.0), batch=1, cores=1.0)
    found = _costs(jobs_of(ALL, used))
    assert sum(cost.teacher_images > 0 for cost in found.values()) == 20
    assert sum(cost.student_images > 0 for cost in found.values()) == 148
    assert sum(price.seconds(cost, used.size) for cost in found.values()) < 5.5 * 3600


def test_the_cost_of_a_job_is_what_it_trains_and_measures():
    price = _Price(10.0, 7.0, 1, Timed(4.0, 1.5), Timed(2.0, 0.5), batch=2, cores=1.0)
    size = replace(SIZES["smoke"], teacher_batch=3, student_batch=5)
    assert price.seconds(Cost(teacher_images=60), size) == pytest.approx(60 * (2.0 + 0.5))
    assert price.seconds(Cost(teacher_images=60, drop_path=0.25), size) == pytest.approx(60 * (1.5 + 0.5))
    assert price.seconds(Cost(student_images=10, measured_images=4), size) == pytest.approx(10 * 1.1 + 4 * MEASURING)
    assert price.flops(Cost(teacher_images=8, student_images=3, drop_path=0.5)) == 4 * 10 + 3 * 7
    same = Cost(student_images=3, trains="a")
    jobs = [Job(name, {}, int, int, cost=cost) for name, cost in (("a", same), ("b", same), ("c", None))]
    assert [cost.student_images for cost in _costs(jobs).values()] == [3, 0, 0]


def test_claims_come_first_and_an_interruption_leaves_answers(tmp_path):
    """`study all` is interrupted when a job starts that no claim needs; the stored jobs then answer every claim.

    Resumed, it gives the table of a run that was not interrupted.
    """
    names, started = ("emergence", "controls"), []
    scale = replace(SIZES["smoke"], checkpoints=(0.0, 0.5, 1.0), eval_images=4)
    primary = {job.name for name in names for job in STUDIES[name].primary_jobs(setting(**asdict(scale)))}
    later = {f"conditions/{kind}-at0.5-s0" for kind in ("student", "null")}

    def stop(self, text):
        started.append(text)
        if text in later:
            raise KeyboardInterrupt

    shared = RunOptions(out=tmp_path / "broken", device="cpu", quiet=True)
    with (
        mock.patch.dict(SIZES, smoke=scale),
        mock.patch.object(every, "STUDY_ORDER", names),
        mock.patch.object(costs, "STUDY_ORDER", names),
    ):
        with mock.patch.object(Countdown, "__call__", stop), pytest.raises(KeyboardInterrupt):
            run_all(StudyOptions(size="smoke"), LoadOptions(), shared)
        assert set(started[: len(primary)]) == primary
        for name, missing in (("emergence", later), ("controls", set())):
            stored = summarise_stored(shared.out, name)
            assert {row.seed for row in stored.summary} == {0, 1}
            assert {job.job: job.failed for job in stored.jobs if job.failed} == dict.fromkeys(missing, NOT_YET)
        kept = json.loads((shared.out / "controls" / "result.json").read_text())
        assert kept["claim"] == to_plain(stored.claim)
        resumed = run_all(StudyOptions(size="smoke", resume=True), LoadOptions(), shared).result
        whole = replace(shared, out=tmp_path / "whole")
        assert run_all(StudyOptions(size="smoke"), LoadOptions(), whole).result.studies == resumed.studies
    assert resumed.failed == []
    for name in names:
        tables = [json.loads((one.out / name / "result.json").read_text())["summary"] for one in (shared, whole)]
        assert tables[0] == tables[1]
