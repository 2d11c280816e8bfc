"""Check the paper: recompute every printed number by the named method, and judge every claim in words."""

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from seedspread.analysis.display import Answer, Block, Note, Result, table_of
from seedspread.analysis.judgement import adjusted, heterogeneity, word_of
from seedspread.analysis.words import between, minus, number, p_value
from seedspread.paper.values import (
    MAIN,
    METHODS,
    NAMES,
    SETTINGS,
    PrintedNumber,
    components,
    mode_group,
    paper_data,
    printed_numbers,
    published_group,
    published_runs,
    recompute,
    series,
    values,
)
from seedspread.stats.classic import f_p_value, f_test, pitman_morgan, seed_jackknife
from seedspread.stats.groups import Group, effective_df, runs_per_seed, same_seed_runs
from seedspread.stats.seed_summaries import noise_from_accuracies
from seedspread.stats.variance_ratio import RobustRatio, robust_ratio, robust_ratios

# Whether a claim holds (None: cannot be judged), the computed result, and the numbers of its remark, if any.
Check = tuple[bool | None, str] | tuple[bool | None, str, dict[str, Any]]

_BOTH_MODES = "cifar10-low/clamp cifar10/clamp cifar10/subtract cifar100/clamp cifar100/subtract".split()
_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, "==": operator.eq}


def _components(setting: str) -> tuple[float, float, str]:
    """Return the excess variance between seeds under clamp, p for the same-seed noise, and both in words."""
    groups = _groups(setting)
    (clamp, clamp_noise), (subtract, subtract_noise) = map(components, groups)
    df = [float(np.prod(np.array(a.matrix.shape) - 1)) for a in groups]
    p = f_p_value(clamp_noise / subtract_noise, (df[0], df[1]))
    computed = (
        f"between seeds {clamp:.3f} (clamp) vs {subtract:.3f} (subtract); same-seed noise "
        f"{clamp_noise:.3f} vs {subtract_noise:.3f} (F test p = {p:.2f})"
    )
    return clamp - subtract, p, computed


def training_variance() -> Check:
    found = {f"{s}, {m}": _bounded(s, m) for s in MAIN for m in ("clamp", "subtract")}
    below = {group: numbers for group, numbers in found.items() if numbers[0] <= numbers[1]}
    listed = "; ".join(
        f"{group}: {within:.3f} (bound {bound:.3f})" for group, (within, bound) in below.items()
    )
    computed = f"within cells {listed}" if below else "every group is above the bound"
    return None if below else True, computed, {"below": "; ".join(below)}


def _bounded(setting: str, margin_type: str) -> tuple[float, float]:
    """Return the variance within cells, and a (1 - a) / N, the bound of a test set's noise with N images."""
    group, images = published_group(setting, margin_type), int(values(f"test images, {setting}")[0])
    return group.within_variance, noise_from_accuracies("", group.values, images, 100.0).explained


def fourteen_seeds() -> Check:
    seeds = len({r["seed"] for r in published_runs() if r["setting"] == "cifar10"})
    r, s = (np.corrcoef(*group.matrix.T)[0, 1] for group in _groups("cifar10"))
    computed = f"{seeds} seeds; same-seed runs have r = {r:.2f} (clamp), {s:.2f} (subtract)"
    return seeds == 14, computed, {"seeds": seeds}


def accuracy_compresses() -> tuple[bool | None, str, dict[str, Any]]:
    """Compare the datasets' subtraction groups: nothing is truncated there, so only accuracy can matter."""
    groups = {name: published_group(name, "subtract") for name in (MAIN[0], *MAIN[2:])}
    ten, *others = groups.values()
    found = [robust_ratio(other, ten, pairs=False) for other in others]  # different data
    listed = (f"{n} {g.values.var(ddof=1):.3f} at {g.values.mean():.0f}%" for n, g in groups.items())
    ratios = (f"{number(one.ratio)} {between(one.interval)}" for one in found)
    numbers = dict(zip(("svhn", "fashion"), ratios, strict=True))
    ends = [(one.interval.low, one.interval.high) for one in found if one.interval]
    holds = False if any(low > 1 for low, _ in ends) else all(high < 1 for _, high in ends) or None
    return holds, f"subtraction groups: {', '.join(listed)}", numbers


def modes_have_one_variance() -> Check:
    """Compare direct with detach in every group that was run in both; the claim is equivalence."""
    pairs = [(mode_group(group, "direct"), mode_group(group, "detach")) for group in _BOTH_MODES]
    ratios = [direct.within_variance / detach.within_variance for direct, detach in pairs]
    p = [f_p_value(ratio, (a.df, b.df)) for ratio, (a, b) in zip(ratios, pairs, strict=True)]
    low, *factorial = (robust_ratio(*pair) for pair in pairs[:3])
    within = [found.within(2) for found in factorial]
    numbers = {"ratios": ratios[1:3], "within": within, "low_ratio": ratios[0], "p": p[0]}
    numbers |= {"adjusted": adjusted([*p])[0], "modelled": low}
    direct, detach = (group.within_variance for group in pairs[0])
    computed = f"low margin, clamp: {direct:.3f} (direct) vs {detach:.3f} (detach), F test p = {p[0]:.3f}"
    return all((probability or 0.0) >= 0.95 for probability in within), computed, numbers


def seeds_separate() -> Check:
    more, noise_p, computed = _components("cifar10")
    return more > 0 and noise_p > 0.05, computed, {"test": pitman_morgan(*_groups("cifar10"), 0.95)}


def no_effect_on_cifar100() -> Check:
    more, _, computed = _components("cifar100")
    found = robust_ratio(*_groups("cifar100"))
    if found.p is None:
        raise ValueError(found.note)
    turned = "; between seeds it is CIFAR-10 turned round: they differ under subtraction" if more < 0 else ""
    return found.p > 0.05, computed, {"found": found, "within": found.within(2), "turned": turned}


def rises_with_depth() -> Check:
    rates = values("car/svhn")
    rest = (8 * values("stated/mean car svhn")[0] - rates.sum()) / 4
    listed = ", ".join(map(str, rates))
    return bool(rest >= rates[3]), f"layers 0 to 3: {listed}; 4 to 7 on average {rest:.1f}", {"rest": rest}


def holm_adjusted() -> Check:
    p = [METHODS["f_p"](values(f"{d}/clamp"), values(f"{d}/subtract")) for d in MAIN]
    together = adjusted(p)
    found, _ = paper_ratios()["fashion-mnist"]
    return p[3] < 0.05, f"p = {p[3]:.3f}; adjusted {together[3]:.3f}", {"p": p_value(found.p)}


def two_clusters() -> Check:
    hard = np.sort(values("svhn-hard/clamp"))
    low, high = hard[:3].mean(), hard[3:].mean()
    holds = bool(abs(high - 35) < 0.5 and abs(low - 18) < 0.5)
    return holds, f"{low:.1f}% (3 seeds) and {high:.1f}% (2 seeds)"


def sweep_confirms() -> Check:
    found = _numbers({"ratio": ["ratio", "svhn-medium"], "p": ["f_p", "svhn-medium"]})
    majority, (clamp, subtract), fisher = _hard_failures()
    computed = "medium: variance ratio {ratio:.2f}, p = {p:.2f}; hard: two clusters".format(**found)
    numbers = {"majority": majority, "failed": clamp, "subtract_failed": subtract, "fisher": fisher}
    return clamp == 0 and found["p"] < 0.05, computed, numbers


def lower_at_every_layer() -> Check:
    lower = values("car/cifar100") < values("car/cifar10 standard")
    return bool(np.all(lower)), f"{int(lower.sum())} of {len(lower)} layers"


def nearly_six() -> Check:
    found, _ = paper_ratios()["cifar10"]
    ratio = METHODS["ratio"](values("cifar10/clamp"), values("cifar10/subtract"))
    robust = f"{number(found.ratio)} {between(found.interval)}"
    return abs(ratio - 6) < 0.5, f"{ratio:.2f}", {"sd_ratio": ratio**0.5, "robust": robust}


def same_rows() -> Check:
    same = bool(np.array_equal(values("cifar10/subtract/detach"), values("cifar10-low/subtract/detach")))
    return same, "seven equal values" if same else "different values"


def _compared(claim: dict[str, Any]) -> Check:
    numbers = _numbers(claim.get("numbers", {}))
    holds = [_is_true(comparison.format(**numbers)) for comparison in claim.get("holds", ())]
    holds += [claim["proved"]] if "proved" in claim else []
    return all(holds) if holds else None, claim.get("computed", "-").format(**numbers), numbers


def _numbers(named: dict[str, str | list[str]]) -> dict[str, Any]:
    """Return numbers by name: published values, or a method applied to these or to earlier numbers."""
    found: dict[str, Any] = {}
    for name, what in named.items():
        if isinstance(what, str):
            found[name] = values(what)
            continue
        method, *on = what
        both = on if on[0] not in SETTINGS else [f"{on[0]}/{group}" for group in ("clamp", "subtract")]
        arrays = [[found[x]] if x in found else values(x) for x in both]
        if method.startswith("each "):
            apply = METHODS[method.removeprefix("each ")]
            found[name] = [apply(*([x] for x in entry)) for entry in zip(*arrays, strict=True)]
        else:
            found[name] = METHODS[method](*arrays)
    return found


def _is_true(comparison: str) -> bool:
    """Return whether a chain of numbers such as `0.8 < 1.72 < 1.25` is in order."""
    words = comparison.split()
    pairs = zip(words[::2], words[1::2], words[2::2], strict=False)
    return all(_COMPARED[sign](float(a), float(b)) for a, sign, b in pairs)


ClaimVerdict = Literal["reproduces", "differs", "not derivable"]
VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)
IN_WORDS = "in words"
SECTIONS: list[str] = paper_data("claims.toml")["sections"]


@dataclass(frozen=True)
class Finding:
    """One claim and its verdict.

    Attributes:
        where: the table or passage of the paper.
        what: the quantity, or the words of the claim.
        computed: the result from the published values.
        comment: the computation that gives the printed number, the missing data, or a remark.
    """

    section: str
    where: str
    what: str
    printed: str
    computed: str
    verdict: ClaimVerdict
    comment: str = ""


def check_paper() -> list[Finding]:
    """Return a finding for every claim, numbers first, in the order of the paper's sections."""
    findings = [*map(_number, printed_numbers()), *map(_in_words, paper_data("claims.toml")["claim"])]
    return sorted(findings, key=lambda f: SECTIONS.index(f.section))


def _in_words(claim: dict[str, Any]) -> Finding:
    holds, computed, *numbers = globals()[claim["check"]]() if "check" in claim else _compared(claim)
    remark = claim.get("comment", "")
    verdict: ClaimVerdict = "not derivable" if holds is None else "reproduces" if holds else "differs"
    place = (claim["section"], claim["where"], claim["says"])
    return Finding(*place, IN_WORDS, computed, verdict, remark.format(**numbers[0]) if numbers else remark)


def summary(findings: Iterable[Finding]) -> dict[str, dict[str, int]]:
    """Count the printed numbers and, separately, the statements in words, by verdict."""
    counts = Counter((f.printed == IN_WORDS, f.verdict) for f in findings)
    kinds = {"numbers": False, "statements": True}
    return {kind: {v: counts[in_words, v] for v in VERDICTS} for kind, in_words in kinds.items()}


def counted(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence on how many numbers hold, and one on statements."""
    numbers, statements = summary(findings).values()
    return [
        f"{numbers['reproduces']} of {sum(numbers.values())} printed numbers reproduce, "
        f"{numbers['differs']} differ, {numbers['not derivable']} cannot be derived from what is published.",
        f"{statements['reproduces']} of {sum(statements.values())} statements hold, "
        f"{statements['differs']} do not, {statements['not derivable']} cannot be judged.",
    ]


@dataclass(frozen=True, eq=False, repr=False)
class PaperCheck(Result):
    """The check of the paper on one screen; with details, every claim, or those with the verdict `only`."""

    findings: tuple[Finding, ...]
    only: str | None = None

    def as_values(self) -> dict[str, Any]:
        """Return the counts, the changed conclusions and every claim, for JSON."""
        return {
            "summary": summary(self.findings),
            "answer": [asdict(point) for point in answer()],
            "claims": [asdict(f) for f in self.findings],
        }

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        numbers, statements = counted(self.findings)
        yield Answer("Numbers", (numbers,))
        yield Answer("Statements", (statements,))
        if self.only is None:
            yield Answer("Changes", tuple(point.title for point in answer()))
        if not details:
            yield ""
            yield Answer("More", ("--details every claim, --only differs, seedspread docs paper-check",))
            return
        for section in SECTIONS:
            rows = [f for f in self.findings if f.section == section and self.only in (None, f.verdict)]
            if rows:
                cells = [(f.where, f.what, minus(f.printed), minus(f.computed), f.verdict) for f in rows]
                yield table_of(section, ("where", "claim", "printed", "computed", "verdict"), cells)
            yield from (Note(f"{f.where}, {f.what}: {minus(f.comment)}") for f in rows if f.comment)
        for point in answer() if self.only is None else ():
            yield ""
            yield f"{point.title} {minus(point.text)}"


def _number(claimed: PrintedNumber) -> Finding:
    claim, method, printed, inputs = claimed.claim, claimed.method, claimed.text, claimed.inputs
    section, where = claim["section"], claim["where"]
    if "missing" in claim:
        return Finding(section, where, claim["what"], printed, "-", "not derivable", claim["missing"])
    label = "" if claimed.layer is None else f"layer {claimed.layer}"
    value, agrees = recompute(method, printed, inputs)
    verdict: ClaimVerdict = "reproduces" if agrees else "differs"
    comment = claim.get("note", "")
    if verdict == "differs":
        comment = claim.get("why", "")
        other = claim.get("instead", {}).get(method)
        if other:
            names = claim.get("instead_on", {}).get(method)
            others = inputs if names is None else [series(name) for name in names]
            other_value, other_agrees = recompute(other, printed, others)
            if not other_agrees:
                raise ValueError(f"{where}: {other} does not give {printed} either")
            of = "" if names is None else f" of {' and '.join(names)}"
            comment = f"{NAMES[other]}{of} gives {_like(printed, other_value)}; {comment}"
    quantity = ", ".join(filter(None, (label, NAMES.get(method, method.replace("_", " ")), _of(claim))))
    return Finding(section, where, quantity, printed, _like(printed, value), verdict, comment)


def _of(claim: dict[str, Any]) -> str:
    """Return the name of a number's input, if it is a single series of accuracies."""
    names = claim["on"]
    return names[0] if len(names) == 1 and "/" in names[0] and not names[0].startswith("stated") else ""


def _like(printed: str, value: float) -> str:
    """Format with one digit more than the paper prints, so that a difference is visible."""
    if printed.startswith("~"):
        return f"{value:,.0f}"
    digits = len(printed.split(".")[1]) + 1 if "." in printed else 0
    return f"{value:.{digits}f}" if digits or value == round(value) else f"{value:.1f}"


@dataclass(frozen=True)
class Point:
    title: str
    text: str


def _groups(setting: str) -> tuple[Group, Group]:
    return published_group(setting, "clamp"), published_group(setting, "subtract")


@cache
def paper_ratios() -> dict[str, tuple[RobustRatio, float | None]]:
    """Return the headline ratio of each dataset, and its p value adjusted for the four datasets."""
    found = robust_ratios([_groups(setting) for setting in MAIN])
    together = adjusted([ratio.p for ratio in found])
    return dict(zip(MAIN, zip(found, together, strict=True), strict=True))


def answer() -> list[Point]:
    """Return every conclusion that the check changes, the most important first."""
    out = []
    for point in paper_data("answer.toml")["point"]:
        source = point.get("numbers", {})
        numbers = globals()[source]() if isinstance(source, str) else _numbers(source)
        out.append(Point(point["title"], " ".join(point["text"].split()).format(**numbers)))
    return out


def _central_claim() -> dict[str, Any]:
    found, together = paper_ratios()["cifar10"]
    if found.ratio is None or found.interval is None or found.p is None or together is None:
        raise ValueError(found.note)
    return {
        **_judged("cifar10"),
        "sd_ratio": number(found.ratio**0.5),
        "doubled": found.above(2),
        "alone": word_of(found.p),
        "of_four": word_of(together),
        "factor": found.interval.high / found.interval.low,
    }


def _judged(setting: str) -> dict[str, str]:
    found, together = paper_ratios()[setting]
    return {
        "ratio": number(found.ratio),
        "interval": between(found.interval),
        "p": p_value(found.p),
        "adjusted": p_value(together),
    }


def _which_assumption() -> dict[str, Any]:
    groups = _groups("cifar10")
    clamp, subtract = map(same_seed_runs, groups)
    if clamp is None or subtract is None:
        raise ValueError("a group has one run per seed")
    ratio = groups[0].within_variance / groups[1].within_variance
    copies = [effective_df(group.df, runs_per_seed(group), 1.0) for group in groups]
    counts = (groups[0].df, groups[1].df), (clamp.effective_df, subtract.effective_df), (copies[0], copies[1])
    within, effective, copied = (f_p_value(ratio, df) for df in counts)
    first, second = (replace(group, seeds=np.arange(len(group.values))) for group in groups)
    by_run, by_seed = (p_value(seed_jackknife(*pair, 0.95).p) for pair in ((first, second), groups))
    unpaired, paired = (p_value(robust_ratio(*groups, pairs=pairs).p) for pairs in (False, True))
    cells = [values(f"cifar10/{m}/{s}") for m in ("clamp", "subtract") for s in ("detach", "direct")]
    return {
        "clamp": number(clamp.correlation),
        "subtract": number(subtract.correlation),
        "clamp_df": clamp.effective_df,
        "subtract_df": subtract.effective_df,
        "within": within,
        "effective": effective,
        "copied": copied,
        "by_run": by_run,
        "by_seed": by_seed,
        "unpaired": unpaired,
        "paired": paired,
        "means": METHODS["two_way_means_margin"](*cells),
        "medians": METHODS["two_way_medians_margin"](*cells),
    }


def _between_seeds() -> dict[str, Any]:
    ten, hundred = ([components(group) for group in _groups(s)] for s in ("cifar10", "cifar100"))
    return {"ten": ten, "hundred": hundred}


def _dose_response() -> dict[str, Any]:
    low = robust_ratios([_groups("cifar10-low")])[0]
    cut = 1 - values("cifar10-low/clamp").var() / values("cifar10/clamp").var()
    return {"cut": cut, "low": f"{number(low.ratio)} {between(low.interval)}, p = {p_value(low.p)}"}


def _inversion() -> dict[str, Any]:
    f_p = [f_test(*_groups(setting), 0.95, None, None).p for setting in MAIN]
    tests = {"f_p": p_value(f_p[-1]), "f_adjusted": p_value(adjusted(f_p)[-1])}
    return _judged("fashion-mnist") | tests | {"heterogeneity": p_value(_heterogeneity())}


def _heterogeneity() -> float:
    """Return p for equal ratios in all datasets; standard errors are from the posteriors' intervals."""
    intervals = [found.interval for found, _ in paper_ratios().values() if found.interval]
    logs = np.log([[i.low, i.high] for i in intervals])
    effects = np.log([found.ratio or np.nan for found, _ in paper_ratios().values()])
    return heterogeneity(effects, (logs[:, 1] - logs[:, 0]) / (2 * stats.norm.ppf(0.975)))[1]


def _difficulty() -> dict[str, Any]:
    _, failed, fisher = _hard_failures()
    return accuracy_compresses()[2] | {"failed": failed, "fisher": p_value(fisher)}


def _hard_failures() -> tuple[float, list[int], float]:
    """Return SVHN's largest class in percent, failed hard runs (clamp, subtract) of 5, and Fisher's p."""
    largest, size = values("largest class and size of the SVHN test set")
    majority = 100 * largest / size
    failed = [int((values(f"svhn-hard/{m}") <= majority).sum()) for m in ("clamp", "subtract")]
    return majority, failed, float(stats.fisher_exact([[n, 5 - n] for n in failed]).pvalue)


def _test_set() -> dict[str, Any]:
    return dict(zip(("within", "bound"), _bounded("cifar10", "subtract"), strict=True))
