"""Every distribution against `scipy.stats`, whose arguments it takes in the same order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seedspread.stats import distributions

SHARES = st.floats(1e-6, 1 - 1e-6)
DF = st.floats(0.5, 1e5)


@given(share=SHARES, df=DF, below=DF)
@pytest.mark.parametrize(
    "name",
    [
        "t_sf",
        "t_ppf",
        "t_isf",
        *(f"{name}_{kind}" for name in ("f", "chi2") for kind in ("cdf", "sf", "ppf", "isf")),
    ],
)
def test_it_is_that_of_scipy_stats(name: str, share: float, df: float, below: float) -> None:
    distribution, kind = name.split("_")
    theirs, shape = getattr(stats, distribution), (df, below) if distribution == "f" else (df,)
    at = share if kind in ("ppf", "isf") else theirs.ppf(share, *shape)
    expected = getattr(theirs, kind)(at, *shape)
    assert getattr(distributions, name)(at, *shape) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["f", "chi2"])
def test_nothing_lies_below_zero(name: str) -> None:
    shape = (3.0, 4.0) if name == "f" else (3.0,)
    assert getattr(distributions, f"{name}_sf")(-0.1, *shape) == 1
    assert getattr(distributions, f"{name}_cdf")(-0.1, *shape) == 0
