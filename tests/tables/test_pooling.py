"""Nothing is pooled or dropped without a word, and every command that is suggested leads on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import seedspread
from seedspread import compare
from seedspread.analysis.components import components
from seedspread.errors import in_terminal, spoken
from seedspread.tables.check import proposal
from seedspread.tables.columns import is_step
from seedspread.tables.question import ArgumentError, Question, TableError
from seedspread.tables.read import read_table
from tests.tables.made import check, curves, refused, scores


def runs(groups: str = "ab", seeds: int = 6) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [(m, s, 0.8 + 0.02 * rng.normal()) for m in groups for s in range(seeds)]
    return pd.DataFrame(rows, columns=["m", "seed", "accuracy"])


SINGLE = scores(seeds=1).drop(columns="Seed")


def test_datasets_of_one_row_each_are_no_seeds() -> None:
    assert "one row per Model and Dataset and no seed" in refused(SINGLE, "AUC", "Model")
    ids = SINGLE.assign(run=range(len(SINGLE)))
    assert "one row per Model and Dataset and no seed" in refused(ids, "AUC", "Model")
    lacking = SINGLE.drop(index=4)
    assert "one row per Model and Dataset and no seed" in refused(lacking, "AUC", "Model")
    assert any("spread across Dataset" in note for note in check(SINGLE, "AUC", "Model", seed=None).notes)
    assert any(
        "spread across Dataset" in note for note in check(SINGLE, "AUC", "Model", seed="Dataset").notes
    )


def test_datasets_are_no_repeats_of_a_seed() -> None:
    with pytest.raises(TableError, match="levels of Dataset would pass for runs that repeat a seed"):
        components(scores(), "AUC", "Model")
    cut = curves().query("task == 'walk' or step < 2000")
    with pytest.raises(TableError, match="the steps of step would pass for runs that repeat a seed"):
        components(cut, "reward", "method", by="task")
    again = pd.concat(
        [runs().assign(attempt=1), runs().assign(attempt=2, accuracy=lambda t: t["accuracy"] + 0.01)]
    )
    assert components(again, "accuracy", "m").rows == 24  # a counter of repeats


@pytest.mark.parametrize(
    "name",
    "step env_frames env_frames_M global_step iteration epoch timestep total_timesteps train_steps".split(),
)
def test_names_of_steps(name: str) -> None:
    assert is_step(name)


@pytest.mark.parametrize("name", "warmup_steps steps_per_epoch n_steps max_epochs frame_rate method".split())
def test_settings_are_no_steps(name: str) -> None:
    assert not is_step(name)


def test_shares_beside_per_cent_are_refused() -> None:
    table = runs()
    table.loc[table["m"] == "b", "accuracy"] *= 100
    assert "shares beside percentages" in refused(table, "accuracy", "m")
    assert "shares beside percentages" in refused(
        table.rename(columns={"accuracy": "quality"}), "quality", "m"
    )


@pytest.mark.parametrize(("name", "factor", "noted"), [("reward", 100, True), ("quality", 4, False)])
def test_what_may_be_shares_beside_per_cent_is_noted(name: str, factor: float, noted: bool) -> None:
    table = runs().rename(columns={"accuracy": name})
    table.loc[table["m"] == "b", name] *= factor
    assert any("if these are shares beside percentages" in n for n in check(table, name, "m").notes) == noted


def test_a_setting_is_no_step_if_no_run_has_two_of_it() -> None:
    reused = pd.concat([runs().assign(epochs=10), runs().assign(epochs=50)])
    assert "add --no-steps if its levels are settings" in refused(reused, "accuracy", "m", by="epochs")
    assert "epochs seems to count steps" in refused(reused, "accuracy", "m", block="epochs", seed=None)
    assert len(check(reused, "accuracy", "m", by="epochs", steps=False).frame) == 24
    own = reused.assign(seed=reused["seed"] + reused["epochs"])
    assert len(check(own, "accuracy", "m", by="epochs").frame) == 24
    with pytest.raises(TableError, match="epochs seems to count steps"):
        components(reused, "accuracy", "m", by="epochs")


def test_groups_of_one_dataset_each_are_compared_within_it() -> None:
    table = pd.concat([runs("ab").assign(dataset="x"), runs("cd").assign(dataset="y")])
    note = "Each m has one dataset, and is compared with those of others; --by dataset compares within each."
    assert note in check(table, "accuracy", "m", "a").notes
    assert "by='dataset'" in refused(table)


def test_what_is_left_out_is_named() -> None:
    table = runs("abc")
    table.loc[table["m"] == "c", "accuracy"] = np.nan
    notes = " ".join(check(table, "accuracy", "m").notes)
    assert "c has no value (rows 14, 15, 16, 17, 18, ...), and is not compared." in notes
    assert "only 'a' has values: 'c' has none" in refused(table[table["m"] != "b"], "accuracy", "m")
    assert "no run with m = 'c' has a value" in refused(table, "accuracy", "m", "c")
    some = runs()
    some = some.loc[(some["m"] == "a") | ~some["seed"].isin([2, 4])]
    assert "b has no run with seed 2, 4, unlike another group." in check(some, "accuracy", "m").notes
    assert not any("2, 4" in note for note in check(some, "accuracy", "m", paired=False).notes)
    same = runs()
    same.loc[same["m"] == "b", "accuracy"] = same.loc[same["m"] == "a", "accuracy"].to_numpy()
    assert any("b and a have the same values" in note for note in check(same, "accuracy", "m").notes)


@pytest.mark.parametrize("where", ["m in (a, Typo)", "m != Typo", "m not in (Typo)", "seed in (1, 99)"])
def test_a_level_that_is_not_there_is_refused(where: str) -> None:
    assert "has no " in refused(runs(), "accuracy", "m", where=where)


def test_seeds_of_two_codebases_are_no_pairs() -> None:
    assert len(set(check(runs(), "accuracy", "m", paired=False).frame["seed"])) == 12
    assert len(set(check(runs(), "accuracy", "m").frame["seed"])) == 6


def test_datasets_are_proposed_apart_and_metrics_not_as_groups() -> None:
    table = scores().rename(columns={"Seed": "seed", "AUC": "score"})
    asked = Question("score")
    found = proposal(read_table(table, asked), asked)
    assert found is not None
    assert (found.group, found.by, found.block) == ("Model", ("Dataset",), ())
    measured = pd.concat([table.assign(measure=name) for name in ("rmse", "mae")])
    found = proposal(read_table(measured, asked), asked)
    assert found is None or found.group != "measure"


def test_a_counter_of_runs_is_not_proposed_as_the_result() -> None:
    table = {"Verfahren": ["mit"] * 3 + ["ohne"] * 3, "Durchlauf": [1, 2, 3] * 2, "Wert": ["92,31"] * 6}
    found = proposal(read_table(table, Question()), Question())
    assert found is not None
    assert (found.value, found.group) == ("Wert", "Verfahren")


def frames() -> dict[str, Any]:
    table = runs()
    index = table.set_index(["m", "seed"])
    return {
        "categories": table.astype({"m": "category", "seed": "category"}),
        "arrow": table.convert_dtypes(dtype_backend="pyarrow"),
        "texts": table.astype({"m": "string"}),
        "dates": table.assign(seed=pd.Timestamp("2024-01-01") + pd.to_timedelta(table["seed"], unit="D")),
        "zones": table.assign(
            seed=pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(table["seed"], unit="D")
        ),
        "index": table.set_index("seed"),
        "two indices": index,
        "series": index["accuracy"],
        "columns": {name: table[name].to_numpy() for name in table},
        "records": table.to_dict("records"),
        "periods": table.assign(seed=pd.Series([*pd.period_range("2024-01", periods=6, freq="M")] * 2)),
        "sparse": table.assign(accuracy=pd.arrays.SparseArray(table["accuracy"])),
    }


@pytest.mark.parametrize("kind", frames())
def test_any_data_frame(kind: str) -> None:
    found = check(frames()[kind], "accuracy", "m").frame
    assert found["value"].tolist() == runs()["accuracy"].tolist()
    assert found["seed"].tolist() == [*range(6)] * 2


class Polars:
    """What is known of a polars frame here: `to_pandas` needs pyarrow, `to_dict` needs nothing."""

    def to_pandas(self) -> pd.DataFrame:
        raise ImportError

    def to_dict(self, *, as_series: bool) -> dict[str, Any]:
        assert not as_series
        return {name: runs()[name].tolist() for name in runs().columns}


class Interchange:
    """A table that has the interchange protocol alone."""

    def __dataframe__(self, **options: Any) -> Any:
        frame: Any = runs()
        return frame.__dataframe__(**options)


def test_tables_of_other_libraries() -> None:
    assert len(check(Polars(), "accuracy", "m").frame) == 12  # type: ignore[arg-type]
    assert len(check(Interchange(), "accuracy", "m").frame) == 12  # type: ignore[arg-type]
    for wrong in (3, {"a": [1], "b": [1, 2]}):
        assert "a" in refused(wrong, "accuracy", "m")  # type: ignore[arg-type]


def test_errors_in_python_speak_python(tmp_path: Path) -> None:
    in_terminal.set(False)  # as the fixture finds it
    said = refused(scores(), "AUC", "Model")
    assert "by='Dataset'" in said
    assert "--" not in said
    assert said.endswith("audit(table, value='AUC', group='Model', by='Dataset')")
    assert any("baseline='b'" in note for note in check(runs(), "accuracy", "m").notes)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text('{"config": {"seed": 1}, "metrics": {"loss": 0.5}}')
    assert refused(tmp_path).startswith("say which metric with value=...; ")


@pytest.mark.parametrize(
    ("on_a_terminal", "in_python"),
    [
        ("--two-sided has no better direction", "two_sided=... has no better direction"),
        ("use --n-baseline 10, or --by task", "use n_baseline=10, or by='task'"),
    ],
)
def test_advice_is_python_that_works(on_a_terminal: str, in_python: str) -> None:
    in_terminal.set(False)
    assert spoken(on_a_terminal) == in_python


@pytest.mark.parametrize(
    ("call", "wrong", "right"),
    [
        (seedspread.audit, "bloc", "block"),
        (seedspread.components, "grup", "group"),
        (seedspread.compare, "valu", "value"),
        (seedspread.audit_means, "sdis", "sd_is"),
        (seedspread.check, "nn", "n"),
        (seedspread.collect, "patern", "pattern"),
        (seedspread.seed_budget, "ration", "ratio"),
        (seedspread.review, "results", "result"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_ones(
    call: Callable[..., Any], wrong: str, right: str
) -> None:
    in_terminal.set(False)
    with pytest.raises(ArgumentError, match=rf"no argument '{wrong}'.* \(.*\b{right}\b.*\)$") as caught:
        call(runs(), runs(), **{wrong: "x"})
    assert isinstance(caught.value, TypeError)


def test_sets_of_runs_name_the_seeds_that_one_lacks() -> None:
    first, second = runs("a"), runs("b").drop(index=[2, 4])
    assert any("seed 2, 4" in note for note in compare(first, second, value="accuracy").notes)
    unpaired = compare(first, second, value="accuracy", paired=False)
    assert unpaired.spread.comparisons[0].paired_correlation is None
