"""A request to stop is never swallowed."""

import os
import signal

import pytest

from seedspread.stopping import stop_requests


def interrupted_at_its_end() -> None:
    with stop_requests() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.number == signal.SIGINT


def test_a_request_that_nobody_read_is_passed_on() -> None:
    """Ctrl-C while the result is being written: the run ends, and then its caller hears of it."""
    with pytest.raises(KeyboardInterrupt):
        interrupted_at_its_end()
