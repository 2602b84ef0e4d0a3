"""`raptor push` against a local stand-in for the hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import raptor
from hub import Hub
from raptor.errors import ModelNotFoundError, OptionError


def push(*arguments, endpoint="http://127.0.0.1:9", token="hf_right"):
    """Run `raptor push` in a process of its own; its hub is the stand-in."""
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint, "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "raptor", "push", *map(str, arguments)], capture_output=True, text=True, env=environment
    )


def test_a_surrogate_is_published_after_it_was_shown(run, hub):
    done = push(run, "somebody/raptor-vit", "--private", "--json", endpoint=hub)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    sent = Hub.repositories["somebody/raptor-vit"]
    assert Hub.private["somebody/raptor-vit"]
    assert (result["url"], result["uploaded"]) == (f"{hub}/somebody/raptor-vit", True)
    assert {name: len(content) for name, content in sent.items()} == result["files"]
    shown = " ".join(done.stderr.split())
    for file in (run / "model").iterdir():
        if file.name != "README.md":
            assert sent[file.name] == file.read_bytes()
            assert f"{file.name} ({len(sent[file.name]):,} bytes)" in shown
    assert Hub.validated >= 1
    card = sent["README.md"].decode()
    assert 'AutoModel.from_pretrained("somebody/raptor-vit", trust_remote_code=True)' in card


def test_a_dry_run_uploads_nothing(run, hub):
    done = push(run, "somebody/raptor-vit", "--dry-run", endpoint=hub)
    assert (done.returncode, Hub.repositories) == (0, {})
    assert "modeling_raptor.py" in done.stdout


def test_a_hub_that_refuses_is_one_line(run, hub):
    for endpoint, token in ((hub, "hf_wrong"), ("http://127.0.0.1:9", "hf_right")):
        done = push(run, "somebody/raptor-vit", "--quiet", endpoint=endpoint, token=token)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "did not accept 'somebody/raptor-vit'" in done.stderr


def test_a_card_that_the_hub_refuses_creates_nothing(run, hub):
    Hub.refused.append('"license" must be one of the list')
    done = push(run, "somebody/raptor-vit", "--quiet", endpoint=hub)
    assert (done.returncode, done.stderr.count("\n"), Hub.repositories) == (2, 1, {}), done.stderr
    assert "must be one of the list" in done.stderr


def test_mistakes_are_one_line(call, run, tmp_path):
    for arguments, text in (
        ((run, "name"), "OWNER/NAME"),
        ((run, "a/b/c"), "OWNER/NAME"),
        ((run, "a/b", "--license", "GPL 3"), "not an identifier"),
        ((tmp_path, "a/b"), "does not contain a surrogate"),
        ((tmp_path / "nowhere", "a/b"), "does not contain a surrogate"),
    ):
        code, out, err = call("push", *arguments)
        assert (code, out, err.count("\n"), text in err) == (2, "", 1, True), err


def test_wrong_arguments(run, tmp_path):
    with pytest.raises(OptionError, match="'name' is not a hub id; use OWNER/NAME"):
        raptor.push(run, "name")
    with pytest.raises(OptionError, match=r"licence 'GPL 3' is not an identifier.*apache-2\.0"):
        raptor.push(run, "a/b", raptor.PushOptions(license="GPL 3"))
    with pytest.raises(ModelNotFoundError, match="does not contain a surrogate"):
        raptor.push(tmp_path, "a/b")
