"""The live page's runs under way: how far they are, their curves so far; counts as in `seedspread run`."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

from seedspread.render.terminal import Terminal
from seedspread.report.page.report import Report
from seedspread.report.page.server import LiveReport, signature
from seedspread.report.page.under_way import UnderWay
from seedspread.runs.lease import StalenessTracker
from seedspread.runs.record import Failure
from seedspread.runs.run_files import Heartbeat
from seedspread.runs.studies import save_study
from seedspread.study.estimate import Estimate
from seedspread.study.executor import StudyProgress
from seedspread.study.plan import Plan
from seedspread.study.show import status_view
from seedspread.study.spec import StudySpec
from tests.report.made import ODD, made_store, material_of, unfinished
from tests.report.test_server import ask, serving
from tests.study.dice import dice_study
from tests.study.tiny import study_file


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


def test_a_run_under_way_is_shown_by_cell_and_seed_with_its_curves(tmp_path: Path) -> None:
    plan = begun(tmp_path, images_per_second=1234.0, curves={"loss": [2.0, 1.0, 1.5]})
    html = UnderWay(plan.store.path).html()
    assert "sides = 6, seed 1" in html
    assert "25%" in html
    assert "encoder, epoch 2 of 5" in html
    assert "1,234 images/s" in html
    assert 'points="0.0,0.0 60.0,30.0 120.0,15.0"' in html  # from the highest value down to the lowest


def test_what_stands_in_files_is_escaped(tmp_path: Path) -> None:
    plan = begun(tmp_path, where=ODD, curves={ODD: [1.0]})
    assert ODD not in UnderWay(plan.store.path).html()
    assert "&lt;script&gt;" in UnderWay(plan.store.path).html()


def test_what_is_no_number_is_left_out_of_a_curve(tmp_path: Path) -> None:
    plan = begun(tmp_path)
    key = next(iter(plan.distinct))
    beat = {"done": 0.5, "where": "", "curves": {"loss": [1.0, None, "x", float("nan"), 2.0], "x": 3}}
    (plan.store.folder(key) / "heartbeat.json").write_text(json.dumps(beat))
    read = plan.store.run(key).heartbeat()
    assert read is not None
    assert read.curves == {"loss": [1.0, 2.0]}


def test_nothing_is_shown_where_nothing_runs(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    assert UnderWay(plan.store.path).html() == ""


def test_the_server_gives_them_out(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=2)
    plan = begun(tmp_path, curves={"loss": [1.0]})
    live = LiveReport(
        lambda: Report(material_of(tmp_path)), lambda: signature(tmp_path), UnderWay(plan.store.path).html
    )
    with serving(live) as server:
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
        live.edition.progress
        == f"{progress.ended} of {progress.total} runs, 1 failed"
        == "1 of 6 runs, 1 failed"
    )
    assert "margin_type = subtract" in live.edition.main
    assert ", seed 0" in live.edition.main


def test_the_page_of_a_store_in_which_nothing_has_ended_yet_is_there(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    unfinished(plan, *range(len(plan.runs)))
    live = LiveReport(lambda: Report(material_of(tmp_path)), lambda: "")
    assert live.edition.progress == f"0 of {len(plan.distinct)} runs"


def test_the_time_left_is_what_status_says(tmp_path: Path) -> None:
    """By how far a run is, and by what finished ones took; of the studies of which a run is under way."""
    unfinished(made_store(tmp_path, seeds=2), 0)  # nobody works on it
    plan = begun(tmp_path, spent=10.0, seconds=40.0)
    assert status(plan) == "about 2 min left"
    html = UnderWay(tmp_path).html()
    assert "1 run under way, about 2 min left</p>" in html
    asked = UnderWay(tmp_path, plan.recorded()).html()
    assert "about 2 min left" in asked
    key = next(iter(plan.distinct))
    (tmp_path / key / "heartbeat.json").write_text(json.dumps({"done": None, "where": ""}))
    assert "left</p>" not in UnderWay(tmp_path).html()  # nothing tells


def status(plan: Plan) -> str:
    console = Terminal(file=StringIO(), width=200)
    console.print(status_view(plan, plan.states(), Estimate(plan)))
    assert isinstance(console.file, StringIO)
    (found,) = re.findall(r"about [^;.]+ left", console.file.getvalue())
    return str(found)
