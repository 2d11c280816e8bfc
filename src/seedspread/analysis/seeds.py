"""Number of seeds that a study needs, or what its seeds can show: `seedspread seeds`."""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from seedspread.analysis.words import seed_counts, two
from seedspread.stats import planning
from seedspread.stats.planning import BudgetError, Design
from seedspread.stats.tolerance import mean_level
from seedspread.tables.question import with_known_arguments


@dataclass(frozen=True)
class SeedBudget:
    """Sentences for people, one per question, and their numbers for programs."""

    text: str
    values: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<SeedBudget: {self.text}>"


@with_known_arguments
def seed_budget(
    sd: float | None = None,
    se: float | None = None,
    ratio: float | None = None,
    n: int | None = None,
    n_baseline: int | None = None,
    power: float = 0.8,
    design: Design | None = None,
    *,
    difference: float | None = None,
    margin: float | None = None,
    drop: float | None = None,
) -> SeedBudget:
    """Return how many seeds a question requires, or what a number of seeds can detect.

    Questions about spread take `ratio` or `n`; about a mean, `sd` and `se`; about two means, `sd` and one of
    `difference`, `margin` and `drop`.

    Args:
        sd: standard deviation across seeds, for questions about means.
        se: standard error of the mean to reach.
        ratio: variance ratio to detect.
        n: seeds per group; with `drop`, the number of past runs.
        n_baseline: seeds of the baseline, if they differ from `n`.
        power: chance of detecting what is asked for.
        design: shared seeds, blocks, shape and level; see `Design`.
        difference: difference of two means to detect.
        margin: margin within which two means are to be shown equal.
        drop: drop of the mean that the gate is to detect.

    Returns:
        The answer: `text`, a sentence per question, and `values`, the figures in it.

    Example:
        >>> seed_budget(ratio=6).values["seeds"]
        [14, 14]
    """
    sizes = {"--difference": difference, "--margin": margin, "--drop": drop}
    asked = {option: size for option, size in sizes.items() if size is not None}
    if len(asked) + (se is not None) + (ratio is not None) > 1 and asked:
        raise BudgetError("ask for one thing at a time: --difference, --margin, --drop, --se or --ratio")
    if asked:
        return _means(*asked.popitem(), sd, n, n_baseline, power, design or Design())
    if n_baseline is not None and n_baseline < 2:
        raise BudgetError(f"a variance needs at least two seeds per group; got --n-baseline {n_baseline}")
    for_mean = sd is not None or se is not None
    if ratio is None and n is None:
        if n_baseline is not None or not for_mean:
            one = "--se, --difference, --margin or --drop"
            raise BudgetError(f"say what is wanted: --sd with {one}; --ratio, --n, or --ratio with --n")
        return _standard_error(sd, se)
    spread = _spread(ratio, n, n_baseline, power, design or Design())
    if not for_mean:
        return spread
    mean = _standard_error(sd, se)
    return SeedBudget(f"{mean.text}\n{spread.text}", {"standard_error": mean.values, "spread": spread.values})


def _standard_error(sd: float | None, se: float | None) -> SeedBudget:
    if sd is None or se is None:
        raise BudgetError("a standard error needs both --sd and --se")
    n = planning.seeds_for_standard_error(sd, se)
    text = f"{n} seeds give a mean with a standard error of {sd / n**0.5:.3g}, if the sd is {sd:g}."
    if n < 5:
        text += " That is too few to estimate the sd itself: take five or more."
    return SeedBudget(text, {"seeds": n, "sd": sd, "se": se, "reached": sd / n**0.5})


# Past runs of the gate, if their number is not given.
_PAST_RUNS = 30


def _means(
    option: str, size: float, sd: float | None, n: int | None, other: int | None, power: float, design: Design
) -> SeedBudget:
    """Return the seeds per group for a t test, or with `n` its power; for a drop, the gate's new runs."""
    pairs, alpha, gate = design.pairs, design.alpha, option == "--drop"
    if sd is None or not (0 < sd < inf and 0 < size < inf):
        raise BudgetError(f"{option} needs a positive number, and the spread over seeds with --sd")
    if (design.blocks, design.shape) != (1, "normal") or (gate and (pairs, other) != (None, None)):
        raise BudgetError(f"{option} is planned for normal values, one run per seed; leave out other options")
    if pairs is not None and not -1 <= pairs < 1:
        raise BudgetError(f"a correlation lies between -1 and 1; got {pairs:g}")
    past = (_PAST_RUNS if n is None else n) if gate else other
    planning.check_design((2 if n is None else n, 2 if past is None else past), power, alpha)

    def power_of(seeds: int) -> float:
        se, df = planning.standard_error(sd, (seeds, past or seeds), pairs)
        if option == "--margin":
            return planning.equivalence_power(size / se, df, alpha)
        level = mean_level(past or 0, seeds, alpha) if gate else alpha
        return planning.t_power(size / se, df, level, two_sided=not gate)

    shown, test = {
        "--difference": (f"a difference of {size:g}", "Two-sided t test"),
        "--margin": (f"equivalence within {size:g}, if the means are equal,", "Two one-sided t tests"),
        "--drop": (f"a drop of {size:g} below {past} past runs", "The gate's one-sided t test"),
    }[option]
    no_number = f"runs up to {planning.MOST_SEEDS:,} shows {shown} with power {power:g}"
    if gate or not n:
        n = planning.fewest(lambda k: power_of(k) >= power, 1 if gate else 2, no_number)
    reached, paired = power_of(n), "" if pairs is None else f", shared seeds with r = {pairs:g}"
    unit = f"and {other} seeds" if other else f"new run{'s' * (n > 1)}" if gate else "seeds per group"
    verb = "show" if option == "--margin" else "detect" + "s" * (gate and n == 1)
    text = f"{n} {unit} {verb} {shown} with power {reached:.2f}, if the sd is {sd:g}."
    text += f" {test} at level {alpha:g}{paired}."
    return SeedBudget(
        text,
        {"seeds": [n] if gate else [n, other or n], option.strip("-"): size, "sd": sd}
        | {"power": reached, "alpha": alpha, "pairs": pairs, "method": test}
        | ({"past_runs": past} if gate else {}),
    )


def _spread(
    ratio: float | None, n: int | None, n_baseline: int | None, power: float, design: Design
) -> SeedBudget:
    """Return whichever of seeds, ratio and power is not given."""
    alpha = design.alpha
    if n is None:
        asked, ratio = "seeds", ratio or 0.0
        seeds = planning.seeds_for(ratio, power, n_baseline, design)
        power = planning.power(ratio, seeds, design)
    else:
        seeds = n, n_baseline or n
        if ratio is None:
            asked, ratio = "ratio", planning.detectable(seeds, power, design)
        else:
            planning.check_design(seeds, 0.999, alpha)
            asked, power = "power", planning.power(ratio, seeds, design)
    groups = f"{seed_counts(seeds)}{' per group' * (seeds[0] == seeds[1])}"
    sizes = "variance ratios above" if asked == "ratio" else "a variance ratio of"
    shared = "" if design.pairs is None else f", shared seeds with r = {design.pairs:g}"
    blocks = f", {design.blocks} blocks, same-seed runs with r = {design.same_seed_runs:g}" * (
        design.blocks > 1
    )
    shown = two(ratio) if asked == "ratio" else f"{ratio:g}"
    text = f"{groups} detect {sizes} {shown} (sd ×{ratio**0.5:.2g}) with power {power:.2g}."
    method = f"the audit's test at level {alpha:g}, simulated on {design.shape} values{shared}{blocks}"
    few = " That is too few for a verdict of the audit: take five or more." * (min(seeds) < 5)
    values = {"seeds": list(seeds), "ratio": ratio, "power": power, **asdict(design)}
    return SeedBudget(f"{text} {method[0].upper()}{method[1:]}.{few}", values | {"method": method})
