"""Studies in processes of their own, of which no test leaves one behind."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.study.processes import COMMAND, Start


@pytest.fixture
def spawn() -> Iterator[Start]:
    """Starts a command in a process group of its own; what a failed test leaves of it is killed."""
    started: list[subprocess.Popen[str]] = []

    def begun(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(command, text=True, start_new_session=True, **options))
        return started[-1]

    yield begun
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=300)


@pytest.fixture
def start_in(spawn: Start) -> Start:
    """Starts the study in a folder, with options of `run`."""

    def begun(folder: Path, *options: str) -> subprocess.Popen[str]:
        return spawn(
            [*COMMAND, str(folder / "study.toml"), "--store", str(folder / "store"), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Where the tests run in the background, Ctrl-C is ignored, and would be by their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return begun


@pytest.fixture
def start(start_in: Start, tmp_path: Path) -> Start:
    """Starts the study in `tmp_path`."""
    return partial(start_in, tmp_path)
