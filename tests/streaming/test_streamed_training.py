"""A distillation on tar shards that is killed and resumed, and the memory of a pass over many images."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from shards import as_parquet, as_tars, noise

TRAINING = (
    "--phases", "5-7", "--steps", "12", "--batch-size", "4", "--eval-images", "4", "--device", "cpu", "--quiet",
)  # fmt: skip

MEMORY = '''
import json, sys, raptor

def peak():
    """Return the peak in kilobytes; ru_maxrss would count what the process that started this one had."""
    with open("/proc/self/status") as file:
        return int(file.read().split("VmHWM:")[1].split()[0])

used = raptor.Preprocessing(crop=(24, 24), resize=None)
images = raptor.load_images(sys.argv[1], used, workers=0, **json.loads(sys.argv[2]))
seen, total, peaks = 0, 0.0, []
for batch in images:
    seen, total = seen + len(batch), total + float(batch.pixels.mean())
    if seen in (992, len(images)):
        peaks.append(peak())
print(json.dumps({"seen": seen, "peaks": peaks}))
'''


def raptor(*arguments, **options):
    environment = {**os.environ, "RAPTOR_SAVE_EVERY": "1"}
    return subprocess.Popen([sys.executable, "-m", "raptor", *map(str, arguments)], env=environment, **options)


@pytest.mark.parametrize("kind", ["tar", pytest.param("parquet", marks=pytest.mark.long)])
def test_killed_and_resumed_is_the_same_to_the_last_bit(kind, tmp_path):
    make, stream = (as_tars, ()) if kind == "tar" else (as_parquet, ("--stream", "16"))
    data = make(tmp_path / "data", 64)
    command = ("distill", "scenes", "--data", data, *stream, *TRAINING)
    assert raptor(*command, "--out", tmp_path / "straight").wait() == 0
    killed = raptor(*command, "--out", tmp_path / "killed")
    log, deadline = tmp_path / "killed" / "stage2" / "checkpoint.pt", time.monotonic() + 240
    while not log.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "killed" / "result.json").exists()
    assert raptor(*command, "--out", tmp_path / "killed", "--resume").wait() == 0
    one, other = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("straight", "killed"))
    assert one == other


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.long
@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_memory_is_flat_from_1000_to_20000_images(kind, tmp_path):
    pictures = [noise(number) for number in range(50)]
    if kind == "tar":
        data, options = as_tars(tmp_path, 20_000, shards=8, content=lambda number: pictures[number % 50]), {}
    else:
        data, options = as_parquet(tmp_path, 20_000, shards=8), {"stream": 500}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(data), json.dumps(options)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["seen"] == 20_000
    thousand, all_of_them = found["peaks"]
    print(kind, "peaks after 1,000 and 20,000 images:", thousand // 1024, all_of_them // 1024, "MiB")
    # Measured: 1.001 and 1.05. 19,000 more images are 125 MiB of decoded pixels: with all of them kept, 1.53 and 1.39.
    assert all_of_them < 1.15 * thousand
