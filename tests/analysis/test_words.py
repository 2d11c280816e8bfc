"""Sentences about results: what they say, and that they say no more than what is shown."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from seedspread import audit, compare
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.components import components_of, split
from seedspread.analysis.words import (
    collapse_sentence,
    copies_note,
    failure_sentence,
    floor_sentence,
    listed,
    look_title,
    looks_note,
    performance_sentence,
    repeated_notes,
    together,
    unlike_sentence,
)
from seedspread.paper.values import published_table
from seedspread.stats.components import Sample
from seedspread.stats.failures import detect_collapse, failures
from seedspread.stats.groups import Group
from seedspread.stats.performance import performance
from seedspread.stats.pooling import unequal_cells
from seedspread.stats.result import Better, FailureModel, InterimLook, Performance
from seedspread.stats.testset_noise import noise_from_accuracies, noise_from_predictions
from tests.analysis.made import NEW, OLD, runs
from tests.stats.arms import arm, paper_arms

SOUND = [60.0, 61.2, 62.1, 60.7, 63.0, 61.9, 62.6, 60.3]
HIGHER: Better = "higher"
LOWER: Better = "lower"


def judge(x: Group, y: Group, better: Better = HIGHER) -> Performance:
    return performance(x, y, better, 0.95)


def failed(x: Group, y: Group, chance: float | None = None) -> FailureModel:
    model = failures(x, y, "higher", chance, 0.95, 100.0)
    assert model is not None
    return model


RNG = np.random.default_rng(5)
WIDE, NARROW = 4 * RNG.normal(size=20), RNG.normal(size=20)


@pytest.mark.parametrize(
    ("better", "shift", "said"),
    [
        (HIGHER, 9.0, "a is better on average by"),
        (LOWER, 9.0, "a is worse on average by"),
        (HIGHER, -9.0, "a is worse on average by"),
        (LOWER, -9.0, "a is better on average by"),
        (HIGHER, 0.0, "Neither is shown to be better on average"),
    ],
)
def test_the_sentence_says_better_rightly(better: Better, shift: float, said: str) -> None:
    p = judge(arm(WIDE - WIDE.mean() + shift), arm(NARROW, name="b"), better)
    sentence = performance_sentence(p)
    assert sentence.startswith(said)
    assert ("with probability 1.00 [0.9" in sentence) == ("a is better" in sentence)
    if shift == 0:
        assert "; the worst tenth of the runs of a is worse by" in sentence


def test_a_better_mean_with_a_worse_tail_is_said_to_be_both() -> None:
    x, y = np.array([12.0] * 50 + [-15.0] * 10) + 0.01 * np.arange(60), 0.01 * np.arange(60)
    sentence = performance_sentence(judge(arm(x), arm(y, name="b")))
    assert sentence.startswith("a is better on average by 7.5 ")
    assert "; but the worst tenth of the runs of a is worse by 14.5 [" in sentence
    crashed = replace(arm(x), crashed=np.array([90]))
    assert "runs without a value are not counted" in performance_sentence(judge(crashed, arm(x, name="b")))


def test_of_single_runs_neither_is_better() -> None:
    single = judge(arm([1.0]), arm([2.0, 3.0], name="b"))
    assert performance_sentence(single) == "Neither is shown to be better on average (a − b: -1.5)."


@pytest.mark.parametrize("shift", [-3.0, 0.0, 0.4, 3.0])
def test_a_metric_turned_round_is_worded_alike(shift: float) -> None:
    first, second = arm(NARROW + shift), arm(NARROW[::-1], name="b")
    x, y = (replace(side, values=-side.values) for side in (first, second))
    up, down = performance_sentence(judge(first, second)), performance_sentence(judge(x, y, LOWER))
    assert down.split(" (")[0].split(" by ")[0] == up.split(" (")[0].split(" by ")[0]


def test_words_tell_failures_from_clusters() -> None:
    clamp, subtract = paper_arms("svhn-hard")
    model = failed(clamp, subtract)
    assert model.kind == "clusters"
    sentence = failure_sentence(model)
    assert sentence.startswith(
        "3 of 5 clamp seeds lie in the worse of two clusters against 0 of 5 of subtract "
        "(rate 60 % [15, 95] against 0 % [0, 52], p = 0.167); within the better one the variance under "
    )
    collapse = detect_collapse(clamp, subtract, "higher", None, 0.95, 100.0)
    assert (collapse.failed, collapse.clusters) == (False, True)
    assert "fail" not in sentence + collapse_sentence(collapse, "")
    flagged = failed(replace(arm(SOUND), failed=np.arange(8) == 0), arm(SOUND, name="b"))
    assert failure_sentence(flagged).startswith(
        "1 of 8 a seeds failed against 0 of 8 of b (rate 12 % [0, 53]"
    )
    assert "among the sound seeds" in failure_sentence(flagged)


def test_all_failed_runs_leave_no_ratio() -> None:
    model = failed(arm([10.0, 10.1, 9.9]), arm([60.0, 61, 62], name="b"), chance=10.0)
    assert "(0 and 3) no ratio of variances can be had" in failure_sentence(model)


def test_a_collapse_is_told_with_its_signs() -> None:
    x, y = arm([10.2, 60, 61, 62]), arm([60.0, 61, 62, 63], name="b")
    assert collapse_sentence(detect_collapse(x, y, "higher", None, 0.95, 100.0), "").startswith("No run is ")
    found = detect_collapse(
        replace(x, failed=np.array([0, 1, 0, 0], bool), crashed=np.array([6, 7])),
        y,
        "higher",
        10.0,
        0.95,
        100.0,
    )
    assert collapse_sentence(found, "") == (
        "1 of 4 a runs are flagged as collapsed; 2 a seeds have a run without a value; 1 of 4 a runs score "
        "no better than 10, which takes no learning, or hardly better. A variance over failed and sound runs "
        "together measures how often runs fail: compare the rates, and the spread of the sound runs apart."
    )
    one = detect_collapse(
        replace(arm(SOUND, name="2"), crashed=np.array([9])), y, "higher", None, 0.95, 100.0
    )
    assert collapse_sentence(one, "depth").startswith("1 depth = 2 seed has a run without a value. ")


def test_a_negative_remainder_is_said_to_be_one() -> None:
    floor = noise_from_predictions("a", np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool))
    assert floor.remaining is not None
    assert floor.remaining < 0
    assert "below zero" in floor_sentence(floor)


def test_a_floor_that_is_a_bound() -> None:
    floor = noise_from_accuracies("a", np.array([80.0, 80, 80, 80.4, 79.6]), 10_000, 100.0)
    assert floor_sentence(floor, "depth = 2") == (
        "depth = 2: the variance 0.08 is no larger than what 10,000 test examples can make by chance (0.16); "
        "it may be nothing else"
    )
    wide = noise_from_accuracies("a", np.array([70.0, 80, 90]), 10_000, 100.0)
    assert floor_sentence(wide) == "a: 10,000 test examples make at most 0.16 of the variance 100"


def test_unlike_cells_are_named() -> None:
    scales, like = np.array([0.15, 3.0, 120.0])[:, None], np.random.default_rng(11).normal(size=(2, 3, 8))
    x, y = arm(*(scales * like[0]), name="clamp"), arm(*(2 * scales * like[1]), name="2")
    found = unequal_cells(x, y)
    assert found is not None
    sentence = unlike_sentence(found, "depth")
    low, high = (c.var(ddof=1) for c in (x.cells[0], x.cells[2]))
    assert f"the variance of clamp goes from {low:.3g} (0) to {high:.3g} (2)" in sentence
    assert "; the variance of depth = 2 goes from" in sentence
    assert "--by" in sentence


def test_many_cells_are_not_all_named() -> None:
    scales = np.logspace(-3, 3, 10)[:, None]
    cells = scales * np.random.default_rng(0).normal(size=(2, 10, 6))
    found = unequal_cells(arm(*cells[0]), arm(*cells[1]))
    assert found is not None
    assert "and 4 more" in unlike_sentence(found, "")
    assert len(found.ratios) == 10


def test_a_look_is_one_of_so_many() -> None:
    assert look_title(InterimLook((8, 12, 16), 2, 1.0)) == "look 2 of at most 3"


@cache
def published(setting: str = "cifar10") -> Comparison:
    table = published_table()
    table = table[table["setting"] == setting]
    return audit(table, "accuracy", "margin_type", "subtract", "stability", resamples=100).comparisons[0]


def table_of(**arms: list[float]) -> pd.DataFrame:
    rows = [{"arm": arm, "seed": k, "y": y} for arm, values in arms.items() for k, y in enumerate(values)]
    return pd.DataFrame(rows)


def verdict_of(new: list[float], old: list[float]) -> str:
    return audit(table_of(new=new, old=old), "y", "arm", "old", resamples=100).comparisons[0].verdict


def test_a_verdict_has_the_answer_first_and_then_how_sure_it_is() -> None:
    c = published()
    assert c.verdict.startswith("Shown: the variance under clamp is ")
    for said in ("plain variances: 8.22 times", "5.9 times (p = 0.003)", "can be detected (power 0.8)"):
        assert said in c.verdict
    assert "Neither is shown to be better on average" in c.verdict
    assert any("correlate by 0.81" in warning for warning in c.warnings)
    small = replace(c, word="shown to be small").verdict
    assert small.startswith("Shown to be small: neither variance is more than 2 times the other; ")
    assert verdict_of([1.0, 2], [1.0, 5]).startswith("Open: ")


def test_a_ratio_below_one_is_told_the_other_way_round_with_its_interval() -> None:
    c = published("fashion-mnist")
    assert c.headline.ratio is not None
    assert c.headline.interval is not None
    low, high = 1 / c.headline.interval.high, 1 / c.headline.interval.low
    assert f"at most {1 / c.headline.at_least:.3g} times as large" in c.verdict  # type: ignore[operator]
    assert f"under subtract is {1 / c.headline.ratio:.3g} times that under clamp" in c.verdict
    assert f"[{low:.3g}, {high:.0f}]" in c.verdict


def test_no_spread_is_a_sentence() -> None:
    assert "All values of old are equal" in verdict_of([1.0, 2, 3], [5.0, 5, 5])
    assert "Neither arm has any spread" in verdict_of([2.0, 2, 2], [5.0, 5, 5])
    assert "single seed of new" in verdict_of([1.0], [1.0, 2.0, 3.0])


def test_what_pairs_have_bought_is_of_the_interval_before_it_is_adjusted() -> None:
    rng = np.random.default_rng(0)
    values = {g: list(rng.normal(size=6)) for g in ("a", "b", "ref")}
    several = audit(table_of(**values), "y", "arm", "ref", resamples=100).to_text(details=True, width=1000)
    assert several.count("were used as pairs: the interval, before it is adjusted, is") == 1
    assert several.count("were used as pairs: the interval is") == 1  # Holm leaves the last as it is
    assert "used as pairs: the interval is" in verdict_of(values["a"], values["ref"])


def test_copies_are_called_copies() -> None:
    rows = table_of(new=list(RNG.normal(size=6)), old=list(RNG.normal(size=6)))
    twice = pd.concat([rows.assign(mode="x"), rows.assign(mode="y")])
    warnings = audit(twice, "y", "arm", "old", "mode", resamples=100).comparisons[0].warnings
    assert any("copies, not further runs" in warning for warning in warnings)
    assert copies_note(16, 16, "B", "A") == (
        "All 16 runs of B have the setting, seed and value of a run of A: they are copies, or repeat it to "
        "the last digit, and are no further evidence."
    )


def test_components_say_where_the_effect_sits() -> None:
    found = components_of(*paper_arms("cifar10"))
    assert found is not None
    assert found.comparisons[0].sentence == (
        "clamp against subtract: the effect sits between seeds (0.896 against about 0, p = 0.011), not in "
        "same-seed noise (0.204 against 0.146, p = 0.543)."
    )
    seeds = np.array([0, 1, 2, 0, 1, 2])
    for values, blocks, said in (
        ([1.0, 2, 4, 1, 2, 4], [0, 0, 0, 1, 1, 1], "Runs of equal seeds are equal in all blocks: copies"),
        ([3.0] * 6, [0] * 6, "no variance to split"),
    ):
        sample = Sample("a", np.array(values), np.array(blocks), {"seed": seeds})
        assert said in split(sample, 0.95).arm.sentence


def test_sets_are_asked_two_questions() -> None:
    found = compare(OLD, NEW, value="score", group="arm", baseline="a")
    assert found.answer.startswith(
        "Did the spread change from A to B? 2 comparisons, adjusted together (Holm): "
    )
    assert "Do they agree on " in found.answer
    assert any("as if they were independent" in note for note in found.notes)
    flat = OLD.assign(score=OLD["score"].where(OLD["arm"] == "b", 0.8))
    untested = compare(flat, NEW, value="score", group="arm", baseline="a").agreements[0].verdict
    assert untested == "Not tested: no ratio with an interval in A."
    more = compare(OLD, runs({"a": 1, "b": 2, "d": 1}), value="score", group="arm", baseline="a")
    assert "Only in B: arm = d." in more.notes
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_strata_together_and_repeated() -> None:
    rng = np.random.default_rng(0)
    tables = [table_of(a=list(3 * rng.normal(size=8)), b=list(rng.normal(size=8))).assign(d=d) for d in "xyz"]
    result = audit(pd.concat(tables), "y", "arm", "b", by="d", resamples=100)
    said = together(result.forests[0], "arm")
    assert said.startswith("Over 3 strata the variance under a is on average ")
    (note,) = repeated_notes({(("2",), "a"): ("1",)}, "arm", ["margin"])
    assert note.startswith("margin = 2 has the runs of a that margin = 1 has: ")


def test_looks_are_counted() -> None:
    assert looks_note(InterimLook((8, 12, 16, 20), 3, 1.0)).startswith(
        "Look 3 of at most 4, at 8, 12, 16 of at most 20 seeds per arm: the headline's p"
    )
