"""Rows that are chosen, curves, wide and long tables."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedspread.analysis.audit import audit
from seedspread.tables.question import TableError
from seedspread.tables.shape import Condition, conditions, rows_where
from tests.tables.made import check, curves, refused, scores


def where(table: pd.DataFrame, *texts: str) -> pd.DataFrame:
    return rows_where(table, texts, "t")


SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@settings(deadline=None)
@given(sign=SIGNS, step=st.integers(0, 3000), other=SIGNS, reward=st.floats(-5, 40))
def test_conditions_are_those_of_pandas(sign: str, step: int, other: str, reward: float) -> None:
    table = curves()
    known = table.query(f"step {sign} {step} and reward {other} {reward!r}")
    try:
        found = where(table, f"step {sign} {step} and reward {other} {reward!r}")
    except TableError:
        assert known.empty
        return
    assert found.equals(known)
    assert where(table, f"step {sign} {step}", f"reward {other} {reward!r}").equals(known)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("step == 3e3", 12),
        ("step = 3000.0", 12),
        ("task == walk and method != net", 12),
        ("task in (walk, 'run')", 48),
        ("seed not in (1, 2)", 16),
        ("'task' == \"walk\"", 24),
        ("`step` > 1000 and task in (walk)", 12),
        ("my col == a and b", 1),
        ("my col == 'a and b'", 1),
    ],
)
def test_conditions_that_people_write(text: str, rows: int) -> None:
    table = curves()
    table["my col"] = ["a and b", *["c"] * (len(table) - 1)]
    if text == "my col == a and b":
        with pytest.raises(TableError, match="is no condition"):
            where(table, text)
        return
    assert len(where(table, text)) == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step", "is no condition; write --where"),
        ("", "is no condition"),
        ("step ==", "is no condition"),
        ("== 3", "is no condition"),
        ("stp == 3", "'step'"),
        ("step == 5", "no row has 'step == 5'; step has 0, 1000, 2000, 3000"),
        ("task < walk", "'walk' is none; use == or in"),
        ("task < 3", "column 'task' is none"),
        ("step == 1 or step == 2", "or is not known"),
        ("task in walk", "needs brackets"),
        ("step == __import__('os')", "quote what has signs in it"),
        ("step == 'a", "cannot read"),
        ("step ! 3", "cannot read"),
    ],
)
def test_conditions_that_cannot_be_read_are_one_line(text: str, said: str) -> None:
    assert said in refused(curves(), "reward", "method", by="task", where=text)


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with contextlib.suppress(TableError):
        assert all(isinstance(one, Condition) for one in conditions(text))


def test_the_last_step_of_each_run() -> None:
    table = curves().sample(frac=1, random_state=0)
    table = table[~((table["seed"] == 2) & (table["step"] > 1000))]  # a run that ended early
    runs = check(table, "reward", "method", by="task", last="step")
    known = table.loc[table.groupby(["task", "method", "seed"])["step"].idxmax(), "reward"]
    assert sorted(runs.frame["value"]) == sorted(known)
    (early,) = [
        note
        for note in runs.notes
        if note.startswith("4 of 12 runs end before the last step of others (rows ")
    ]
    assert early.endswith("and may have crashed; --where 'step == 3000' leaves them out.")
    kept = check(table, "reward", "method", by="task", last="step", where="step == 3000")
    assert len(kept.frame) == 8
    assert any("12 of 40 rows" in note for note in runs.notes)


@pytest.mark.parametrize(("name", "best"), [("reward", "max"), ("loss", "min")])
def test_the_best_row_of_each_run(name: str, best: str) -> None:
    rng = np.random.default_rng(3)
    table = curves().rename(columns={"reward": name})
    table[name] = rng.normal(size=len(table))
    runs = check(table, name, "method", by="task", best=name)
    known = table.groupby(["task", "method", "seed"])[name].agg(best)
    assert sorted(runs.frame["value"]) == sorted(known)


def test_steps_without_a_value_are_passed_over_and_runs_without_any_are_named() -> None:
    table = curves().astype({"reward": object})
    table.loc[table["step"] == 3000, "reward"] = ""
    first = (table["task"] == "walk") & (table["method"] == "tree") & (table["seed"] == 1)
    table.loc[first, "reward"] = None
    runs = check(table, "reward", "method", by="task", last="step")
    assert len(runs.frame) == 11
    assert any(note.startswith("1 run ") and "(row 2)" in note for note in runs.notes)
    known = table[(table["step"] == 2000) & ~first]["reward"]
    assert sorted(runs.frame["value"]) == sorted(known)


def test_tasks_do_not_pass_for_steps() -> None:
    for asked in ({"last": "step"}, {"best": "reward"}):
        said = refused(curves(), "reward", "method", **asked)
        assert "--by task" in said
        assert "by='task'" in said


def test_a_name_with_a_blank_can_be_typed_as_it_is_told() -> None:
    said = refused(curves().rename(columns={"task": "the task"}), "reward", "method", last="step")
    assert "--by 'the task'" in said
    assert "--block 'the task'" in said


def test_steps_do_not_pass_for_seeds() -> None:
    table = curves().drop(columns="seed").query("task == 'walk'")
    assert "rows are steps of runs; name the column" in refused(table, "reward", "method")


def test_a_run_that_was_logged_twice_is_told() -> None:
    table = curves()
    again = table[(table["seed"] == 1) & (table["step"] < 3000)].assign(reward=0.0)
    runs = check(pd.concat([table, again]), "reward", "method", by="task", last="step")
    assert any("may have been logged twice" in note for note in runs.notes)
    assert 0.0 not in set(runs.frame["value"])
    twice = table[(table["seed"] == 1) & (table["step"] == 3000)].iloc[:1]
    said = refused(pd.concat([table, twice]), "reward", "method", by="task", last="step")
    assert "walk, tree, seed 1" in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"last": "stp"}, "'step'"),
        ({"last": "step", "best": "reward"}, "not both"),
        ({"last": "seed"}, "no column is the seed"),
        ({"last": "method"}, "tells runs apart"),
        ({"best": "step", "seed": None}, "no column is the seed"),
        ({"metric_column": "task", "wide": "auto"}, "not both"),
        ({"wide": "seed*"}, "matches seed; it must match one column per seed"),
        ({"wide": "auto"}, "no columns with a seed each"),
        ({"metric_column": "tsk"}, "'task'"),
        ({"metric_column": "task"}, "task has no 'reward' (task has walk, run)"),
    ],
)
def test_options_that_do_not_fit_are_one_line(asked: dict[str, str], said: str) -> None:
    assert said in refused(
        curves(), "reward", "method", by="task" if "metric_column" not in asked else None, **asked
    )


@pytest.mark.parametrize("prefix", ["seed", "seed_", "run ", "", "AUC_", "AUC_seed", "s", "fold-"])
def test_a_column_per_seed(prefix: str) -> None:
    """The same runs as in the table with a row for each."""
    table = scores()
    wide = table.pivot(index=["Dataset", "Model"], columns="Seed", values="AUC")
    wide = wide.rename(columns=lambda seed: f"{prefix}{seed}").reset_index()
    known = {
        (d, m, str(s)): v for d, m, s, v in table[["Dataset", "Model", "Seed", "AUC"]].itertuples(index=False)
    }
    for pattern in ("auto", f"{prefix}4*"):
        frame = check(wide, "AUC", "Model", by="Dataset", wide=pattern).frame
        found = {
            (d, m, s): v
            for (d,), m, s, v in frame[["stratum", "group", "seed_name", "value"]].itertuples(index=False)
        }
        assert found == known


def test_a_wide_table_of_two_metrics() -> None:
    table = scores()
    wide = table.pivot(index=["Dataset", "Model"], columns="Seed", values=["AUC", "F1"])
    wide.columns = wide.columns.map(lambda pair: f"{pair[0]}_seed{pair[1]}")
    wide = wide.reset_index()
    runs = check(wide, "F1", "Model", by="Dataset", wide="auto")
    assert sorted(runs.frame["value"]) == sorted(table["F1"])
    said = refused(wide, "acc", "Model", by="Dataset", wide="auto")
    assert said.endswith("choose one: --wide 'AUC_seed*' or --wide 'F1_seed*'")
    assert sorted(check(wide, "acc", "Model", by="Dataset", wide="F1_seed*").frame["value"]) == sorted(
        table["F1"]
    )
    assert sorted(check(wide, "x", "Model", by="Dataset", wide="AUC_*").frame["value"]) == sorted(
        table["AUC"]
    )


def test_a_crashed_run_is_an_empty_cell() -> None:
    wide = (
        scores().pivot(index=["Dataset", "Model"], columns="Seed", values="AUC").reset_index().astype(object)
    )
    wide.iloc[0, 3:5] = ["", "-"]
    runs = check(wide, "AUC", "Model", by="Dataset", wide="auto")
    assert len(runs.frame) == 43
    assert any(note.startswith("2 runs ") and "(rows 2, 2)" in note for note in runs.notes)
    commas = wide.map(lambda cell: str(cell).replace(".", ","))
    assert list(check(commas, "AUC", "Model", by="Dataset", wide="auto").frame["value"]) == list(
        runs.frame["value"]
    )


def test_a_long_table_of_metrics() -> None:
    table = scores().assign(epoch=3)
    long = table.melt(["Dataset", "Model", "Seed", "epoch"], var_name="metric", value_name="val")
    runs = check(long, "F1", "Model", by="Dataset", metric_column="metric")
    assert list(runs.frame["value"]) == list(table["F1"])
    assert runs.columns.value == "F1"
    said = refused(long, "F1", "Model", by="Dataset")
    assert "'F1' is no column, but a level of metric; use --metric-column metric" in said
    two = long.assign(error=0.1).rename(columns={"val": "mean"})
    said = refused(two, "F1", "Model", by="Dataset", metric_column="metric")
    assert "(mean, error); name it with --value, and the metric with --where 'metric == F1'" in said
    again = check(two, "mean", "Model", by="Dataset", where="metric == F1")
    assert list(again.frame["value"]) == list(table["F1"])


@pytest.mark.parametrize("by", [("task", "depth"), ("depth", "task")])
def test_strata_are_named_in_the_order_that_was_asked_for(by: tuple[str, str]) -> None:
    table = pd.DataFrame(
        [
            {"task": task, "depth": depth, "arm": arm, "seed": seed, "score": seed + len(arm + task) / depth}
            for task in ("easy", "hard")
            for depth in (2, 4)
            for arm in ("old", "newer")
            for seed in range(4)
        ]
    )
    runs = check(table, "score", "arm", by=list(by))
    assert runs.columns.by == by
    assert set(runs.frame["stratum"]) == {
        tuple(str(row[name]) for name in by) for _, row in table[["task", "depth"]].iterrows()
    }
    first = audit(table, "score", "arm", "old", by=list(by)).comparisons[0]
    levels = {"task": "easy", "depth": "2"}
    assert [first.title.index(levels[name]) for name in by] == sorted(
        first.title.index(levels[name]) for name in by
    )
