"""The live page: a small server for one reader on one machine, that gives out the report and nothing else."""

import hashlib
import io
import ipaddress
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from seedspread.errors import SeedspreadError
from seedspread.report.page.report import Report, content_policy
from seedspread.runs.store import FINISHED
from seedspread.runs.studies import store_marks

_LOOK_SECONDS = 1.0
_MINUTE = 60
# A reader has a page or two open, each of which asks every two seconds.
_MAX_CONNECTIONS = 32
_REQUEST_SECONDS = 10.0
_SEND_SECONDS = 60.0
_MAX_HEAD = 16_384
_HTTP_PORT = 80


class ServeError(SeedspreadError):
    """The server cannot be started."""


def signature(store: Path) -> str:
    """Changes whenever a run begins, ends or fails, or a study is added; reads no file.

    While runs are at work it also changes every minute: one that dies makes no mark in the store.
    """
    marks, under_way = store_marks(store)
    minute = [str(time.time() // _MINUTE)] if under_way else []
    return hashlib.sha256("\n".join([*marks, *minute]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Edition:
    """A report as it is given out; its parts belong together."""

    version: str
    page: str
    main: str
    progress: str


class LiveReport:
    """Makes the report again whenever its store has changed, in a thread of its own.

    Attributes:
        edition: the newest; replaced as a whole.
        under_way: the runs that are under way, as HTML.
        state: `live`, `live, updating`, or what went wrong.
    """

    def __init__(
        self, make: Callable[[], Report], look: Callable[[], str], under_way: Callable[[], str] = lambda: ""
    ) -> None:
        self._make, self._look, self.under_way = make, look, under_way
        self.edition = self._edition(look())
        self.state = "live"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def _edition(self, version: str) -> Edition:
        report = self._make()
        return Edition(version, report.page(version), report.main(version), _progress(report))

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Stops looking."""
        self._stopped.set()

    def _follow(self) -> None:
        pause = _LOOK_SECONDS
        while not self._stopped.wait(pause):
            seen = self._look()
            if seen == self.edition.version:
                pause = _LOOK_SECONDS
                continue
            self.state, start = "live, updating", time.monotonic()
            try:
                self.edition = self._edition(seen)
                self.state = "live"
            except Exception as error:
                self.state = f"could not be brought up to date ({type(error).__name__})"
            # A large store is not made into a page without a pause.
            pause = max(_LOOK_SECONDS, 2 * (time.monotonic() - start))


def _progress(report: Report) -> str:
    """`13 of 36 runs, 1 failed`: each run once, as `seedspread run` counts them."""
    states = {key: state.state for s in report.material.settings for key, state in s.states.items()}
    failed = sum(state == "failed" for state in states.values())
    ended = failed + sum(state in FINISHED for state in states.values())
    return f"{ended} of {len(states)} runs" + (f", {failed} failed" if failed else "")


def make_server(live: LiveReport, host: str, port: int) -> "ReportServer":
    """A server bound to an address; `port` 0 takes a free one."""
    try:
        return ReportServer(live, host.strip("[]"), port)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServeError(f"cannot serve on {host}:{port}: {reason}; try --port 0 for a free one") from None


class ReportServer(ThreadingHTTPServer):
    """Serves one report to a few connections at a time.

    Attributes:
        live: the report.
        only_local: whether only this machine can reach it.
        url: where it is.
    """

    daemon_threads = True

    def __init__(self, live: LiveReport, host: str, port: int) -> None:
        self.live = live
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # Of a name that has both, the address of the older kind.
        family, *_, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
        self.address_family = family
        super().__init__(address, _Handler)  # type: ignore[arg-type]
        self.only_local = is_loopback(str(address[0]))
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def server_bind(self) -> None:
        """Binds, and asks no name server what this machine is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread, or hangs up while too many are being answered."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def is_loopback(name: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.lower() == "localhost"


class _Handler(BaseHTTPRequestHandler):
    """Four addresses, all read-only: the page, its main part, the runs under way, and what has changed."""

    server: ReportServer
    server_version = "seedspread"
    sys_version = ""
    timeout = _SEND_SECONDS

    def handle_one_request(self) -> None:
        """Reads a request that is short and comes in time, and answers it."""
        with suppress(OSError):  # the reader has gone, or takes too long
            if head := self._head():
                self.rfile = io.BufferedReader(io.BytesIO(head))
                super().handle_one_request()
        self.close_connection = True

    def _head(self) -> bytes:
        """All that is read of a request; empty if it is too long. `TimeoutError` if it is too slow.

        The time is for all of it: a byte now and then would hold a connection for ever.
        """
        head, deadline = b"", time.monotonic() + _REQUEST_SECONDS
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            self.connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            piece = self.connection.recv(4096)
            head += piece
            if not piece or len(head) > _MAX_HEAD or time.monotonic() > deadline:
                return b""
        self.connection.settimeout(_SEND_SECONDS)
        return head

    def do_GET(self) -> None:
        """Answers; the method's name is the library's."""
        live = self.server.live
        if not self._is_for_us():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to its own name only\n")
        elif self.path == "/":
            self._send(HTTPStatus.OK, "text/html", live.edition.page)
        elif self.path == "/main":
            self._send(HTTPStatus.OK, "text/html", live.edition.main)
        elif self.path == "/under-way":
            self._send(HTTPStatus.OK, "text/html", live.under_way())
        elif self.path == "/state":
            edition = live.edition
            state = {"version": edition.version, "state": f"{live.state}: {edition.progress}"}
            self._send(HTTPStatus.OK, "application/json", json.dumps(state))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "nothing here but the report, at /\n")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _is_for_us(self) -> bool:
        """A page elsewhere that points its own name at this machine gets nothing."""
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}")
            return not self.server.only_local or (
                is_loopback(host.hostname or "") and (host.port or _HTTP_PORT) == self.server.server_port
            )
        except ValueError:
            return False

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", f"{content_policy(live=True)}; frame-ancestors 'none'"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing: a line every two seconds helps nobody."""
