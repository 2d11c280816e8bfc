"""Nothing that lies in a store may stop more than its own run, whatever it is."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seedspread.errors import SeedspreadError
from seedspread.runs.lease import StalenessTracker, claim, newest
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies, store_marks
from seedspread.study.display import tidy_runs
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.study import write_report
from seedspread.study.worker import attempt
from tests.study.dice import dice_study
from tests.study.tiny import items

OFTEN = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

NESTED: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
BYTES = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    NESTED.map(lambda value: json.dumps(value).encode()),
    st.just(b"[" * 100_000),
    st.just(b'{"key": ' + b"9" * 5000 + b"}"),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four finished runs."""
    store = tmp_path_factory.mktemp("filled") / "store"
    run_plan(Plan.make(dice_study(seeds=2), store), LocalExecutor(workers=1))
    return store


def look(plan: Plan, spoilt: str) -> None:
    """Everything that reads a store; the other runs are as they were."""
    states = plan.states()
    assert {s.state for key, s in states.items() if key != spoilt} == {"done"}
    others = set(plan.distinct) - {spoilt}
    assert others <= {Path(folder).name for folder in plan.store.table(["score"])["folder"]}
    assert others <= set(tidy_runs(plan)["key"])
    plan.store.problems()
    plan.store.counts()
    store_marks(plan.store.path)
    load_studies(plan.store)
    plan.missing()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def loop(path: Path) -> None:
    path.symlink_to(path)


NAMES = [
    "result.json", "provenance.json", "config.toml", "failure.json", "run.json", "heartbeat.json",
    "lease-000009.json", "predictions.safetensors", "history.parquet",
    "checkpoint-000001-0123456789abcdef.safetensors",
]  # fmt: skip


@OFTEN
@given(st.sampled_from(NAMES), BYTES | st.sampled_from([pipe, folder, link, loop]), st.booleans())
def test_one_spoilt_file_stops_one_run_at_most(
    filled: Path, tmp_path_factory: pytest.TempPathFactory, name: str, what: Any, done: bool
) -> None:
    store = tmp_path_factory.mktemp("spoilt") / "store"
    shutil.copytree(filled, store)
    plan = Plan.make(dice_study(seeds=2), store)
    key = next(iter(plan.distinct))
    path = store / key / name
    if not done:
        (store / key / "result.json").unlink()
    path.unlink(missing_ok=True)
    what(path) if callable(what) else path.write_bytes(what)
    look(plan, key)
    (item,) = (item for item in items(plan) if item.key == key)
    assert attempt(item).outcome in ("done", "failed")
    look(plan, key)


@OFTEN
@given(st.dictionaries(st.sampled_from(["pid", "started", "space", "host", "nonce"]), NESTED), st.booleans())
def test_a_lease_that_says_anything_stops_nobody(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], here: bool
) -> None:
    """With its own inode, so that it counts; a pid that is no number crashed every worker that read it."""
    run = tmp_path_factory.mktemp("lease")
    held = claim(run, StalenessTracker(0))
    assert held is not None
    if here:
        content["space"] = json.loads(held.path.read_text())["space"]
    held.path.write_text(json.dumps(content | {"inode": held.path.stat().st_ino}))
    holder = newest(run)
    assert holder is None or holder.is_dead in (True, False)
    tracker = StalenessTracker(0)
    assert claim(run, tracker) or claim(run, tracker)  # at the latest when it was seen twice without a beat


@OFTEN
@given(BYTES | st.sampled_from([pipe, folder, link, loop]))
def test_a_spoilt_record_of_a_study_is_named_and_written_anew(
    filled: Path, tmp_path_factory: pytest.TempPathFactory, what: "bytes | Callable[[Path], None]"
) -> None:
    store = tmp_path_factory.mktemp("spoilt") / "store"
    shutil.copytree(filled, store)
    (path,) = (store / ".studies").glob("*.json")
    path.unlink()
    what(path) if callable(what) else path.write_bytes(what)
    studies, problems = load_studies(Store(store))
    assert (len(studies), len(problems)) == (0, 1)


def test_a_garbled_run_is_listed_by_the_report_of_the_others(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "store")
    spoilt = next((tmp_path / "store").glob("*/result.json"))
    spoilt.write_bytes(b"[" * 100_000)
    report = write_report(tmp_path / "store", tmp_path / "page.html")
    assert any(spoilt.parent.name in problem for problem in report.data.problems)


def test_a_link_in_place_of_the_studies_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ".studies").symlink_to(tmp_path / "outside")
    with pytest.raises(SeedspreadError, match="is a link"):
        run_plan(Plan.make(dice_study(seeds=1), tmp_path / "store"), LocalExecutor(workers=1))
    assert not list((tmp_path / "outside").iterdir())
