"""Questions about the sd itself: does it equal a claim, is it below a bound, do many groups share one?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Unpack

import numpy as np

from seedspread.analysis.display import Answer, Block, Heading, Note, Result, table_of
from seedspread.analysis.judgement import many_groups, word_of
from seedspread.analysis.samples import groups_by_stratum
from seedspread.analysis.words import (
    aligned,
    many_groups_sentence,
    p_phrase,
    p_value,
    sd_phrase,
    span,
    three,
)
from seedspread.render.table import Table
from seedspread.runs.levels import group_name, stratum_name
from seedspread.stats.dispersion import pooled_sd, sd_of
from seedspread.stats.groups import Group
from seedspread.stats.headline import FEWEST_SEEDS
from seedspread.stats.result import Estimate, ManyGroups, Word
from seedspread.stats.variance_ratio import LogEstimate
from seedspread.tables.check import check_runs, in_one_group
from seedspread.tables.columns import RunTable
from seedspread.tables.question import (
    SET,
    Question,
    Rows,
    TableError,
    check_options,
    listed,
    with_known_arguments,
)
from seedspread.tables.read import Source, read_table

# Answers that are printed as sentences; more are counted.
_MOST_SENTENCES = 4
_QUESTIONS = {"sigma": "Is the sd {:g}?", "sd_below": "Is the sd below {:g}?"}


@dataclass(frozen=True)
class SdAnswer:
    """The verdict on the sd of a group, or of several that share one."""

    of: str  # the group, or the number of groups
    seeds: int
    sd: Estimate  # with the interval that decides, adjusted for several answers
    p: float  # of the claimed sd, or of an sd at the bound, adjusted alike
    word: Word
    claim: str  # the verdict in words


@dataclass(frozen=True)
class SdResult(Result):
    """Verdicts on whether sds equal a claim or are below a bound; `many`: do groups share one?"""

    source: str
    value: str
    question: str
    runs: int
    found: tuple[SdAnswer, ...]
    many: tuple[ManyGroups, ...]
    notes: tuple[str, ...]

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        yield Heading(f"{self.value} across seeds | {self.runs:,} runs | {self.question}")
        for answer in self.answers():
            yield Answer.of(*answer)
        yield ""
        yield from self.tables()
        yield from map(Note, self.notes)

    def answers(self) -> list[tuple[str, str]]:
        """Return every verdict; if there are many, the groups that have it."""
        out: list[tuple[str, str]] = []
        for word in dict.fromkeys(a.word for a in self.found):
            own = [a for a in self.found if a.word == word]
            if len(self.found) > _MOST_SENTENCES:
                out.append((word, f"{len(own)} of {len(self.found)}: {listed([a.of for a in own], 3)}"))
                continue
            for a in own:
                said = f"{a.claim}, {sd_phrase(a.sd)}, {p_phrase(a.p)}"
                out.append((word, f"{a.of}: {said}" if a.of else said))
        return [*out, *(("One sd?", many_groups_sentence(many)) for many in self.many)]

    def tables(self) -> list[Table]:
        sds = aligned([three(a.sd.value) for a in self.found])
        rows = [
            (a.of, str(a.seeds), sd, span(a.sd.interval, three), p_value(a.p), a.word)
            for a, sd in zip(self.found, sds, strict=True)
        ]
        heads = ("", "seeds", "sd", "CI", "p", "verdict")
        title = f"{self.question} Adjusted for {len(rows)} answers"
        return [table_of(title, heads, rows, "sd")] if len(rows) > 1 else []


@with_known_arguments
def audit_sd(
    table: Source,
    value: str | None = None,
    group: str | None = None,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    *,
    sigma: float | None = None,
    sd_below: float | None = None,
    level: float = 0.95,
    equivalence: float = 2.0,
    **rows: Unpack[Rows],
) -> SdResult:
    """Audit whether the sd across seeds equals a claim, or is below a bound.

    Args:
        table: as `audit` takes it.
        value: the column with the result of a run.
        group: the column whose levels are judged separately; without it all runs are one group.
        block: as `audit` takes it.
        seed: likewise.
        by: likewise.
        sigma: is the sd this? Groups that share one sd are judged together.
        sd_below: is the sd of each group below this? By two one-sided tests.
        level: confidence level of the intervals; bounds use two one-sided ones.
        equivalence: an sd counts as the claimed one if the variances differ by no more than this factor.
        rows: row selection; see `Rows`.

    Returns:
        The result: `found`, one answer per group or per set of groups that share an sd.

    Example:
        >>> import numpy
        >>> losses = {"loss": numpy.random.default_rng(0).normal(3.2, 0.001, 30), "seed": range(30)}
        >>> audit_sd(losses, "loss", sd_below=0.002).found[0].word
        'YES'
    """
    given = {"sigma": sigma, "sd_below": sd_below}
    asked = [(name, limit) for name, limit in given.items() if limit is not None]
    if len(asked) != 1:
        raise TableError("ask one question about the sd at a time: --sigma or --sd-below")
    name, limit = asked[0]
    if not 0 < limit < np.inf:
        raise TableError(f"--{name.replace('_', '-')} must be a positive number; got {limit:g}")
    check_options(level, equivalence=equivalence)
    question = Question.of(value, group, None, block, seed, by, **rows)
    read = read_table(table, question)
    runs = check_runs(*in_one_group(read, question, SET))
    units, many = _sds(runs, name == "sigma", level, equivalence)
    if not units:
        raise TableError(f"no group of {runs.source} has two seeds with different values, so there is no sd")
    found = [_judged(*unit, name, limit, 1 - level, len(units), equivalence) for unit in units]
    asks = _QUESTIONS[name].format(limit)
    return SdResult(
        runs.source, runs.columns.value, asks, len(runs.frame), tuple(found), tuple(many), runs.notes
    )


def _sds(
    runs: RunTable, together: bool, level: float, equivalence: float
) -> tuple[list[tuple[str, int, LogEstimate]], list[ManyGroups]]:
    """Return the variance of each group, or of groups that share one, and the tests of whether they do."""
    units: list[tuple[str, int, LogEstimate]] = []
    many = []
    for stratum, groups in groups_by_stratum(runs):
        able = [group for group in map(Group.successful, groups) if group.has_sd()]
        shared = many_groups(able, level, equivalence)
        many += [shared] if shared else []
        sets = [[group] for group in able]
        if together and shared and (shared.word != "YES" or shared.stands_out):
            rest = [group for group in able if group_name(group.factor, group.name) != shared.stands_out]
            sets = [rest, *([group] for group in able if group not in rest)]
        for own in sets:
            name = group_name(own[0].factor, own[0].name) if len(own) == 1 else f"{len(own)} groups"
            where = stratum_name(runs.columns.by, stratum)
            name = ": ".join(filter(None, (where, "" if own[0].factor == SET else name)))
            units.append((name, sum(len(group.seed_codes) for group in own), pooled_sd(own)))
    return units, many


def _judged(
    of: str, seeds: int, found: LogEstimate, name: str, limit: float, alpha: float, family: int, factor: float
) -> SdAnswer:
    """Judge a bound by two one-sided tests; a claimed sd by a two-sided test, and by two beyond `factor`."""
    at, tails = 2 * log(limit), 2
    word: Word
    above, below = min(family * found.above(at), 1.0), min(family * found.below(at), 1.0)
    p, side = min(above, below), "below" if above < below else "above"
    claim = f"the sd is {side} {limit:g}"
    if name != "sigma":
        word = "CAN'T TELL" if p >= alpha else "YES" if side == "below" else "NO"
    elif family * max(found.above(at + log(factor)), found.below(at - log(factor))) < alpha <= 2 * p:
        p, word, claim = min(2 * p, 1.0), "YES", f"the sd is {limit:g}, within {factor:g}x in variance"
    else:
        p, tails = min(2 * p, 1.0), 1
        word = "NO" if p < alpha else word_of(p, alpha)
        claim = f"the sd may be {side} {limit:g}" if word == "MAYBE" else claim
    if seeds < FEWEST_SEEDS or word == "CAN'T TELL":
        word, claim = "CAN'T TELL", f"{seeds} seeds do not settle whether the sd is below or above {limit:g}"
    value = sd_of(found, 1 - tails * alpha / family)
    interval = None if value.interval is None else replace(value.interval, level=1 - tails * alpha)
    return SdAnswer(of, seeds, replace(value, interval=interval), p, word, claim)
