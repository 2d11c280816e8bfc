"""`curves` from a store, from logs and from tables; and what they refuse."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import seedspread
from seedspread import Study, curves
from seedspread.errors import SeedspreadError
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


def test_curves_of_a_store_count_the_seeds_that_reach_a_step(store: Path) -> None:
    found = curves(store, "accuracy", "optimizer")
    sgd = found.frame[found.frame["group"] == "sgd"].set_index("step")
    assert sgd["n"].to_dict() == {10.0 * k: 5 if k < 6 else 4 for k in range(1, 11)}
    assert found.notes == ("2 of 10 runs end before step 91.",)
    table = seedspread.Store(store).table()
    last = table.loc[(table["optimizer"] == "sgd") & (table["seed"] != 3), "accuracy"]
    assert (sgd["mean"][100], sgd["sd"][100]) == pytest.approx((last.mean(), last.std()))


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
        (lambda t: t.drop(columns="step"), {}, "counts steps; name it with step"),
        (lambda t: t.drop(columns="seed"), {}, "tells runs apart; name it with seed"),
        (lambda t: t[t["step"] == 1], {}, "each run has one value of loss"),
        (lambda t: t, {"metric": "lss"}, "'loss'"),
        (
            lambda t: pd.concat([t.assign(task="x"), t.assign(task="y")]),
            {},
            "differ in task: show them apart",
        ),
        (lambda t: t.assign(loss="bad"), {}, "must hold finite numbers"),
        (lambda t: t, {"level": 0.2}, "0.2"),
    ],
)
def test_curves_refuse_in_one_line(change: Any, asked: dict[str, Any], said: str) -> None:
    table = pd.DataFrame([(m, s, k, 1.0 / k) for m in "ab" for s in range(3) for k in (1, 2, 3)],
                         columns=["model", "seed", "step", "loss"])  # fmt: skip
    with pytest.raises(SeedspreadError) as refused:
        curves(change(table), **{"metric": "loss", "group": "model"} | asked)
    assert said in str(refused.value)


def test_a_store_without_curves_says_how_to_log_them(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "store"
    shutil.copytree(store, other)
    with pytest.raises(SeedspreadError, match=r"\(they logged accuracy, step\); .*log\(loss=\.\.\., step"):
        curves(other, "loss", "optimizer")
    done = seedspread_here("curves", str(other), "--metric", "accuracy", "--out", "a.gif")
    assert (done.returncode, done.stderr) == (2, "error: a.gif must end in .csv, .pdf, .svg, .png\n")


def test_two_runs_of_one_seed_are_no_curve() -> None:
    rows = [{"seed": seed, "step": step, "loss": step + seed} for seed in range(3) for step in range(4)]
    with pytest.raises(TableError, match="a later row has the same step of the same run"):
        curves(rows + [{**row, "loss": row["loss"] + 5} for row in rows], "loss")
