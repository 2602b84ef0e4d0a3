"""A disk of a few kilobytes, mounted in memory: what is full or read-only can be made so, and undone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Disk:
    """A file system of its own."""

    def __init__(self, path: Path):
        self.path = path

    def mount(self, kilobytes: int) -> subprocess.CompletedProcess[str]:
        """Make it, that large."""
        options = f"size={kilobytes}k"
        command = ["mount", "-t", "tmpfs", "-o", options, "raptor-test", self.path]
        return subprocess.run(command, capture_output=True, text=True)

    def become(self, *options: str) -> None:
        """Change it: `size=64k`, `ro`, `rw`."""
        subprocess.run(["mount", "-o", ",".join(["remount", *options]), self.path], check=True)


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    """Mount a disk of 64 kilobytes, where that is permitted."""
    made = Disk(tmp_path / "disk")
    made.path.mkdir()
    try:
        done = made.mount(64)
    except FileNotFoundError:
        pytest.skip("there is no mount command here, so no small disk")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield made
    finally:
        subprocess.run(["umount", made.path], check=True)
