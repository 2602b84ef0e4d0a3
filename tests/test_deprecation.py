"""Old names of keywords work and warn."""

from __future__ import annotations

import pytest

import raptor
from raptor.core.deprecation import renamed_keywords
from raptor.errors import OptionError
from raptor.runtime.distributed import SINGLE_PROCESS


@renamed_keywords(old="new")
def double(new=1):
    return 2 * new


def test_an_old_keyword_works_and_warns_where_it_is_given():
    with pytest.warns(FutureWarning, match="'old' of double\\(\\) is deprecated: use 'new'"):
        assert double(old=3) == 6
    assert (double(new=3), double(3), double()) == (6, 6, 2)


def test_both_names_at_once_are_refused():
    with pytest.raises(TypeError, match="both 'new' and its old name 'old'"):
        double(old=1, new=2)


def test_load_images_takes_its_process_group_by_the_old_name():
    with pytest.warns(FutureWarning, match="process_group"):
        images = raptor.load_images("scenes", raptor.Preprocessing(), images=2, team=SINGLE_PROCESS)
    assert images.process_group is SINGLE_PROCESS


def test_probe_takes_its_sets_and_options_by_their_old_names():
    teacher = raptor.load_model("scenes")
    images = raptor.load_images("scenes", teacher, images=2)
    with pytest.warns(FutureWarning) as caught, pytest.raises(OptionError, match="no task 'x'"):
        raptor.probe(teacher, images, select=images, report=images, plan=None, tasks=["x"])
    assert [str(one.message).split("use ")[1] for one in caught] == ["val=", "test=", "options="]


def test_load_teacher_is_the_old_name_of_load_model():
    with pytest.warns(FutureWarning, match="load_model"):
        teacher = raptor.load_teacher("scenes", device="cpu")
    assert type(teacher) is type(raptor.load_model("scenes"))
