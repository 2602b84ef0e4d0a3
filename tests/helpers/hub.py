"""A local stand-in for the hub: it accepts the calls of an upload and validates metadata of model cards."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import transformers
import yaml
from huggingface_hub.utils import HFValidationError, validate_repo_id


def problems(card: str) -> list[str]:
    """Return what the hub refuses in a card, by the rules of its documentation on model cards."""
    parts = re.match(r"---\n(.*?)\n---\n", card, flags=re.DOTALL)
    data = yaml.safe_load(parts[1]) if parts else None
    if not isinstance(data, dict):
        return ["metadata: there is none"]
    found = []
    if not re.fullmatch(r"[a-z0-9.+-]+", str(data.get("license"))):
        found.append(f"license: {data.get('license')!r}")
    if data.get("pipeline_tag") not in transformers.pipelines.get_supported_tasks():
        found.append(f"pipeline_tag: {data.get('pipeline_tag')!r}")
    for key in ("base_model", "datasets"):
        ids = data.get(key, [])
        for one in [ids] if isinstance(ids, str) else ids:
            try:
                validate_repo_id(one)
            except HFValidationError as error:
                found.append(f"{key}: {error}")
    for entry in data.get("model-index", []):
        for result in entry["results"]:
            if not (entry["name"] and result["task"]["type"] and result["dataset"]["type"]):
                found.append("model-index: a name is empty")
            found += [
                f"model-index: value {metric['value']!r}"
                for metric in result["metrics"]
                if not isinstance(metric["value"], float) or not abs(metric["value"]) < float("inf")
            ]
    return found


class Hub(BaseHTTPRequestHandler):
    """Accepts what the client of the hub sends to create a model and to commit files to it."""

    repositories: dict[str, dict[str, bytes]]
    private: dict[str, bool]
    refused: list[str]  # what it finds in cards, besides what is there
    validated: int

    def do_POST(self):
        """Answer the calls of an upload; every file is sent inside the commit."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/validate-yaml":  # for everybody
            Hub.validated += 1
            errors = [{"message": text} for text in (*self.refused, *problems(json.loads(body)["content"]))]
            return self.answer(400 if errors else 200, {"errors": errors, "warnings": []})
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer(401, {"error": "Invalid username or password."})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
            self.repositories[name] = {}
            self.private[name] = bool(asked.get("private")) or asked.get("visibility") == "private"
            return self.answer(200, {"url": f"http://{self.headers['Host']}/{name}", "name": name})
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
    """The address of a hub that runs during a test."""
    Hub.repositories, Hub.private, Hub.refused, Hub.validated = {}, {}, [], 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
