"""False alarms and power of the F test for published sds, by the excess kurtosis that it assumes."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy import stats

from benchmarks.script import AsJson, main
from seedspread.analysis.published import EXCESS_KURTOSIS
from seedspread.stats.dispersion import degrees_of_freedom

SIZES = (5, 10, 20, 40)
Floats = NDArray[np.float64]
SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t, 5 degrees of freedom": lambda rng, size: rng.standard_t(5, size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "uniform": lambda rng, size: rng.random(size=size),
}


def rejected(shape: str, n: int, ratio: float, kurtosis: float, draws: int) -> float:
    """Return the share of experiments in which the F test at 5% rejects equal variances."""
    samples = SHAPES[shape](np.random.default_rng([n, draws]), (2, draws, n))
    variances = samples.var(axis=2, ddof=1)
    df = degrees_of_freedom(n - 1, n, kurtosis)
    tails = stats.f.sf(ratio * variances[0] / variances[1], df, df)
    return float((np.minimum(tails, 1 - tails) < 0.025).mean())


def run(
    draws: Annotated[int, typer.Option(min=100, help="Simulated experiments per cell.")] = 20_000,
    ratio: Annotated[float, typer.Option(min=0.01, help="The variance ratio; 1 counts false alarms.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Print how often the F test rejects, in %, plain and with the kurtosis of `check` (seconds)."""
    done: list[dict[str, Any]] = [
        {"shape": shape, "kurtosis": kurtosis, "n": n, "share": rejected(shape, n, ratio, kurtosis, draws)}
        for shape in SHAPES
        for kurtosis in (0.0, EXCESS_KURTOSIS)
        for n in SIZES
    ]
    if as_json:
        print(json.dumps(done, indent=2))
        return
    print("| shape | excess kurtosis | " + " | ".join(f"{n} seeds" for n in SIZES) + " |")
    print("|---" * (2 + len(SIZES)) + "|")
    for start in range(0, len(done), len(SIZES)):
        own = done[start : start + len(SIZES)]
        shares = " | ".join(f"{100 * cell['share']:.1f}" for cell in own)
        print(f"| {own[0]['shape']} | {own[0]['kurtosis']:g} | {shares} |")


if __name__ == "__main__":
    main(run)
