"""Every distribution against `scipy.stats`, whose arguments it takes in the same order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seedspread.stats import distributions

SHARES = st.floats(1e-6, 1 - 1e-6)
DF = st.floats(0.5, 1e5)


@given(share=SHARES, df=DF, below=DF)
@pytest.mark.parametrize("name", ["t", "f", "chi2"])
def test_quantiles_and_tails_are_those_of_scipy_stats(
    name: str, share: float, df: float, below: float
) -> None:
    shape, theirs = (df, below) if name == "f" else (df,), getattr(stats, name)
    at = theirs.ppf(share, *shape)
    for method, value in [("ppf", share), ("isf", share), ("cdf", at), ("sf", at)]:
        ours = getattr(distributions, f"{name}_{method}")(value, *shape)
        assert ours == pytest.approx(getattr(theirs, method)(value, *shape), rel=1e-12)


@pytest.mark.parametrize("name", ["f", "chi2"])
def test_nothing_lies_below_zero(name: str) -> None:
    shape = (3.0, 4.0) if name == "f" else (3.0,)
    assert getattr(distributions, f"{name}_sf")(-0.1, *shape) == 1
    assert getattr(distributions, f"{name}_cdf")(-0.1, *shape) == 0
