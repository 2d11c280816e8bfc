"""`churn` and `curves` from a store, from logs and from tables; the page; and what they refuse."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import seedspread
from seedspread import Study, churn, curves
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import RunFolder
from seedspread.tables.predictions import stored
from seedspread.tables.question import TableError
from tests.commands import seedspread_here


def trained(optimizer: str, seed: int) -> dict[str, float]:
    """Learn, with seeds of sgd that disagree more often; seed 3 stops at half of the steps."""
    rng, labels = np.random.default_rng([seed, len(optimizer)]), np.arange(200) % 4
    noise = {"adam": 0.3, "sgd": 0.9}[optimizer] * rng.normal(size=(200, 4))
    logits = np.eye(4)[labels] + np.random.default_rng(0).normal(size=(200, 4)) + noise
    right = logits.argmax(axis=1) == labels
    for step in range(1, 6 if seed == 3 else 11):
        seedspread.log(accuracy=right.mean() * step / 10, step=10 * step)
    order = rng.permutation(200)  # examples are told apart by their ids, whatever their order
    seedspread.log_predictions(order, labels[order], logits[order])
    return {"accuracy": float(right.mean())}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("behavior") / "store"
    asked = {"group": "optimizer", "baseline": "adam"}
    Study(trained, factors={"optimizer": ["adam", "sgd"]}, seeds=5, audit=asked, metrics="accuracy").run(path)
    return path


def items(runs: int = 4) -> pd.DataFrame:
    """Predictions of two groups for 30 examples, one row per run and item."""
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"model": m, "seed": s, "item": np.arange(30), "prediction": rng.integers(0, k, 30)})
        for m, k in (("a", 2), ("b", 5))
        for s in range(runs)
    ]
    return pd.concat(parts, ignore_index=True)


def test_predictions_of_a_store_are_compared_by_the_ids_of_examples(store: Path) -> None:
    found = churn(store, group="optimizer", baseline="adam")
    c = found.comparisons[0]
    assert (c.title, c.word) == ("sgd vs adam", "YES")
    assert "two seeds of sgd disagree more often" in found.to_text()
    assert found.groups["runs"].tolist() == [5, 5]
    stored = [seedspread.Store(store).run(key) for key in seedspread.Store(store).keys()]  # noqa: SIM118
    sgd = [run for run in stored if run.parameters()["optimizer"] == "sgd"]
    classes = []
    for run in sgd:
        arrays = run.predictions("ids", "logits")
        classes.append(arrays["logits"][0].argmax(axis=1)[np.argsort(arrays["ids"])])
    by_hand = np.mean([(a != b).mean() for k, a in enumerate(classes) for b in classes[:k]])
    assert c.shares[0] == pytest.approx(by_hand)


def test_curves_of_a_store_count_the_seeds_that_reach_a_step(store: Path) -> None:
    found = curves(store, "accuracy", "optimizer")
    sgd = found.frame[found.frame["group"] == "sgd"].set_index("step")
    assert sgd["n"].to_dict() == {10.0 * k: 5 if k < 6 else 4 for k in range(1, 11)}
    assert found.notes == ("2 of 10 runs end before step 91.",)
    table = seedspread.Store(store).table()
    last = table.loc[(table["optimizer"] == "sgd") & (table["seed"] != 3), "accuracy"]
    assert (sgd["mean"][100], sgd["sd"][100]) == pytest.approx((last.mean(), last.std()))


def test_the_page_shows_curves_and_churn(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    seedspread.write_report(store, page)
    text = page.read_text()
    assert "accuracy over training" in text
    assert "Churn: two seeds of sgd disagree more often" in text


def test_one_row_per_run_and_item_equals_a_column_per_run() -> None:
    long = items()
    wide = long.assign(run=long["model"] + "-seed" + long["seed"].astype(str))
    wide = wide.pivot(index="item", columns="run", values="prediction").reset_index()
    first, second = churn(long, group="model"), churn(wide, group="model")
    assert first.comparisons == second.comparisons
    assert first.groups["churn"].tolist() == second.groups["churn"].tolist()


def test_groups_that_hardly_differ_are_alike_and_three_are_adjusted_together() -> None:
    rng, base = np.random.default_rng(1), np.arange(2000) % 2
    frames = [
        pd.DataFrame({"g": g, "seed": s, "item": np.arange(2000), "pred": base ^ (rng.random(2000) < 0.1)})
        for g in "abc"
        for s in range(10)
    ]
    found = churn(pd.concat(frames), group="g")
    assert [c.title for c in found.comparisons] == ["b vs a", "c vs a", "c vs b"]
    assert {c.word for c in found.comparisons} == {"NO"}


def test_samples_of_lm_eval_are_compared_by_right_and_wrong(tmp_path: Path) -> None:
    rng, right = np.random.default_rng(0), {}
    for model, seed in [(m, s) for m in "ab" for s in range(4)]:
        right[model, seed] = rng.random(40) < 0.7
        folder = tmp_path / model / f"seed{seed}"
        folder.mkdir(parents=True)
        rows = [
            {"doc_id": k, "acc": float(one), "metrics": ["acc"]} for k, one in enumerate(right[model, seed])
        ]
        file = folder / "samples_sums_2026-11-18T03-32-23.566335.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
    found = churn(tmp_path, "sums.acc", "stem", "a")
    assert found.what == "outcomes (right or wrong)"
    by_hand = [np.mean([right[m, s] != right[m, t] for s in range(4) for t in range(s)]) for m in "ba"]
    assert found.comparisons[0].shares == pytest.approx(by_hand)
    file.write_text(file.read_text().replace('"doc_id": 7,', '"doc_id": 77,'))  # another item
    with pytest.raises(SeedspreadError, match="not right or wrong answers to the same items"):
        churn(tmp_path, "sums.acc", "stem", "a")


def test_a_long_table_gives_curves_by_task_as_picture_and_csv(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), []
    for task, method, seed in [(t, m, s) for t in ("x", "y") for m in ("p", "q") for s in range(6)]:
        for step in sorted(rng.choice(100, 20, replace=False)):
            rows.append((task, method, seed, step, rng.normal(step)))
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "step", "reward"])
    table.to_csv(tmp_path / "curves.csv", index=False)
    asked = (
        "curves",
        str(tmp_path / "curves.csv"),
        "--metric",
        "reward",
        "--group",
        "method",
        "--by",
        "task",
    )
    for name in ("out.png", "out.csv"):
        done = seedspread_here(*asked, "--out", str(tmp_path / name))
        assert (done.returncode, done.stderr) == (0, "")
    written = pd.read_csv(tmp_path / "out.csv")
    assert written.groupby(["stratum", "group"])["n"].max().tolist() == [6] * 4
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
    alone = pd.DataFrame(rows, columns=table.columns).query("task == 'x'")
    assert curves(alone, "reward", "method").frame["mean"].tolist() == pytest.approx(
        written.loc[written["stratum"].str.contains("x"), "mean"].tolist()
    )


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        (lambda t: t.drop(columns="item"), {}, "which column of a DataFrame names the test example"),
        (lambda t: t.drop(columns="prediction"), {}, "has the predictions? Name it with value"),
        (lambda t: t.drop(columns="seed"), {}, "tells runs apart"),
        (lambda t: t[t["seed"] < 2], {}, "churn takes 3 seeds per group or more; a has 2"),
        (lambda t: t.drop(index=5), {}, "model a, seed 0 has no item 5, which others have"),
        (lambda t: pd.concat([t, t.iloc[:1]]), {}, "one row per run and item"),
        (lambda t: t.assign(prediction=np.arange(len(t)) / 7), {}, "240 different values: churn is about"),
        (lambda t: t, {"level": 2.0}, "the level must lie between 0.5 and 1"),
        (lambda t: t, {"item": "itm"}, "no column 'itm'; did you mean 'item'?"),
    ],
)
def test_churn_refuses_in_one_line(change: Any, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(SeedspreadError) as refused:
        churn(change(items()), group="model", **asked)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        (lambda t: t.drop(columns="step"), {}, "counts steps; name it with step"),
        (lambda t: t.drop(columns="seed"), {}, "tells runs apart; name it with seed"),
        (lambda t: t[t["step"] == 1], {}, "each run has one value of loss"),
        (lambda t: t, {"metric": "lss"}, "no column 'lss'; did you mean 'loss'?"),
        (
            lambda t: pd.concat([t.assign(task="x"), t.assign(task="y")]),
            {},
            "differ in task: show them apart",
        ),
        (lambda t: t.assign(loss="bad"), {}, "must hold finite numbers"),
        (lambda t: t, {"level": 0.2}, "the level must lie between 0.5 and 1"),
    ],
)
def test_curves_refuse_in_one_line(change: Any, asked: dict[str, Any], said: str) -> None:
    table = pd.DataFrame([(m, s, k, 1.0 / k) for m in "ab" for s in range(3) for k in (1, 2, 3)],
                         columns=["model", "seed", "step", "loss"])  # fmt: skip
    with pytest.raises(SeedspreadError) as refused:
        curves(change(table), **{"metric": "loss", "group": "model"} | asked)
    assert said in str(refused.value)


def test_a_store_without_curves_or_predictions_says_how_to_log_them(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "store"
    shutil.copytree(store, other)
    with pytest.raises(SeedspreadError, match=r"\(they logged accuracy, step\); .*log\(loss=\.\.\., step"):
        curves(other, "loss", "optimizer")
    next(other.glob("*/predictions.safetensors")).unlink()
    with pytest.raises(SeedspreadError, match=r"kept no predictions; report them in the run with"):
        churn(other, group="optimizer")
    done = seedspread_here("curves", str(other), "--metric", "accuracy", "--out", "a.gif")
    assert (done.returncode, done.stderr) == (2, "error: a.gif must end in .csv, .pdf, .svg, .png\n")


def test_predictions_of_different_test_sets_are_refused(tmp_path: Path) -> None:
    for name, first in (("one", 0), ("two", 5)):
        (tmp_path / name).mkdir()
        ids = np.arange(first, first + 9)
        RunFolder(tmp_path / name).keep_predictions(
            {"ids": ids, "labels": ids % 2, "logits": np.zeros((1, 9, 2))}
        )
    with pytest.raises(SeedspreadError, match="run two was tested on other examples than run one"):
        stored([str(tmp_path / "one"), str(tmp_path / "two")])


def test_two_runs_of_one_seed_are_no_curve() -> None:
    rows = [{"seed": seed, "step": step, "loss": step + seed} for seed in range(3) for step in range(4)]
    with pytest.raises(TableError, match="a later row has the same step of the same run"):
        curves(rows + [{**row, "loss": row["loss"] + 5} for row in rows], "loss")
