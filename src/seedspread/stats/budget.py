"""The questions that `seedspread seeds` answers, in words."""

from dataclasses import dataclass
from typing import Any

from seedspread.errors import one_of
from seedspread.stats.power import (
    SHAPES,
    BudgetError,
    check_design,
    detectable_ratio,
    f_power,
    seeds_for_ratio,
    seeds_for_standard_error,
    simulated_detectable,
    simulated_power,
    simulated_seeds,
)


@dataclass(frozen=True)
class Answer:
    """A sentence for people, and the values in it for programs."""

    text: str
    values: dict[str, Any]


def answer(
    sd: float | None,
    se: float | None,
    ratio: float | None,
    n: int | None,
    n_reference: int | None,
    power: float,
    alpha: float,
    shape: str,
) -> Answer:
    """Chooses the question from what is given."""
    try:
        one_of("shape", shape, SHAPES)
    except ValueError as error:
        raise BudgetError(str(error)) from None
    if n_reference is not None and n_reference < 2:
        raise BudgetError(f"a variance needs at least two seeds per arm; got --n-reference {n_reference}")
    if sd is not None or se is not None:
        return _standard_error(sd, se)
    if ratio is not None and n is not None:
        return _power(ratio, (n, n_reference or n), alpha, shape)
    if ratio is not None:
        return _seeds(ratio, power, alpha, n_reference, shape)
    if n is not None:
        return _detectable((n, n_reference or n), power, alpha, shape)
    raise BudgetError("say what is wanted: --sd with --se, --ratio, --n, or --ratio with --n")


def _standard_error(sd: float | None, se: float | None) -> Answer:
    if sd is None or se is None:
        raise BudgetError("a standard error needs both --sd and --se")
    n = seeds_for_standard_error(sd, se)
    text = (
        f"{n} seeds: the mean of {n} runs with sd {sd:g} has a standard error of {sd / n**0.5:.3g} "
        f"(at most {se:g} was asked for; (sd/se)² = {(sd / se) ** 2:.4g})."
    )
    if n < 5:
        text += f" From {n} seeds the sd itself is hardly known; take five or more if it is to be estimated."
    return Answer(text, {"seeds": n, "sd": sd, "se": se, "reached": sd / n**0.5})


def _method(shape: str) -> str:
    return (
        "exact, F test on normal values"
        if shape == "normal"
        else f"simulated, seed jackknife on {shape} values"
    )


def _power(ratio: float, seeds: tuple[int, int], alpha: float, shape: str) -> Answer:
    check_design(seeds, 0.999, alpha)
    if not 0 < ratio < float("inf"):
        raise BudgetError(f"the ratio must be positive; got {ratio:g}")
    found = f_power(ratio, seeds, alpha) if shape == "normal" else simulated_power(ratio, seeds, shape, alpha)
    text = (
        f"Power {found:.2f}: {_arms(seeds)} see a variance ratio of {ratio:g} that often at level {alpha:g} "
        f"({_method(shape)})."
    )
    return Answer(text, _values(seeds, ratio, found, alpha, shape))


def _seeds(ratio: float, power: float, alpha: float, n_reference: int | None, shape: str) -> Answer:
    if shape == "normal":
        seeds = seeds_for_ratio(ratio, power, alpha, n_reference)
        reached = f_power(ratio, seeds, alpha)
    else:
        seeds, reached = simulated_seeds(ratio, power, alpha, n_reference, shape)
    text = (
        f"{_arms(seeds)}: power {reached:.2f} for a variance ratio of {ratio:g} "
        f"({ratio**0.5:.3g} times the sd) at level {alpha:g} ({_method(shape)})."
    )
    return Answer(text, _values(seeds, ratio, reached, alpha, shape))


def _detectable(seeds: tuple[int, int], power: float, alpha: float, shape: str) -> Answer:
    if shape == "normal":
        ratio = detectable_ratio(seeds, power, alpha)
    else:
        ratio = simulated_detectable(seeds, power, alpha, shape)
    text = (
        f"{_arms(seeds)} detect variance ratios above {ratio:.3g} ({ratio**0.5:.3g} times the sd) with power "
        f"{power:g} at level {alpha:g} ({_method(shape)})."
    )
    return Answer(text, _values(seeds, ratio, power, alpha, shape))


def _arms(seeds: tuple[int, int]) -> str:
    return f"{seeds[0]} seeds per arm" if seeds[0] == seeds[1] else f"{seeds[0]} and {seeds[1]} seeds"


def _values(seeds: tuple[int, int], ratio: float, power: float, alpha: float, shape: str) -> dict[str, Any]:
    return {
        "seeds": list(seeds),
        "ratio": ratio,
        "power": power,
        "alpha": alpha,
        "shape": shape,
        "method": _method(shape),
    }
