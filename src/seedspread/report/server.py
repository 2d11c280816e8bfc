"""The live page: a small server for one reader, with the report and the runs that are under way."""

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
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from seedspread.errors import SeedspreadError, abridged
from seedspread.render.web import environment
from seedspread.report.page import Report, content_policy
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import RecordedStudy, load_studies, store_marks
from seedspread.runs.time_left import TimeLeft, duration

_SHOWN = 24
_WHERE_WIDTH = 80
# Of a curve's picture, in its own units.
WIDTH, HEIGHT = 120, 30


def _pictures(curves: list[Sequence[float]]) -> list[dict[str, str] | None]:
    """Return the line and the last value of each curve, all on one scale; None if it has no value."""
    values = [value for curve in curves for value in curve]
    low, high, longest = min(values), max(values), max(map(len, curves))
    across, up = WIDTH / max(longest - 1, 1), HEIGHT / ((high - low) or 1.0)
    return [
        {
            "points": " ".join(
                f"{across * i:.1f},{up * (high - value):.1f}" for i, value in enumerate(curve)
            ),
            "last": f"{curve[-1]:.3g}",
        }
        if curve
        else None
        for curve in curves
    ]


class UnderWay:
    """The runs that are under way, read from the store at most once a second.

    The time left is that of `studies`; by default of those with a run under way.
    """

    def __init__(self, store: Path, studies: Sequence[RecordedStudy] = ()) -> None:
        self._store, self._studies, self._lock = Store(store), tuple(studies), threading.Lock()
        self._html, self._next = "", 0.0
        self._finished: dict[str, RunState] = {}
        self._time: tuple[tuple[RecordedStudy, ...], TimeLeft] | None = None

    def html(self) -> str:
        """Return the runs as a part of the page; nothing if none is under way."""
        with self._lock:
            start = time.monotonic()
            if start >= self._next:
                self._html = self._render()
                # A large store is not looked at all the time.
                self._next = start + max(_LOOK_SECONDS, _PAUSE * (time.monotonic() - start))
            return self._html

    def _render(self) -> str:
        running = self._store.running()
        states = [state for state in running if state.heartbeat is not None]
        if not states:
            return ""
        studies = load_studies(self._store)[0]
        names, rows = _rows(states, studies)
        keys = {state.key for state in running}
        under_way = tuple(study for study in studies if keys & set(study.keys))
        left = self._seconds_left(self._studies or under_way)
        template = environment("seedspread.report").get_template("under_way.html")
        return template.render(
            rows=rows[:_SHOWN], more=max(len(rows) - _SHOWN, 0), count=len(rows), names=names, width=WIDTH,
            height=HEIGHT, speed=sum(row["speed"] or 0.0 for row in rows),
            told=any(row["done"] is not None for row in rows), left="" if left is None else duration(left),
        )  # fmt: skip

    def _seconds_left(self, studies: tuple[RecordedStudy, ...]) -> float | None:
        """Return the estimate of `seedspread status`; a run that is done stays so."""
        if self._time is None or self._time[0] != studies:
            self._time = studies, TimeLeft.of(self._store, studies)
        keys = dict.fromkeys(key for study in studies for key in study.keys)
        states = {key: self._finished.get(key) or self._store.state(key) for key in keys}
        self._finished |= {key: state for key, state in states.items() if state.state in FINISHED}
        return self._time[1].seconds(states)


def _rows(states: list[RunState], studies: Sequence[RecordedStudy]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of all curves, and a row per run: name, how far it is, its speed and its curves."""
    cells = [cell for study in studies for cell in study.cells]
    names = {key: f"{cell.name}, seed {seed}" for cell in cells for seed, key in cell.runs.items()}
    order = {key: number for number, key in enumerate(names)}
    states.sort(key=lambda state: (order.get(state.key, len(order)), state.key))
    beats = [state.heartbeat for state in states if state.heartbeat is not None]
    curves = list(dict.fromkeys(name for beat in beats for name, values in beat.curves.items() if values))
    pictures = [_pictures([beat.curves.get(name, ()) for beat in beats]) for name in curves]
    return curves, [
        {
            "name": names.get(state.key, state.key),
            "done": beat.done,
            "where": abridged(beat.where, _WHERE_WIDTH),
            "speed": beat.images_per_second,
            "curves": [of_curve[i] for of_curve in pictures],
        }
        for i, (state, beat) in enumerate(zip(states, beats, strict=True))
    ]


_LOOK_SECONDS = 1.0
# A look at a large store takes long: the next one waits for so many times as long.
_PAUSE = 25
_READING = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>seedspread</title>'
    "<p>The runs are being read; the report appears here as soon as they are.</p>"
)
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
    version: str
    page: str
    main: str
    progress: str


class LiveReport:
    """Makes the report again whenever its store has changed, in a thread of its own.

    Attributes:
        edition: newest edition; replaced as a whole.
        under_way: returns the runs that are under way, as HTML.
        state: `live`, `live, updating`, or what went wrong.

    Args:
        wait: seconds to wait for the first edition; one that takes longer follows, after a page that says so.
    """

    def __init__(
        self,
        make: Callable[[], Report],
        look: Callable[[], str],
        under_way: Callable[[], str] = lambda: "",
        wait: float | None = None,
    ) -> None:
        self._make, self._look, self.under_way = make, look, under_way
        self.edition, self.state = Edition("", _READING, "", "reading the runs"), "live"
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._first = threading.Thread(target=self._begin, daemon=True)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._first.start()
        self._first.join(wait)
        if self._failure is not None:
            raise self._failure

    def _begin(self) -> None:
        try:
            self.edition = self._edition(self._look())
        except Exception as error:
            self._failure = error
            why = f"<p>The report could not be made: {escape(str(error))}</p>"
            self.edition = Edition("", _READING.partition("<p>")[0] + why, "", "failed")

    def _edition(self, version: str) -> Edition:
        report = self._make()
        return Edition(version, report.page(version), report.main(version), _progress(report))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _follow(self) -> None:
        self._first.join()
        pause = _LOOK_SECONDS
        while not self._stopped.wait(pause):
            start = time.monotonic()
            seen = self._look()
            if seen == self.edition.version:
                pause = max(_LOOK_SECONDS, _PAUSE * (time.monotonic() - start))
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
        raise ServeError(f"cannot serve on {host}:{port}: {reason}; try --port 0 for a free one") from None


class ReportServer(ThreadingHTTPServer):
    """Serves one report to a few connections at a time."""

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
        """Bind, and ask no name server what this machine is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up while too many are being answered."""
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
    """Four addresses, all read-only: the page, its main part, the runs under way, and what has changed."""

    server: ReportServer
    server_version = "seedspread"
    sys_version = ""
    timeout = _SEND_SECONDS

    def handle_one_request(self) -> None:
        """Read a request that is short and comes in time, and answer it."""
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
        live, edition = self.server.live, self.server.live.edition
        if not self._is_for_us():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to its own name only\n")
        elif self.path in ("/", "/main"):
            self._send(HTTPStatus.OK, "text/html", edition.page if self.path == "/" else edition.main)
        elif self.path == "/under-way":
            self._send(HTTPStatus.OK, "text/html", live.under_way())
        elif self.path == "/state":
            state = {"version": edition.version, "state": f"{live.state}: {edition.progress}"}
            self._send(HTTPStatus.OK, "application/json", json.dumps(state))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "nothing here but the report, at /\n")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _is_for_us(self) -> bool:
        """Refuse a page elsewhere that points its own name at this machine."""
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
        """Print nothing: a line every two seconds helps nobody."""
