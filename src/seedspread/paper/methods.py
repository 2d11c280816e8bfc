"""How the paper says its numbers were computed, each as a function of published values."""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import stats

from seedspread.stats.arms import Floats
from seedspread.stats.classic import f_p_value, two_way

Method = Callable[..., float]


def _first(method: Callable[[Floats], float]) -> Method:
    return lambda first, *_: float(method(first))


def _second(method: Callable[[Floats], float]) -> Method:
    return lambda _, second: float(method(second))


def _variance(x: Floats) -> float:
    return float(x.var(ddof=1))


def _sd(x: Floats) -> float:
    return float(x.std(ddof=1))


def _ratio(x: Floats, y: Floats) -> float:
    return _variance(x) / _variance(y)


def _f_p(x: Floats, y: Floats) -> float:
    return f_p_value(_ratio(x, y), (len(x) - 1, len(y) - 1))


def _levene(center: str) -> Method:
    return lambda *groups: float(stats.levene(*groups, center=center).pvalue)


def _welch(part: str) -> Method:
    return lambda x, y: _welch_parts(tuple(x), tuple(y))[part]


@cache
def _welch_parts(x: tuple[float, ...], y: tuple[float, ...]) -> dict[str, float]:
    """All at once: the five are asked for at the same points."""
    test = stats.ttest_ind(x, y, equal_var=False)
    low, high = test.confidence_interval(0.95)
    parts = {"t": test.statistic, "df": test.df, "p": test.pvalue, "low": low, "high": high}
    return {name: float(value) for name, value in parts.items()}


def _two_way(center: str, effect: int) -> Method:
    """Of the cells clamp/detach, clamp/direct, subtract/detach, subtract/direct."""

    def compute(*cells: Floats) -> float:
        middle = np.mean if center == "mean" else np.median
        levels = ((0, 0), (0, 1), (1, 0), (1, 1))
        effects = two_way([(a, b, np.abs(c - middle(c))) for (a, b), c in zip(levels, cells, strict=True)])
        if isinstance(effects, str):
            return float("nan")
        f, df = effects[effect]
        return float("nan") if f is None else float(stats.f.sf(f, *df))

    return compute


def _margin_groups(center: str) -> Method:
    return lambda a, b, c, d: _levene(center)(np.concatenate([a, b]), np.concatenate([c, d]))


def _stability_groups(center: str) -> Method:
    return lambda a, b, c, d: _levene(center)(np.concatenate([a, c]), np.concatenate([b, d]))


def bootstrap_ends(x: Floats, y: Floats) -> tuple[float, float]:
    """The appendix's procedure, drawn as a script would: numpy's legacy generator, started with 42."""
    return _bootstrap_ends(tuple(x), tuple(y))


@cache
def _bootstrap_ends(x: tuple[float, ...], y: tuple[float, ...]) -> tuple[float, float]:
    generator = np.random.RandomState(42)
    # First one group, then the other, resample by resample: the order decides the draws.
    drawn = [[generator.randint(0, len(group), len(group)) for group in (x, y)] for _ in range(10_000)]
    first, second = (np.array(group)[[pair[k] for pair in drawn]] for k, group in enumerate((x, y)))
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample of one value over and over
        ratios = first.var(axis=1, ddof=1) / second.var(axis=1, ddof=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def _margin(layer: int) -> Method:
    return lambda ends, layers: float(ends[0] + (ends[1] - ends[0]) * layer / (layers[0] - 1))


def _expected_pairs(batch: Floats, classes: Floats) -> float:
    """Ordered pairs of images of one class in a batch drawn without replacement."""
    n, b = classes.sum(), batch[0]
    return float(b * (b - 1) * (classes * (classes - 1)).sum() / (n * (n - 1)))


def _balanced_pairs(batch: Floats, classes: Floats) -> float:
    """The same in a batch that holds equally many images of each class."""
    return float(batch[0] * (batch[0] / len(classes) - 1))


# The effects of the two-way analysis, in its order.
_EFFECTS = {"margin": "margin type", "stability": "stability mode", "interaction": "interaction"}

METHODS: dict[str, Method] = {
    "size": _first(len),
    "mean": _first(np.mean),
    "sd": _first(_sd),
    "variance": _first(_variance),
    "first_size": _first(len),
    "second_size": _second(len),
    "first_mean": _first(np.mean),
    "first_variance": _first(_variance),
    "second_variance": _second(_variance),
    "ratio": _ratio,
    "f_p": _f_p,
    "f_df_first": lambda x, _: len(x) - 1.0,
    "f_df_second": lambda _, y: len(y) - 1.0,
    "levene_p": _levene("mean"),
    "brown_forsythe_p": _levene("median"),
    **{
        f"two_way_{center}s_{effect}": _two_way(center, i)
        for center in ("mean", "median")
        for i, effect in enumerate(_EFFECTS)
    },
    "one_way_means_margin": _margin_groups("mean"),
    "one_way_means_stability": _stability_groups("mean"),
    "one_way_medians_margin": _margin_groups("median"),
    "one_way_medians_stability": _stability_groups("median"),
    "four_cells_means": _levene("mean"),
    "four_cells_medians": _levene("median"),
    "welch_t": _welch("t"),
    "minus_welch_t": lambda x, y: -_welch("t")(x, y),
    "welch_df": _welch("df"),
    "welch_p": _welch("p"),
    "welch_low": _welch("low"),
    "welch_high": _welch("high"),
    "shapiro_w": _first(lambda x: stats.shapiro(x).statistic),
    "shapiro_p": _first(lambda x: stats.shapiro(x).pvalue),
    "bootstrap_low": lambda x, y: bootstrap_ends(x, y)[0],
    "bootstrap_high": lambda x, y: bootstrap_ends(x, y)[1],
    "reduction": lambda x, y: float(100 * (1 - y[0] / x[0])),
    "quotient": lambda x, y: float(x[0] / y[0]),
    "difference": lambda x, y: float(x[0] - y[0]),
    "difference_of_means": lambda x, y: float(x.mean() - y.mean()),
    "first_entry": _first(lambda x: x[0]),
    "expected_pairs": _expected_pairs,
    "balanced_pairs": _balanced_pairs,
    "tokens": _first(lambda x: (x[0] / x[1]) ** 2),
    "remainder": _first(lambda x: x[0] - x[1]),
    "product": _first(np.prod),
    "total": _first(np.sum),
    "total_without_dose_response": _first(lambda x: x.sum() - x[1]),
    "seeds": lambda sd, se: float((sd[0] / se[0]) ** 2),
    **{f"margin_{layer}": _margin(layer) for layer in range(8)},
}

# What a method is called where a person reads it.
NAMES = {
    **{
        f"two_way_{centers}_{effect}": f"p, {name}, two-way on deviations from cell {centers}"
        for centers in ("means", "medians")
        for effect, name in _EFFECTS.items()
    },
    "one_way_means_margin": "one-way Levene test of clamp (14) against subtract (14)",
    "one_way_means_stability": "one-way Levene test of detach (14) against direct (14)",
    "one_way_medians_margin": "one-way Brown-Forsythe test of clamp (14) against subtract (14)",
    "one_way_medians_stability": "one-way Brown-Forsythe test of detach (14) against direct (14)",
    "four_cells_means": "one-way Levene test of the four cells",
    "four_cells_medians": "one-way Brown-Forsythe test of the four cells",
    "levene_p": "p, Levene",
    "brown_forsythe_p": "Brown-Forsythe test (medians)",
    "minus_welch_t": "t of subtract minus clamp",
    "ratio": "variance ratio",
    "f_p": "p, F test",
    "f_df_first": "F, numerator df",
    "f_df_second": "F, denominator df",
    "welch_t": "Welch t, clamp minus subtract",
    "welch_df": "Welch df",
    "welch_p": "p, Welch",
    "welch_low": "interval of the means, low",
    "welch_high": "interval of the means, high",
    "shapiro_w": "Shapiro-Wilk W",
    "shapiro_p": "p, Shapiro-Wilk",
    "bootstrap_low": "bootstrap interval, low",
    "bootstrap_high": "bootstrap interval, high",
    "first_size": "n, clamp",
    "second_size": "n, subtract",
    "first_mean": "mean, clamp",
    "first_variance": "variance, clamp",
    "second_variance": "variance, subtract",
    "size": "n",
    "expected_pairs": "positive pairs in a random batch",
    "balanced_pairs": "pairs in a batch with equal class counts",
    "total": "runs in all",
    "total_without_dose_response": "runs without the dose response",
    "difference_of_means": "difference",
    "first_entry": "layer 0",
    "seeds": "seeds, (sd/se)²",
}
