"""Leases: who may write into a run's folder, decided by the filesystem alone.

A lease is a file `lease-NUMBER.json` that is linked into place, which the filesystem lets only one process
do. Its number is the fencing token: the highest one holds, and a worker that finds a higher number than its
own writes nothing more. A lease is alive while its modification time keeps changing, as measured by the
observer's own monotonic clock: clocks of other machines, and clocks that jump, do not matter. A lease whose
process is seen to be dead is free at once. A copy of a lease file does not count as a lease.
"""

import errno
import json
import os
import platform
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from seedspread.errors import SeedspreadError
from seedspread.runs.files import UNREADABLE, read_file

LEASE_SECONDS = 120.0
_PID_LIMIT = 2**31
_NAME = re.compile(r"lease-[0-9]{6,9}\.json")


class LeaseLostError(SeedspreadError):
    """Another worker holds the run, so this one writes nothing more."""


@dataclass(frozen=True)
class Holder:
    """A lease on disk."""

    token: int
    path: Path
    content: dict[str, Any]
    beat: int

    @property
    def is_here(self) -> bool:
        """True if its process number is meaningful to this process."""
        return self.content.get("space") == _space()

    @property
    def is_dead(self) -> bool:
        """True if its process is known to have ended; False if that cannot be known."""
        return self.is_here and _has_ended(self.pid, self.content.get("started"))

    @property
    def pid(self) -> int:
        return int(self.content["pid"])


class StalenessTracker:
    """Measures how long leases have not changed, by this process's monotonic clock."""

    def __init__(self, seconds: float = LEASE_SECONDS) -> None:
        self.seconds = seconds
        self._seen: dict[Path, tuple[int, float]] = {}

    def is_stale(self, holder: Holder) -> bool:
        """Return whether a lease has not changed for the set time since it was first seen."""
        beat, since = self._seen.get(holder.path, (None, 0.0))
        now = time.monotonic()
        if beat != holder.beat:
            self._seen[holder.path] = holder.beat, now
            return False
        return now - since >= self.seconds


class Lease:
    """The right to write into a run's folder, until it is released or taken over."""

    def __init__(self, path: Path, token: int, nonce: str) -> None:
        self.path, self.token, self._nonce = path, token, nonce
        self._over = threading.Event()
        self._beating: threading.Thread | None = None

    def check(self) -> None:
        """Raise `LeaseLostError` unless this is still the newest lease."""
        holder = newest(self.path.parent)
        if holder is None or holder.content.get("nonce") != self._nonce:
            raise LeaseLostError(
                f"{self.path.parent} was taken over by another worker; nothing more is written"
            )

    @property
    def is_overtaken(self) -> bool:
        """True if a lost lease was taken over, or overwritten by a copied folder, and not just removed.

        A worker that takes over adds a higher number. Copying another run's folder over this one may bring a
        lease of the same number, which overwrites this file.
        """
        return any(_token(path) >= self.token for path in _paths(self.path.parent))

    def beat(self) -> None:
        self.check()
        before = self.path.stat().st_mtime_ns
        now = max(time.time_ns(), before + 1)  # the change is what counts, even if the clock goes back
        os.utime(self.path, ns=(now, now))

    def release(self) -> None:
        """Release the lease; its number stays taken. A second call does nothing."""
        self._over.set()
        if self._beating is not None:
            self._beating.join()
        try:
            self.check()
        except LeaseLostError:
            return
        part = self.path.with_name(f".lease-{secrets.token_hex(8)}")
        try:
            part.write_text(json.dumps({"released": True}))
            os.replace(part, self.path)  # a new inode: no longer a lease
        except OSError:  # a full disk: an empty lease holds nothing either, and its number stays taken
            part.unlink(missing_ok=True)
            os.truncate(self.path, 0)

    def keep_beating(self, seconds: float, every_beat: Callable[[], None] = lambda: None) -> None:
        """Beat in the background until the lease is released, often enough for leases of `seconds`."""

        def beat() -> None:
            while not self._over.wait(min(seconds / 6, 5.0)):
                try:
                    self.beat()
                except LeaseLostError:
                    return  # the next write will find out
                except OSError:
                    pass  # a filesystem in trouble: the next beat may succeed
                every_beat()

        self._beating = threading.Thread(target=beat, daemon=True)
        self._beating.start()


_MOST_TOKENS = 999_999_999
# Errors of a filesystem in trouble.
_TROUBLE = (errno.EIO, errno.ESTALE, errno.EACCES, errno.ETIMEDOUT, errno.EAGAIN, errno.EMFILE, errno.ENFILE)


def claim(folder: Path, tracker: StalenessTracker) -> Lease | None:
    """Take the run's lease if it is free; return None if another worker holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = _paths(folder)  # listed once: a lease that appears later has the number that is tried below
    holder = _holding(paths)
    if holder is not None and not (holder.is_dead or tracker.is_stale(holder)):
        return None
    token = 1 + (_token(paths[-1]) if paths else 0)
    if token > _MOST_TOKENS:
        raise OSError(errno.EOVERFLOW, f"{paths[-1].name} is no lease that was ever given: remove it")
    path = folder / f"lease-{token:06d}.json"
    part = folder / f".lease-{secrets.token_hex(8)}"
    nonce = secrets.token_hex(16)
    try:
        part.touch()
        part.write_text(json.dumps(process(os.getpid()) | {"inode": part.stat().st_ino, "nonce": nonce}))
        os.link(part, path)
    except (FileExistsError, FileNotFoundError):
        return None
    finally:
        part.unlink(missing_ok=True)
    lease = Lease(path, token, nonce)
    try:
        lease.check()  # a slow worker may have linked a number that was already overtaken
    except LeaseLostError:
        path.unlink(missing_ok=True)
        return None
    for older in paths:
        older.unlink(missing_ok=True)
    return lease


def newest(folder: Path) -> Holder | None:
    """Return the lease that holds: the highest number that was linked here and not released."""
    return _holding(_paths(folder))


def _paths(folder: Path) -> list[Path]:
    """Return the files with a lease's name, lowest number first; none if there is no folder."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((folder / name for name in names), key=_token)


def _holding(paths: list[Path]) -> Holder | None:
    for path in reversed(paths):
        try:
            stat = path.lstat()
            content = json.loads(read_file(path))
        except OSError as error:
            if error.errno in _TROUBLE:  # the holder is unknown: assume there is one until it is stale
                return Holder(_token(path), path, {"pid": 0}, 0)
            continue  # removed meanwhile, or not a file
        except UNREADABLE:  # damaged: it holds nothing
            continue
        # It was linked here, is not released, and names a process.
        if isinstance(content, dict) and content.get("inode") == stat.st_ino and _is_pid(content.get("pid")):
            return Holder(_token(path), path, content, stat.st_mtime_ns)
    return None


def _token(path: Path) -> int:
    return int(path.stem.removeprefix("lease-"))


def _is_pid(value: object) -> bool:
    return type(value) is int and 0 < value < _PID_LIMIT


def process(pid: int) -> dict[str, Any]:
    """Return values that identify a process of this machine among all others, past and present."""
    return {"host": platform.node(), "pid": pid, "started": _started(pid), "space": _space()}


def is_running(values: Mapping[str, Any]) -> bool:
    """Return whether a process described by `process` is running on this machine."""
    is_here = values.get("space") == _space() and _is_pid(values.get("pid"))
    return is_here and not _has_ended(values["pid"], values.get("started"))


@cache
def _space() -> str:
    """Return a name for the scope in which process numbers are unique: this boot and this namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: a process counts as dead only by its silence
        return f"unknown {secrets.token_hex(8)}"


def _has_ended(pid: int, started: str | None) -> bool:
    """Return whether a process has ended, or its number was reused; False if that cannot be seen."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # the process exists, but belongs to someone else
    now = _started(pid)
    return now is not None and now != started


def _started(pid: int) -> str | None:
    """Return the kernel's start time of a process, or `ended` for a zombie; None if it cannot be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in ("Z", "X") else fields[19]
