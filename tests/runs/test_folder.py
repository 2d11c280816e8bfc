"""What runs leave behind: records, those of other formats, failures, how far a run is."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from seedspread.analysis.audit import audit
from seedspread.cff.training.run import train
from seedspread.cli import app
from seedspread.runs.files import FORMAT, RecordError
from seedspread.runs.folder import Failure, Heartbeat, RunFailedError, RunFolder
from seedspread.runs.lease import LeaseLostError, StalenessTracker
from seedspread.runs.metrics import scores
from seedspread.runs.run import Run, read_run
from seedspread.runs.store import Store, finished_runs
from seedspread.study.display import status_view
from seedspread.study.loop import run_plan
from seedspread.study.plan import Estimate, Plan
from tests.cff.training.tiny import tiny
from tests.study.here import Here
from tests.study.tiny import tiny_study


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs, as they are written now."""
    folder = tmp_path_factory.mktemp("finished")
    plan = Plan.make(tiny_study(folder, seeds=2), folder / "store")
    assert len(run_plan(plan, Here()).done) == 4
    return folder / "store"


@pytest.mark.parametrize("allowed", [0, 1])
def test_no_file_appears_once_the_lease_is_lost_not_even_one_half_written(
    tmp_path: Path, allowed: int
) -> None:
    asked: list[int] = []

    def guard() -> None:
        asked.append(len(asked))
        if len(asked) > allowed:
            raise LeaseLostError("another worker holds the run")

    with pytest.raises(LeaseLostError):
        RunFolder(tmp_path, "key", guard).write("result.json", b"{}")
    assert len(asked) == allowed + 1
    assert not list(tmp_path.iterdir())


def change(folder: Path, name: str, **values: object) -> None:
    """Sets fields of a file, or takes those away that are None, as in a record from before digests."""
    for file, new in ((name, values), ("provenance.json", {"digests": None})):
        path = folder / file
        changed = json.loads(path.read_text()) | new
        path.write_text(json.dumps({k: v for k, v in changed.items() if v is not None}))


def with_accuracy_alone(store: Path, copy: Path, runs: int) -> None:
    """The store as if the first of its runs had reported no other metric."""
    shutil.copytree(store, copy)
    for key in Store(copy).keys()[:runs]:
        record = Run.read(str(copy / key))
        metrics, chance = ({"accuracy": values["accuracy"]} for values in (record.metrics, record.chance))
        change(copy / key, "result.json", metrics=metrics, chance=chance)


def test_a_record_has_all_that_a_run_left(finished: Path) -> None:
    store = Store(finished)
    for key in store.keys():  # noqa: SIM118 - not a dict
        record = Run.read(str(store.folder(key)))
        stored = store.run(key).predictions("logits", "labels")
        values, chance = scores(stored["logits"][0], stored["labels"])
        assert (record.key, record.runner) == (key, "cff")
        assert (record.metrics, record.chance) == (values, chance)
        assert record.metrics["accuracy"] == record.result["test_accuracy"]
        assert record.parameters["seeds"]["run"] == record.seed
        assert record.provenance["versions"]["torch"]


@pytest.mark.parametrize("runs", [1, 4])
def test_a_metric_that_was_not_reported_comes_from_the_predictions(
    finished: Path, tmp_path: Path, runs: int
) -> None:
    with_accuracy_alone(finished, tmp_path / "store", runs)
    store, before = Store(tmp_path / "store"), Store(finished)
    assert store.table()["accuracy"].tolist() == before.table()["accuracy"].tolist()
    assert store.table(["nll"])["nll"].tolist() == before.table()["nll"].tolist()
    assert store.table(["nll"])["chance.nll"].tolist() == before.table(["nll"])["chance.nll"].tolist()
    found, known = (
        audit(path, "brier", "margin_type", "subtract").comparisons for path in (store.path, before.path)
    )
    assert found == known
    assert store.table()["seed"].tolist() == before.table()["seed"].tolist()


def test_without_predictions_a_run_has_what_it_reported(finished: Path, tmp_path: Path) -> None:
    with_accuracy_alone(finished, tmp_path / "store", 4)
    for path in (tmp_path / "store").glob("*/predictions.safetensors"):
        path.unlink()
    runs, problems = finished_runs(tmp_path / "store", ["nll"])
    assert len(runs) == 4
    assert not any("nll" in run.row() for run in runs)
    assert not problems


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("result.json", {"format": 1}, "is not a readable run: result.json has record format 1; this"),
        ("result.json", {"format": None}, "is not a readable run: result.json states no record format"),
        ("provenance.json", {"format": 1}, "is not a readable run: provenance.json has record format 1"),
        ("result.json", {"runner": None}, "is not a readable run: result.json has no 'runner'"),
        ("result.json", {"metrics": None}, "is not a readable run: result.json has no 'metrics'"),
        ("provenance.json", {"seed": None}, "is not a readable run: provenance.json has no 'seed'"),
        ("provenance.json", {"config": None}, "is not a readable run: provenance.json has no 'config'"),
    ],
)
def test_a_record_of_another_format_or_without_a_field_is_refused_in_one_line(
    finished: Path, tmp_path: Path, name: str, changes: dict[str, Any], words: str
) -> None:
    shutil.copytree(finished, tmp_path / "store")
    store = Store(tmp_path / "store")
    change(store.folder(store.keys()[0]), name, **changes)
    assert len(store.table()) == 3
    (line,) = store.problems()
    assert words in line
    assert "\n" not in line


def test_a_result_of_another_format_is_run_again_on_demand(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "store")
    plan = Plan.make(tiny_study(tmp_path, seeds=2), tmp_path / "store")
    key = next(iter(plan.distinct))
    before = (plan.store.folder(key) / "result.json").read_bytes()
    change(plan.store.folder(key), "result.json", format=1)
    assert plan.store.state(key).state == "failed"
    assert "run it again with --retry-failed" in plan.store.state(key).message
    run_plan(plan, Here(), retry_failed=True)
    assert (plan.store.folder(key) / "result.json").read_bytes() == before


def test_a_newer_record_is_refused_in_one_line_everywhere(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "store")
    store = Store(tmp_path / "store")
    key = store.keys()[0]
    change(store.folder(key), "result.json", format=FORMAT + 1)
    words = f"has record format {FORMAT + 1}; this seedspread reads format {FORMAT}: upgrade it"
    assert store.state(key).state == "failed"
    assert words in store.state(key).message
    assert len(store.table()) == 3
    assert [words in line for line in store.problems()] == [True]
    done = CliRunner().invoke(app, ["audit", str(store.path)])
    assert isinstance(done.exception, Exception)
    assert words in str(done.exception)
    assert "\n" not in str(done.exception)
    with pytest.raises(RecordError, match="upgrade it"):
        store.run(key).result()


def test_a_failure_keeps_the_cause_the_message_and_the_traceback(tmp_path: Path) -> None:
    """A loss that is not finite, in a study and alone."""
    plan = Plan.make(tiny_study(tmp_path, seeds=1, training__learning_rate=1e30), tmp_path / "store")
    run_plan(plan, Here())
    with pytest.raises(RunFailedError):
        train(tiny(training__learning_rate=1e30), tmp_path / "alone")
    for folder in [*(plan.store.folder(key) for key in plan.distinct), tmp_path / "alone"]:
        failure = json.loads((folder / "failure.json").read_text())
        assert (failure["layer"], failure["epoch"]) == (0, 0)
        assert failure["what"] in ("loss or gradient", "weights")
        assert "batch" in failure
        assert "not finite" in failure["message"]
        assert "Traceback" in failure["traceback"]
        read = RunFolder(folder).failure()
        assert read is not None
        assert read.details == {name: failure[name] for name in ("layer", "epoch", "batch", "what")}
        assert read.last_line == failure["message"]


def test_how_far_a_run_is_can_be_seen(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=1), tmp_path / "store")
    key, run = next(iter(plan.distinct.items()))
    lease = plan.store.claim(key, StalenessTracker())
    assert lease is not None
    plan.store.run(key).beat(lambda: Heartbeat(0.42, "encoder, epoch 3 of 7"))
    states = plan.states()
    assert states[key].heartbeat == Heartbeat(0.42, "encoder, epoch 3 of 7")
    from rich.console import Console  # noqa: PLC0415 - for this test alone

    console = Console(width=120, record=True, quiet=True)
    console.print(status_view(plan, states, Estimate(plan)))
    with console.capture() as shown:
        console.quiet = False
        console.print(status_view(plan, states, Estimate(plan)))
    assert f"{run.title}: 42%, encoder, epoch 3 of 7" in shown.get()


def test_training_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Heartbeat] = []
    monkeypatch.setattr(RunFolder, "beat", lambda _, beat: heard.append(beat()))
    train(tiny(probe__repeats=2), tmp_path / "run")
    done = [beat.done or 0.0 for beat in heard]
    assert done == sorted(done)
    assert 0 < done[0] < 0.5
    assert 0.9 < done[-1] <= 1
    assert heard[0].where == "encoder, epoch 1 of 3"
    assert heard[-1].where.startswith("probe, epoch 4 of 4")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["result.json", "provenance.json", "failure.json", "heartbeat.json", "run.json"]),
    content=st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["format", "metrics", "chance", "config", "done", "where", "message", "collapsed"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_whatever_lies_in_a_file_is_a_line_and_no_traceback(
    finished: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    folder = tmp_path / "store" / "run"
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    shutil.copytree(finished / Store(finished).keys()[0], folder)
    (folder / name).write_bytes(content)
    store = Store(tmp_path / "store")
    found = read_run(folder)
    assert isinstance(found, RecordError) or isinstance(found.row(), dict)
    assert isinstance(store.state("run").message, str)
    (folder / "result.json").unlink(missing_ok=True)
    assert store.state("run").state in ("failed", "interrupted", "waiting")
    RunFolder(folder).heartbeat()


def test_values_come_back_as_they_were_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", "key")
    folder.open("a = 1\n", resume=False)
    arrays: dict[str, Any] = {"logits": np.ones((1, 2, 3), np.float32), "ids": np.arange(2)}
    folder.keep_predictions(arrays)
    for name, array in folder.predictions("logits", "ids").items():
        np.testing.assert_array_equal(array, arrays[name])
    with pytest.raises(RecordError, match="cannot be read"):
        folder.predictions("labels")


def test_a_newer_result_is_never_retried_or_touched(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "store")
    plan = Plan.make(tiny_study(tmp_path, seeds=2), tmp_path / "store")
    folder = plan.store.folder(next(iter(plan.distinct)))
    change(folder, "result.json", format=FORMAT + 1)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for retry in (False, True):
        progress = run_plan(plan, Here(), retry_failed=retry)
        assert ["upgrade it" in message for message in progress.failed.values()] == [True]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_metric_that_is_null_spoils_no_other(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "store")
    store = Store(tmp_path / "store")
    folder = store.folder(store.keys()[0])
    change(folder, "result.json", metrics={"accuracy": 0.5, "best": None})
    run = read_run(folder)
    assert isinstance(run, Run)
    assert run.row()["accuracy"] == 0.5
    assert np.isnan(run.row()["best"])


def test_an_exception_with_details_of_another_kind_is_a_failure_like_any(tmp_path: Path) -> None:
    class RpcError(Exception):
        def details(self) -> str:
            return "not a mapping"

    folder = RunFolder(tmp_path / "run", "key")
    folder.open("", resume=False)
    for error in (RpcError("gone"), RunFailedError("lost", where=tmp_path)):
        folder.fail(Failure.of(error))
        assert folder.failure() is not None
    read = folder.failure()
    assert read is not None
    assert read.details == {"where": str(tmp_path)}


@pytest.mark.parametrize("labels", [[99] * 100, []])
def test_predictions_that_cannot_be_are_a_line(finished: Path, tmp_path: Path, labels: list[int]) -> None:
    with_accuracy_alone(finished, tmp_path / "store", 1)
    key = Store(tmp_path / "store").keys()[0]
    folder = RunFolder(tmp_path / "store" / key)
    stored = folder.predictions("logits", "ids")
    folder.keep_predictions(stored | {"labels": np.array(labels, dtype=np.int64)})
    assert isinstance(read_run(folder.path, ["nll"]), RecordError)
