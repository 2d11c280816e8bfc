"""SIGTERM and Ctrl-C as requests to stop at a safe point, rather than an immediate death."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from seedspread.errors import SeedspreadError


class StoppedError(SeedspreadError):
    """The run was asked to stop, and has written its checkpoint."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class StopRequest:
    """The signal that asked to stop, if any."""

    def __init__(self) -> None:
        self.number: int | None = None

    def handle(self, number: int, _: FrameType | None) -> None:
        """Record the signal; a second Ctrl-C stops at once.

        A Ctrl-C after a SIGTERM does not: Ctrl-C in a terminal reaches workers as both, in either order.
        """
        if number == signal.SIGINT == self.number:
            raise KeyboardInterrupt
        self.number = number

    def heard(self, outcome: object) -> None:
        """Clear the signal if it stopped the run; otherwise it is passed on when the context ends."""
        if isinstance(outcome, StoppedError):
            self.number = None


@contextmanager
def handling(*numbers: int, by: Any) -> Iterator[None]:
    """Handle signals with `by` inside the context; works only in the main thread."""
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
    """Catch SIGTERM and SIGINT inside the context; works only in the main thread."""
    request = StopRequest()
    with handling(signal.SIGTERM, signal.SIGINT, by=request.handle):
        yield request
    if request.number is not None:  # it came too late to stop anything: pass it on
        os.kill(os.getpid(), request.number)
