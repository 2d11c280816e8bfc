"""Studies that are killed at random moments, and what is left of them."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.study.processes import Start


@dataclass
class Counts:
    """What was done to a study."""

    starts: int = 0
    workers_killed: int = 0
    coordinators_killed: int = 0
    both_killed: int = 0


@dataclass
class Seen:
    """Every result as it was first seen; a run that was completed twice would have another file."""

    first: dict[str, tuple[int, int]] = field(default_factory=dict)

    def look(self, store: Path) -> None:
        for path in store.glob("*/result.json"):
            stat = path.stat()
            now = stat.st_ino, stat.st_mtime_ns
            assert self.first.setdefault(path.parent.name, now) == now, f"{path} was written twice"


def children(pid: int) -> list[int]:
    """Worker processes of a coordinator (not multiprocessing's resource tracker)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == pid and b"spawn_main" in command:
                found.append(int(entry.name))
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def disturb(
    start: Start, folder: Path, rng: random.Random, faults: int, until_busy: Callable[[], None] | None = None
) -> Counts:
    """Starts the study in `folder` until it ends, killing workers, the coordinator, or both, `faults` times.

    `until_busy` waits until a run is under way, so that every fault hits one; by default faults come anywhen.
    """
    counts, seen, store = Counts(), Seen(), folder / "store"
    process = None
    while faults:
        if process is None:
            process = start(folder, "--workers", "2", "--lease-seconds", "5")
            counts.starts += 1
        if until_busy is not None:
            until_busy()
        time.sleep(rng.uniform(1.0, 6.0) if until_busy is None else rng.uniform(0.0, 1.5))
        seen.look(store)
        workers = children(process.pid)
        what = rng.choice(["workers", "coordinator", "both"])
        faults -= 1
        if what == "workers" and workers:
            kill(rng.sample(workers, rng.randint(1, len(workers))))
            counts.workers_killed += 1
            continue
        kill([process.pid])
        if what == "both":
            kill(workers)
        counts.coordinators_killed += what != "both"
        counts.both_killed += what == "both"
        process.communicate(timeout=300)
        process = None
        seen.look(store)
    end(process or start(folder, "--workers", "2", "--lease-seconds", "5"))
    counts.starts += process is None
    seen.look(store)
    return counts


def end(process: "subprocess.Popen[str]") -> None:
    """Waits for a study that nobody disturbs any more."""
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
