"""The answers of `seedspread seeds`, in words."""

from dataclasses import dataclass
from typing import Any

from seedspread.errors import one_of
from seedspread.stats.power import (
    SHAPES,
    BudgetError,
    check_design,
    detectable_ratio,
    power_of,
    seeds_for_ratio,
    seeds_for_standard_error,
)


@dataclass(frozen=True)
class SeedBudget:
    """A sentence for people, and the values in it for programs."""

    text: str
    values: dict[str, Any]


def seed_budget(
    sd: float | None,
    se: float | None,
    ratio: float | None,
    n: int | None,
    n_reference: int | None,
    power: float,
    alpha: float,
    shape: str,
) -> SeedBudget:
    """Answers the question that the arguments pose: seeds, power, or the detectable ratio."""
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


def _standard_error(sd: float | None, se: float | None) -> SeedBudget:
    if sd is None or se is None:
        raise BudgetError("a standard error needs both --sd and --se")
    n = seeds_for_standard_error(sd, se)
    text = (
        f"{n} seeds: the mean of {n} runs with sd {sd:g} has a standard error of {sd / n**0.5:.3g} "
        f"(at most {se:g} was asked for; (sd/se)² = {(sd / se) ** 2:.4g})."
    )
    if n < 5:
        text += f" From {n} seeds the sd itself is hardly known; take five or more if it is to be estimated."
    return SeedBudget(text, {"seeds": n, "sd": sd, "se": se, "reached": sd / n**0.5})


def _simulated(shape: str) -> str | None:
    """The shape to simulate; of normal values the power is known exactly."""
    return None if shape == "normal" else shape


def _method(shape: str) -> str:
    simulated = f"simulated, seed jackknife on {shape} values"
    return simulated if _simulated(shape) else "exact, F test on normal values"


def _power(ratio: float, seeds: tuple[int, int], alpha: float, shape: str) -> SeedBudget:
    check_design(seeds, 0.999, alpha)
    if not 0 < ratio < float("inf"):
        raise BudgetError(f"the ratio must be positive; got {ratio:g}")
    power = power_of(ratio, seeds, alpha, _simulated(shape))
    text = (
        f"Power {power:.2f}: {_arms(seeds)} see a variance ratio of {ratio:g} that often at level {alpha:g} "
        f"({_method(shape)})."
    )
    return SeedBudget(text, _values(seeds, ratio, power, alpha, shape))


def _seeds(ratio: float, power: float, alpha: float, n_reference: int | None, shape: str) -> SeedBudget:
    seeds, reached = seeds_for_ratio(ratio, power, alpha, n_reference, _simulated(shape))
    text = (
        f"{_arms(seeds)}: power {reached:.2f} for a variance ratio of {ratio:g} "
        f"({ratio**0.5:.3g} times the sd) at level {alpha:g} ({_method(shape)})."
    )
    return SeedBudget(text, _values(seeds, ratio, reached, alpha, shape))


def _detectable(seeds: tuple[int, int], power: float, alpha: float, shape: str) -> SeedBudget:
    ratio = detectable_ratio(seeds, power, alpha, _simulated(shape))
    text = (
        f"{_arms(seeds)} detect variance ratios above {ratio:.3g} ({ratio**0.5:.3g} times the sd) with power "
        f"{power:g} at level {alpha:g} ({_method(shape)})."
    )
    return SeedBudget(text, _values(seeds, ratio, power, alpha, shape))


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
