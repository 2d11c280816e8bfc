"""The live page: a small server for one reader on one machine, that gives out the report and nothing else."""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from seedspread.errors import SeedspreadError
from seedspread.report.page.report import Report
from seedspread.runs.studies import store_marks

_LOOK_SECONDS = 1.0
_MINUTE = 60
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


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
    said: str


class LiveReport:
    """Makes the report again whenever its store has changed, in a thread of its own.

    Attributes:
        edition: the newest; replaced as a whole.
        state: `live`, `live, updating`, or what went wrong.
    """

    def __init__(self, make: Callable[[], Report], look: Callable[[], str]) -> None:
        self._make, self._look = make, look
        self.edition = self._edition(look())
        self.state = "live"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def _edition(self, version: str) -> Edition:
        report = self._make()
        states = [state.state for s in report.material.settings for state in s.states.values()]
        ended = sum(state in ("done", "collapsed", "failed") for state in states)
        said = f"{ended} of {len(states)} runs"
        return Edition(version, report.page(version), report.main(version), said)

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


def make_server(live: LiveReport, host: str, port: int) -> ThreadingHTTPServer:
    """A server bound to an address; `port` 0 takes a free one."""
    handler = type("Handler", (_Handler,), {"live": live, "only_local": host in ("127.0.0.1", "localhost")})
    try:
        return ThreadingHTTPServer((host, port), handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServeError(f"cannot serve on {host}:{port}: {reason}; try --port 0 for a free one") from None


class _Handler(BaseHTTPRequestHandler):
    """Three addresses, all read-only: the page, its main part, and whether it has changed."""

    live: LiveReport
    only_local: bool
    server_version = "seedspread"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answers; the method's name is the library's."""
        if not self._is_for_us():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to its own name only\n")
        elif self.path == "/":
            self._send(HTTPStatus.OK, "text/html", self.live.edition.page)
        elif self.path == "/main":
            self._send(HTTPStatus.OK, "text/html", self.live.edition.main)
        elif self.path == "/state":
            edition = self.live.edition
            state = {"version": edition.version, "state": f"{self.live.state}: {edition.said}"}
            self._send(HTTPStatus.OK, "application/json", json.dumps(state))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "nothing here but the report, at /\n")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _is_for_us(self) -> bool:
        """A page elsewhere that points its own name at this machine gets nothing."""
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        return not self.only_local or name in _LOCAL

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(BrokenPipeError, ConnectionResetError):  # the reader has gone
                self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing: a line every two seconds helps nobody."""
