"""What is published: it is whole, it fits together, and has the runs as they were."""

import json
import math
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evidence.check import check_run, config_of, published_record
from evidence.gather import gather, same_result
from evidence.local_rules import local_rules
from evidence.plan import published_keys
from evidence.precision import precisions
from evidence.tables import FOLDER, LAYERS, PREDICTIONS, RECORDS, RUNS, correct, published_runs
from seedspread import train
from seedspread.cff.identity import run_key
from seedspread.cli import app
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import PROVENANCE, RESULT, RunFolder
from seedspread.runs.store import Store, correct_predictions

from ..cff.training.tiny import tiny

# Published


def test_every_table_has_every_run() -> None:
    keys = set(published_runs().index)
    assert len(keys) == len(published_runs()) > 0
    for name in (RUNS, LAYERS, PREDICTIONS, RECORDS):
        assert set(pq.read_table(FOLDER / name, columns=["key"])["key"].to_pylist()) == keys


def test_the_csv_is_the_parquet() -> None:
    whole = pd.read_parquet(FOLDER / RUNS).set_index("key")
    whole = whole.where(whole.notna())  # an option that is no more is missing in newer runs: None, or NaN
    pd.testing.assert_frame_equal(published_runs(), whole, check_dtype=False)


@pytest.mark.parametrize(("made", "name"), [(local_rules, "local-rules.csv"), (precisions, "precision.csv")])
def test_a_table_of_a_page_has_the_published_runs(made: Callable[[], pd.DataFrame], name: str) -> None:
    pd.testing.assert_frame_equal(pd.read_csv(FOLDER / name), made(), check_dtype=False)


@pytest.mark.parametrize("page", ["local-rules.md", "performance.md"])
def test_a_page_shows_what_its_table_answers(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    shown = re.search(
        r"^\$ seedspread (audit [^\n]*)\n(.*?)^```$", (root / "docs" / page).read_text(), re.M | re.S
    )
    assert shown
    monkeypatch.chdir(root)
    done = CliRunner().invoke(app, shlex.split(shown[1]), env={"COLUMNS": "80"})
    assert done.stdout == shown[2]


def test_every_run_is_one_of_a_study_and_its_config_is_its_key() -> None:
    named = published_keys(Store(FOLDER))
    for key in published_runs().index:
        assert key in named
        assert run_key(config_of(published_record(key))) == key


def test_accuracies_are_those_of_the_records_and_of_the_bits() -> None:
    runs = published_runs()
    records = pq.read_table(FOLDER / RECORDS, columns=["key", RESULT]).to_pylist()
    predictions = pq.read_table(FOLDER / PREDICTIONS, columns=["key", "examples", "correct"]).to_pylist()
    for record, row in zip(records, predictions, strict=True):
        accuracy = json.loads(record[RESULT])["test_accuracy"]
        bits = np.unpackbits(np.frombuffer(row["correct"], np.uint8), count=row["examples"])
        assert bits.mean() == accuracy == runs.loc[record["key"], "accuracy"]
    some = list(runs.index[::40])
    assert correct(some).mean(axis=1).tolist() == runs.loc[some, "accuracy"].tolist()


def test_no_run_collapsed_and_none_is_of_cut_short_data() -> None:
    runs = published_runs()
    assert not runs["collapsed"].any()
    assert not runs["data.allow_partial"].any()


# Gathered


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two small runs, one of which has a rate of its own."""
    store = Store(tmp_path_factory.mktemp("trained") / "store")
    for margin in ("clamp", "subtract"):
        config = tiny(objective__margin_type=margin, training__epochs=1, data__test_limit_per_class=None)
        train(config, store.folder(run_key(config)))
    return store


@pytest.fixture
def store(trained: Store, tmp_path: Path) -> Store:
    """A copy of them."""
    return Store(shutil.copytree(trained.path, tmp_path / "store"))


def test_the_tables_have_the_runs_as_the_store_has_them(store: Store, tmp_path: Path) -> None:
    tables, keys = tmp_path / "tables", store.keys()
    assert gather(store, keys, tables) == 2
    layers, runs = pd.read_parquet(tables / LAYERS), published_runs(tables)
    for key in keys:
        folder = RunFolder(store.folder(key), key)
        own, history = layers[layers["key"] == key].drop(columns="key"), folder.history().to_pandas()
        pd.testing.assert_frame_equal(own.reset_index(drop=True), history.reindex(columns=own.columns))
        assert runs.loc[key, "accuracy"] == folder.result()["test_accuracy"]
        record = published_record(key, tables)
        for name in ("config.toml", PROVENANCE, RESULT):
            assert record[name] == (store.folder(key) / name).read_text()
    before = correct_predictions([str(store.folder(key)) for key in keys])
    assert before is not None
    assert np.array_equal(correct(keys, tables), before)


def test_tables_grow_and_do_not_depend_on_the_order(store: Store, tmp_path: Path) -> None:
    first, second = store.keys()
    at_once, one_by_one = tmp_path / "a", tmp_path / "b"
    assert gather(store, [first, second], at_once) == 2
    assert [gather(store, [key], one_by_one) for key in (second, first, second)] == [1, 1, 0]
    for name in (RUNS, LAYERS, PREDICTIONS, RECORDS):
        pd.testing.assert_frame_equal(pd.read_parquet(at_once / name), pd.read_parquet(one_by_one / name))


def test_another_result_of_a_published_run_is_refused(store: Store, tmp_path: Path) -> None:
    key = store.keys()[0]
    gather(store, [key], tmp_path / "tables")
    path = store.folder(key) / RESULT
    path.write_text(path.read_text().replace('"majority_share": 0.1', '"majority_share": 0.2'))
    with pytest.raises(SeedspreadError, match="published with another result"):
        gather(store, [key], tmp_path / "tables")


# Repeated


def test_a_run_repeated_here_has_the_same_bits(store: Store, tmp_path: Path) -> None:
    tables, key = tmp_path / "tables", store.keys()[0]
    gather(store, store.keys(), tables)
    record = published_record(key[:12], tables)
    found = check_run(record, folder=tables)
    assert found.same_bits
    assert found.holds
    assert not found.differs


def test_a_result_published_before_fields_were_added_is_the_same(store: Store) -> None:
    values = json.loads((store.folder(store.keys()[0]) / RESULT).read_text())
    before = json.loads(json.dumps(values))
    del before["positive_image_pairs"]
    for layer in before["layers"]:
        del layer["block_gradient_norm"]
    assert same_result(json.dumps(before), json.dumps(values))
    assert not same_result(json.dumps(values), json.dumps(before))
    before["layers"][0]["gradient_norm"] = math.nextafter(before["layers"][0]["gradient_norm"], math.inf)
    assert not same_result(json.dumps(before), json.dumps(values))


def test_other_values_hold_only_where_the_machine_differs(store: Store, tmp_path: Path) -> None:
    tables, key = tmp_path / "tables", store.keys()[0]
    gather(store, store.keys(), tables)
    record = published_record(key, tables)
    result = json.loads(record[RESULT])
    record |= {RESULT: json.dumps(result | {"test_accuracy": result["test_accuracy"] + 0.5})}
    assert not check_run(record, folder=tables).holds
    provenance = json.loads(record[PROVENANCE])
    provenance["versions"]["torch"] = "1.0"
    found = check_run(record | {PROVENANCE: json.dumps(provenance)}, folder=tables)
    assert len(found.differs) == 1
    del provenance["processor"]
    told = check_run(record | {PROVENANCE: json.dumps(provenance)}, folder=tables).differs
    assert any(one.startswith("processor: not recorded there, ") for one in told)
    assert not found.holds  # half of all images more is no rounding


@pytest.mark.parametrize("key", ["", "zz"])
def test_an_unknown_key_is_one_line(key: str) -> None:
    with pytest.raises(SeedspreadError, match=r"no published run is|published runs begin with"):
        published_record(key)
