"""The answers of `seedspread seeds`, in words."""

from dataclasses import dataclass
from typing import Any

from seedspread.stats.power import (
    BudgetError,
    check_design,
    detectable_ratio,
    f_power,
    seeds_for_ratio,
    seeds_for_standard_error,
)
from seedspread.stats.scale import planning


@dataclass(frozen=True)
class SeedBudget:
    """Sentences for people, one per question, and the values in them for programs."""

    text: str
    values: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<SeedBudget: {self.text}>"


@dataclass(frozen=True)
class Design:
    """What an experiment is like, apart from its number of seeds; see `planning.power`."""

    blocks: int = 1
    pairs: float | None = None
    twins: float = 0.0
    alpha: float = 0.05
    shape: str = "normal"

    @property
    def options(self) -> dict[str, Any]:
        """As `planning` takes them."""
        return {
            "blocks": self.blocks,
            "pairs": self.pairs,
            "twins": self.twins,
            "alpha": self.alpha,
            "shape": self.shape,
        }

    @property
    def suits_f(self) -> bool:
        """Whether the F test would do: normal values, own seeds, one block."""
        return self.shape == "normal" and self.pairs is None and self.blocks == 1

    @property
    def method(self) -> str:
        """How its power is known."""
        parts = [f"{self.shape} values"]
        if self.pairs is not None:
            parts.append(f"arms that share seeds and correlate by {self.pairs:g}")
        if self.blocks > 1:
            parts.append(f"{self.blocks} blocks with twins that correlate by {self.twins:g}")
        return f"scale ratio, the audit's headline, simulated on {', '.join(parts)}"


def seed_budget(
    sd: float | None = None,
    se: float | None = None,
    ratio: float | None = None,
    n: int | None = None,
    n_baseline: int | None = None,
    power: float = 0.8,
    design: Design | None = None,
) -> SeedBudget:
    """Answers the questions that the arguments pose: for a standard error, and for a ratio of variances."""
    if n_baseline is not None and n_baseline < 2:
        raise BudgetError(f"a variance needs at least two seeds per arm; got --n-baseline {n_baseline}")
    for_mean = sd is not None or se is not None
    if ratio is None and n is None:
        if n_baseline is not None or not for_mean:
            raise BudgetError("say what is wanted: --sd with --se, --ratio, --n, or --ratio with --n")
        return _standard_error(sd, se)
    design = design or Design()
    if n is None:
        spread = _seeds(ratio or 0.0, power, n_baseline, design)
    elif ratio is None:
        spread = _detectable((n, n_baseline or n), power, design)
    else:
        spread = _power(ratio, (n, n_baseline or n), design)
    if not for_mean:
        return spread
    mean = _standard_error(sd, se)
    return SeedBudget(f"{mean.text}\n{spread.text}", {"standard_error": mean.values, "spread": spread.values})


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


def _power(ratio: float, seeds: tuple[int, int], design: Design) -> SeedBudget:
    check_design(seeds, 0.999, design.alpha)
    power = planning.power(ratio, seeds, **design.options)
    exact = f_power(ratio, seeds, design.alpha) if design.suits_f else None
    text = (
        f"Power {power:.2f}: {_arms(seeds)} see a variance ratio of {ratio:g} ({ratio**0.5:.3g} times the "
        f"sd) that often at level {design.alpha:g}"
    )
    return _budget(text, ".2f", _values(seeds, ratio, power, design, exact))


def _seeds(ratio: float, wanted: float, n_baseline: int | None, design: Design) -> SeedBudget:
    seeds = planning.seeds_for(ratio, wanted, n_baseline, **design.options)
    reached = planning.power(ratio, seeds, **design.options)
    exact = None
    if design.suits_f:
        exact = seeds_for_ratio(ratio, wanted, design.alpha, n_baseline)[0][0]
    text = (
        f"{_arms(seeds)}: power {reached:.2f} for a variance ratio of {ratio:g} ({ratio**0.5:.3g} times the "
        f"sd) at level {design.alpha:g}"
    )
    return _budget(text, "", _values(seeds, ratio, reached, design, exact))


def _detectable(seeds: tuple[int, int], power: float, design: Design) -> SeedBudget:
    ratio = planning.detectable(seeds, power, **design.options)
    exact = detectable_ratio(seeds, power, design.alpha) if design.suits_f else None
    text = (
        f"{_arms(seeds)} detect variance ratios above {ratio:.3g} ({ratio**0.5:.3g} times the sd) with power "
        f"{power:g} at level {design.alpha:g}"
    )
    return _budget(text, ".3g", _values(seeds, ratio, power, design, exact))


def _budget(text: str, form: str, values: dict[str, Any]) -> SeedBudget:
    exact = values["f_test"]
    f_test = "" if exact is None else f"; the F test, if values are exactly normal: {exact:{form}}"
    return SeedBudget(f"{text} ({values['method']}{f_test}).", values)


def _arms(seeds: tuple[int, int]) -> str:
    return f"{seeds[0]} seeds per arm" if seeds[0] == seeds[1] else f"{seeds[0]} and {seeds[1]} seeds"


def _values(
    seeds: tuple[int, int], ratio: float, power: float, design: Design, exact: float | None
) -> dict[str, Any]:
    """`f_test` is what the F test would need, detect or reach in place of the figure that was asked for."""
    return {
        "seeds": list(seeds),
        "ratio": ratio,
        "power": power,
        **design.options,
        "method": design.method,
        "f_test": exact,
    }
