"""The live server gives out the report and nothing else."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seedspread.report.page.report import Report
from seedspread.report.page.server import LiveReport, ServeError, make_server, signature
from tests.report.made import made_store, material_of, unfinished


@pytest.fixture
def live(tmp_path: Path) -> LiveReport:
    made_store(tmp_path, seeds=2)
    return LiveReport(lambda: Report(material_of(tmp_path)), lambda: signature(tmp_path))


@pytest.fixture
def port(live: LiveReport) -> Iterator[int]:
    server = make_server(live, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    connection.close()
    return found


def test_it_listens_on_this_machine_only(live: LiveReport) -> None:
    server = make_server(live, "127.0.0.1", 0)
    assert server.socket.getsockname()[0] == "127.0.0.1"
    server.server_close()


def test_the_page_its_main_part_and_its_state(port: int) -> None:
    status, body, headers = ask(port, "/")
    assert status == 200
    assert b"<!DOCTYPE html>" in body
    assert headers["x-content-type-options"] == "nosniff"
    assert b"connect-src 'self'" in body.replace(b"&#39;", b"'")
    assert ask(port, "/main")[1] in body
    assert b'"version"' in ask(port, "/state")[1]
    assert ask(port, "/", "HEAD")[:2] == (200, b"")


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/result.json", "/.studies", "/index.html",
     "/state/", "/?x=1", "/%2e%2e/"],
)  # fmt: skip
def test_nothing_else_is_given_out(port: int, path: str) -> None:
    status, body, _ = ask(port, path)
    assert status == 404
    assert body == b"nothing here but the report, at /\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(port: int, method: str) -> None:
    assert ask(port, "/", method)[0] == 501


def test_a_page_that_points_its_own_name_here_gets_nothing(port: int) -> None:
    status, body, _ = ask(port, "/", host="evil.example")
    assert status == 403
    assert len(body) < 100
    assert ask(port, "/", host=f"localhost:{port}")[0] == 200


def test_a_port_that_is_taken_is_one_line(live: LiveReport) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ServeError, match="--port 0"):
            make_server(live, "127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("fault", [OSError("a file was half there"), KeyError("odd"), IndexError()])
def test_a_change_makes_a_new_page_and_a_fault_keeps_the_old(tmp_path: Path, fault: Exception) -> None:
    plan = made_store(tmp_path, seeds=2)
    faults = [fault]

    def make() -> Report:
        if len(made) == 1 and faults:
            raise faults.pop()
        made.append(Report(material_of(tmp_path)))
        return made[-1]

    made: list[Report] = []
    live = LiveReport(make, lambda: signature(tmp_path))
    first = live.edition
    live.start()
    unfinished(plan, 0)
    deadline = time.monotonic() + 30
    states = set()
    while live.edition is first:
        assert time.monotonic() < deadline
        states.add(live.state)
        time.sleep(0.02)
    live.stop()
    assert not faults
    assert f"could not be brought up to date ({type(fault).__name__})" in states
    assert live.edition.version != first.version
    assert "1 of 8 runs are not finished" in live.edition.main
    assert f'data-version="{live.edition.version}"' in live.edition.page
    assert live.edition.said == "7 of 8 runs"
