"""The local engine with the paper's training: failures, stopping. test_programs.py has the rest of it."""

import json
import os
import signal
from pathlib import Path

import pytest

from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.cff.training.tiny import EVERY_BATCH
from tests.study.here import Here
from tests.study.processes import Start, wait_for
from tests.study.tiny import results, study_file, tiny_study, undisturbed


def test_one_failure_never_stops_the_others(tmp_path: Path) -> None:
    """A learning rate that explodes at one level only."""
    path = study_file(tmp_path, seeds=1)
    levels = '"training.learning_rate" = [4e-3, 1e30]'
    text = path.read_text().replace('margin_type = ["clamp", "subtract"]', levels)
    path.write_text(text.split("[audit]")[0])
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    report = run_plan(plan, LocalExecutor(workers=2))
    assert len(report.done) == 1
    assert len(report.failed) == 1
    assert "not finite" in next(iter(report.failed.values()))
    again = run_plan(plan, Here())
    assert (len(again.done), len(again.failed)) == (0, 1)
    states = plan.states().values()
    assert sorted(s.state for s in states)[-1] == "failed"
    retried = run_plan(plan, Here(), retry_failed=True)
    assert (len(retried.failed), retried.total) == (1, 1)


def test_a_run_that_has_begun_keeps_its_threads(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=1, runtime__threads=None), tmp_path / "store")
    key = next(iter(plan.distinct))
    folder = plan.store.folder(key)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"key": key, "threads": 3}))
    run_plan(plan, Here())
    assert json.loads((folder / "provenance.json").read_text())["threads"] == 3


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_leaves_everything_resumable(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    study = tiny_study(tmp_path, seeds=1, training__epochs=8, **EVERY_BATCH)
    process = start("--workers", "2")
    store = tmp_path / "store"
    wait_for(lambda: any(store.glob("*/checkpoint-*")))
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "resume" in err
    assert "Traceback" not in err
    assert len(results(store)) < 2
    again = start("--workers", "1")
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert results(store) == undisturbed(study, tmp_path / "undisturbed")
