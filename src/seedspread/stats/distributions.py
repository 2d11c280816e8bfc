"""Student's t, F and chi-squared distributions: the functions of `scipy.stats`, with the same arguments.

They call `scipy.special`, as `scipy.stats` itself does; importing that would make an audit of a small table
take a fifth longer.
"""

from typing import Any

import numpy as np
from scipy import special


def t_sf(x: Any, df: Any) -> Any:
    return special.stdtr(df, -np.asarray(x))


def t_ppf(q: Any, df: Any) -> Any:
    return special.stdtrit(df, q)


def t_isf(q: Any, df: Any) -> Any:
    return -special.stdtrit(df, q)


def f_cdf(x: Any, df: Any, df_below: Any) -> Any:
    return special.fdtr(df, df_below, np.maximum(x, 0.0))


def f_sf(x: Any, df: Any, df_below: Any) -> Any:
    return special.fdtrc(df, df_below, np.maximum(x, 0.0))


def f_ppf(q: Any, df: Any, df_below: Any) -> Any:
    return special.fdtri(df, df_below, q)


def f_isf(q: Any, df: Any, df_below: Any) -> Any:
    return special.fdtri(df, df_below, 1.0 - np.asarray(q))


def chi2_cdf(x: Any, df: Any) -> Any:
    return special.chdtr(df, np.maximum(x, 0.0))


def chi2_sf(x: Any, df: Any) -> Any:
    return special.chdtrc(df, np.maximum(x, 0.0))


def chi2_ppf(q: Any, df: Any) -> Any:
    return 2 * special.gammaincinv(np.asarray(df) / 2, q)


def chi2_isf(q: Any, df: Any) -> Any:
    return special.chdtri(df, q)
