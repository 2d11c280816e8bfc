"""The answer on top of the page: in a line, in sentences, and what to do."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from seedspread.advice import advise
from seedspread.report.material import Material, Setting
from seedspread.stats.power import BudgetError, seeds_for_ratio, seeds_for_standard_error
from seedspread.stats.result import Comparison
from seedspread.stats.verdict import between, number

_ALPHA = 0.05
_ENDED = ("done", "collapsed")


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


def answer(material: Material) -> Answer:
    """From the audits; nothing is computed but counts and seed budgets."""
    pairs = [(s, c) for s in material.settings for c in s.comparisons]
    groups = list(dict.fromkeys((c.group, c.reference) for _, c in pairs))
    question = (
        f"Does {groups[0][0]}, against {groups[0][1]}, change how much results spread over seeds?"
        if len(groups) == 1
        else "Does the change alter how much results spread over seeds?"
    )
    return Answer(
        question=question,
        short=_short(pairs),
        details=tuple((s.title, c.verdict) for s, c in pairs),
        advice=tuple(_advice(material, pairs)),
        caveats=tuple(_caveats(material)),
    )


def _adjusted(c: Comparison) -> float | None:
    return c.headline.p if c.p_holm is None else c.p_holm


def _short(pairs: list[tuple[Setting, Comparison]]) -> str:
    if not pairs:
        return "Not enough runs have ended to say."
    failing = [s.title.split(" (")[0] for s, c in pairs if c.collapse.found]
    sound = [(s, c) for s, c in pairs if not c.collapse.found]
    shown = [(s, c) for s, c in sound if (p := _adjusted(c)) is not None and p < _ALPHA]
    parts = []
    if shown:
        parts.append("Yes: " + "; ".join(_shown(s, c, len(pairs) > 1) for s, c in shown) + ".")
        if len(shown) < len(sound):
            parts.append(f"Not shown in the other {len(sound) - len(shown)} of {len(sound)} comparisons.")
    elif sound:
        parts.append("No difference in spread is shown.")
        seen = [c.detectable for _, c in sound if c.detectable]
        if seen:
            parts.append(
                "That is no proof that there is none: so few seeds see only large differences, "
                f"variance ratios of {number(min(seen))} and more."
            )
    if failing:
        parts.append(f"Where runs fail to train ({', '.join(failing)}), spread is the wrong question.")
    return " ".join(parts)


def _shown(s: Setting, c: Comparison, name: bool) -> str:
    ratio = c.headline.ratio or 1.0
    more = "more" if ratio > 1 else "less"
    where = f"on {s.title.split(' (')[0]} " if name else ""
    return f"{where}{c.group} spreads {more}, variance ratio {number(ratio)} {between(c.headline.interval)}"


def _advice(material: Material, pairs: list[tuple[Setting, Comparison]]) -> list[str]:
    out = []
    if not pairs:
        return ["Let the campaign go on: seedspread campaign run STUDY, and make the report again."]
    s, c = pairs[0]
    shown = any((p := _adjusted(x)) is not None and p < _ALPHA and not x.collapse.found for _, x in pairs)
    if not shown:
        out += _more_seeds(c)
    budget = _budget(c)
    if budget:
        out.append(budget)
    out += _about_the_clamp(s)
    failing = next((x for _, x in pairs if x.collapse.found), None)
    if failing is not None:
        out.append(
            "Compare how often runs fail, not their variance: the failure rates stand with each setting, "
            "with an exact test."
        )
    if any(x.scale.same is False for x in material.settings):
        out.append("These runs are not at the paper's scale: they say nothing about its effect either way.")
    return out


def _more_seeds(c: Comparison) -> list[str]:
    try:
        two, five = (seeds_for_ratio(r)[0] for r in (2.0, 5.0))
    except BudgetError:
        return []
    return [
        f"To see a variance ratio of 5 takes about {five} seeds per arm, a ratio of 2 about {two} (power "
        f"0.8, normal values); here are {c.seeds[0]} and {c.seeds[1]}. Plan with: seedspread seeds --ratio 2."
    ]


def _budget(c: Comparison) -> str:
    """Seeds for a mean that is known to a third of the larger spread."""
    sds = [p.sd for p in c.pooled]
    if any(not sd for sd in sds):
        return ""
    goal = float(f"{max(sd for sd in sds if sd) / 3:.1g}")
    counts = [seeds_for_standard_error(sd, goal) for sd in sds if sd]
    return (
        f"For means with a standard error of {goal:g}, take {counts[0]} seeds of {c.group} and {counts[1]} "
        f"of {c.reference}."
    )


def _about_the_clamp(s: Setting) -> list[str]:
    """The paper's rule of thumb, where it applies."""
    clamping = [r for r in s.runs if r.arm == "clamp" and r.layers is not None]
    if not s.is_the_papers or not clamping:
        return []
    layers = [r.layers for r in clamping if r.layers is not None]
    found = advise(
        float(np.mean([x.rate[0] for x in layers])),
        clamp=True,
        accuracy=float(np.mean([r.value for r in clamping])) / 100,
        pair_share=float(np.mean([x.pair_share for x in layers])),
    )
    return [f"The paper's rule of thumb for {s.title}: {found.sentence} {' '.join(found.reasons)}"]


def _caveats(material: Material) -> list[str]:
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
        if counts["failed"]:
            out.append(
                f"{s.title}: {counts['failed']} of {sum(counts.values())} runs failed and are left out "
                f"({_by_arm(s)} finished). If failing has to do with the arm, the rest is a biased sample."
            )
    return [*out, *material.problems]


def _by_arm(s: Setting) -> str:
    found = Counter(r.arm for r in s.runs)
    return ", ".join(f"{arm} {found[arm]}" for arm in s.arms)
