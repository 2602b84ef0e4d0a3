"""`raptor push` against a local stand-in for the hub, and the model card that it publishes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
import yaml
from huggingface_hub import ModelCard

import raptor
from raptor.errors import ModelNotFoundError, OptionError
from raptor.models.remote.metadata import hub_dataset, hub_model, licence_of
from vits import family


class Hub(BaseHTTPRequestHandler):
    """Accepts what the client of the hub sends to create a model and to commit files to it."""

    repositories: dict[str, dict[str, bytes]]
    private: dict[str, bool]

    def do_POST(self):
        """Answer the three calls of an upload; every file is sent inside the commit."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer(401, {"error": "Invalid username or password."})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
            self.repositories[name], self.private[name] = (
                {},
                bool(asked.get("private")) or asked.get("visibility") == "private",
            )
            return self.answer(200, {"url": f"http://{self.headers['Host']}/{name}", "name": name})
        if self.path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        name = "/".join(self.path.split("/")[3:5])
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            return self.answer(200, {"files": [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None} for file in files
            ]})  # fmt: skip
        if "/commit/" in self.path:
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    self.repositories[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            return self.answer(
                200, {"commitUrl": f"http://{self.headers['Host']}/{name}/commit/1", "commitOid": "1" * 40}
            )
        return self.answer(404, {"error": "not found"})

    def do_GET(self):
        """Answer that a model exists."""
        return self.answer(200, {"id": "/".join(self.path.split("/")[3:5]), "siblings": [], "sha": "0" * 40})

    def answer(self, code, content):
        """Send JSON."""
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Print nothing."""


@pytest.fixture
def hub():
    Hub.repositories, Hub.private = {}, {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A surrogate of a tiny ViT of transformers that states its licence, distilled by the command line's function."""
    root = tmp_path_factory.mktemp("push")
    torch.manual_seed(0)
    family("vit").build().save_pretrained(root / "teacher")
    (root / "teacher" / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A ViT\n")
    from raptor.runtime.verbs import VERBS, import_features

    import_features("command")
    VERBS["distill"].function(
        str(root / "teacher"), data="scenes", k=None, phases="2-1", eval_images=4,
        options=raptor.DistillOptions(steps=1), loading=raptor.LoadOptions(),
        run_options=raptor.RunOptions(out=root / "run", device="cpu", batch_size=2, quiet=True),
    )  # fmt: skip
    return root / "run"


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


def test_wrong_arguments(run, tmp_path):
    with pytest.raises(OptionError, match="'name' is not a hub id; use OWNER/NAME"):
        raptor.push(run, "name")
    with pytest.raises(OptionError, match=r"licence 'GPL 3' is not an identifier.*apache-2\.0"):
        raptor.push(run, "a/b", raptor.PushOptions(license="GPL 3"))
    with pytest.raises(ModelNotFoundError, match="does not contain a surrogate"):
        raptor.push(tmp_path, "a/b")


def test_the_card_is_what_the_hub_reads(run):
    """Parsed by the hub's client, which raises for metadata in another form."""
    text = (run / "model" / "README.md").read_text()
    card = ModelCard(text, ignore_metadata_errors=False)
    data = card.data
    fidelity = json.loads((run / "result.json").read_text())["fidelity"]
    r2 = fidelity["r2"]["all"]
    assert (data.license, data.library_name, data.pipeline_tag) == (
        "apache-2.0", "transformers", "image-feature-extraction"
    )  # fmt: skip
    assert data.base_model is None  # the teacher is a local directory
    values = {result.metric_name: result.metric_value for result in data.eval_results}
    assert values == pytest.approx({
        "R2 of the states at the last layer": r2[-1], "R2 of the states, mean over layers": sum(r2) / len(r2),
    })  # fmt: skip
    assert all(result.dataset_name == "scenes:held-out" for result in data.eval_results)
    raw = yaml.safe_load(text.split("---")[1])
    assert raw["model-index"][0]["results"][0]["task"]["type"] == "image-feature-extraction"


def test_sources_on_the_hub_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "photos").mkdir()
    assert hub_model("facebook/dinov2-base") == "facebook/dinov2-base"
    assert hub_model("timm:vit_tiny_patch16_224.augreg_in21k") == "timm/vit_tiny_patch16_224.augreg_in21k"
    assert [hub_model(name) for name in ("scenes", "local/photos", "/x/y/z", "python:a.b:c")] == [None] * 4
    assert hub_dataset("ILSVRC/imagenet-1k:train") == "ILSVRC/imagenet-1k"
    assert [hub_dataset(name) for name in ("scenes", "local/photos:train", "a/b/c.parquet")] == [None] * 3


def test_a_teacher_without_a_licence_is_unknown(tmp_path):
    assert [licence_of(name) for name in (str(tmp_path), "scenes", "nobody/nothing", "timm:x")] == ["unknown"] * 4
    (tmp_path / "README.md").write_text("---\nlicense: [: broken\n---\n")
    assert licence_of(str(tmp_path)) == "unknown"
    (tmp_path / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    assert licence_of(str(tmp_path)) == "cc-by-nc-4.0"
