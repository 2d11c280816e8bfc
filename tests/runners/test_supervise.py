"""The process between a worker and a program: what it tells, what it keeps, and that nothing outlives it."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seedspread.runners import supervise
from tests.runners.programs import is_alive, is_there
from tests.study.processes import wait_for

CHILD = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()):
    time.sleep(0.01)
"""


class Supervised:
    """A program under a supervisor, whose worker is this process."""

    def __init__(self, folder: Path, *command: str, file_bytes: int = -1, **order: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervise.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, -1)),  # noqa: PLW1509
        )
        self._send(
            {
                "command": command,
                "folder": str(folder),
                "environment": dict(os.environ),
                "log": str(folder / "log.txt"),
                "timeout": None,
                "grace": 20.0,
            }
            | order
        )

    def _send(self, message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        self._send("stop")

    def ended(self) -> dict[str, Any]:
        with self.process:
            assert self.process.stdout is not None and self.process.stderr is not None  # noqa: PT018
            out, err = self.process.stdout.read(), self.process.stderr.read()
        assert err == b""
        told: dict[str, Any] = json.loads(out)
        return told


def shell(folder: Path, script: str, **order: Any) -> Supervised:
    return Supervised(folder, "/bin/sh", "-c", script, **order)


def test_it_tells_how_a_program_ended(tmp_path: Path) -> None:
    ended = shell(tmp_path, "echo one; echo two >&2; printf ' {\"a\": 1}\\n\\n  \\n'; exit 3").ended()
    assert (ended["exit_status"], ended["signal"], ended["last_line"]) == (3, None, '{"a": 1}')
    assert set((tmp_path / "log.txt").read_text().split()) == {"one", "two", '{"a":', "1}"}
    assert shell(tmp_path, "kill -9 $$").ended()["signal"] == signal.SIGKILL


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        (b"", ""),
        (b"\n \n", ""),
        (b"a b\nc d", "c d"),
        (b"50%\r100%\r{}\r\n\n", "{}"),
        ('{"x": "\u2028"}\n'.encode(), '{"x": "\u2028"}'),
        (b"\xff\n", "\ufffd"),
    ],
)
def test_the_last_line_is_the_last_that_is_not_blank(tail: bytes, line: str) -> None:
    assert supervise.last_line(tail) == line


@pytest.mark.parametrize("command", [["no-such-program"], ["/bin/echo", "a\0b"], ["/"]])
def test_a_program_that_cannot_be_started_is_told(tmp_path: Path, command: list[str]) -> None:
    assert set(Supervised(tmp_path, *command).ended()) == {"error"}


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "log.txt").symlink_to(tmp_path / "elsewhere")
    assert "error" in shell(tmp_path, "echo theirs").ended()
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_program_is_asked_to_stop_and_has_time_to(tmp_path: Path) -> None:
    saves = "trap 'sleep 0.3; echo saved; exit 5' TERM; echo ready > ready; while :; do sleep 0.05; done"
    one = shell(tmp_path, saves)
    wait_for((tmp_path / "ready").exists)
    one.stop()
    ended = one.ended()
    assert (ended["stopped"], ended["exit_status"], ended["last_line"]) == (True, 5, "saved")


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    one = shell(tmp_path, "trap '' TERM; echo ready > ready; while :; do sleep 0.05; done", grace=0.3)
    wait_for((tmp_path / "ready").exists)
    one.stop()
    assert one.ended()["signal"] == signal.SIGKILL


def test_a_timeout_ends_it(tmp_path: Path) -> None:
    ended = shell(tmp_path, "sleep 600", timeout=0.2).ended()
    assert (ended["timed_out"], ended["stopped"], ended["signal"]) == (True, False, signal.SIGTERM)


def test_a_child_that_left_its_session_ends_with_the_program(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    ended = Supervised(tmp_path, sys.executable, "-S", "-c", CHILD, str(pid)).ended()
    assert ended["exit_status"] == 0
    assert not is_alive(int(pid.read_text()))


def worker_dies(one: Supervised) -> None:
    assert one.process.stdin is not None
    one.process.stdin.close()


def lease_is_lost(one: Supervised) -> None:
    one.process.send_signal(signal.SIGUSR1)


@pytest.mark.parametrize("happen", [worker_dies, lease_is_lost])
def test_nothing_outlives_its_worker(tmp_path: Path, happen: Callable[[Supervised], None]) -> None:
    one = shell(tmp_path, "trap '' TERM; sleep 600 & echo $$ $! > pids; wait")
    wait_for(lambda: is_there(tmp_path / "pids"))
    with one.process:
        happen(one)
        one.process.wait(timeout=30)
        assert one.process.stderr is not None
        assert one.process.stderr.read() == b""
    assert not any(is_alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_supervisor_that_is_killed_takes_the_program_along(tmp_path: Path) -> None:
    one = shell(tmp_path, "echo $$ > pid; exec sleep 600")
    wait_for(lambda: is_there(tmp_path / "pid"))
    with one.process:
        one.process.kill()
    wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_any_amount_of_output_leaves_a_bounded_log(tmp_path: Path) -> None:
    """200 MB, and a child that goes on writing when the program has ended."""
    script = "head -c 200000000 /dev/zero | tr '\\0' 'x'; yes >&2 & echo; echo the end"
    ended = shell(tmp_path, script).ended()
    assert (ended["exit_status"], ended["last_line"]) == (0, "the end")
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert sum(sizes) <= 2 * supervise.LOG_BYTES


def test_a_full_disk_costs_the_log_and_not_the_run(tmp_path: Path) -> None:
    """As on a full disk, a write fails: files may not grow beyond 1,000 bytes."""
    ended = shell(tmp_path, "head -c 99999 /dev/zero; echo; echo the end", file_bytes=1000).ended()
    assert (ended["exit_status"], ended["last_line"]) == (0, "the end")
    assert (tmp_path / "log.txt").stat().st_size == 1000
