"""Sets of runs compared: what is asked of them together, and of each by itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from seedspread import audit, compare
from seedspread.analysis.sets import RunSet, join
from seedspread.errors import SeedspreadError
from seedspread.runs.levels import stratum_name
from seedspread.runs.metrics import Metric
from seedspread.tables.check import check_runs
from seedspread.tables.question import Question
from seedspread.tables.read import read_table
from tests.analysis.made import NEW, OLD, runs

ARMS: dict[str, Any] = {"value": "score", "group": "arm", "baseline": "a"}


def test_each_arm_is_audited_from_set_to_set() -> None:
    """As `audit` would with the set as a column."""
    found = compare(OLD, NEW, **ARMS)
    both = pd.concat([OLD.assign(source="A"), NEW.assign(source="B")])
    apart = audit(both, "score", "source", "A", by="arm")
    assert [c.stratum for c in found.spread.comparisons] == [("a",), ("b",)]
    for c, other in zip(found.spread.comparisons, apart.comparisons, strict=True):
        assert c.headline == other.headline
        assert (c.p_adjusted, c.word, c.pooled) == (other.p_adjusted, other.word, other.pooled)
        assert c.headline.pairs == 8
    assert found.names == ("A", "B")


def test_each_set_answers_as_its_own_audit_does() -> None:
    found: Any = compare(OLD, NEW, **ARMS).agreements[0]
    for answer, table in zip(found.answers, (OLD, NEW), strict=True):
        own = audit(table, "score", "arm", "a").comparisons[0]
        assert (answer.headline, answer.p_adjusted, answer.word) == (own.headline, own.p_adjusted, own.word)
        assert answer.seeds == (8, 8)
    assert found.headline.raw_ratio == pytest.approx(
        found.answers[1].headline.raw_ratio / found.answers[0].headline.raw_ratio
    )
    assert found.title == "b vs a"


def test_turned_round_every_ratio_is_its_inverse() -> None:
    one, other = compare(OLD, NEW, **ARMS), compare(NEW, OLD, **ARMS)
    there: list[Any] = [*one.spread.comparisons, *one.agreements]
    back: list[Any] = [*other.spread.comparisons, *other.agreements]
    for a, b in zip(there, back, strict=True):
        assert a.headline.ratio == pytest.approx(1 / b.headline.ratio, rel=2e-3)
        assert a.headline.interval.low == pytest.approx(1 / b.headline.interval.high, rel=2e-3)
        assert a.p_adjusted == pytest.approx(b.p_adjusted, abs=2e-3)
        assert a.word == b.word


def test_a_copy_gives_one_and_is_called_a_copy() -> None:
    found = compare(OLD, OLD.copy(), **ARMS)
    assert [c.headline.ratio for c in found.spread.comparisons] == pytest.approx([1.0, 1.0], rel=1e-6)
    assert found.agreements[0].headline.ratio == pytest.approx(1.0, rel=1e-6)
    assert len(found.copies) == 1
    assert found.answer.startswith(found.copies[0])
    assert compare(OLD, NEW, **ARMS).copies == ()


def test_sets_without_arms_are_one_sample_each() -> None:
    old, new = OLD[OLD["arm"] == "b"].drop(columns="arm"), NEW[NEW["arm"] == "b"].drop(columns="arm")
    new = new.assign(seed=new["seed"] + 100)
    found = compare(old, new, value="score", names=("before", "after"))
    (c,) = found.spread.comparisons
    assert c.headline.pairs == 0
    assert c.headline.raw_ratio == pytest.approx(new["score"].var() / old["score"].var())
    assert c.test("f").p == pytest.approx(
        2 * stats.f.sf(new["score"].var() / old["score"].var(), 7, 7)
    )  # scipy's F
    assert found.agreements == ()
    assert found.group is None
    assert c.word == "YES"


def test_rows_without_a_seed_are_no_pairs() -> None:
    found = compare(OLD.drop(columns="seed"), NEW, **ARMS)
    assert [c.headline.pairs for c in found.spread.comparisons] == [0, 0]
    alone, seeded = (audit(t, "score", "arm", "a").notes for t in (OLD.drop(columns="seed"), OLD))
    (told,) = set(alone) - set(seeded)
    assert any(told in note for note in found.notes)


def test_settings_that_one_set_lacks_are_named() -> None:
    old = runs({"a": 1, "b": 2, "c": 1}, datasets=("mnist", "cifar"))
    new = runs({"d": 3, "b": 2, "a": 1}, datasets=("mnist",), random_seed=1)
    found = compare(old, new, **ARMS, by="dataset")
    assert found.only == {
        "A": ("mnist, arm = c", "cifar, arm = a", "cifar, arm = b", "cifar, arm = c"),
        "B": ("mnist, arm = d",),
    }
    assert [c.stratum for c in found.spread.comparisons] == [("mnist", "a"), ("mnist", "b")]
    assert [(a.stratum, a.group) for a in found.agreements] == [(("mnist",), "b")]


def test_without_a_baseline_all_arms_are_compared_in_one_order() -> None:
    old = runs({"a": 1, "b": 2, "c": 1})
    new = runs({"c": 3, "b": 2, "a": 1}, random_seed=1)
    found = compare(old, new, value="score", group="arm")
    assert [(a.group, a.baseline) for a in found.agreements] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert found.baseline == ""


def test_more_than_two_sets_are_compared_with_the_first() -> None:
    third = runs({"a": 0.01, "b": 0.02}, random_seed=5)
    found: Any = compare(OLD, NEW, third, **ARMS)
    assert [(c.stratum, c.group, c.baseline) for c in found.spread.comparisons] == [
        (("a",), "B", "A"), (("a",), "C", "A"), (("b",), "B", "A"), (("b",), "C", "A"),
    ]  # fmt: skip
    assert [(a.source, a.first) for a in found.agreements] == [("B", "A"), ("C", "A")]
    alone: Any = compare(OLD, NEW, **ARMS).agreements[0]
    assert found.agreements[0].headline.interval == alone.headline.interval
    assert found.agreements[0].p_adjusted >= alone.p_adjusted


def test_shares_and_per_cent_are_brought_together() -> None:
    old, new = (t.rename(columns={"score": "accuracy"}) for t in (OLD, NEW))
    per_cent = new.assign(accuracy=100 * new["accuracy"])
    question = ARMS | {"value": "accuracy"}
    mixed, plain = compare(old, per_cent, **question), compare(old, new, **question)
    assert mixed.metric.unit == "per cent"
    assert any("shares were multiplied by 100" in note for note in mixed.notes)
    for a, b in zip(mixed.spread.comparisons, plain.spread.comparisons, strict=True):
        assert a.headline.ratio == pytest.approx(b.headline.ratio)
        assert a.pooled[1].mean == pytest.approx(100 * b.pooled[1].mean)


def test_runs_without_a_value_count_as_failed() -> None:
    new = NEW.copy()
    new.loc[new["seed"] == 3, "score"] = np.nan
    failures = compare(OLD, new, **ARMS).spread.comparisons[0].failures
    assert failures is not None
    assert (failures.failed, failures.seeds, failures.crashed) == ((1, 0), (8, 8), (1, 0))


@pytest.mark.parametrize(
    ("tables", "options", "said"),
    [
        ((OLD,), {}, "give two sets of runs"),
        ((OLD, OLD), {}, "the same set of runs twice"),
        (
            (OLD, runs({"x": 1, "y": 2})),
            {},
            "no setting in common. A has arm = a; arm = b. B has arm = x; arm = y",
        ),
        ((OLD, NEW.rename(columns={"score": "points"})), {}, "no column 'score' (it has arm, seed, points)"),
        ((OLD, NEW), {"baseline": "z"}, "no run has arm = 'z'"),
        ((OLD, NEW), {"group": None}, "baseline=... is a level of the group"),
        ((OLD, NEW), {"names": ("x", "x")}, "give 2 different names; got x, x"),
        ((OLD, NEW), {"level": 1.5}, "the level must lie between"),
        ((OLD, NEW), {"value": None}, "compare(a, b, value='score', group='arm', baseline='a')"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(tables: Any, options: Any, said: str) -> None:
    if options.get("group", "") is None:
        tables = tuple(t[t["arm"] == "a"].drop(columns="arm") for t in tables)
    with pytest.raises(SeedspreadError) as error:
        compare(*tables, **(ARMS | options))
    assert said in str(error.value)


def test_what_cannot_be_tested_is_said() -> None:
    """A group of one run has no spread, and one whose runs are all equal none either."""
    single = OLD[(OLD["arm"] == "b") | (OLD["seed"] == 0)]
    flat = OLD.assign(score=OLD["score"].where(OLD["arm"] == "b", 0.8))
    for table in (single, flat):
        found = compare(table, NEW, **ARMS)
        assert found.agreements[0].p_adjusted is None
        assert [c.p_adjusted is None for c in found.spread.comparisons] == [True, False]
        assert found.spread.comparisons[0].word == "CAN'T TELL"
        assert "CAN'T TELL" in found.answer
        assert found.to_json()
        assert found._repr_html_()


def test_arms_with_commas_are_named_like_the_others() -> None:
    sets = [t.assign(dataset="mnist, small").replace({"arm": {"b": "ours, no aug"}}) for t in (OLD, NEW)]
    found = compare(*sets, **ARMS, by="dataset")
    assert [stratum_name(c.by, c.stratum) for c in found.spread.comparisons] == [
        "mnist, small, arm = a",
        "mnist, small, arm = ours, no aug",
    ]
    assert repr(found) == f"<CompareResult of A and B: {found.answer}>"


def test_its_forms() -> None:
    pytest.importorskip("matplotlib")
    found = compare(OLD, NEW, **ARMS)
    html = found._repr_html_()
    assert found.agreements[0].title in html
    assert "<img" in html
    assert found.to_latex().count("\\begin{tabular}") >= 2
    assert "| comparison | A | B | B over A |" in found.to_markdown()
    for width in (60, 80, 120, 200):
        assert max(map(len, found.to_text(width=width).splitlines())) <= width
    assert "F test, pooled" in found.to_text(details=True)


def test_units_that_differ_are_refused() -> None:
    question = Question("score", "arm")
    checked = [check_runs(read_table(table, question), question) for table in (OLD, NEW)]
    units = ("ms", "s")
    sets = [
        RunSet(name, runs, Metric("score", unit=unit))
        for name, runs, unit in zip("AB", checked, units, strict=True)
    ]
    with pytest.raises(
        SeedspreadError, match="score is in ms in A and in s in B; bring the values to one unit"
    ):
        join(sets)
    assert join([sets[0], replace(sets[1], metric=Metric("score"))]).metric.unit == "ms"
