"""Live pages that are served while a test runs."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from seedspread.report.server import LiveReport, ReportServer, make_server
from tests.report.helpers import Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a report, at `127.0.0.1` or another host, until the test has ended."""
    with ExitStack() as ends:

        def started(live: LiveReport, host: str = "127.0.0.1") -> ReportServer:
            server = make_server(live, host, 0)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            ends.callback(thread.join)
            ends.callback(server.server_close)
            ends.callback(server.shutdown)
            thread.start()
            return server

        yield started
