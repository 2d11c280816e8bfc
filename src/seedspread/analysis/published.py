"""Published means and sds: what they reveal about the spread, and four lines for a review."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import combinations, permutations
from math import inf, sqrt
from shlex import quote
from typing import Any, Unpack, get_args

import pandas as pd

from seedspread.analysis import words
from seedspread.analysis.audit_result import AuditResult
from seedspread.analysis.display import MOST_ROWS, Answer, Block, Heading, Note, Result, mean_and_sd, table_of
from seedspread.analysis.judgement import word_of
from seedspread.analysis.words import ends, p_phrase, p_value, signed, times, two
from seedspread.errors import spoken
from seedspread.render.table import Table
from seedspread.runs.levels import group_name
from seedspread.stats import planning
from seedspread.stats.classic import f_interval, f_p_value
from seedspread.stats.dispersion import degrees_of_freedom
from seedspread.stats.distributions import f_isf, t_isf, t_sf
from seedspread.stats.headline import FEWEST_SEEDS
from seedspread.stats.planning import BudgetError
from seedspread.stats.result import Estimate, Interval, Word
from seedspread.tables.check import groups_in
from seedspread.tables.columns import STRATA, baseline_of, is_empty, is_numeric, plain_name, require
from seedspread.tables.question import (
    Question,
    Rows,
    TableError,
    check_options,
    listed,
    row_numbers,
    with_known_arguments,
)
from seedspread.tables.read import Source, read_table
from seedspread.tables.shape import rows_where
from seedspread.tables.sources.run import number
from seedspread.tables.summaries import Published, as_published, counts_in, is_standard_error, summary_columns

# Tails heavier than normal ones: with it, the F interval of two t5 samples keeps its level up to 20 seeds.
EXCESS_KURTOSIS = 2.0
_POWER, _MOST_SEEDS = 0.8, 10_001
_COLUMNS = "columns"
ASSUMED = (
    f"F intervals{{}}, widened for heavy tails (an excess kurtosis of {EXCESS_KURTOSIS:g}; normal values "
    "have 0) and for the rounding of the sds."
)
UNCHECKED = "Only means and sds are known: pairs, outliers, failed runs and repeated seeds cannot be checked."


@dataclass(frozen=True)
class PublishedComparison:
    """A published mean and sd vs another; ratios are group over baseline, differences group less baseline."""

    stratum: str  # the row of both, such as a dataset; empty if that is the whole table
    group: Published
    baseline: Published
    verdict: Word  # YES, NO, MAYBE or CAN'T TELL
    ratio: float | None  # of the variances; infinite if the baseline's sd is printed as 0, None if both are
    interval: Interval  # of the ratio, adjusted for the number of comparisons
    p: float  # of equal variances, adjusted alike
    difference: float  # of the means, with Welch's interval and p value
    difference_interval: Interval
    difference_p: float
    # The ratio that the F test used here detects with 80% power if values are normal; None below 5 seeds,
    # with which nothing can be shown.
    detectable: float | None
    enough: int | None  # the seeds per group with which it detects this ratio

    @property
    def title(self) -> str:
        where = f"{self.stratum}: " if self.stratum else ""
        return f"{where}{self.group.name} vs {self.baseline.name}"

    @property
    def seeds(self) -> str:
        sizes = self.group.n, self.baseline.n
        return words.seed_counts(sizes) + " each" * (sizes[0] == sizes[1])


@dataclass(frozen=True)
class PublishedResult(Result):
    """The comparisons of published means and sds; see `PublishedComparison`."""

    source: str
    level: float
    equivalence: float
    comparisons: tuple[PublishedComparison, ...]
    notes: tuple[str, ...]

    def as_values(self) -> dict[str, Any]:
        return asdict(self) | {"excess_kurtosis": EXCESS_KURTOSIS}

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield the answer about one comparison; for several, the verdicts and a table."""
        first, many = self.comparisons[0], len(self.comparisons)
        if many > 1:
            yield Heading(f"{many} comparisons from {self.source}")
            found = {word: [c for c in self.comparisons if c.verdict == word] for word in get_args(Word)}
            for word, rows in ((word, rows) for word, rows in found.items() if rows):
                named = "; ".join(f"{c.title} {times(c.ratio)} ({ends(c.interval)})" for c in rows)
                is_named = word != "CAN'T TELL" and len(rows) <= words.MOST_ANSWERS
                yield Answer.of(word, f"{len(rows)} of {many}{f': {named}' if is_named else ' comparisons'}")
        else:
            yield Heading(f"{first.title} | {first.seeds}")
            yield from _lines(first, self.equivalence)
            yield ""
        if many > 1 or width is None:
            yield _table(self, MOST_ROWS if width else None)
        if many > MOST_ROWS:
            yield Note(f"{many - MOST_ROWS:,} more comparisons are in the JSON.")
        how = f", adjusted over {many} comparisons (Bonferroni)" if many > 1 else ""
        yield from map(Note, (f"{self.level:.0%} {ASSUMED.format(how)}", UNCHECKED, *self.notes))


@with_known_arguments
def check(
    baseline: str,
    *others: str,
    n: "int | Sequence[int]",
    sd_is: str = "sd",
    level: float = 0.95,
    equivalence: float = 2.0,
) -> PublishedResult:
    """Audit whether the spread across seeds changed, from published values such as `0.291±0.047`.

    Args:
        baseline: the mean and sd with which the others are compared; `name=0.291±0.047` names it.
        others: further ones.
        n: the number of seeds, one for all or one for each.
        sd_is: what follows ±: `sd` (n - 1), `population` (an sd with n) or `se` (of the mean).
        level: confidence level of the intervals.
        equivalence: variances that differ by no more than this factor count as equal.

    Returns:
        The result: `comparisons`, each with its verdict, ratio and interval.

    Example:
        >>> check("0.291±0.047", "0.316±0.004", n=3).comparisons[0].verdict
        "CAN'T TELL"
    """
    words = (baseline, *others)
    if not others:
        raise TableError("give two values to compare, such as 0.291±0.047 0.316±0.004")
    sizes = [n] * len(words) if isinstance(n, int) else list(n)
    sizes = sizes * len(words) if len(sizes) == 1 else sizes
    if len(sizes) != len(words):
        raise TableError(
            f"--n is given {len(sizes)} times for {len(words)} values: give it once, or once for each"
        )
    named = [word.rpartition("=")[::2] for word in words]
    cells = [as_published(text, size, name, sd_is) for (name, text), size in zip(named, sizes, strict=True)]
    pairs = [("", cell, cells[0]) for cell in cells[1:]]
    return _judged(pairs, "the values given", level, equivalence, [_sd_note(sd_is)])


@with_known_arguments
def audit_means(
    table: Source,
    value: str | None = None,
    group: str | None = None,
    baseline: str | None = None,
    by: "str | Sequence[str] | None" = None,
    *,
    n: "int | str",
    sd_is: str = "sd",
    level: float = 0.95,
    equivalence: float = 2.0,
    **rows: Unpack[Rows],
) -> PublishedResult:
    """Audit a table of means and sds: cells such as `28.7 ± 4.8`, or a column of each.

    Args:
        table: as `audit` takes it.
        value: one of its values; by default each column with means and sds.
        group: the column whose levels are compared; `columns` compares the columns of a row.
        baseline: the level to compare with; by default every pair is compared.
        by: columns, such as the dataset, whose levels are compared separately; by default all others with
            texts.
        n: the number of seeds, or the column that has it.
        sd_is: what follows ±: `sd` (n - 1), `population` (an sd with n) or `se` (of the mean).
        level: confidence level of the intervals.
        equivalence: variances that differ by no more than this factor count as equal.
        rows: where and sheet; see `Rows`.

    Returns:
        The result: `comparisons`, each with its verdict, ratio and interval.

    Example:
        >>> table = [{"method": "a", "acc": "0.91 ± 0.02"}, {"method": "b", "acc": "0.90 ± 0.10"}]
        >>> audit_means(table, group="method", n=10).comparisons[0].verdict
        'YES'
    """
    question = Question.of(value, group, baseline, None, None, by, **rows)
    read = read_table(table, question)
    frame = rows_where(read.frame, question.where, read.name)
    found = summary_columns(frame)
    if value is not None:
        found = {k: v for k, v in found.items() if value in (k, *v)}
    if not found:
        of = f" of {value!r}" if value else ""
        raise TableError(
            f"{read.name} has no means with sds{of}: cells such as 28.7 ± 4.8, or columns such as acc_mean "
            f"and acc_std (it has {listed(read.frame.columns)}); leave out --n for a table of runs"
        )
    cells, told = _cells(frame, found, question, counts_in(frame, n, read.name), n, sd_is, read.name)
    pairs = _pairs(cells, None if baseline is None else str(baseline))
    if not pairs:
        names = listed(dict.fromkeys(cell.name for _, cell in cells))
        raise TableError(
            f"nothing in {read.name} can be compared: its levels are {names}; name others with --group"
        )
    return _judged(pairs, read.name, level, equivalence, [*read.notes, *told, _sd_note(sd_is, found)])


def _cells(
    frame: pd.DataFrame,
    found: "dict[str, tuple[str, str | None]]",
    question: Question,
    counts: Sequence[int],
    n: "int | str",
    sd_is: str,
    source: str,
) -> "tuple[list[tuple[str, Published]], list[str]]":
    """Return each cell by its stratum, named by its group; and what is compared."""
    taken = {n, *(name for pair in summary_columns(frame).values() for name in pair)}
    texts = [c for c in frame.columns if c not in taken and not is_numeric(frame[c])]
    across = question.group == _COLUMNS
    for name in (*([] if across or question.group is None else [question.group]), *question.by):
        require(name, frame.columns, source)
    free = [name for name in texts if name not in question.by]
    group = None if across else question.group or next(iter([*groups_in(frame, free), *free]), None)
    if question.group is None and group is not None and len(found) > 1 and plain_name(group) in STRATA:
        group = None
    by = list(question.by) or [name for name in texts if name != group]
    cells: list[tuple[str, Published]] = []
    bare: list[int] = []
    for at, (index, row) in enumerate(frame.iterrows()):
        for value, (mean, sd) in found.items():
            if is_empty(row[mean]) or (sd is not None and is_empty(row[sd])):
                continue
            text = str(row[mean]) if sd is None else f"{row[mean]}±{row[sd]}"
            if number(text.strip("% ")) is not None:
                bare.append(int(str(index)))
                continue
            where = [*(str(row[name]) for name in by), *([value] if group and len(found) > 1 else [])]
            kind = "se" if sd_is == "sd" and is_standard_error(sd) else sd_is
            try:
                cell = as_published(text, counts[at], value if group is None else str(row[group]), kind)
            except TableError as error:
                raise TableError(f"row {index}, {value}: {error}") from None
            cells.append((", ".join(where), cell))
    seen = pd.Series([(where, cell.name) for where, cell in cells])
    if seen.duplicated().any():
        twice = ", ".join(filter(None, seen[seen.duplicated()].iloc[0]))
        raise TableError(
            f"{source} has two rows for {twice}; name what distinguishes them with --by or --where"
        )
    left = [f"A mean without an sd is left out ({row_numbers(dict.fromkeys(bare))})."] if bare else []
    others = [c for c in frame.columns if c not in {*taken, *by, group} and is_numeric(frame[c])]
    left += [f"Columns without sds are left out: {listed(others)}."] if others else []
    if group is None:
        other = f"; --group {quote(texts[0])} compares rows" if texts else ""
        return cells, [f"The columns of each row are compared{other}.", *left]
    other = f"; --group {_COLUMNS} compares the columns of a row" if len(found) > 1 else ""
    return cells, [f"The levels of {group} are compared{other}.", *left]


def _pairs(
    cells: "Sequence[tuple[str, Published]]", baseline: str | None
) -> list[tuple[str, Published, Published]]:
    """Return every comparison: with the baseline, or all pairs, the later over the earlier."""
    strata: dict[str, list[Published]] = {}
    for stratum, cell in cells:
        strata.setdefault(stratum, []).append(cell)
    names = list(dict.fromkeys(cell.name for _, cell in cells))
    if baseline is not None and baseline not in names:
        raise TableError(f"there is no {baseline!r} to compare with (there are {listed(names)})")
    if baseline is None and len(names) == 2:
        baseline = baseline_of(names)
    out = []
    for stratum, own in strata.items():
        every = combinations(own, 2) if baseline is None else permutations(own, 2)
        out += [(stratum, b, a) for a, b in every if baseline in (None, a.name)]
    return out


def _judged(
    pairs: Sequence[tuple[str, Published, Published]],
    source: str,
    level: float,
    equivalence: float,
    notes: Sequence[str],
) -> PublishedResult:
    check_options(level, equivalence=equivalence)
    found = [_compared(stratum, a, b, level, equivalence, len(pairs)) for stratum, a, b in pairs]
    return PublishedResult(source, level, equivalence, tuple(found), tuple(spoken(n) for n in notes if n))


def _df(n: int) -> float:
    return degrees_of_freedom(n - 1, n, EXCESS_KURTOSIS)


def _compared(
    stratum: str, a: Published, b: Published, level: float, equivalence: float, family: int
) -> PublishedComparison:
    df = _df(a.n), _df(b.n)
    low = (max(a.sd - a.rounding, 0) / (b.sd + b.rounding)) ** 2 if b.sd + b.rounding else inf
    high = ((a.sd + a.rounding) / (b.sd - b.rounding)) ** 2 if b.sd > b.rounding else inf
    alpha = (1 - level) / family

    def interval(share: float) -> Interval:
        return Interval(f_interval(low, df, share).low, f_interval(high, df, share).high, level)

    nearest = low if low > 1 else min(high, 1.0)
    p = min(family * f_p_value(nearest, df), 1.0) if nearest != 1 else 1.0
    small = interval(1 - 2 * alpha)
    verdict: Word = "CAN'T TELL"
    if min(a.n, b.n) >= FEWEST_SEEDS:
        alike = p >= 1 - level and 1 / equivalence < small.low and small.high < equivalence
        verdict = "NO" if alike else word_of(p, 1 - level)
    ratio = (a.sd / b.sd) ** 2 if b.sd else (inf if a.sd else None)
    welch = _welch(a, b, level)
    detectable = _detectable(a.n, b.n, alpha) if min(a.n, b.n) >= FEWEST_SEEDS else None
    return PublishedComparison(
        stratum, a, b, verdict, ratio, interval(1 - alpha), p, *welch, detectable, _enough(ratio, alpha)
    )


def _detectable(n: int, n_baseline: int, alpha: float) -> float:
    """Return the ratio that this F test detects with 80% power if values are normal."""
    critical = f_isf(alpha / 2, _df(n), _df(n_baseline))
    return float(critical / f_isf(_POWER, n - 1, n_baseline - 1))


def _enough(ratio: float | None, alpha: float) -> int | None:
    """Return the seeds per group with which this F test detects a ratio; None if too many, or any number."""
    if not ratio or ratio == inf:
        return None
    sizes = range(FEWEST_SEEDS, _MOST_SEEDS)
    at = bisect_left(sizes, -max(ratio, 1 / ratio), key=lambda n: -_detectable(n, n, alpha))
    return sizes[at] if at < len(sizes) else None


def _welch(a: Published, b: Published, level: float) -> tuple[float, Interval, float]:
    parts = a.sd**2 / a.n, b.sd**2 / b.n
    error, difference = sqrt(sum(parts)), a.mean - b.mean
    if error == 0:
        return difference, Interval(difference, difference, level), float(difference == 0)
    df = sum(parts) ** 2 / (parts[0] ** 2 / (a.n - 1) + parts[1] ** 2 / (b.n - 1))
    half = error * float(t_isf((1 - level) / 2, df))
    p = 2 * float(t_sf(abs(difference) / error, df))
    return difference, Interval(difference - half, difference + half, level), p


def _sd_note(sd_is: str, found: "dict[str, tuple[str, str | None]] | None" = None) -> str:
    is_error = sd_is == "sd" and any(is_standard_error(sd) for _, sd in (found or {}).values())
    return {
        "sd": "± is taken as the sample sd (n − 1); change with --sd-is population or --sd-is se.",
        "se": "± is taken as the standard error of the mean.",
        "population": "± is taken as an sd with n.",
    }["se" if is_error else sd_is]


# Words


def _lines(c: PublishedComparison, equivalence: float) -> list[Answer]:
    claim = words.claim_of(c.verdict, c.group.name, c.ratio, c.seeds, equivalence)
    if c.verdict == "CAN'T TELL" and min(c.group.n, c.baseline.n) < FEWEST_SEEDS:
        claim += f": it takes {FEWEST_SEEDS} per group"
    sd = times(None if c.ratio is None else sqrt(c.ratio))
    clear = "they differ" if 0 not in c.difference_interval else "no clear difference"
    means = f"{clear}: {words.difference(Estimate(c.difference, c.difference_interval))}"
    power = f"{c.seeds} reliably detect only ratios above {two(c.detectable)}, if values are normal"
    figures = f"variance {times(c.ratio)} ({words.ci(c.interval)}), sd {sd}, {p_phrase(c.p)}"
    answer = Answer.of(c.verdict, claim, figures)
    return [answer, Answer.of("Means", means), *([Answer.of("Power", power)] if c.detectable else [])]


def _table(result: PublishedResult, most: int | None = None) -> Table:
    chosen = sorted(result.comparisons, key=lambda c: c.p)[:most] if most else result.comparisons
    heads = ("comparison", "seeds", "difference", "ratio", f"{result.level:.0%} CI", "p", "verdict")
    rows = [
        (
            c.title,
            ", ".join(dict.fromkeys(map(str, (c.group.n, c.baseline.n)))),
            signed(c.difference),
            ratio,
            ends(c.interval),
            p_value(c.p),
            c.verdict,
        )
        for c, ratio in zip(chosen, words.aligned([two(c.ratio) for c in chosen]), strict=True)
    ]
    return table_of("Differences of means, and variance ratios", heads, rows)


@with_known_arguments
def review(result: "PublishedResult | AuditResult") -> str:
    """Return four lines for a review: claim, power, interval, and the seeds that would settle it.

    With several comparisons they are about the one with the smallest p value.

    Args:
        result: what `audit`, `audit_means` or `check` returned.

    Returns:
        The four lines.

    Example:
        >>> found = audit("examples/paper-cifar10.csv", "accuracy", "margin_type", "subtract", "stability")
        >>> review(found).splitlines()[0]
        'Claim: clamp 78.5 ± 1.0 vs subtract 78.51 ± 0.42, 7 seeds each.'
    """
    if not result.comparisons:
        raise TableError("there is no comparison to review")
    several = len(result.comparisons)
    if isinstance(result, AuditResult):
        c = min(result.comparisons, key=lambda c: 1.0 if c.headline.p is None else c.headline.p)
        title, n, ratio, seeds = c.title, words.seed_counts(c.seeds), c.headline.ratio, c.seeds
        n += " each" * (seeds[0] == seeds[1])
        power, failed = words.power(c, "variance ratios"), words.failure_counts(c)
        if c.detectable is None:
            power = f"detect an unknown ratio: power is not tabulated for {c.family} comparisons"
        interval, word, enough = c.headline.shown_interval, c.word, None
        # The plan is for one comparison: adjusted for several, it takes more.
        is_planned = not ratio or max(ratio, 1 / ratio) >= (c.detectable or inf)
        with suppress(BudgetError, ValueError, OverflowError):  # too many seeds to plan for
            rounded = float(two(max(ratio, 1 / ratio)).replace(",", "")) if ratio else 1.0
            enough = max(planning.seeds_for(rounded)[0], FEWEST_SEEDS)
        sides = [f"{group_name(c.factor, side.group)} {mean_and_sd(side)}" for side in c.pooled]
    else:
        p = min(result.comparisons, key=lambda c: c.p)
        title, n, ratio, seeds = p.title, p.seeds, p.ratio, (p.group.n, p.baseline.n)
        power, failed = f"reliably detect only variance ratios above {two(p.detectable)}", ""
        interval, word, enough, is_planned = p.interval, p.verdict, p.enough, True
        sides = [str(s) if "±" in s.name else f"{s.name} {s}" for s in (p.group, p.baseline)]
    which = f" (the clearest of {several} comparisons, {title})" if several > 1 else ""
    if min(seeds) < FEWEST_SEEDS:
        power = f"cannot show a difference in spread: it takes {FEWEST_SEEDS} per group"
    settled = f"about {enough} per group would reliably detect a ratio of this size."
    if word in ("YES", "NO"):
        settled = "enough for this answer; more would narrow the interval."
    elif ratio in (None, 0.0, inf):
        settled = f"it takes at least {FEWEST_SEEDS} per group, and a spread in both."
    elif enough is None:
        settled = "a ratio this close to 1 is out of reach for any number of seeds that can be planned."
    elif enough <= min(seeds) and not is_planned:
        settled = f"more than the {enough} per group that this comparison would take if it were the only one."
    elif enough <= min(seeds):
        settled = "enough to detect a ratio of this size; the doubt is not about their number."
    shown = f"variance ratio {two(ratio)} ({words.ci(interval) if interval else 'no interval'})"
    return (
        f"Claim: {sides[0]} vs {sides[1]}, {n}{f'; {failed}' if failed else ''}{which}.\n"
        f"Power: {n} {power}.\n"
        f"Spread: {shown if ratio is not None else 'no variance ratio'}. Did the spread change? {word}.\n"
        f"Seeds: {settled}"
    )
