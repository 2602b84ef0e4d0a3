"""Files that vanish while a command runs: images, its own directory, the teacher that it goes on with."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import small_commands
from intact import outcome
from pictures import PLAIN, levels, picture
from raptor.data.load import load_images
from raptor.errors import OutputError
from raptor.runtime.rundir import Run
from warm import Command, run


def one_line(code, said):
    assert code == 2, said
    assert said.startswith("error: ")
    assert said.count("\n") == 1, said


@pytest.mark.parametrize("workers", [0, 2])
def test_an_image_that_vanished_after_it_was_listed_is_skipped_and_named(tmp_path, workers):
    for value in range(200):
        picture(value).save(tmp_path / f"{value:03}.png")
    images = load_images(tmp_path, PLAIN, workers=workers)
    (tmp_path / "007.png").unlink()
    assert levels(images) == [value for value in range(200) if value != 7]
    assert images.damaged == [{"path": "007.png", "reason": "No such file or directory"}]


@pytest.mark.long
def test_a_training_whose_images_vanish_says_so_and_goes_on_when_they_are_back(tmp_path):
    photos, gone = tmp_path / "photos", tmp_path / "gone"
    for number in range(40):
        path = photos / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(6 * number).resize((32, 32)).save(path)
    words = {"scenes": photos, 40: 200}
    training = (*(words.get(word, word) for word in small_commands.TRAIN), "--image-size", 32, "--resume")
    assert run(*training, "--out", tmp_path / "whole") == (0, "")
    out = tmp_path / "out"
    command = Command(*training, "--out", out)
    command.until((out / "checkpoint.pt").exists)
    (photos / "class0").rename(gone)
    code, said = command.end()
    one_line(code, said)
    assert "class0/" in said
    assert "No such file or directory" in said
    code, said = run(*training, "--out", out)  # half of the classes is another set of images
    one_line(code, said)
    gone.rename(photos / "class0")
    assert run(*training, "--out", out) == (0, "")
    assert outcome(out) == outcome(tmp_path / "whole")


def test_a_directory_that_vanishes_under_a_training_is_one_line_and_is_not_made_again(tmp_path):
    out = tmp_path / "out"
    endless = tuple(100_000 if word == 40 else word for word in small_commands.TRAIN)
    command = Command(*endless, "--out", out)
    command.until((out / "checkpoint.pt").exists)
    out.rename(tmp_path / "gone")
    code, said = command.end()
    one_line(code, said)
    assert "was removed while the command ran" in said
    assert not out.exists()
    assert torch.load(tmp_path / "gone" / "checkpoint.pt", weights_only=True)["step"] >= 2


def test_nor_does_a_result_appear_where_its_run_was_removed(tmp_path):
    out = tmp_path / "out"
    with Run("phases", {}, out, 0) as held:
        held.begin()
        shutil.rmtree(out)
        for write in (lambda: held.save("result.json", {}), lambda: held.save("figures/a.vl.json", {})):
            with pytest.raises(OutputError, match="was removed while the command ran"):
                write()
    assert not out.exists()


@pytest.mark.long
def test_a_distillation_whose_teacher_vanished_names_it_and_goes_on_when_it_is_back(tmp_path):
    teacher, out = tmp_path / "teacher", tmp_path / "out"
    assert run(*small_commands.TRAIN, "--out", teacher) == (0, "")
    arguments = (*small_commands.distill(teacher), "--resume")
    assert run(*arguments, "--out", tmp_path / "whole") == (0, "")
    command = Command(*arguments, "--out", out)
    command.until((out / "stage1" / "checkpoint.pt").exists)
    command.process.kill()
    assert command.end()[0] < 0
    kept = (out / "stage1" / "checkpoint.pt").read_bytes()
    teacher.rename(tmp_path / "gone")
    code, said = run(*arguments, "--out", out)
    one_line(code, said)
    assert str(teacher) in said
    assert (out / "stage1" / "checkpoint.pt").read_bytes() == kept
    assert json.loads((out / "config.json").read_text())["model"] == str(teacher)
    (tmp_path / "gone").rename(teacher)
    assert run(*arguments, "--out", out) == (0, "")
    assert outcome(out) == outcome(tmp_path / "whole")
