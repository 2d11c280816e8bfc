"""Stores as tidy DataFrames: each field once, and the layers' diagnostics."""

import json
from pathlib import Path

import pytest

from seedspread import Store, Study, audit
from seedspread.cff.training.run import train
from seedspread.runs.folder import RunFolder
from seedspread.runs.run import Run
from seedspread.runs.store import tidy_table
from seedspread.tables.from_store import all_runs
from tests.cff.training.tiny import tiny


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for margin_type in ("clamp", "subtract"):
        for seed in (1, 2):
            train(tiny(objective__margin_type=margin_type, seeds__run=seed), folder / f"{margin_type}-{seed}")
    return folder


def test_each_field_is_there_once_under_its_short_name_where_that_is_clear(store: Path) -> None:
    table, both = Store(store).table(), all_runs(Store(store))[0]
    assert list(table.columns[:3]) == ["margin_type", "seed", "accuracy"]  # what varies comes first
    for whole in (name for name in both.columns if "." in name):
        assert (whole in table) != (whole.rpartition(".")[2] in table) or whole == "seeds.run", whole
    assert "seeds.run" not in table  # which is `seed`
    assert {"training.epochs", "probe.epochs", "data.name", "depth"} <= set(table.columns)
    assert table["training.epochs"].equals(both["training.epochs"])
    assert table["depth"].equals(both["model.depth"])


def test_an_audit_of_a_store_takes_both_names_and_one_of_its_table_the_tables(store: Path) -> None:
    full, short = (
        audit(store, "accuracy", name, "subtract") for name in ("objective.margin_type", "margin_type")
    )
    tidy = audit(Store(store).table(), "accuracy", "margin_type", "subtract")
    part = Store(store).table()[["margin_type", "seed", "accuracy", "collapsed", "majority", "folder"]].copy()
    for other in (short, tidy, audit(part, "accuracy", "margin_type", "subtract")):
        assert other.source == str(store)
        assert all(len(c.test_set_noise) == 2 for c in other.comparisons)  # from the predictions
        assert other.to_frame().equals(full.to_frame())


def test_what_a_function_does_not_have_is_left_out(tmp_path: Path) -> None:
    def score(seed: int, loss: float) -> dict[str, float]:
        return {"score": loss + seed}

    runs = Study(score, factors={"loss": [0.5, 2.0]}, seeds=2, metrics="score").run(tmp_path, progress=False)
    table = runs.table
    assert list(table.columns) == ["loss", "seed", "score", "collapsed", "folder", "study", "key"]
    assert (table["score"] == table["loss"] + table["seed"]).all()
    assert list(Store(tmp_path).table().columns) == ["loss", "seed", "score", "collapsed", "folder"]
    assert Store(tmp_path).layers().empty  # a function has none


def test_a_short_name_is_not_clear_if_a_metric_or_another_run_has_it() -> None:
    def run(parameters: dict[str, object], seed: int) -> Run:
        return Run(str(seed), seed, "any", parameters, str(seed), metrics={"loss": 1.0 + seed})

    first = run({"a.loss": "hinge", "a.rate": 1, "a.size": 5}, 1)
    second = run({"a.loss": "log", "a.rate": 1, "b.rate": 2, "a.size": 5}, 2)
    table = tidy_table([first, second])
    assert table["loss"].tolist() == [2.0, 3.0]
    assert table["a.loss"].tolist() == ["hinge", "log"]
    assert {"a.rate", "b.rate", "size"} <= set(table.columns)
    assert "rate" not in table


def test_streams_that_are_set_alone_keep_their_names(tmp_path: Path) -> None:
    for init in (1, 2):
        train(tiny(seeds__run=3, seeds__init=init), tmp_path / str(init))
    table = Store(tmp_path).table()
    assert table["seeds.init"].tolist() == [1, 2]
    assert table["seeds.run"].tolist() == table["seed"].tolist() == [3, 3]


def test_layers_are_a_row_per_run_layer_and_epoch(store: Path) -> None:
    layers = Store(store).layers()
    config = tiny()
    assert len(layers) == 4 * config.model.depth * config.training.epochs
    assert list(layers.columns[:4]) == ["margin_type", "seed", "layer", "epoch"]
    assert sorted(set(layers["layer"])) == list(range(config.model.depth))
    assert sorted(set(layers["epoch"])) == list(range(1, config.training.epochs + 1))
    rates = layers.groupby("margin_type")["clamp_activation_rate"]
    assert rates.count().to_dict() == {"clamp": len(layers) // 2, "subtract": 0}
    assert (layers["gradient_norm"] > 0).all()


def test_a_run_that_does_not_clamp_has_the_rate_that_its_margins_would_cut(store: Path) -> None:
    layers = Store(store).layers()
    clamp, subtract = (layers[layers["margin_type"] == name] for name in ("clamp", "subtract"))
    assert clamp["rate_if_clamped"].isna().all()
    for folder, own in subtract.groupby("folder"):
        history = RunFolder(Path(str(folder))).history().to_pylist()
        expected = []
        for row in history:  # bins of 0.01 up to 1, of which a margin of 0.4 cuts the last 40
            cut = {0: 40, 1: 25, 2: 10}[row["layer"]]
            counts = row["similarity_histogram"]
            expected.append(sum(counts[len(counts) - cut :]) / sum(counts))
        assert own["rate_if_clamped"].tolist() == pytest.approx(expected, rel=1e-12)


def test_a_history_from_before_block_norms_is_read(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    table = folder.history().drop_columns(["block_gradient_norm"])
    folder.keep_history(table)
    path = tmp_path / "run" / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digests": {}}))
    layers = Store(tmp_path).layers()
    assert len(layers) == table.num_rows
    assert layers["block_gradient_norm"].isna().all()
    assert layers["gradient_norm"].tolist() == table["gradient_norm"].to_pylist()


def test_an_empty_store_has_columns_and_no_rows(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        assert "seed" in Store(path).table()
        assert {"seed", "layer", "epoch", "gradient_norm"} <= set(Store(path).layers().columns)
        assert len(Store(path).table()) == len(Store(path).layers()) == 0
        assert "no runs" in Store(path)._repr_html_()


def test_a_store_shows_itself_in_a_notebook(store: Path) -> None:
    html = Store(str(store))._repr_html_()
    assert "4 runs: " in html
    assert html.count("<td") == 4 * 6  # margin_type, seed and four metrics
    assert repr(Store("runs")) == "Store('runs')"
