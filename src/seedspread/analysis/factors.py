"""Several factors at once: the effect of each on the spread over seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Unpack, get_args

import numpy as np

from seedspread.analysis.audit import metric_of_runs, rescaled
from seedspread.analysis.display import Answer, Block, Heading, Note, Result, table_of
from seedspread.analysis.judgement import beyond, word_of
from seedspread.analysis.samples import groups_by_stratum
from seedspread.analysis.words import ends, p_phrase, p_value, times, two
from seedspread.render.table import Table
from seedspread.runs.levels import Levels, as_number, setting_name
from seedspread.stats.dispersion import FEWEST_IN_CELL, Dispersion
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import FEWEST_SEEDS
from seedspread.stats.result import Estimate, Scale, Word
from seedspread.stats.variance_ratio import interval_of, ratio_at
from seedspread.tables.check import check_runs
from seedspread.tables.columns import baseline_of
from seedspread.tables.question import Question, Rows, TableError, check_options, listed, with_known_arguments
from seedspread.tables.read import Source, read_table

REST = "everything else"


@dataclass(frozen=True)
class Effect:
    """A term of the model, or with `contrast` a comparison of its levels."""

    term: str  # a factor, or factors whose effects depend on each other: `opt x aug`
    contrast: str = ""  # `sgd vs adam`, `per doubling`; empty if the term as a whole is tested
    # Of the variances, averaged evenly over the levels of other factors; for an interaction, the ratio of the
    # ratios at two levels. Its interval is adjusted like p.
    ratio: Estimate | None = None
    p: float | None = None  # of no effect on the spread, adjusted over the terms (Bonferroni)
    word: Word | None = None

    @property
    def name(self) -> str:
        return f"{self.term} ({self.contrast})" if self.contrast else self.term


@dataclass(frozen=True)
class FactorsResult(Result):
    """The effect of each factor on the spread, interactions, and the variation left unexplained."""

    source: str
    value: str
    factors: tuple[str, ...]
    runs: int
    cells: int
    seeds: tuple[int, int]  # fewest and most seeds of a cell
    shared: bool  # whether all cells have the same seeds, which then serve as blocks
    level: float
    equivalence: float
    effects: tuple[Effect, ...]
    notes: tuple[str, ...]

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        seeds = " to ".join(map(str, dict.fromkeys(self.seeds)))
        design = f"{' x '.join(self.factors)}, {self.cells} cells of {seeds} seeds"
        yield Heading(f"{self.value} across seeds | {design}, {self.runs:,} runs")
        for answer in self.answers():
            yield Answer.of(*answer)
        yield ""
        yield self.table()
        yield from map(Note, self.notes)

    def answers(self) -> list[tuple[str, str]]:
        terms = {word: [e for e in self.effects if e.word == word] for word in get_args(Word)}
        out = [(word, _claim(e)) for word in ("YES", "MAYBE") for e in terms[word]]
        if terms["NO"]:
            small = ", ".join(e.name for e in terms["NO"])
            out.append(("NO", f"less than {self.equivalence:g}x in variance, either way: {small}"))
        return [*out, ("CAN'T TELL", ", ".join(e.term for e in terms["CAN'T TELL"]))]

    def _ends(self, ratio: Estimate) -> str:
        """Return the interval that decides, with its level if that differs from the heading's."""
        level = self.level if ratio.interval is None else ratio.interval.level
        return ends(ratio.interval) + (f" ({level:.0%})" if level != self.level else "")

    def table(self) -> Table:
        rows = []
        for e in self.effects:
            ratio = (two(e.ratio.value), self._ends(e.ratio)) if e.ratio else ("-", "-")
            rows.append((e.name, *ratio, p_value(e.p), e.word or ""))
        family = sum(e.p is not None for e in self.effects)
        headings = ("term", "ratio", f"{self.level:.0%} CI", "p", "verdict")
        return table_of(f"Variance ratios, adjusted for {family} terms", headings, rows, "factors")


def _claim(e: Effect) -> str:
    first, *others = e.term.split(" x ")
    may = "may " if e.word == "MAYBE" else ""
    said = f"{first} {may}change{'' if may else 's'} the spread"
    if others:
        said = (
            f"the effect of {first} on the spread {may}depend{'' if may else 's'} on {' and '.join(others)}"
        )
    p = p_phrase(1.0 if e.p is None else e.p)
    if e.ratio is None:
        return f"{said}, {p}"
    return f"{said}: {e.contrast}, variance {times(e.ratio.value)} ({ends(e.ratio.interval)}), {p}"


@dataclass(frozen=True)
class _Factor:
    """A factor as columns of the model: levels that sum to zero, or a centered dose."""

    name: str
    codes: dict[str, Floats]  # (q,) by level
    steps: dict[str, Floats]  # (q,) contrasts by name

    @classmethod
    def of(cls, name: str, levels: Sequence[str]) -> "_Factor":
        """Return a dose if there are more than two levels, all numbers; else levels vs the baseline."""
        doses = np.array([x for x in map(as_number, levels) if x is not None])
        if len(levels) > 2 and len(doses) == len(levels):
            unit = "per unit"
            if doses.min() > 0 and _unevenness(np.log2(doses)) < _unevenness(doses):
                doses, unit = np.log2(doses), "per doubling"
            codes = (doses - doses.mean())[:, None]
            return cls(name, dict(zip(levels, codes, strict=True)), {unit: np.ones(1)})
        codes = np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])
        own, base = dict(zip(levels, codes, strict=True)), baseline_of(levels)
        return cls(name, own, {f"{x} vs {base}": own[x] - own[base] for x in levels if x != base})


def _unevenness(doses: Floats) -> float:
    gaps = np.diff(np.sort(doses))
    return float(gaps.std() / gaps.mean())


@dataclass(frozen=True)
class _Term:
    """A factor, or several whose columns are multiplied, and its columns in the model."""

    factors: tuple[_Factor, ...]
    places: tuple[int, ...]  # positions of the factors among all
    columns: slice

    @property
    def name(self) -> str:
        return " x ".join(factor.name for factor in self.factors)

    def row(self, key: Levels) -> Floats:
        """Return the (q,) columns of a cell."""
        out = np.ones(1)
        for factor, place in zip(self.factors, self.places, strict=True):
            out = np.outer(out, factor.codes[key[place]]).ravel()
        return out

    def contrasts(self) -> dict[str, Floats]:
        """Return the contrasts to show: one per level of a factor, and the single one of an interaction."""
        steps = [factor.steps for factor in self.factors]
        if len(steps) == 1 or max(map(len, steps)) > 1:
            return steps[0] if len(steps) == 1 else {}
        size = prod(float(next(iter(s.values()))[0]) for s in steps)
        return {", ".join(next(iter(s)) for s in steps): np.array([size])}


@with_known_arguments
def audit_factors(
    table: Source,
    value: str | None,
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
    """Estimate the effect of each of several factors on the spread across seeds.

    Args:
        table: as `audit` takes it.
        value: the column with the result of a run.
        factors: columns; one with more than two levels that are all numbers is a dose, whose effect is one
            per unit, or per doubling if its levels are spaced more evenly that way.
        block: columns varied within a seed; runs that share a seed count as one.
        seed: the column with the seed; None if every row is an independent run.
        interactions: how many factors may interact: 2, or 1 for none, or 3.
        level: confidence level of the intervals.
        equivalence: variances that differ by no more than this factor count as equal.
        scale: judge `log` or `logit` of the values instead.
        rows: row selection; see `Rows`.

    Returns:
        The result: `effects` on the spread, each with its verdict, ratio and interval.

    Example:
        >>> from itertools import product
        >>> noise = np.random.default_rng(0).normal(size=(2, 2, 8))
        >>> runs = [{"opt": "ab"[i], "aug": "xy"[j], "seed": k, "loss": (1 + 4 * i) * noise[i, j, k]}
        ...         for i, j, k in product(range(2), range(2), range(8))]
        >>> [effect.word for effect in audit_factors(runs, "loss", ["opt", "aug"]).effects]
        ['YES', "CAN'T TELL", "CAN'T TELL"]
    """
    names = tuple(name.strip() for name in (factors.split(",") if isinstance(factors, str) else factors))
    if len(names) < 2 or len(set(names)) < len(names):
        raise TableError(f"--factors takes two columns or more, each once: opt,aug; got {listed(names)}")
    check_options(level, equivalence=equivalence)
    if not 1 <= interactions <= 3:
        raise TableError(f"--interactions must be 1 (none), 2 or 3; got {interactions}")
    question = Question.of(value, names[0], None, block, seed, names[1:], **rows)
    runs = check_runs(read_table(table, question), question)
    if scale is not None:
        runs, _ = rescaled(runs, metric_of_runs(runs, None, None, accuracies=False)[0], scale)
    found = {(cell.name, *at): cell.successful() for at, own in groups_by_stratum(runs) for cell in own}
    cells = list(found.values())
    _check_cells(names, found)
    terms = _terms(names, list(found), interactions)
    x = np.array([np.concatenate([np.ones(1), *(term.row(key) for term in terms)]) for key in found])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise TableError(
            f"some effects of {' x '.join(names)} cannot be told apart in the {len(cells)} combinations of "
            "levels that were run; leave out a factor, or interactions (--interactions 1)"
        )
    fit, sizes = Dispersion(cells, x), [len(cell.seed_codes) for cell in cells]
    notes = [
        (fit.shared, f"All cells have the same {sizes[0]} seeds, which are blocks."),
        (
            min(sizes) < FEWEST_SEEDS,
            f"Error rates are not known for fewer than {FEWEST_SEEDS} seeds in a cell.",
        ),
        (len(cells) > x.shape[1], "Everything else: curvature in numeric factors, and further interactions."),
    ]
    return FactorsResult(
        runs.source, runs.columns.value, names, len(runs.frame), len(cells), (min(sizes), max(sizes)),
        fit.shared, level, equivalence, tuple(_effects(terms, fit, level, equivalence)),
        (*runs.notes, *(note for is_so, note in notes if is_so)),
    )  # fmt: skip


def _terms(names: Sequence[str], keys: Sequence[Levels], interactions: int) -> list[_Term]:
    made = [_Factor.of(name, list(dict.fromkeys(key[k] for key in keys))) for k, name in enumerate(names)]
    out, start = [], 1
    for order in range(1, interactions + 1):
        for places in combinations(range(len(names)), order):
            chosen = tuple(made[k] for k in places)
            size = prod(len(next(iter(factor.codes.values()))) for factor in chosen)
            out.append(_Term(chosen, places, slice(start, start + size)))
            start += size
    return out


def _check_cells(names: Sequence[str], found: dict[Levels, Group]) -> None:
    for name, own in zip(names, zip(*found, strict=True), strict=True):
        if len(set(own)) < 2:
            raise TableError(f"every run has {name} = {own[0]!r}; a factor needs two levels: leave it out")
    for key, cell in found.items():
        where, seeds = setting_name(zip(names, key, strict=True)), len(cell.seed_codes)
        if seeds < FEWEST_IN_CELL:
            raise TableError(
                f"{where} has {seeds} seed{'s' * (seeds != 1)}; --factors needs {FEWEST_IN_CELL} or more "
                f"in each combination of levels ({FEWEST_SEEDS} to be calibrated)"
            )
        if not cell.has_sd():
            raise TableError(f"all values of {where} are equal, so there is no variance to explain")


def _effects(terms: Sequence[_Term], fit: Dispersion, level: float, equivalence: float) -> Iterator[Effect]:
    free = len(fit.means) - fit.x.shape[1]
    family, alpha = len(terms) + (free > 0), 1 - level
    for term in terms:
        columns, shown = term.columns, term.contrasts()
        p, alone = min(family * fit.p(columns), 1.0), columns.stop - columns.start == 1
        word, rows = word_of(p, alpha), []
        for name, step in shown.items():
            contrast, tails = np.zeros(len(fit.b)), 1
            contrast[columns] = step
            estimate = fit.estimate(contrast)
            if alone and word != "YES" and family * beyond(estimate, equivalence) < alpha:
                word, tails = "NO", 2
            interval = interval_of(estimate, 1 - tails * alpha / family / len(shown))
            ratio = Estimate(ratio_at(estimate, 0.5), replace(interval, level=1 - tails * alpha))
            rows.append(Effect(term.name, name, ratio))
        if alone:
            yield replace(rows[0], p=p, word=word)
            continue
        yield Effect(term.name, p=p, word=word)
        yield from rows
    if free:
        p = min(family * fit.p_left_over, 1.0)
        yield Effect(REST, p=p, word=word_of(p, alpha))
