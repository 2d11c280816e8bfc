"""Several factors at once: what each does to the spread over seeds, and to the mean."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from math import prod
from typing import Any, Unpack

import numpy as np
import pandas as pd

from seedspread.analysis.audit import check_options, metric_of_runs, rescaled
from seedspread.analysis.display import Listed, table_of
from seedspread.analysis.judgement import beyond, word_of
from seedspread.analysis.samples import arms_by_stratum
from seedspread.analysis.sd import successful
from seedspread.analysis.words import ends, p_phrase, p_value, signed, signed_ends, times, two
from seedspread.render.table import Table
from seedspread.runs.levels import as_number, setting_name
from seedspread.stats.dispersion import FEWEST_IN_CELL, Dispersion, mean_test
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import FEWEST_SEEDS
from seedspread.stats.result import Estimate, Scale, Word
from seedspread.stats.variance_ratio import interval_of, ratio_at
from seedspread.tables.check import check_runs
from seedspread.tables.columns import baseline_of
from seedspread.tables.question import Question, Rows, TableError, listed, several, with_known_arguments
from seedspread.tables.read import Source, read_table


@dataclass(frozen=True)
class Effect:
    """A term of the model, or with `contrast` one level of it beside another.

    Attributes:
        term: the factor, or factors whose effects depend on each other: `opt x aug`.
        contrast: `sgd vs adam`, `per doubling`; empty if the term as a whole is tested.
        ratio: of the variances, averaged evenly over the levels of other factors; of an interaction, by how
            much one factor's ratio differs between the levels of the other. Intervals are adjusted.
        difference: of the means, alike; its interval is not adjusted.
        p: of no effect on the spread, adjusted over the terms (Bonferroni); None of a contrast in a term.
        mean_p: of none on the mean, not adjusted.
    """

    term: str
    contrast: str
    ratio: Estimate | None
    difference: Estimate | None
    p: float | None
    mean_p: float | None
    word: Word | None

    @property
    def name(self) -> str:
        return f"{self.term} ({self.contrast})" if self.contrast else self.term


@dataclass(frozen=True)
class FactorsResult(Listed):
    """What each factor does to spread and mean, their interactions, and what these leave unexplained."""

    source: str
    value: str
    factors: tuple[str, ...]
    runs: int
    cells: int
    seeds: tuple[int, int]  # fewest and most of a cell
    shared: bool  # whether all cells have the same seeds, which are then blocks
    level: float
    equivalence: float
    effects: tuple[Effect, ...]
    notes: tuple[str, ...]

    def as_values(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)

    def title(self) -> str:
        """What was measured, and on how many runs."""
        least, most = self.seeds
        seeds = f"{least} seeds" if least == most else f"{least} to {most} seeds"
        design = f"{' x '.join(self.factors)}, {self.cells} cells of {seeds}"
        return f"{self.value} across seeds | {design}, {self.runs:,} runs"

    def answers(self) -> list[tuple[str, str]]:
        """The terms by their verdict on the spread."""
        terms = [e for e in self.effects if e.word is not None]
        out = [(word, _claim(e)) for word in ("YES", "MAYBE") for e in terms if e.word == word]
        small = [e.name for e in terms if e.word == "NO"]
        rest = [e.term for e in terms if e.word == "CAN'T TELL"]
        no = f"by less than {self.equivalence:g}x in variance, either way: {', '.join(small)}"
        return [*out, ("NO", no if small else ""), ("CAN'T TELL", ", ".join(rest))]

    def tables(self) -> list[Table]:
        """The effects on the spread, and those on the mean."""
        ratios, differences = [], []
        for e in self.effects:
            ratio, difference = e.ratio, e.difference
            shown = (two(ratio.value), ends(ratio.interval)) if ratio else ("-", "-")
            ratios.append((e.name, *shown, p_value(e.p), e.word or ""))
            shown = (signed(difference.value), signed_ends(difference.interval)) if difference else ("-", "-")
            differences.append((e.name, *shown, p_value(e.mean_p)))
        ci, family = f"{self.level:.0%} CI", sum(e.p is not None for e in self.effects)
        spread = f"Spread: variance ratios, adjusted for {family} terms"
        return [
            table_of(spread, ("term", "ratio", ci, "p", "verdict"), ratios, "factors-spread"),
            table_of("Mean, not adjusted", ("term", "difference", ci, "p"), differences, "factors-mean"),
        ]

    def to_frame(self) -> pd.DataFrame:
        """One row per effect, as numbers."""
        return pd.json_normalize([asdict(effect) for effect in self.effects])


def _claim(e: Effect) -> str:
    may = "may change" if e.word == "MAYBE" else "changes"
    said = f"{e.term} {may} the spread"
    if " x " in e.term:
        first, *others = e.term.split(" x ")
        may = "may depend" if e.word == "MAYBE" else "depends"
        said = f"the effect of {first} on the spread {may} on {' and '.join(others)}"
    p = p_phrase(1.0 if e.p is None else e.p)
    if e.ratio is None:
        return f"{said}, {p}"
    return f"{said}: {e.contrast}, variance {times(e.ratio.value)} ({ends(e.ratio.interval)}), {p}"


@dataclass(frozen=True)
class _Factor:
    """A factor as columns of the model: sums to zero over its levels, or centered doses."""

    name: str
    codes: Floats  # (levels, q)
    steps: tuple[tuple[str, Floats], ...]  # contrasts, each by its name and (q,) change of the columns

    @classmethod
    def of(cls, name: str, levels: Sequence[str]) -> "_Factor":
        """Return a dose if there are more than two levels, all numbers, else levels beside the baseline."""
        numbers = [as_number(level) for level in levels]
        doses = np.array([x for x in numbers if x is not None])
        if len(levels) > 2 and len(doses) == len(levels):
            unit = "per unit"
            if doses.min() > 0 and _evenness(np.log2(doses)) < _evenness(doses):
                doses, unit = np.log2(doses), "per doubling"
            return cls(name, (doses - doses.mean())[:, None], ((unit, np.ones(1)),))
        codes = np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])
        base = baseline_of(levels)
        own = codes[levels.index(base)]
        steps = [(f"{x} vs {base}", codes[k] - own) for k, x in enumerate(levels) if x != base]
        return cls(name, codes, tuple(steps))


def _evenness(doses: Floats) -> float:
    """Return how unevenly doses are spaced: 0 if evenly."""
    gaps = np.diff(np.sort(doses))
    return float(gaps.std() / gaps.mean())


@dataclass(frozen=True)
class _Term:
    """A factor, or several whose columns are multiplied."""

    factors: tuple[_Factor, ...]

    @property
    def name(self) -> str:
        return " x ".join(factor.name for factor in self.factors)

    def columns(self, places: dict[str, np.ndarray[Any, np.dtype[np.intp]]]) -> Floats:
        """Return (c, q) columns from the level of each factor in each cell."""
        out = np.ones((len(next(iter(places.values()))), 1))
        for factor in self.factors:
            own = factor.codes[places[factor.name]]
            out = (out[:, :, None] * own[:, None, :]).reshape(len(out), -1)
        return out

    def contrasts(self) -> list[tuple[str, Floats]]:
        """Return those to show: of a factor each level, of an interaction the only one it has."""
        if len(self.factors) > 1 and prod(len(f.steps) for f in self.factors) > 1:
            return []
        if len(self.factors) == 1:
            return list(self.factors[0].steps)
        name = ", ".join(factor.steps[0][0] for factor in self.factors)
        return [(name, np.atleast_1d(prod(float(f.steps[0][1][0]) for f in self.factors)))]


@with_known_arguments
def audit_factors(
    table: Source,
    value: str,
    factors: "str | Sequence[str]",
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    *,
    interactions: int = 2,
    level: float = 0.95,
    equivalence: float = 2.0,
    scale: Scale | None = None,
    **rows: Unpack[Rows],
) -> FactorsResult:
    """What does each of several factors do to the spread over seeds, and to the mean?

    Args:
        table: as `audit` takes it.
        value: the column with the result of a run.
        factors: columns; one with more than two levels that are all numbers is a dose, whose effect is one
            per unit, or per doubling if its levels are spaced more evenly that way.
        block: columns that tell the runs of one seed in one cell apart.
        seed: the column with the seed; None if every row is a run of its own.
        interactions: how many factors may interact: 2, or 1 for none, or 3.
        level: of the intervals.
        equivalence: variances that differ by no more than this factor count as alike.
        scale: judge `log` or `logit` of the values instead.
        rows: row selection; see `Rows`.

    >>> import itertools, numpy
    >>> noise = numpy.random.default_rng(0).normal(size=(2, 2, 8))
    >>> runs = [{"opt": "ab"[i], "aug": "xy"[j], "seed": k, "loss": (1 + 4 * i) * noise[i, j, k]}
    ...         for i, j, k in itertools.product(range(2), range(2), range(8))]
    >>> result = audit_factors(runs, "loss", ["opt", "aug"])
    >>> [effect.word for effect in result.effects]
    ['YES', "CAN'T TELL", "CAN'T TELL"]
    """
    names = several([part.strip() for part in factors.split(",")] if isinstance(factors, str) else factors)
    if len(names) < 2 or len(set(names)) < len(names):
        raise TableError(
            f"--factors takes two columns or more, each once, such as opt,aug; got {listed(names)}"
        )
    check_options(level, equivalence=equivalence)
    if not 1 <= interactions <= 3:
        raise TableError(f"--interactions must be 1 (none), 2 or 3; got {interactions}")
    question = Question.of(value, names[0], None, block, seed, names[1:], **rows)
    runs = check_runs(read_table(table, question), question)
    if scale is not None:
        runs, _ = rescaled(runs, metric_of_runs(runs, None, None, accuracies=False)[0], scale)
    found = [
        ((cell.name, *stratum), successful(cell)) for stratum, own in arms_by_stratum(runs) for cell in own
    ]
    keys, cells = [key for key, _ in found], [cell for _, cell in found]
    _check_cells(names, keys, cells)
    levels = [list(dict.fromkeys(key[k] for key in keys)) for k in range(len(names))]
    made = [_Factor.of(name, own) for name, own in zip(names, levels, strict=True)]
    places = {
        name: np.array([own.index(key[k]) for key in keys])
        for k, (name, own) in enumerate(zip(names, levels, strict=True))
    }
    terms = [
        _Term(chosen)
        for order in range(1, min(interactions, len(names)) + 1)
        for chosen in combinations(made, order)
    ]
    x = np.hstack([np.ones((len(cells), 1)), *(term.columns(places) for term in terms)])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise TableError(
            f"not all terms of {' x '.join(names)} can be told apart: {len(cells)} of "
            f"{prod(map(len, levels))} combinations of levels were run; leave out a factor, or interactions "
            f"(--interactions 1)"
        )
    sizes = [len(cell.seed_codes) for cell in cells]
    fit = Dispersion(cells, x)
    result = FactorsResult(
        runs.source, runs.columns.value, names, len(runs.frame), len(cells), (min(sizes), max(sizes)),
        fit.shared, level, equivalence,
        tuple(_effects(terms, cells, fit, level, equivalence)), runs.notes,
    )  # fmt: skip
    return replace(result, notes=(*runs.notes, *_notes(result)))


def _check_cells(names: Sequence[str], keys: Sequence[tuple[str, ...]], cells: Sequence[Group]) -> None:
    for k, name in enumerate(names):
        if len({key[k] for key in keys}) < 2:
            raise TableError(
                f"every run has {name} = {keys[0][k]!r}; a factor needs two levels: leave it out"
            )
    for key, cell in zip(keys, cells, strict=True):
        where = setting_name(zip(names, key, strict=True))
        seeds = len(cell.seed_codes)
        if seeds < FEWEST_IN_CELL:
            raise TableError(
                f"{where} has {seeds} seed{'s' * (seeds != 1)}; --factors needs {FEWEST_IN_CELL} or more "
                f"in each combination of levels ({FEWEST_SEEDS} to be calibrated)"
            )
        if not cell.has_spread or np.ptp(cell.seed_means) == 0:
            raise TableError(
                f"all values of {where} are equal, so it has no variance to explain; leave it out"
            )


def _effects(
    terms: Sequence[_Term], cells: Sequence[Group], fit: Dispersion, level: float, equivalence: float
) -> Iterator[Effect]:
    free = len(cells) - fit.x.shape[1]
    family, alpha = len(terms) + (free > 0), 1 - level
    weights = np.linalg.pinv(fit.x)  # (p, c): coefficients of the cells' means
    start = 1
    for term in terms:
        q = prod(factor.codes.shape[1] for factor in term.factors)
        columns, start = slice(start, start + q), start + q
        p = min(family * fit.p(columns), 1.0)
        word, shown, rows = word_of(p, alpha), term.contrasts(), []
        for name, step in shown:
            contrast = np.zeros(fit.x.shape[1])
            contrast[columns] = step
            estimate, tails = fit.estimate(contrast), 1
            if q == 1 and word != "YES" and family * beyond(estimate, equivalence) < alpha:
                word, tails = "NO", 2
            interval = interval_of(estimate, 1 - tails * alpha / family / len(shown))
            ratio = Estimate(ratio_at(estimate, 0.5), replace(interval, level=1 - tails * alpha))
            difference, mean_p = mean_test(cells, (contrast @ weights)[:, None], level)
            rows.append(Effect(term.name, name, ratio, difference, None, mean_p, None))
        if q == 1:
            yield replace(rows[0], p=p, word=word)
            continue
        _, mean_p = mean_test(cells, weights[columns].T, level)
        yield Effect(term.name, "", None, None, p, mean_p, word)
        yield from rows
    if free:
        rest = np.linalg.svd(fit.x)[0][:, -free:]
        p = min(family * fit.p_left_over, 1.0)
        yield Effect(
            "everything else", "", None, None, p, mean_test(cells, rest, level)[1], word_of(p, alpha)
        )


def _notes(result: FactorsResult) -> list[str]:
    out = []
    if result.shared:
        out.append(f"All cells have the same {result.seeds[0]} seeds, which are blocks in both tables.")
    if result.seeds[0] < FEWEST_SEEDS:
        out.append(
            f"A cell has {result.seeds[0]} seeds; with fewer than {FEWEST_SEEDS}, error rates are not known."
        )
    if any(effect.term == "everything else" for effect in result.effects):
        out.append("Everything else: bends of doses, and interactions that the model leaves out.")
    return out
