"""Studies in processes of their own, and waiting for what they do."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Start = Callable[..., "subprocess.Popen[str]"]
COMMAND = [sys.executable, "-c", "from seedspread.cli import main; main()", "run"]


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    """A study in a process group of its own."""
    return subprocess.Popen(
        [*COMMAND, str(folder / "study.toml"), "--store", str(folder / "store"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests themselves run in the background, Ctrl-C is ignored, and would be by their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def wait_for(condition: object, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
