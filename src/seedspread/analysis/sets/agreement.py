"""Do two sets of runs give the same answer? The ratio of their variance ratios."""

from dataclasses import dataclass

from seedspread.analysis.judgement import judged
from seedspread.analysis.samples import compared_arms
from seedspread.analysis.sets.join import JoinedSets
from seedspread.analysis.words import agreement_sentence
from seedspread.runs.levels import arm_name, stratum_name
from seedspread.stats.estimate import Estimate, difference
from seedspread.stats.headline import headline_from, headlines, without_estimate
from seedspread.stats.result import Headline, Word
from seedspread.tables.run_table import RunTable

METHOD = "ratio of variance ratios"
_WHY = (
    "the headlines of two sets of runs, taken as independent: the difference of their log ratios has the "
    "distribution that both together give it"
)
# Stratum, arm, baseline.
_Key = tuple[str, str, str]


@dataclass(frozen=True)
class Answer:
    """What one set says of an arm and its baseline; `word` and `p_holm` are those of its own audit."""

    source: str
    seeds: tuple[int, int]
    headline: Headline
    p_holm: float | None
    word: Word | None


@dataclass(frozen=True)
class Agreement:
    """The same question of two sets.

    Attributes:
        stratum, group, baseline: what is asked: the arm against its baseline.
        source, first: the two sets; ratios of ratios are those of `source` over `first`.
        answers: of the two, that of `first` first.
        headline: of the ratio of the two variance ratios.
        p_holm: of the hypothesis that it is 1, adjusted over all such comparisons.
        word: of their difference: `shown` to differ, `shown to be small`, that is to agree, and so on.
        verdict: that in a sentence.
        factor, by: what arm and stratum are levels of.
    """

    stratum: str
    group: str
    baseline: str
    source: str
    first: str
    answers: tuple[Answer, Answer]
    headline: Headline
    p_holm: float | None
    word: Word | None
    verdict: str
    factor: str = ""
    by: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`MNIST: clamp against subtract`."""
        name = f"{arm_name(self.factor, self.group)} against {arm_name(self.factor, self.baseline)}"
        return f"{stratum_name(self.by, self.stratum)}: {name}" if self.stratum else name


def agreements(joined: JoinedSets, level: float, equivalence: float) -> tuple[Agreement, ...]:
    """For every question that the first set and another can answer: do they agree? Adjusted together."""
    first, *others = (_answers(joined.of(name), name, level, equivalence) for name in joined.names)
    both = [(key, first[key], other[key]) for other in others for key in first if key in other]
    found = [_ratio_of(a, b, level, equivalence) for _, a, b in both]
    results = judged([h for h, _ in found], [e for _, e in found], level)
    columns = joined.runs.columns
    out = []
    for (key, (a, _), (b, _)), j in zip(both, results, strict=True):
        answers, names = (a, b), (a.source, b.source)
        said = agreement_sentence(j.headline, j.p_holm, j.word, names, len(both))
        out.append(
            Agreement(*key, b.source, a.source, answers, j.headline, j.p_holm, j.word, said, columns.group,
                      columns.by)
        )  # fmt: skip
    return tuple(out)


def _answers(
    runs: RunTable, name: str, level: float, equivalence: float
) -> dict[_Key, tuple[Answer, Estimate | None]]:
    """What a set says by itself, as its own audit would."""
    pairs = [(stratum, arm, baseline) for _, stratum, arm, baseline in compared_arms(runs)]
    found = headlines([(arm, baseline) for _, arm, baseline in pairs], level, equivalence)
    results = judged([h for h, _ in found], [e for _, e in found], level)
    return {
        (stratum, arm.name, baseline.name): (
            Answer(name, (len(arm.seed_codes), len(baseline.seed_codes)), j.headline, j.p_holm, j.word),
            estimate,
        )
        for (stratum, arm, baseline), j, (_, estimate) in zip(pairs, results, found, strict=True)
    }


def _ratio_of(
    first: tuple[Answer, Estimate | None],
    second: tuple[Answer, Estimate | None],
    level: float,
    equivalence: float,
) -> tuple[Headline, Estimate | None]:
    plain = [answer.headline.plain_ratio for answer, _ in (first, second)]
    ratio = plain[1] / plain[0] if plain[0] and plain[1] else None
    if first[1] is None or second[1] is None:
        without = [answer.source for answer, estimate in (first, second) if estimate is None]
        return without_estimate(METHOD, f"no ratio with an interval in {' and '.join(without)}", ratio), None
    estimate = difference(second[1], first[1])
    return headline_from(estimate, METHOD, _WHY, level, equivalence, ratio), estimate
