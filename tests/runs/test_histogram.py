"""Rates from histograms, without torch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seedspread.runs.histogram import rate_from_histogram, rates_from_histograms


@given(st.integers(0, 2**32 - 1), st.integers(0, 1000))
def test_on_a_bins_edge_the_rate_is_the_count(seed: int, steps: int) -> None:
    margin = steps / 1000
    values = np.random.default_rng(seed).uniform(-1, 1, 500)
    counts, _ = np.histogram(values, bins=2000, range=(-1, 1))
    edge = np.histogram_bin_edges([], bins=2000, range=(-1, 1))[2000 - steps]
    assert np.isclose(rate_from_histogram(counts, margin), (values >= edge).mean())


def test_inside_a_bin_it_is_linear_and_many_are_as_one() -> None:
    histograms = np.array([[[0, 4, 0, 0], [1, 1, 1, 1]], [[0, 0, 0, 0], [0, 0, 0, 8]]])
    rates = rates_from_histograms(histograms, 1.25)
    np.testing.assert_allclose(rates, [[0.5, 0.625], [np.nan, 1.0]])
    assert rates_from_histograms(histograms, 9.0)[0, 0] == 1.0
    assert rates_from_histograms(histograms, 0.0)[0, 1] == 0.0
