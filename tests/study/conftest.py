"""Studies in processes of their own, of which no test leaves one behind."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.study import processes
from tests.study.processes import Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the study in `tmp_path`, in a process group of its own; what a failed test leaves is killed."""
    started: list[subprocess.Popen[str]] = []

    def begun(*options: str) -> subprocess.Popen[str]:
        started.append(processes.start(tmp_path, *options))
        return started[-1]

    yield begun
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=300)
