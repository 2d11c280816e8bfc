"""A request to stop is never swallowed."""

import os
import signal

import pytest

from seedspread.runs.stopping import StopRequest, stop_requests


def interrupted_at_its_end() -> None:
    with stop_requests() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.number == signal.SIGINT


def test_a_request_that_nobody_read_is_passed_on() -> None:
    """Ctrl-C while the result is being written: the run ends, and then its caller hears of it."""
    with pytest.raises(KeyboardInterrupt):
        interrupted_at_its_end()


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_ctrl_c_and_a_studys_own_request_are_one(numbers: tuple[int, int]) -> None:
    request = StopRequest()
    for number in numbers:
        request.handle(number, None)
    assert request.number == numbers[-1]


def test_a_second_ctrl_c_stops_at_once() -> None:
    request = StopRequest()
    request.handle(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        request.handle(signal.SIGINT, None)
