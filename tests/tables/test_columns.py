"""Which column is what: the seed is found and said, levels of a dataset never pass for seeds."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedspread.analysis.audit import audit
from seedspread.analysis.samples import groups_by_stratum, strips_of
from seedspread.tables.columns import MOST_PAIRS, baseline_of, is_numeric, seed_names
from seedspread.tables.question import TableError
from tests.commands import seedspread_here
from tests.tables.made import check, curves, refused, scores


@pytest.mark.parametrize(
    "name", "seed Seed SEED random_seed RandomSeed rng-seed Run trial rep replicate repetition run_id".split()
)
def test_the_seed_is_found_by_its_usual_names(name: str) -> None:
    runs = check(scores(seed=name), "AUC", "Model", by="Dataset")
    assert runs.columns.seed == name
    assert runs.frame["seed"].nunique() == 5
    assert (f"The seed column is {name}." in runs.notes) == (name != "seed")


def test_folds_get_a_caveat() -> None:
    runs = check(scores(seed="fold"), "AUC", "Model", by="Dataset")
    named = check(scores(seed="fold"), "AUC", "Model", seed="fold", by="Dataset")
    for table in (runs, named):
        assert any("folds share training data" in note for note in table.notes)


def test_of_several_the_surest_is_taken_and_the_others_are_said() -> None:
    table = scores().assign(run=range(45))
    assert check(table, "AUC", "Model", by="Dataset").columns.seed == "Seed"
    assert any(
        "run could be it too: --seed run" in n for n in check(table, "AUC", "Model", by="Dataset").notes
    )
    assert check(table, "AUC", "Model", by="Dataset", seed="run").columns.seed == "run"
    assert seed_names(["fold", "run", "my_seed", "Seed", "seed", "speed"]) == [
        "seed",
        "Seed",
        "my_seed",
        "run",
        "fold",
    ]


def test_a_seed_that_never_varies_is_rather_another_column() -> None:
    table = scores(seed="trial").assign(random_seed=42)
    assert check(table, "AUC", "Model", by="Dataset").columns.seed == "trial"


def test_ids_of_runs_are_no_shared_seeds() -> None:
    table = scores().drop(columns="Seed").assign(run_id=[f"r{n}" for n in range(45)])
    runs = check(table, "AUC", "Model", by="Dataset")
    assert runs.frame["seed"].nunique() == 45
    assert any("names each run by itself" in note for note in runs.notes)


@pytest.mark.parametrize("seed", ["Seed", "run", "none", "ids", "unlike"])
def test_datasets_never_pass_for_seeds(seed: str) -> None:
    """Whatever is called the seed, or nothing is: eight datasets of ten seeds are not eighty seeds."""
    table = scores(seed="Seed" if seed in ("Seed", "unlike") else "run")
    if seed == "none":
        table = table.drop(columns="run")
    if seed == "ids":
        table["run"] = range(len(table))
    if seed == "unlike":  # every dataset has seeds of its own
        table["Seed"] += table["Dataset"].map({"wine": 0, "digits": 100, "a b": 200})
    said = refused(table, "AUC", "Model")
    assert "Dataset has 3 levels" in said
    assert "--by Dataset (audited apart) or --block Dataset (same-seed runs)" in said
    assert said.endswith("audit(table, value='AUC', group='Model', by='Dataset')")


def test_datasets_by_number_do_not_pass_for_seeds_either() -> None:
    table = scores().drop(columns="Seed")
    table["set"] = table["Dataset"].map({"wine": 1, "digits": 2, "a b": 3})
    assert "--by set " in refused(table.drop(columns="Dataset"), "AUC", "Model")


def test_where_runs_were_made_is_no_part_of_the_design() -> None:
    table = scores().query("Dataset == 'wine'").assign(hostname=["a", "b", "a", "b", "b"] * 3)
    assert len(check(table, "AUC", "Model").frame) == 15
    assert "--by room " in refused(table.rename(columns={"hostname": "room"}), "AUC", "Model")


def test_who_says_that_rows_are_runs_is_told_what_is_pooled() -> None:
    runs = check(scores(), "AUC", "Model", seed=None)
    assert runs.columns.seed is None
    assert any("Dataset has 3 levels in each Model, which are pooled" in note for note in runs.notes)
    plain = scores().iloc[:15][["Model", "AUC"]]
    assert check(plain, "AUC", "Model").columns.seed is None
    assert check(plain, "AUC", "Model").frame["seed"].nunique() == 15


def test_two_levels_need_no_baseline() -> None:
    table = scores().query("Model != 'mix' and Dataset == 'wine'")
    runs = check(table, "AUC", "Model")
    assert runs.columns.baseline == "tree"
    assert "Baseline: tree (swap with --baseline net)." in runs.notes
    assert check(table.replace("net", "Baseline-2"), "AUC", "Model").columns.baseline == "Baseline-2"
    assert baseline_of(["with", "without"]) == "without"
    assert baseline_of(["control", "baseline"]) == "control"


def test_three_levels_are_compared_all_with_all() -> None:
    table = scores()
    table = table[table["Dataset"] != "digits"]
    result = audit(table, "AUC", "Model", by="Dataset")
    pairs = [(c.group, c.baseline) for c in result.comparisons]
    assert pairs == [("net", "tree"), ("mix", "tree"), ("mix", "net")] * 2
    assert result.baseline == ""
    smallest = min(c.headline.p or 1 for c in result.comparisons)
    assert min(c.p_adjusted or 1 for c in result.comparisons) == pytest.approx(min(1, 6 * smallest))
    lacking = table[(table["Dataset"] != "wine") | (table["Model"] == "mix")]
    left = audit(lacking, "AUC", "Model", by="Dataset")
    assert len(left.comparisons) == 3
    assert any(note.startswith("wine has no other run") for note in left.notes)


def test_too_many_comparisons_are_refused_with_what_to_type(tmp_path: Path) -> None:
    groups = 64  # 64 x 63 / 2 = 2,016
    table = pd.DataFrame(
        {
            "m": np.repeat([f"m {k}" for k in range(groups)], 2),
            "seed": [1, 2] * groups,
            "v": range(2 * groups),
        }
    )
    path = tmp_path / "runs.csv"
    table.to_csv(path, index=False)
    said = refused(path, "v", "m")
    assert f"2,016 comparisons of all with all, and at most {MOST_PAIRS:,}" in said
    assert said.endswith(f"seedspread audit {path} --value v --group m --baseline 'm 0'")
    assert check(path, "v", "m", "m 0").columns.baseline == "m 0"


def typed(said: str) -> list[str]:
    """The command at the end of a refusal."""
    return shlex.split(said[said.index("seedspread audit ") :])[1:]


WIDE = (
    scores().pivot(index=["Dataset", "Model"], columns="Seed", values="AUC").add_prefix("seed_").reset_index()
)
LONG = scores().melt(["Dataset", "Model", "Seed"], var_name="metric", value_name="score")


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (scores(), []),
        (scores(), ["--value", "F1"]),
        (scores(), ["--group", "Model"]),
        (scores(), ["--value", "AUC", "--group", "Model"]),
        (scores(), ["--value", "AUC", "--group", "Dataset"]),
        (scores().rename(columns={"Dataset": "data set's"}), ["--value", "AUC", "--group", "Model"]),
        (curves(), []),
        (curves(), ["--value", "reward", "--group", "method"]),
        (curves(), ["--value", "reward", "--group", "method", "--last", "step"]),
        (curves(), ["--value", "reward", "--group", "method", "--best", "reward"]),
        (curves(), ["--value", "reward", "--group", "method", "--by", "task"]),
        (WIDE.query("Dataset == 'wine'"), []),
        (WIDE.query("Dataset == 'wine'"), ["--value", "AUC", "--group", "Model"]),
        (LONG, ["--value", "AUC", "--group", "Model", "--by", "Dataset"]),
        (LONG, ["--value", "score", "--group", "Model", "--by", "Dataset"]),
        (LONG, ["--value", "score", "--group", "Model"]),
        (scores(seed="run").assign(seed=1), ["--value", "AUC", "--group", "Model", "--by", "Dataset"]),
        (scores().assign(fold=1), []),
    ],
)
def test_what_a_refusal_says_to_type_is_not_refused(
    tmp_path: Path, table: pd.DataFrame, options: list[str]
) -> None:
    path = tmp_path / "my runs.csv"
    table.to_csv(path, index=False)
    roles, rows = asked(options)
    roles, rows = asked(typed(refused(path, *roles, **rows)))
    try:
        check(path, *roles, **rows)
    except TableError as error:  # one step may lead to another, such as the metric and then the dataset
        roles, rows = asked(typed(str(error)))
        check(path, *roles, **rows)


def asked(words: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Value and group, and the other options, of words such as `--value AUC`."""
    given: dict[str, Any] = {}
    start = words.index("--value") if "audit" in words else 0
    for option, value in zip(words[start::2], words[start + 1 :: 2], strict=True):
        given.setdefault(option.removeprefix("--").replace("-", "_"), []).append(value)
    options = {name: own if name in ("by", "block", "where") else own[0] for name, own in given.items()}
    return [options.pop("value", None), options.pop("group", None)], options


def test_the_command_in_a_refusal_works(tmp_path: Path) -> None:
    path = tmp_path / "my runs.csv"
    scores().to_csv(path, index=False)
    done = seedspread_here("audit", str(path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert seedspread_here(*typed(done.stderr)).returncode == 0


def test_value_and_group_are_asked_for_with_what_there_is() -> None:
    said = refused(scores())
    assert "--value" in said
    assert "--group" in said
    assert "Dataset, Model, Seed, AUC, F1" in said
    assert said.endswith("audit(table, value='AUC', group='Model', by='Dataset')")


def test_several_values_are_several_audits(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    scores().query("Dataset == 'wine'").to_csv(path, index=False)
    words = ("audit", str(path), "--group", "Model", "--baseline", "net")
    done = seedspread_here(*words, "--value", "AUC", "--value", "F1", "--json")
    both = json.loads(done.stdout)
    assert [one["value"] for one in both["audits"]] == ["AUC", "F1"]
    text = seedspread_here(*words, "--value", "AUC", "--value", "F1")
    assert "each is adjusted for its own comparisons only" in text.stderr
    assert seedspread_here(*words, "--value", "AUC", "--value", "F1", "--plot", "a.png").returncode == 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("abc"), st.sampled_from("pq"), st.integers(0, 3)),
        min_size=4,
        unique=True,
    )
)
def test_arms_are_what_plain_filters_give(rows: list[tuple[Any, ...]]) -> None:
    table = pd.DataFrame(rows, columns=["by", "g", "block", "seed"]).assign(v=range(len(rows)))
    base = table["g"].iloc[-1]
    if not any(base in own and len(own) > 1 for own in table.groupby("by")["g"].agg(set)):
        return  # nothing to compare
    runs = check(table, "v", "g", table["g"].iloc[-1], "block", by="by")
    found = groups_by_stratum(runs)
    assert [level for (level,), _ in found] == list(dict.fromkeys(table["by"]))
    codes = dict(zip(table["seed"].astype(str), runs.frame["seed"], strict=True))
    for (level,), groups in found:
        piece = table[table["by"] == level]
        assert {group.name for group in groups} == set(piece["g"])
        for group in groups:
            own = piece[piece["g"] == group.name]
            assert list(group.values) == list(own["v"])
            assert [group.block_names[code][0] for code in group.blocks] == list(own["block"])
            assert list(group.seeds) == [codes[str(seed)] for seed in own["seed"]]
    assert len(strips_of(runs)) == len(table[["by", "g"]].drop_duplicates())


def test_levels_come_in_the_order_of_their_factors_and_settings_in_that_of_the_table() -> None:
    design = [(d, b, g, s) for d in ("svhn", "cifar") for b in (32, 8) for g in ("a", "b") for s in range(5)]
    frame = pd.DataFrame(design, columns=["dataset", "batch", "method", "seed"])
    frame["accuracy"] = np.random.default_rng(0).normal(size=len(frame))
    told = {
        by: [c.stratum for c in audit(frame, "accuracy", "method", "a", by=by).comparisons]
        for by in (("dataset", "batch"), ("batch", "dataset"))
    }
    named = [("svhn", "32"), ("svhn", "8"), ("cifar", "32"), ("cifar", "8")]
    assert told["dataset", "batch"] == named
    assert told["batch", "dataset"] == [(batch, dataset) for dataset, batch in named]


def test_names_that_end_in_a_number_are_no_numbers() -> None:
    assert not is_numeric(pd.Series(["m0", "m1", "v2", "a10"]))
    assert is_numeric(pd.Series(["+1", "-2.5", "−3e4", "40 %"]))
