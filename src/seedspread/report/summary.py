"""The top of the page: the question, the answer in a line and by comparison, what to do, and caveats."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.sequential import standing
from seedspread.analysis.words import claim, figures, two
from seedspread.report.data import ReportData, Setting
from seedspread.stats.planning import BudgetError, seeds_for, seeds_for_standard_error
from seedspread.stats.result import Word

_ENDED = ("done", "collapsed")
_FEWEST_SEEDS = 3
# Open comparisons that the answer names; of more it says how many.
_MOST_NAMED = 8

Row = tuple[Setting, Comparison]


def questions(data: ReportData) -> list[list[Row]]:
    """Group the comparisons by question: one arm against one baseline of one factor, by one metric.

    If every arm is compared in one setting only, the arms of a factor stay together: a figure of its own
    for each would show one line.
    """
    families: dict[tuple[str, str, str], dict[str, list[Row]]] = {}
    for s in data.settings:
        for c in s.comparisons:
            family = families.setdefault((s.metric.name, s.group, c.baseline), {})
            family.setdefault(c.group, []).append((s, c))
    out = []
    for arms in families.values():
        single = all(len(rows) == 1 for rows in arms.values())
        out += [[row for rows in arms.values() for row in rows]] if single else list(arms.values())
    return out


@dataclass(frozen=True)
class ReportSummary:
    """What a reader wants first; `details` has the title and the verdict of each comparison."""

    question: str
    short: str
    details: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    caveats: tuple[str, ...]


def summarize(data: ReportData) -> ReportSummary:
    """Word the answer of the audits; only counts and seed budgets are computed."""
    pairs = [(s, c) for s in data.settings for c in s.comparisons]
    return ReportSummary(
        question=_question(pairs),
        short=_short(pairs),
        details=tuple((s.title, c.verdict) for s, c in pairs),
        advice=tuple(_advice(data, pairs)),
        caveats=tuple(_caveats(data)),
    )


def _question(pairs: list[Row]) -> str:
    groups = list(dict.fromkeys((c.arm_name, c.baseline_name) for _, c in pairs))
    factors = {s.group for s, _ in pairs}
    metrics = {s.metric.title or s.metric.name for s, _ in pairs if s.metric.name != "accuracy"}
    what = f"how much {f'{metrics.pop()} spreads' if len(metrics) == 1 else 'results spread'} over seeds?"
    if len(factors) != 1:
        return f"Does the change alter {what}"
    factor = factors.pop()
    arm, baseline = groups[0]
    if len(groups) == 1:
        about = "" if arm.startswith(f"{factor} = ") else f" ({factor})"
        return f"Does {arm} instead of {baseline}{about} change {what}"
    against = f", against {baseline}," if len({baseline for _, baseline in groups}) == 1 else ""
    return f"Does {factor}{against} change {what}"


def _short(pairs: list[Row]) -> str:
    if not pairs:
        return "Not enough runs have ended to say."
    by_word = {w: [(s, c) for s, c in pairs if c.word == w] for w in get_args(Word)}
    places = len({s.id for s, _ in pairs}) > 1
    parts = []
    for word in ("YES", "MAYBE", "NO"):
        if rows := by_word[word]:
            parts.append(f"{word}: {'; '.join(_difference(s, c, places) for s, c in rows)}.")
    if rows := by_word["CAN'T TELL"]:
        some = len(pairs) > 1 and len(rows) < len(pairs)
        parts.append(_cannot_tell(rows, pairs if some else []))
    return " ".join(parts)


def _cannot_tell(pairs: list[Row], all_pairs: list[Row]) -> str:
    many = f"{len(pairs)} of {len(all_pairs)} comparisons"
    named = many if len(pairs) > _MOST_NAMED else _where(pairs, all_pairs)
    what = f"CAN'T TELL for {named}" if all_pairs else "CAN'T TELL"
    if len(pairs) == 1:
        return f"{what}: {claim(pairs[0][1])}."
    seen = sorted({(c.detectable, min(c.seeds)) for _, c in pairs if c.detectable})
    if not seen:
        return f"{what}."
    ratios = " to ".join(f"{two(r)} ({n} seeds)" for r, n in dict.fromkeys((seen[0], seen[-1])))
    return f"{what}: only variance ratios above {ratios} are likely to be detected."


def _difference(s: Setting, c: Comparison, name: bool) -> str:
    return f"{f'{s.name}: ' if name else ''}{claim(c)}, {figures(c)}"


def _where(rows: Sequence[Row], all_rows: Sequence[Row]) -> str:
    """Name the settings of some comparisons, and their arms if there are several: `clamp on depth = 2, 4`."""
    arms: dict[str, list[Setting]] = {}
    for s, c in rows:
        arms.setdefault(f"{c.arm_name} over {c.baseline_name}", []).append(s)
    if len({(s.group, c.group, c.baseline) for s, c in all_rows}) == 1:
        return _listed([s for s, _ in rows])
    if len({s.id for s, _ in all_rows}) == 1:
        return ", ".join(arms)
    return "; ".join(f"{arm} on {_listed(settings)}" for arm, settings in arms.items())


def _listed(settings: Sequence[Setting]) -> str:
    """Join names, the levels of one factor together: `depth = 2, 4, 8`."""
    parts: dict[str, list[str]] = {}
    for s in settings:
        factor, level = s.levels[0] if len(s.levels) == 1 else ("", "")
        together = bool(factor) and s.name == f"{factor} = {level}"
        parts.setdefault(f"{factor} = " if together else s.name, []).extend([level] if together else [])
    return ", ".join(head + ", ".join(dict.fromkeys(levels)) for head, levels in parts.items())


def _advice(data: ReportData, pairs: list[Row]) -> Iterator[str]:
    if not pairs:
        yield from _advice_without_comparison(data)
        return
    shown = [(s, c) for s, c in pairs if c.word == "YES"]
    budgets = (_seeds_for_means(s, c) for s, c in shown) if shown else _seeds_for_ratios(pairs[0][1])
    yield from filter(None, budgets)
    for s, _ in pairs:
        for extension in data.extensions:
            yield from extension.advice(s)
    if any(c.collapse.found for _, c in pairs):
        yield (
            "Compare how often runs fail, not their variance: the failure rates stand with each setting, "
            "with an exact test."
        )


def _advice_without_comparison(data: ReportData) -> list[str]:
    states = [state.state for s in data.settings for state in s.states.values()]
    failed, to_come = states.count("failed"), sum(state not in (*_ENDED, "failed") for state in states)
    if failed and not to_come:
        return [
            f"{failed} of {len(states)} runs failed: see why under “What was run”, mend it, and rerun the "
            "study with --retry-failed."
        ]
    if to_come:
        return ["Let the study go on (rerun its command to resume it), and make the report again."]
    return []


def _seeds_for_ratios(c: Comparison) -> list[str]:
    try:
        two, five = (seeds_for(r)[0] for r in (2.0, 5.0))
    except BudgetError:
        return []
    return [
        f"To see a variance ratio of 5 takes about {five} seeds per arm, a ratio of 2 about {two} (power "
        f"0.8, normal values); here are {c.seeds[0]} and {c.seeds[1]}. Plan with: seedspread seeds --ratio 2."
    ]


def _seeds_for_means(s: Setting, c: Comparison) -> str:
    """Say how many seeds each arm needs for a mean known to a third of the larger sd."""
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


def _caveats(data: ReportData) -> Iterator[str]:
    for s in data.settings:
        counts = s.counts
        total, crashed = sum(counts.values()), len(s.crashed)
        open_ = sum(n for state, n in counts.items() if state not in (*_ENDED, "failed"))
        by_arm = Counter(r.arm for r in s.runs)
        finished = ", ".join(f"{s.arm_title(arm)}: {by_arm[arm]}" for arm in s.arms)
        if s.why:
            yield f"{s.title}: {s.why}{f' ({open_} runs to go)' if open_ else ''}."
        elif open_:
            yield (
                f"{s.title}: {open_} of {total} runs are not finished ({finished} are); numbers will change."
            )
        if s.sequential is not None and not s.sequential.stopped:
            yield f"{s.title}: {standing(s.sequential)}"
        if crashed:
            yield (
                f"{s.title}: {crashed} of {total} runs ended with an error and count as failed; spread and "
                f"means are of the others ({finished})."
            )
        if (others := counts["failed"] - crashed) > 0:
            yield (
                f"{s.title}: {others} of {total} runs were ended or refused, which says nothing of them, and "
                f"are left out ({finished} finished)."
            )
    yield from data.problems
