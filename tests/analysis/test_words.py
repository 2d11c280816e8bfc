"""Sentences about results: what they say, and that they say no more than what is shown."""

from dataclasses import replace

import numpy as np
import pytest

from seedspread.analysis.words import (
    collapse_sentence,
    failure_sentence,
    floor_sentence,
    ladder_sentence,
    look_title,
    performance_sentence,
    unlike_sentence,
)
from seedspread.stats.arms import Arm
from seedspread.stats.cells import unlike_cells
from seedspread.stats.collapse import detect_collapse
from seedspread.stats.failures import failures
from seedspread.stats.floor import floor_from_accuracies, floor_from_predictions
from seedspread.stats.ladder import ladder
from seedspread.stats.outcomes import Better, FailureModel, Performance
from seedspread.stats.performance import performance
from seedspread.stats.result import Looks
from tests.stats.arms import arm, paper_arms

SOUND = [60.0, 61.2, 62.1, 60.7, 63.0, 61.9, 62.6, 60.3]
HIGHER: Better = "higher"
LOWER: Better = "lower"


def judge(x: Arm, y: Arm, better: Better = HIGHER) -> Performance:
    return performance(x, y, better, 0.95)


def failed(x: Arm, y: Arm, chance: float | None = None) -> FailureModel:
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


def test_the_sentence_gives_each_assumption_its_p() -> None:
    sentence = ladder_sentence(ladder(*paper_arms()))
    for said in ("independent runs 0.0030", "taken out 0.0009", "correlation 0.0018", "copies 0.0216"):
        assert said in sentence
    assert "normal values given up instead 0.0274; with whole seeds 0.0702" in sentence
    assert "overstates" not in sentence
    assert ladder_sentence(()) == ""


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
    floor = floor_from_predictions("a", np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool))
    assert floor.remaining is not None
    assert floor.remaining < 0
    assert "below zero" in floor_sentence(floor)


def test_a_floor_that_is_a_bound() -> None:
    floor = floor_from_accuracies("a", np.array([80.0, 80, 80, 80.4, 79.6]), 10_000, 100.0)
    assert floor_sentence(floor, "depth = 2") == (
        "depth = 2: the variance 0.08 is no larger than what 10,000 test examples can make by chance (0.16); "
        "it may be nothing else"
    )
    wide = floor_from_accuracies("a", np.array([70.0, 80, 90]), 10_000, 100.0)
    assert floor_sentence(wide) == "a: 10,000 test examples make at most 0.16 of the variance 100"


def test_unlike_cells_are_named() -> None:
    scales, like = np.array([0.15, 3.0, 120.0])[:, None], np.random.default_rng(11).normal(size=(2, 3, 8))
    x, y = arm(*(scales * like[0]), name="clamp"), arm(*(2 * scales * like[1]), name="2")
    found = unlike_cells(x, y)
    assert found is not None
    sentence = unlike_sentence(found, "depth")
    low, high = (c.var(ddof=1) for c in (x.cells[0], x.cells[2]))
    assert f"the variance of clamp goes from {low:.3g} (0) to {high:.3g} (2)" in sentence
    assert "; the variance of depth = 2 goes from" in sentence
    assert "--by" in sentence


def test_many_cells_are_not_all_named() -> None:
    scales = np.logspace(-3, 3, 10)[:, None]
    cells = scales * np.random.default_rng(0).normal(size=(2, 10, 6))
    found = unlike_cells(arm(*cells[0]), arm(*cells[1]))
    assert found is not None
    assert "and 4 more" in unlike_sentence(found, "")
    assert len(found.ratios) == 10


def test_a_look_is_one_of_so_many() -> None:
    assert look_title(Looks((8, 12, 16), 2, 1.0)) == "look 2 of at most 3"
