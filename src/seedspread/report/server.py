"""The live page: a small server of the report and the runs under way, for one reader."""

import errno
import hashlib
import io
import ipaddress
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from seedspread.errors import SeedspreadError, abridged
from seedspread.render.web import environment
from seedspread.report.page import Report, content_policy
from seedspread.runs.store import FINISHED, Store
from seedspread.runs.studies import RecordedStudy, load_studies, store_marks
from seedspread.runs.time_left import TimeLeft, duration

_SHOWN = 24
_WHERE_WIDTH = 80
_MINUTE = 60
_MAX_CONNECTIONS = 32
_REQUEST_SECONDS = 10.0
_SEND_SECONDS = 60.0
_MAX_HEAD = 16_384
_HTTP_PORT = 80
T = TypeVar("T")


class ServeError(SeedspreadError):
    """The server cannot be started."""


class Rarely(Generic[T]):
    """A value that is made again at most once a second, and less often if making it takes long.

    Args:
        pause: minimum time between two calls of `make`, in multiples of how long the first one took.
    """

    def __init__(self, make: Callable[[], T], pause: float) -> None:
        self._make, self._pause, self._lock = make, pause, threading.Lock()
        self._next = 0.0
        self._value: T

    def __call__(self) -> T:
        with self._lock:
            start = time.monotonic()
            if start >= self._next:
                self._value = self._make()
                self._next = start + max(1.0, self._pause * (time.monotonic() - start))
            return self._value


def under_way(store: Store, studies: Sequence[RecordedStudy] = ()) -> str:
    """Return the runs under way as HTML, an empty text if there are none.

    The time left is that of `studies`, by default of those with a run under way.
    """
    running = {state.key: state.heartbeat for state in store.running()}
    beats = {key: beat for key, beat in running.items() if beat is not None}
    if not beats:
        return ""
    recorded = load_studies(store)[0]
    names = {key: title for study in recorded for cell in study.cells for key, title in cell.titles.items()}
    ordered = [*(key for key in names if key in beats), *(key for key in beats if key not in names)]
    rows = [
        (names.get(key, key), beats[key].done, abridged(beats[key].where, _WHERE_WIDTH)) for key in ordered
    ]
    chosen = studies or [study for study in recorded if running.keys() & set(study.keys)]
    keys = dict.fromkeys(key for study in chosen for key in study.keys)
    left = TimeLeft.of(store, chosen).seconds_left(store.states(keys))
    return environment("seedspread.report").get_template("under_way.html").render(
        rows=rows[:_SHOWN], count=len(rows), left="" if left is None else duration(left)
    )  # fmt: skip


def signature(store: Path) -> str:
    """Return a digest that changes whenever a run begins, ends or fails, or a study is added; reads no file.

    It also changes every minute while runs are at work, since a run that dies leaves no mark in the store.
    """
    marks, at_work = store_marks(store)
    minute = [str(time.time() // _MINUTE)] if at_work else []
    return hashlib.sha256("\n".join([*marks, *minute]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Edition:
    """The page as served; `state` is `live: 13 of 36 runs done` or an error message."""

    version: str
    page: str
    state: str


class LiveReport:
    """Makes the report again if requested after a change of its store; keeps the old one after an error.

    Attributes:
        edition: returns the newest edition.
        under_way: returns the runs under way, as HTML.
    """

    def __init__(
        self, make: Callable[[], Report], look: Callable[[], str], under_way: Callable[[], str] = lambda: ""
    ) -> None:
        self._make, self._seen = make, ""
        # Listing a large store takes long, and making its page much longer.
        self.under_way = Rarely(under_way, pause=25)
        self._signature = Rarely(look, pause=25)
        self._newest = self._edition(self._signature())
        self.edition = Rarely(self._refreshed, pause=2)

    def _edition(self, seen: str) -> Edition:
        self._seen = seen
        report = self._make()
        return Edition(seen, report.page(seen), f"live: {_progress(report)}")

    def _refreshed(self) -> Edition:
        seen = self._signature()
        if seen != self._seen:
            try:
                self._newest = self._edition(seen)
            except Exception as error:
                state = f"could not be brought up to date ({type(error).__name__})"
                self._newest = replace(self._newest, state=state)
        return self._newest


def _progress(report: Report) -> str:
    """Return `13 of 36 runs done, 1 failed`: each run once, as `seedspread run` counts them."""
    states = {key: state.state for s in report.data.settings for key, state in s.states.items()}
    failed = sum(state == "failed" for state in states.values())
    done = sum(state in FINISHED for state in states.values())
    return f"{done} of {len(states)} runs done" + (f", {failed} failed" if failed else "")


def make_server(live: LiveReport, host: str, port: int) -> "ReportServer":
    """Return a server bound to an address; `port` 0 takes a free one."""
    try:
        return ReportServer(live, host.strip("[]"), port)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        is_port = getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
        hint = "; try --port 0 for a free one" if is_port else ""
        raise ServeError(f"cannot serve on {host}:{port}: {reason}{hint}") from None


class ReportServer(ThreadingHTTPServer):
    """Serves one report to a few connections at a time; `only_local`: only this machine can connect."""

    daemon_threads = True

    def __init__(self, live: LiveReport, host: str, port: int) -> None:
        self.live = live
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # Prefer IPv4 if a name has both kinds of address.
        family, *_, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
        self.address_family = family
        super().__init__(address, _Handler)  # type: ignore[arg-type]
        self.only_local = is_loopback(str(address[0]))
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection if too many are open."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.lower() == "localhost"


class _Handler(BaseHTTPRequestHandler):
    """Serves three read-only addresses: the page, the runs under way, and the version of the page."""

    server: ReportServer
    server_version = "seedspread"
    sys_version = ""
    timeout = _SEND_SECONDS

    def handle_one_request(self) -> None:
        """Read and answer a request, unless it is too long or too slow."""
        with suppress(OSError):  # the reader has disconnected, or is too slow
            if head := self._head():
                self.rfile = io.BufferedReader(io.BytesIO(head))
                super().handle_one_request()
        self.close_connection = True

    def _head(self) -> bytes:
        """Return the head of a request, empty if it is too long; raise `TimeoutError` if it is too slow.

        The time limit is for the whole head: a byte now and then would hold a connection forever.
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
        live = self.server.live
        if not self._is_for_us():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to its own name only\n")
        elif self.path == "/":
            self._send(HTTPStatus.OK, "text/html", live.edition().page)
        elif self.path == "/under-way":
            self._send(HTTPStatus.OK, "text/html", live.under_way())
        elif self.path == "/state":
            edition = live.edition()
            state = {"version": edition.version, "state": edition.state}
            self._send(HTTPStatus.OK, "application/json", json.dumps(state))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "nothing here but the report, at /\n")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _is_for_us(self) -> bool:
        """Return whether the request names this server: a foreign page may point its name at this machine."""
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
        """Print nothing: the page sends a request every two seconds."""
