"""Means over seeds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seedspread.stats.seed_summaries import mean_and_sd


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 3))
def test_repeating_every_run_changes_nothing(seed: int, seeds: int, times: int) -> None:
    values = list(np.random.default_rng(seed).normal(size=(seeds, 2, 3)))
    names = [str(i) for i in range(seeds)]
    once, again = mean_and_sd(names, values), mean_and_sd(names * times, values * times)
    assert once.sd is not None
    assert again.sd is not None
    np.testing.assert_allclose(again.mean, once.mean)
    np.testing.assert_allclose(again.sd, once.sd)
    np.testing.assert_allclose(once.sd, np.stack(values).std(axis=0, ddof=1))


def test_a_single_seed_has_no_spread() -> None:
    band = mean_and_sd(["1", "1"], [np.array([1.0]), np.array([3.0])])
    assert (band.mean.tolist(), band.sd, band.seeds) == ([2.0], None, 1)
