"""The live server gives out the report, the runs under way, and nothing else."""

import base64
import hashlib
import http.client
import json
import re
import socket
import time
import urllib.request
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from seedspread.render.terminal import Terminal
from seedspread.report.page import Report
from seedspread.report.server import (
    LiveReport,
    Rarely,
    ServeError,
    make_server,
    signature,
    under_way,
)
from seedspread.runs.folder import Failure, Heartbeat
from seedspread.runs.lease import StalenessTracker
from seedspread.runs.studies import save_study
from seedspread.study.display import status_view
from seedspread.study.executor import StudyProgress
from seedspread.study.plan import Estimate, Plan
from seedspread.study.spec import StudySpec
from tests.report.helpers import ODD, Serve, made_store, material_of, unfinished
from tests.study.dice import dice_study
from tests.study.tiny import study_file


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveReport:
    folder = tmp_path_factory.mktemp("live")
    made_store(folder, seeds=2)
    return LiveReport(lambda: Report(material_of(folder)), lambda: signature(folder))


@pytest.fixture
def port(serve: Serve, live: LiveReport) -> int:
    return serve(live).server_port


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None, address: str = "127.0.0.1"
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(address, port, timeout=30)
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


def test_the_page_and_its_state(port: int) -> None:
    status, body, headers = ask(port, "/")
    assert status == 200
    assert b"<!DOCTYPE html>" in body
    assert headers["x-content-type-options"] == "nosniff"
    assert b"connect-src 'self'" in body.replace(b"&#39;", b"'")
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


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_it_answers_to_every_name_of_this_machine(port: int, host: str) -> None:
    assert ask(port, "/state", host=f"{host}:{port}")[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:{}", "evil.example", "localhost.evil.example:{}", "127.0.0.1.evil.example:{}",
     "localhost:1", "127.0.0.1", "localhost", "[::1", "[::2]:{}", "128.0.0.1:{}", "0.0.0.0:{}",
     "localhost:x", " ", ":{}", "evil.example@127.0.0.2:1", "127.1:{}"],
)  # fmt: skip
def test_a_page_that_points_its_own_name_here_gets_nothing(port: int, host: str) -> None:
    status, body, _ = ask(port, "/", host=host.format(port))
    assert status == 403
    assert len(body) < 100


def test_other_addresses_of_this_machine(serve: Serve, live: LiveReport) -> None:
    server = serve(live, "127.0.0.2")
    assert server.only_local
    assert (
        ask(server.server_port, "/state", host=f"127.0.0.2:{server.server_port}", address="127.0.0.2")[0]
        == 200
    )
    server = serve(live, "0.0.0.0")  # noqa: S104
    assert not server.only_local


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6(serve: Serve, live: LiveReport, host: str) -> None:
    try:
        probe = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no ::1")
    probe.close()
    server = serve(live, host)
    assert server.only_local
    assert server.url == f"http://[::1]:{server.server_port}/"
    with urllib.request.urlopen(server.url) as answer:  # noqa: S310
        assert answer.status == 200
    assert ask(server.server_port, "/", host="evil.example", address="::1")[0] == 403


def test_the_policy_is_a_header_and_names_the_scripts_by_their_hashes(port: int) -> None:
    _, body, headers = ask(port, "/")
    policy = headers["content-security-policy"]
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert "frame-ancestors 'none'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", body.decode(), re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert policy.partition("; frame-ancestors")[0] in body.decode()  # the saved page has it too
    for path in ("/state", "/nothing"):
        assert ask(port, path)[2]["content-security-policy"] == policy


def closed(connection: socket.socket) -> bool:
    """Whether the server has hung up, without an answer; waits until it has done something."""
    connection.settimeout(60)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_request_that_comes_byte_by_byte_is_not_waited_for(
    serve: Serve, live: LiveReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seedspread.report.server._REQUEST_SECONDS", 0.5)
    server = serve(live)
    with socket.create_connection(("127.0.0.1", server.server_port)) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        hung_up = False
        for _ in range(600):  # each byte comes long before a single read would be given up
            time.sleep(0.05)
            try:
                slow.sendall(b"x")
            except ConnectionError:
                hung_up = True
                break
        assert hung_up


def test_a_request_that_is_too_long_is_not_read(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as talker:
        with suppress(ConnectionError):
            talker.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000)
        assert closed(talker)
    assert ask(port, "/state")[0] == 200


def test_connections_are_few_and_come_back(serve: Serve, live: LiveReport) -> None:
    server = serve(live)
    address = ("127.0.0.1", server.server_port)
    idle = [socket.create_connection(address) for _ in range(32)]
    with socket.create_connection(address) as late:
        assert closed(late)
    for connection in idle:
        connection.close()
    for _ in range(600):
        with suppress(OSError, http.client.HTTPException):
            assert ask(server.server_port, "/state")[0] == 200
            break
        time.sleep(0.05)
    else:
        pytest.fail("it never answered again")


def test_a_port_that_is_taken_is_one_line(live: LiveReport) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ServeError, match="--port 0"):
            make_server(live, "127.0.0.1", taken.getsockname()[1])


def test_a_host_that_does_not_exist_is_no_matter_of_its_port(live: LiveReport) -> None:
    with pytest.raises(ServeError, match=r"^cannot serve on 192\.0\.2\.1:0: [^;]*$"):
        make_server(live, "192.0.2.1", 0)


def test_a_change_makes_a_new_page_and_a_fault_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made_store(tmp_path, seeds=2)
    faults: list[Exception] = []

    def make() -> Report:
        if faults:
            raise faults.pop()
        return Report(material_of(tmp_path))

    now = [0.0]
    monkeypatch.setattr("seedspread.report.server.time.monotonic", lambda: now[0])
    live = LiveReport(make, lambda: signature(tmp_path))
    first = live.edition()
    assert live.edition() is first
    unfinished(plan, 0)
    faults.append(OSError("a file was half there"))
    assert live.edition() is first  # too soon
    now[0] += 2
    broken = live.edition()
    assert (broken.page, broken.state) == (first.page, "could not be brought up to date (OSError)")
    unfinished(plan, 1)
    now[0] += 2
    second = live.edition()
    assert second.version != first.version
    assert "2 of 8 runs" in second.page
    assert f'data-version="{second.version}"' in second.page
    assert "6 of 8 runs" in second.state


def test_a_value_is_not_made_again_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 2 s: with a pause of 3 the next one comes 6 s after the start."""
    now, made = [0.0], []

    def make() -> int:
        now[0] += 2
        made.append(1)
        return len(made)

    monkeypatch.setattr("seedspread.report.server.time.monotonic", lambda: now[0])
    value = Rarely(make, pause=3)
    assert value() == 1
    now[0] = 5.9
    assert value() == 1
    now[0] = 6.0
    assert value() == 2


def begun(folder: Path, **beat: Any) -> Plan:
    """A store of dice in which the first run is under way."""
    plan = Plan.make(dice_study(seeds=2), folder)
    for study in plan.recorded():
        save_study(plan.store, study)
    key = next(iter(plan.distinct))
    assert plan.store.claim(key, StalenessTracker()) is not None
    values: dict[str, Any] = {"done": 0.25, "where": "encoder, epoch 2 of 5", **beat}
    plan.store.run(key).beat(lambda: Heartbeat(**values))
    return plan


def test_a_run_under_way_is_shown_by_cell_and_seed(tmp_path: Path) -> None:
    html = under_way(begun(tmp_path).store)
    assert "sides = 6, seed 1" in html
    assert "25%" in html
    assert "encoder, epoch 2 of 5" in html


def test_what_stands_in_files_is_escaped(tmp_path: Path) -> None:
    html = under_way(begun(tmp_path, where=ODD).store)
    assert ODD not in html
    assert "&lt;script&gt;" in html


def test_nothing_is_shown_where_nothing_runs(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    assert under_way(plan.store) == ""


def test_the_server_gives_them_out(serve: Serve, tmp_path: Path) -> None:
    made_store(tmp_path, seeds=2)
    plan = begun(tmp_path)
    live = LiveReport(
        lambda: Report(material_of(tmp_path)), lambda: signature(tmp_path), lambda: under_way(plan.store)
    )
    server = serve(live)
    assert b"sides = 6, seed 1" in ask(server.server_port, "/under-way")[1]
    assert b'<section id="under-way" hidden>' in ask(server.server_port, "/")[1]


def test_a_run_that_several_settings_share_counts_once_as_on_the_terminal(tmp_path: Path) -> None:
    study = study_file(tmp_path, seeds=2)
    study.write_text(
        study.read_text().replace(
            "[factors]", "[factors]\nmargin_first = [0.3, 0.4]"
        ).replace('baseline = "subtract"', 'baseline = "subtract"\nby = "margin_first"')
    )  # fmt: skip
    plan = Plan.make(StudySpec.from_file(study), tmp_path / "store")
    assert (len(plan.runs), len(plan.distinct)) == (8, 6)  # margins make no difference to subtract
    for recorded in plan.recorded():
        save_study(plan.store, recorded)
    key = next(key for key, run in plan.distinct.items() if "subtract" in run.title)
    plan.store.folder(key).mkdir()
    plan.store.run(key).fail(Failure("it broke"))
    live = LiveReport(lambda: Report(material_of(plan.store.path)), lambda: "")
    progress = StudyProgress(len(plan.distinct), failed={key: "it broke"})
    assert (
        live.edition().state
        == f"live: {len(progress.done)} of {progress.total} runs done, 1 failed"
        == "live: 0 of 6 runs done, 1 failed"
    )
    assert "margin_type = subtract" in live.edition().page
    assert ", seed 0" in live.edition().page


def test_the_page_of_a_store_in_which_nothing_has_ended_yet_is_there(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    unfinished(plan, *range(len(plan.runs)))
    live = LiveReport(lambda: Report(material_of(tmp_path)), lambda: "")
    assert f"0 of {len(plan.distinct)} runs" in live.edition().state


def test_the_time_left_is_what_status_says(tmp_path: Path) -> None:
    """By how far a run is, and by what finished ones took; of the studies of which a run is under way."""
    unfinished(made_store(tmp_path, seeds=2), 0)  # nobody works on it
    plan = begun(tmp_path, spent=10.0, seconds=40.0)
    assert status(plan) == "about 2 min left"
    assert "1 run under way, about 2 min left</p>" in under_way(plan.store)
    assert "about 2 min left" in under_way(plan.store, plan.recorded())
    key = next(iter(plan.distinct))
    (tmp_path / key / "heartbeat.json").write_text(json.dumps({"done": None, "where": ""}))
    assert "left</p>" not in under_way(plan.store)  # nothing tells


def status(plan: Plan) -> str:
    console = Terminal(file=StringIO(), width=200)
    console.print(status_view(plan, plan.states(), Estimate(plan)))
    assert isinstance(console.file, StringIO)
    (found,) = re.findall(r"about [^;.]+ left", console.file.getvalue())
    return str(found)
