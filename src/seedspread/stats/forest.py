"""Several comparisons together: Holm's adjustment, the forest of log ratios, heterogeneity."""

import numpy as np
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.multitest import multipletests

from seedspread.stats.arms import Floats
from seedspread.stats.result import Forest, Interval, TestResult


def holm(p_values: list[float | None]) -> list[float | None]:
    """Holm's adjusted p values; a comparison without a p value is not one of the family."""
    tested = [p for p in p_values if p is not None]
    if not tested:
        return p_values
    adjusted = iter(multipletests(tested, method="holm")[1])
    return [None if p is None else float(next(adjusted)) for p in p_values]


def forest(titles: list[str], tests: list[TestResult], level: float) -> Forest | None:
    """Combines log variance ratios; None unless two or more have a standard error."""
    usable = [(t, test) for t, test in zip(titles, tests, strict=True) if test.std_error and test.estimate]
    if len(usable) < 2:
        return None
    logs = np.log(np.array([test.estimate for _, test in usable], dtype=float))
    errors = np.array([test.std_error for _, test in usable], dtype=float)
    q, df, p, i_squared, pooled, error = combine(logs, errors)
    half = stats.norm.ppf((1 + level) / 2) * error
    return Forest(
        titles=tuple(title for title, _ in usable),
        log_ratios=tuple(map(float, logs)),
        standard_errors=tuple(map(float, errors)),
        q=q,
        df=df,
        p=p,
        i_squared=i_squared,
        pooled=float(np.exp(pooled)),
        interval=Interval(float(np.exp(pooled - half)), float(np.exp(pooled + half)), level),
    )


def combine(effects: Floats, errors: Floats) -> tuple[float, int, float, float, float, float]:
    """Cochran's Q, its df and p, I^2, and the random-effects mean (DerSimonian and Laird) with its error."""
    with np.errstate(invalid="ignore", divide="ignore"):  # equal effects: its second model has no weights
        combined = combine_effects(effects, errors**2, method_re="chi2", use_t=False)
    df, q = len(effects) - 1, float(combined.q)
    p = float(stats.chi2.sf(q, df))
    if q <= df:  # no more variation than chance makes: the two models are one
        return q, df, p, 0.0, float(combined.mean_effect_fe), float(combined.sd_eff_w_fe)
    return q, df, p, 1 - df / q, float(combined.mean_effect_re), float(combined.sd_eff_w_re)
