"""The answer on top of the page: in a line, in sentences, and what to do."""

from collections import Counter
from dataclasses import dataclass
from typing import get_args

from seedspread.analysis.comparison import Comparison
from seedspread.analysis.look_tables import standing
from seedspread.analysis.numbers import between, number
from seedspread.analysis.words import look_title
from seedspread.report.material.questions import Row, where
from seedspread.report.material.settings import ReportData, Setting
from seedspread.stats.power import BudgetError, seeds_for_standard_error
from seedspread.stats.result import Word
from seedspread.stats.scale.planning import seeds_for

_ENDED = ("done", "collapsed")
_FEWEST_SEEDS = 3
# Open comparisons that the answer names; of more it says how many.
_MOST_NAMED = 8


@dataclass(frozen=True)
class Answer:
    """What a reader wants first.

    Attributes:
        question: what was asked.
        short: the answer in a line.
        details: for each comparison its title and verdict.
        advice: what to do.
        caveats: what is missing, and what that does to the answer.
    """

    question: str
    short: str
    details: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    caveats: tuple[str, ...]


def answer(material: ReportData) -> Answer:
    """From the audits; nothing is computed but counts and seed budgets."""
    pairs = [(s, c) for s in material.settings for c in s.comparisons]
    groups = list(dict.fromkeys((c.arm_name, c.baseline_name) for _, c in pairs))
    factors = {s.group for s, _ in pairs}
    metrics = {s.metric.title or s.metric.name for s, _ in pairs if s.metric.name != "accuracy"}
    subject = f"{metrics.pop()} spreads" if len(metrics) == 1 else "results spread"
    question = f"Does the change alter how much {subject} over seeds?"
    if len(groups) == 1 and len(factors) == 1:
        arm, baseline = groups[0]
        factor = factors.pop()
        about = "" if arm.startswith(f"{factor} = ") else f" ({factor})"
        question = f"Does {arm} instead of {baseline}{about} change how much {subject} over seeds?"
    elif len({baseline for _, baseline in groups}) == 1 and len(factors) == 1:
        question = f"Does {factors.pop()}, against {groups[0][1]}, change how much {subject} over seeds?"
    elif len(factors) == 1:
        question = f"Does {factors.pop()} change how much {subject} over seeds?"
    return Answer(
        question=question,
        short=_short(pairs),
        details=tuple((s.title, c.verdict) for s, c in pairs),
        advice=tuple(_advice(material, pairs)),
        caveats=tuple(_caveats(material)),
    )


def _is_shown(c: Comparison) -> bool:
    """Whether a difference in spread is shown; where runs fail, spread is not what is judged."""
    return c.word == "shown" and not c.collapse.found


def _short(pairs: list[Row]) -> str:
    if not pairs:
        return "Not enough runs have ended to say."
    tested = [(s, c) for s, c in pairs if not c.collapse.found]
    by_word = {w: [(s, c) for s, c in tested if c.word == w] for w in get_args(Word)}
    several = len(pairs) > 1
    places = len({s.id for s, _ in pairs}) > 1
    parts = []
    if by_word["shown"]:
        parts.append("Yes: " + "; ".join(_difference(s, c, places) for s, c in by_word["shown"]) + ".")
    if by_word["shown to be small"]:
        parts.append(_small(by_word["shown to be small"], pairs))
    if by_word["suggested"]:
        listed = "; ".join(_difference(s, c, places) for s, c in by_word["suggested"])
        parts.append(f"Suggested, but not shown: {listed}.")
    if by_word["open"]:
        some = several and len(by_word["open"]) < len(tested)
        parts.append(_open(by_word["open"], pairs if some else []))
    untested = [(s, c) for s, c in tested if c.word is None]
    if untested:
        sentence = f"Not enough seeds, or no spread at all, to say: {where(untested, pairs)}."
        parts.append(sentence if len(untested) < len(tested) else "Not enough seeds to say.")
    for failed, what in ((True, "runs fail to train"), (False, "runs fall into two clusters")):
        rows = [(s, c) for s, c in pairs if c.collapse.found and c.collapse.failed == failed]
        if rows:
            parts.append(f"Where {what} ({where(rows, pairs)}), spread is the wrong question.")
    return " ".join(parts)


def _open(pairs: list[Row], all_pairs: list[Row]) -> str:
    """What is not known, and what so few seeds could have shown."""
    many = f"{len(pairs)} of {len(all_pairs)} comparisons"
    named = many if len(pairs) > _MOST_NAMED else where(pairs, all_pairs)
    what = f"Open for {named}" if all_pairs else "Open"
    seen = sorted({(c.detectable, min(c.seeds)) for _, c in pairs if c.detectable})
    if not seen:
        return f"{what}: these data do not tell."
    ratios = " to ".join(f"{number(r)} ({n} seeds)" for r, n in dict.fromkeys((seen[0], seen[-1])))
    return (
        f"{what}: these data do not tell. So few seeds show only large differences, variance ratios from "
        f"{ratios} on."
    )


def _small(pairs: list[Row], all_pairs: list[Row]) -> str:
    what = f" for {where(pairs, all_pairs)}" if len(all_pairs) > 1 else ""
    factor = pairs[0][1].headline.equivalence or 2.0
    return f"Shown to be small{what}: neither variance is more than {factor:g} times the other."


def _difference(s: Setting, c: Comparison, name: bool) -> str:
    ratio = c.headline.ratio or 1.0
    more = "more" if ratio > 1 else "less"
    on = f"on {s.name} " if name else ""
    ends = between(c.headline.shown_interval)
    arms = f"{c.arm_name} spreads {more} than {c.baseline_name}"
    looks = f" ({look_title(c.headline.looks)} counted)" if c.headline.looks else ""
    return f"{on}{arms}, variance ratio {number(ratio)} {ends}{looks}"


def _advice(material: ReportData, pairs: list[Row]) -> list[str]:
    if not pairs:
        return _without_comparison(material)
    out = [_budget(s, c) for s, c in pairs if _is_shown(c)] or _more_seeds(pairs[0][1])
    out += [line for s, _ in pairs for extension in material.extensions for line in extension.advice(s)]
    if any(c.collapse.found for _, c in pairs):
        out.append(
            "Compare how often runs fail, not their variance: the failure rates stand with each setting, "
            "with an exact test."
        )
    return [line for line in out if line]


def _without_comparison(material: ReportData) -> list[str]:
    """What helps depends on why nothing can be compared: failed runs, or runs that are still to come."""
    states = [state.state for s in material.settings for state in s.states.values()]
    failed, to_come = states.count("failed"), sum(state not in (*_ENDED, "failed") for state in states)
    if failed and not to_come:
        return [
            f"{failed} of {len(states)} runs failed: see why under “What was run”, mend it, and rerun the "
            "study with --retry-failed."
        ]
    if to_come:
        return ["Let the study go on (rerun its command to resume it), and make the report again."]
    return []


def _more_seeds(c: Comparison) -> list[str]:
    try:
        two, five = (seeds_for(r)[0] for r in (2.0, 5.0))
    except BudgetError:
        return []
    return [
        f"To see a variance ratio of 5 takes about {five} seeds per arm, a ratio of 2 about {two} (power "
        f"0.8, normal values); here are {c.seeds[0]} and {c.seeds[1]}. Plan with: seedspread seeds --ratio 2."
    ]


def _budget(s: Setting, c: Comparison) -> str:
    """Where the spread differs, so do the seeds that a mean needs: to know it to a third of the larger sd."""
    sds = [p.sd for p in c.pooled if p.sd]
    if len(sds) < 2:
        return ""
    goal = float(f"{max(sds) / 3:.1g}")
    counts = [seeds_for_standard_error(sd, goal) for sd in sds]
    # A spread is known from several seeds only: fewer are never advised, however small it was here.
    first, second = (max(count, _FEWEST_SEEDS) for count in counts)
    return (
        f"{s.name}: for a mean {s.value} with a standard error of {goal:g}, take {first} seeds of "
        f"{c.arm_name} or {second} of {c.baseline_name}."
    )


def _caveats(material: ReportData) -> list[str]:
    out = []
    for s in material.settings:
        counts = s.counts
        open_ = sum(n for state, n in counts.items() if state not in (*_ENDED, "failed"))
        if s.why:
            out.append(f"{s.title}: {s.why}{f' ({open_} runs to go)' if open_ else ''}.")
        elif open_:
            out.append(
                f"{s.title}: {open_} of {sum(counts.values())} runs are not finished ({_by_arm(s)} are); "
                "numbers will change."
            )
        if s.growing is not None and not s.growing.stopped:
            out.append(f"{s.title}: {standing(s.growing)}")
        out += _failed(s)
    return [*out, *material.problems]


def _failed(s: Setting) -> list[str]:
    """What failed by itself counts in the rates; what was ended or refused is left out."""
    total, crashed = sum(s.counts.values()), len(s.crashed)
    others = s.counts["failed"] - crashed
    out = []
    if crashed:
        out.append(
            f"{s.title}: {crashed} of {total} runs ended with an error and count as failed; spread and means "
            f"are of the others ({_by_arm(s)})."
        )
    if others > 0:
        out.append(
            f"{s.title}: {others} of {total} runs were ended or refused, which says nothing of them, and are "
            f"left out ({_by_arm(s)} finished)."
        )
    return out


def _by_arm(s: Setting) -> str:
    finished = Counter(r.arm for r in s.runs)
    return ", ".join(f"{s.arm_title(arm)}: {finished[arm]}" for arm in s.arms)
