"""The command that runs a study in a process of its own, and waiting for what it does."""

import subprocess
import sys
import time
from collections.abc import Callable

Start = Callable[..., "subprocess.Popen[str]"]
COMMAND = [sys.executable, "-c", "from seedspread.cli import main; main()", "run"]


def wait_for(condition: object, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
