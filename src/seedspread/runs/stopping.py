"""SIGTERM and Ctrl-C as a request to stop where it is safe, instead of a death in the midst of work."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from seedspread.errors import SeedspreadError


class StoppedError(SeedspreadError):
    """The run was asked to stop; its checkpoint is written."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class StopRequest:
    """Which signal asked to stop, if any has."""

    def __init__(self) -> None:
        self.number: int | None = None

    def handle(self, number: int, _: FrameType | None) -> None:
        """Note the signal; a second Ctrl-C stops at once.

        One beside a SIGTERM does not: Ctrl-C in a terminal reaches workers by both, in either order.
        """
        if number == signal.SIGINT == self.number:
            raise KeyboardInterrupt
        self.number = number

    def heard(self, outcome: object) -> None:
        """Forget the signal if the run was stopped by it; else whoever is outside is to hear of it."""
        if isinstance(outcome, StoppedError):
            self.number = None


@contextmanager
def handling(*numbers: int, by: Any) -> Iterator[None]:
    """Handle signals with `by` inside the context; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, by) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Catch SIGTERM and SIGINT inside the context; only the main thread can."""
    request = StopRequest()
    with handling(signal.SIGTERM, signal.SIGINT, by=request.handle):
        yield request
    if request.number is not None:  # it came when nothing was left to stop: whoever is outside hears of it
        os.kill(os.getpid(), request.number)
