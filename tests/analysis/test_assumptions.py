"""What a test assumes is *met* only where it was tested; what no table can tell is not testable."""

import numpy as np

from seedspread.stats import classic
from seedspread.stats.result import TestResult
from tests.stats.groups import group_of

X, Y = np.random.default_rng(5).normal(size=(2, 30))


def results(normal: bool | None, independent: bool | None) -> dict[str, TestResult]:
    """Every test of spread and means, of 30 seeds that have one run each."""
    x, y = group_of(X), group_of(Y, name="b")
    tests = (
        classic.seed_jackknife(x, y, 0.95),
        classic.pitman_morgan(x, y, 0.95, normal),
        classic.seed_means_test(x, y, 0.95),
        classic.f_test(x, y, 0.95, normal, independent),
        classic.deviations_test(x, y, "mean", independent),
        classic.deviations_test(x, y, "median", independent),
        classic.welch(x, y, 0.95, independent),
    )
    return {test.key: test for test in tests}


def test_independent_seeds_are_never_met() -> None:
    met = {key for key, test in results(normal=True, independent=True).items() if test.assumptions_met}
    assert met == {"f", "pitman_morgan"}  # normality was tested for these


def test_without_a_test_of_normality_nothing_is_met() -> None:
    assert not any(test.assumptions_met for test in results(normal=None, independent=True).values())


def test_what_the_data_contradict_is_not_met() -> None:
    found = results(normal=False, independent=False)
    keys = ("f", "pitman_morgan", "levene", "welch")
    assert all(found[key].assumptions_met is False for key in keys)


def test_no_test_claims_to_be_free_of_the_shape() -> None:
    """Unlike shapes in the two groups are taken for a ratio by all of them."""
    found = results(None, None)
    assert "like shape" in found["seed_jackknife"].assumes
    assert not any("assumption about" in test.why for test in found.values())


def test_few_runs_cannot_show_that_values_are_normal() -> None:
    """At three runs Shapiro and Wilk's test finds only 6% of exponential samples; it may still contradict."""
    few, many, wild = group_of(X[:7]), group_of(X[:8]), group_of([0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 9.0])
    assert classic.are_normal((few, many), [*map(classic.shapiro, (few, many))]) is None
    assert classic.are_normal((many, many), [*map(classic.shapiro, (many, many))]) is True
    assert classic.are_normal((wild, many), [*map(classic.shapiro, (wild, many))]) is False
    constant = group_of([1.0] * 9)
    assert classic.are_normal((constant, many), [*map(classic.shapiro, (constant, many))]) is None
