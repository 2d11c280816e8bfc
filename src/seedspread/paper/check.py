"""The check: each printed number by the method the paper names, its claims in words, what that changes."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from scipy import stats

from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import AuditResult
from seedspread.analysis.judgement import adjusted, heterogeneity, word_of
from seedspread.analysis.words import between, number, p_value
from seedspread.paper.values import (
    MAIN,
    METHODS,
    NAMES,
    Series,
    bootstrap_ends,
    components,
    mode_arm,
    number_claims,
    paper_data,
    published_arm,
    published_runs,
    published_table,
    recompute,
    series,
    values,
)
from seedspread.stats.classic import f_p_value, f_test, pitman_morgan, seed_jackknife
from seedspread.stats.groups import Floats, Group, effective_df, runs_per_seed, same_seed_runs
from seedspread.stats.result import SameSeedRuns
from seedspread.stats.seed_summaries import noise_from_accuracies
from seedspread.stats.variance_ratio import RobustRatio, robust_ratio, robust_ratios

# Whether a claim holds (None: cannot be told), what was computed, and the numbers of its remark, if any.
Check = tuple[bool | None, str] | tuple[bool | None, str, dict[str, Any]]

_HIGH_ACCURACY = 90.0
_FACTORIAL = (("cifar10", "clamp"), ("cifar10", "subtract"))
_BOTH_MODES = (*_FACTORIAL, ("cifar10-low", "clamp"), ("cifar100", "clamp"), ("cifar100", "subtract"))
_OTHERS = MAIN[1:]
_CELLS = [f"cifar10/{m}/{s}" for m in ("clamp", "subtract") for s in ("detach", "direct")]


def _supcon(features: Floats, labels: Floats, margin: float, kind: str, reduction: str) -> float:
    """Return the loss of Eqs. 4 to 9."""
    z = features / np.linalg.norm(features, axis=1, keepdims=True)
    s = z @ z.T
    other = ~np.eye(len(z), dtype=bool)
    positive = (labels[:, None] == labels) & other
    if kind == "clamp":
        s = np.where(positive, np.minimum(s + margin, 1), s)
    logits = np.where(other, s / 0.15, -np.inf)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    if kind == "subtract":
        log_p = log_p - margin * positive
    sums = np.where(positive, log_p, 0).sum(axis=1)
    return float(-(sums / (positive.sum(axis=1) if reduction == "mean" else 1)).mean())


def _components(setting: str) -> tuple[float, float, str]:
    """Return the excess variance between seeds under clamp, p of the same-seed noise, and words."""
    arms = published_arm(setting, "clamp"), published_arm(setting, "subtract")
    (clamp, clamp_noise), (subtract, subtract_noise) = map(components, arms)
    df = [float(np.prod(np.array(a.matrix.shape) - 1)) for a in arms]
    p = f_p_value(clamp_noise / subtract_noise, (df[0], df[1]))
    computed = (
        f"between seeds {clamp:.3f} (clamp) against {subtract:.3f} (subtract); same-seed noise "
        f"{clamp_noise:.3f} against {subtract_noise:.3f} (F test p = {p:.2f})"
    )
    return clamp - subtract, p, computed


def _two_way(effect: str) -> tuple[float, float]:
    cells = [values(c) for c in _CELLS]
    return METHODS[f"two_way_means_{effect}"](*cells), METHODS[f"two_way_medians_{effect}"](*cells)


def _ratio(setting: str) -> float:
    return METHODS["ratio"](values(f"{setting}/clamp"), values(f"{setting}/subtract"))


def _welch(setting: str) -> tuple[float, float]:
    x, y = values(f"{setting}/clamp"), values(f"{setting}/subtract")
    return float(x.mean() - y.mean()), METHODS["welch_p"](x, y)


def no_mean_difference() -> Check:
    difference, p = _welch("cifar10")
    return True, f"difference {difference:.2f}, p = {p:.2f}"


def no_cost() -> Check:
    differences = []
    for setting in ("svhn", "fashion-mnist", "cifar100"):
        difference, p = _welch(setting)
        differences.append(f"{setting} {-difference:+.2f} (p = {p:.3f})")
    return _welch("cifar10")[1] > 0.05, "subtract minus clamp: " + ", ".join(differences)


def lower_elsewhere() -> Check:
    ratios = {s: _ratio(s) for s in _OTHERS}
    listed = ", ".join(f"{s} {r:.2f}" for s, r in ratios.items())
    return all(r < 1 for r in ratios.values()), listed


def compressed_by_accuracy() -> Check:
    """Compare the subtraction arms only: nothing is truncated in them, so that only accuracy can act."""
    baseline = values("cifar10/subtract")
    high = {d: values(f"{d}/subtract") for d in MAIN if values(f"{d}/subtract").mean() > _HIGH_ACCURACY}
    listed = [f"cifar10 {baseline.var(ddof=1):.3f} at {baseline.mean():.0f} %"]
    listed += [f"{d} {x.var(ddof=1):.3f} at {x.mean():.0f} %" for d, x in high.items()]
    ratio, p = (METHODS[method](high["svhn"], baseline) for method in ("ratio", "f_p"))
    like = METHODS["ratio"](high["fashion-mnist"], baseline)
    holds = all(x.var(ddof=1) < baseline.var(ddof=1) for x in high.values())
    return holds, "subtraction arms: " + ", ".join(listed), {"ratio": ratio, "p": p, "like": like}


def training_variance() -> Check:
    """Compare with the binomial bound a (1 - a) / N on the variance that a test set of N images causes."""
    below, listed = [], []
    for setting in MAIN:
        size = int(values(f"test images, {setting}")[0])
        for margin_type in ("clamp", "subtract"):
            arm = published_arm(setting, margin_type)
            bound = noise_from_accuracies(margin_type, arm.values, size, 100.0).floor
            if arm.within_variance <= bound:
                below.append(f"{setting}, {margin_type}")
                listed.append(f"{below[-1]}: {arm.within_variance:.3f} (bound {bound:.3f})")
    computed = f"within cells {'; '.join(listed)}" if listed else "every arm is above the bound"
    return None if below else True, computed, {"below": "; ".join(below)}


def modes_differ() -> Check:
    """Check that the derivative of log p by the shift, -1 + sum of softmax, is 0 whatever the logits."""
    logits = np.random.default_rng(1).normal(size=(100, 20)) * 5
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    residual = float(np.abs(1 - p.sum(axis=1)).max())
    return residual < 1e-9, f"1 - sum of p is at most {residual:.0e}"


def fourteen_seeds() -> Check:
    seeds = len({r["seed"] for r in published_runs() if r["setting"] == "cifar10"})
    r = np.corrcoef(values("cifar10/clamp/detach"), values("cifar10/clamp/direct"))[0, 1]
    s = np.corrcoef(values("cifar10/subtract/detach"), values("cifar10/subtract/direct"))[0, 1]
    computed = f"{seeds} seeds; the two runs of a seed correlate by {r:.2f} (clamp), {s:.2f} (subtract)"
    return seeds == 14, computed, {"seeds": seeds}


def marginal() -> Check:
    mean, median = _two_way("margin")
    return min(mean, median) > 0.05, f"p = {mean:.3f} (means), {median:.3f} (medians)"


def stability_p() -> Check:
    mean, median = _two_way("stability")
    return mean > 0.82 and median > 0.82, f"p = {mean:.3f} (means), {median:.3f} (medians)"


def modes_have_one_variance() -> Check:
    """Compare direct with detach in every arm that was run in both; equivalence is what is claimed."""
    factorial, p_values = [], []
    for setting, margin_type in _BOTH_MODES:
        direct, detach = (mode_arm(setting, margin_type, mode) for mode in ("direct", "detach"))
        ratio = direct.within_variance / detach.within_variance
        p_values.append(f_p_value(ratio, (direct.df, detach.df)))
        if (setting, margin_type) in _FACTORIAL:
            factorial.append((ratio, robust_ratio(direct, detach)))
    low = [mode_arm("cifar10-low", "clamp", mode) for mode in ("direct", "detach")]
    modelled, place = robust_ratio(low[0], low[1]), _BOTH_MODES.index(("cifar10-low", "clamp"))
    low_ratio = low[0].within_variance / low[1].within_variance
    p, together = p_values[place], adjusted(list(p_values))[place]
    within = [found.within(2) for _, found in factorial]
    numbers = {"ratios": [x for x, _ in factorial], "within": within, "low_ratio": low_ratio, "p": p}
    numbers |= {"adjusted": together, "modelled": modelled}
    computed = (
        f"low margin, clamp: {low[0].within_variance:.3f} (direct) against {low[1].within_variance:.3f} "
        f"(detach), F test p = {p:.3f}"
    )
    return all((probability or 0.0) >= 0.95 for probability in within), computed, numbers


def interaction() -> Check:
    mean, median = _two_way("interaction")
    return 0.05 < mean < 0.1, f"p = {mean:.3f} (means), {median:.3f} (medians)"


def normality_supports_f() -> Check:
    p = [METHODS["shapiro_p"](values(f"cifar10/{m}")) for m in ("clamp", "subtract")]
    return None, f"p = {p[0]:.2f} and {p[1]:.2f}"


def halving_halves_ratio() -> Check:
    subtract = values("cifar10/subtract/detach")
    standard = METHODS["ratio"](values("cifar10/clamp"), subtract)
    low = METHODS["ratio"](values("cifar10-low/clamp"), subtract)
    pooled = METHODS["ratio"](values("cifar10-low/clamp"), values("cifar10/subtract"))
    p = METHODS["f_p"](values("cifar10/clamp"), values("cifar10-low/clamp"))
    numbers = {"standard": standard, "low": low, "pooled": pooled, "cut": 1 - low / standard, "p": p}
    return abs(low / standard - 0.5) < 0.05, f"{standard:.2f} to {low:.2f} with one reference", numbers


def indistinguishable_low() -> Check:
    _, p = _welch("cifar10-low")
    return p > 0.05, f"p = {p:.2f}"


def interval_includes_one() -> Check:
    low, high = bootstrap_ends(values("cifar10-low/clamp"), values("cifar10-low/subtract"))
    return low < 1 < high, f"[{low:.2f}, {high:.2f}]"


def denominator_pathway() -> Check:
    """Change a saturated similarity and check whether any anchor's loss changes."""
    s, margin = np.array([[0.0, 0.9, 0.1], [0.9, 0.0, 0.2], [0.1, 0.2, 0.0]]), 0.4

    def losses(similarity: float) -> Floats:
        t = s.copy()
        t[0, 1] = t[1, 0] = min(similarity + margin, 1)
        logits = np.where(np.eye(3, dtype=bool), -np.inf, t / 0.15)
        out: Floats = np.logaddexp.reduce(logits, axis=1)
        return out

    moved = float(np.abs(losses(0.9) - losses(0.7)).max())
    computed = f"moving a saturated similarity from 0.9 to 0.7 changes the losses by {moved:g}"
    return moved > 0, computed


def gap_narrows() -> Check:
    gap = values("car/cifar10 standard") - values("car/cifar10 low")
    return bool(np.all(np.diff(gap) < 0)), "gaps " + ", ".join(f"{g:.1f}" for g in gap)


def below_half_by_layer_3() -> Check:
    rates = values("car/cifar10 standard")
    return bool(rates[3] < 50 <= rates[2]), f"layer 2 {rates[2]} %, layer 3 {rates[3]} %"


def truncation_tracks_rate() -> Check:
    rates = values("car/cifar10 standard")[:4]
    ratios = values("gradient/cifar10 subtract") / values("gradient/cifar10 clamp")
    pairs = ", ".join(f"{c} %: {r:.2f}" for c, r in zip(rates, ratios, strict=True))
    return bool(np.all(np.diff(rates) < 0) and np.all(np.diff(ratios) < 0)), pairs


def seeds_separate() -> Check:
    more, noise_p, computed = _components("cifar10")
    test = pitman_morgan(published_arm("cifar10", "clamp"), published_arm("cifar10", "subtract"), 0.95)
    return more > 0 and noise_p > 0.05, computed, {"test": test}


def halves() -> Check:
    standard, low = values("car/cifar10 standard")[0], values("car/cifar10 low")[0]
    cut = 1 - low / standard
    return abs(cut - 0.5) < 0.05, f"{standard} % to {low} %: reduced by {cut:.1%}"


def only_cifar10_above_one() -> Check:
    listed = ", ".join(f"{d} {_ratio(d):.2f}" for d in MAIN)
    return _ratio("cifar10") > 1 and all(_ratio(d) < 1 for d in _OTHERS), listed


def ten_times_fewer() -> Check:
    ten, hundred = (
        METHODS["expected_pairs"](values("batch"), values(f"classes/{c}")) for c in ("cifar10", "cifar100")
    )
    return abs(ten / hundred - 10) < 0.5, f"{ten:,.0f} / {hundred:,.0f} = {ten / hundred:.2f}"


def no_truncation_on_cifar100() -> Check:
    c, s = values("gradient/cifar100 clamp")[0], values("gradient/cifar100 subtract")[0]
    return bool(abs(np.log(c / s)) < np.log(1.25)), f"{c} against {s}: {s / c:.2f} times smaller"


def no_effect_on_cifar100() -> Check:
    more, _, computed = _components("cifar100")
    found = robust_ratio(published_arm("cifar100", "clamp"), published_arm("cifar100", "subtract"))
    if found.p is None:
        raise ValueError(found.note)
    turned = "; between seeds it is CIFAR-10 turned round: they differ under subtraction" if more < 0 else ""
    return found.p > 0.05, computed, {"found": found, "within": found.within(2), "turned": turned}


def reverse_of_cifar10() -> Check:
    ten, hundred = (
        values(f"gradient/{d} clamp")[0] / values(f"gradient/{d} subtract")[0]
        for d in ("cifar10", "cifar100")
    )
    return (ten - 1) * (hundred - 1) < 0, f"norms, clamp / subtract: {hundred:.2f} and {ten:.2f}"


def rises_with_depth() -> Check:
    rates, mean = values("car/svhn"), 70.6
    rest = (8 * mean - rates.sum()) / 4
    listed = ", ".join(map(str, rates))
    return bool(rest >= rates[3]), f"layers 0 to 3: {listed}; 4 to 7 on average {rest:.1f}", {"rest": rest}


def falls_on_cifar10() -> Check:
    rates = values("car/cifar10 standard")
    return bool(np.all(np.diff(rates) < 0)), ", ".join(map(str, rates))


def strongest_inversion() -> Check:
    ratios = {d: _ratio(d) for d in _OTHERS}
    listed = "variance ratios: " + ", ".join(f"{d} {r:.3f}" for d, r in ratios.items())
    return min(ratios, key=lambda d: ratios[d]) == "fashion-mnist", listed


def holm_adjusted() -> Check:
    p = [METHODS["f_p"](values(f"{d}/clamp"), values(f"{d}/subtract")) for d in MAIN]
    together = adjusted(p)
    found, _ = paper_ratios()["fashion-mnist"]
    return p[3] < 0.05, f"p = {p[3]:.3f}; adjusted {together[3]:.3f}", {"p": p_value(found.p)}


def more_aggressive() -> Check:
    padding, flip = values("padding of easy, medium, hard"), values("flip in easy, medium, hard")
    holds = bool(np.all(np.diff(padding) >= 0) and np.all(np.diff(flip) >= 0))
    return holds, "padding " + ", ".join(f"{p:.0f}" for p in padding) + "; flip yes, no, yes"


def two_clusters() -> Check:
    hard = np.sort(values("svhn-hard/clamp"))
    low, high = hard[:3].mean(), hard[3:].mean()
    holds = bool(abs(high - 35) < 0.5 and abs(low - 18) < 0.5)
    return holds, f"{low:.1f} % (3 seeds) and {high:.1f} % (2 seeds)"


def sweep_confirms() -> Check:
    p = METHODS["f_p"](values("svhn-medium/clamp"), values("svhn-medium/subtract"))
    majority, (failed, sound), fisher = _hard_failures()
    computed = f"medium: variance ratio {_ratio('svhn-medium'):.2f}, p = {p:.2f}; hard: two clusters"
    numbers = {"majority": majority, "failed": failed, "sound": sound, "fisher": fisher}
    return failed == 0 and p < 0.05, computed, numbers


def above_92() -> Check:
    means = {
        f"{d}, {m}": values(f"{d}/{m}").mean()
        for d in ("svhn", "fashion-mnist")
        for m in ("clamp", "subtract")
    }
    listed = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    clamp = [mean for name, mean in means.items() if name.endswith("clamp")]
    return all(m > 92 for m in clamp), listed


def lower_at_every_layer() -> Check:
    lower = values("car/cifar100") < values("car/cifar10 standard")
    return bool(np.all(lower)), f"{int(lower.sum())} of {len(lower)} layers"


def higher_under_clamping() -> Check:
    c, s = values("gradient/cifar10 clamp")[0], values("gradient/cifar10 subtract")[0]
    return bool(c > s), f"clamp {c}, subtract {s}"


def neutral_only_for_means() -> Check:
    """Check whether what subtraction adds to the loss is the same at every point."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0.0, 1.0, 2.0], [2, 3, 5])
    shifts = {}
    for reduction in ("mean", "sum"):
        points = [rng.normal(size=(10, 4)) for _ in range(50)]
        gaps = [
            _supcon(p, labels, 0.4, "subtract", reduction) - _supcon(p, labels, 0.0, "none", reduction)
            for p in points
        ]
        shifts[reduction] = float(np.ptp(gaps))
    spread = (
        f"the added term varies by {shifts['mean']:.0e} (mean) and {shifts['sum']:.0e} (sum) over 50 points"
    )
    return shifts["sum"] > 1e-9, spread


def nearly_six() -> Check:
    found, _ = paper_ratios()["cifar10"]
    ratio, robust = _ratio("cifar10"), f"{number(found.ratio)} {between(found.interval)}"
    return abs(ratio - 6) < 0.5, f"{ratio:.2f}", {"sd_ratio": ratio**0.5, "robust": robust}


def over_60_early() -> Check:
    rates = values("car/cifar10 standard")
    return bool(np.all(rates[:2] > 60)), f"layers 0 and 1: {rates[0]} %, {rates[1]} %"


def density_determines_rate() -> Check:
    pairs = {
        d: METHODS["expected_pairs"](values("batch"), values(f"classes/{d}"))
        for d in ("cifar10", "svhn", "cifar100")
    }
    rates = {
        "cifar10": values("car/cifar10 standard")[0],
        "svhn": values("car/svhn")[0],
        "cifar100": values("car/cifar100")[0],
    }
    listed = ", ".join(f"{d}: {pairs[d]:,.0f} pairs, {rates[d]} %" for d in pairs)
    same_ranking = sorted(pairs, key=lambda d: pairs[d]) == sorted(rates, key=lambda d: rates[d])
    return same_ranking, listed


def vanishes_at_layer_7() -> Check:
    standard, low = values("car/cifar10 standard")[7], values("car/cifar10 low")[7]
    return bool(abs(standard - low) < 0.05), f"{standard} % and {low} %"


def gone_by_layer_2() -> Check:
    ratios = values("gradient/cifar10 subtract") / values("gradient/cifar10 clamp")
    return bool(abs(ratios[2] - 1) < 0.05), f"{ratios[2]:.2f}"


def fixed_pipeline() -> Check:
    padding = values("padding of easy, medium, hard")
    return bool(np.ptp(padding) == 0), "padding 12 (CIFAR, SVHN), 4 (Fashion-MNIST), 4 and 6 (sweep)"


def same_rows() -> Check:
    same = bool(np.array_equal(values("cifar10/subtract/detach"), values("cifar10-low/subtract/detach")))
    return same, "seven equal values" if same else "different values"


def check_claims() -> list[tuple[dict[str, str], bool | None, str, str]]:
    """Return each claim, whether it holds (None if that cannot be told), what was computed, and a remark."""
    out = []
    for claim in paper_data("claims.toml")["claim"]:
        check: Callable[[], Check] | None = globals()[claim["check"]] if "check" in claim else None
        holds, computed, *numbers = check() if check is not None else (None, "-")
        remark = claim.get("comment", "")
        out.append((claim, holds, computed, remark.format(**numbers[0]) if numbers else remark))
    return out


ClaimVerdict = Literal["reproduces", "differs", "not derivable"]
VERDICTS: tuple[ClaimVerdict, ...] = ("reproduces", "differs", "not derivable")


@dataclass(frozen=True)
class Finding:
    """One claim and its verdict.

    Attributes:
        section: of the paper.
        where: the table or passage.
        what: the quantity, or the words of the claim.
        printed: as the paper has it.
        computed: from the published values.
        verdict: whether the two agree.
        comment: the computation that does give the printed number, what is missing, or what to know.
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
    findings = [finding for claim in number_claims() for finding in _number_findings(claim)]
    for claim, holds, computed, remark in check_claims():
        verdict: ClaimVerdict = "not derivable" if holds is None else "reproduces" if holds else "differs"
        place = (claim["section"], claim["where"], claim["says"])
        findings.append(Finding(*place, "in words", computed, verdict, remark))
    return sorted(findings, key=lambda f: SECTIONS.index(f.section))


SECTIONS = (
    "Abstract and introduction",
    "4 Methods",
    "5.1 Set-up",
    "5.2 CIFAR-10",
    "6 Mechanism",
    "7 Generalisation",
    "8 Discussion",
    "9 Limitations and conclusion",
    "Appendix A, per-seed results",
    "Appendix B, SVHN CAR",
    "Appendix D, normality",
)


def summary(findings: Iterable[Finding]) -> dict[str, int]:
    """Count the claims by verdict."""
    counts = Counter(f.verdict for f in findings)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def as_values(findings: list[Finding]) -> dict[str, Any]:
    """Return the check for JSON, with what it changes."""
    return {
        "summary": summary(findings),
        "answer": [asdict(point) for point in answer()],
        "claims": [asdict(f) for f in findings],
    }


def _number_findings(claim: dict[str, Any]) -> list[Finding]:
    if "missing" in claim:
        printed = next(iter(claim["printed"].values()))
        place = (claim["section"], claim["where"], claim["what"])
        return [Finding(*place, printed, "-", "not derivable", claim["missing"])]
    inputs = [series(name) for name in claim["on"]]
    if "by_layer" in claim:
        return [
            _number(claim, claim["by_layer"], printed, [s.entry(layer) for s in inputs], f"layer {layer}")
            for layer, printed in enumerate(claim["printed"])
        ]
    return [_number(claim, method, printed, inputs, "") for method, printed in claim["printed"].items()]


def _number(claim: dict[str, Any], method: str, printed: str, inputs: list[Series], label: str) -> Finding:
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
                raise ValueError(f"{claim['where']}: {other} does not give {printed} either")
            of = "" if names is None else f" of {' and '.join(names)}"
            comment = f"{NAMES[other]}{of} gives {_like(printed, other_value)}; {comment}"
    quantity = ", ".join(
        part for part in (label, NAMES.get(method, method.replace("_", " ")), _of(claim)) if part
    )
    return Finding(
        claim["section"], claim["where"], quantity, printed, _like(printed, value), verdict, comment
    )


def _of(claim: dict[str, Any]) -> str:
    """Return the name of the values, if they are one series of accuracies."""
    names = claim["on"]
    return names[0] if len(names) == 1 and "/" in names[0] and not names[0].startswith("stated") else ""


def _like(printed: str, value: float) -> str:
    """Format with one digit more than the paper prints, so that a difference shows."""
    if printed.startswith("~"):
        return f"{value:,.0f}"
    digits = len(printed.split(".")[1]) + 1 if "." in printed else 0
    return f"{value:.{digits}f}" if digits or value == round(value) else f"{value:.1f}"


@dataclass(frozen=True)
class Point:
    title: str
    text: str


def _arms(setting: str) -> tuple[Group, Group]:
    return published_arm(setting, "clamp"), published_arm(setting, "subtract")


@cache
def paper_ratios() -> dict[str, tuple[RobustRatio, float | None]]:
    """Return the headline of each dataset, and its p value adjusted over the four of them."""
    found = robust_ratios([_arms(setting) for setting in MAIN])
    together = adjusted([ratio.p for ratio in found])
    return dict(zip(MAIN, zip(found, together, strict=True), strict=True))


def answer() -> list[Point]:
    """Return every conclusion that the check changes, the weightiest first."""
    out = []
    for point in paper_data("answer.toml")["point"]:
        numbers = globals()[point["numbers"]]() if "numbers" in point else {}
        out.append(Point(point["title"], " ".join(point["text"].split()).format(**numbers)))
    return out


def _central_claim() -> dict[str, Any]:
    found, together = paper_ratios()["cifar10"]
    if found.ratio is None or found.interval is None:
        raise ValueError(found.note)
    return {
        **_judged("cifar10"),
        "sd_ratio": number(found.ratio**0.5),
        "doubled": found.above(2),
        "alone": _word(found.p),
        "of_four": _word(together),
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


def _word(p: float | None) -> str:
    return "-" if p is None else word_of(p)


def _which_assumption() -> dict[str, Any]:
    arms = _arms("cifar10")
    clamp, subtract = map(_twins, arms)
    ratio = arms[0].within_variance / arms[1].within_variance
    copies = [effective_df(arm.df, runs_per_seed(arm), 1.0) for arm in arms]
    counts = (arms[0].df, arms[1].df), (clamp.effective_df, subtract.effective_df), (copies[0], copies[1])
    within, effective, copied = (f_p_value(ratio, df) for df in counts)
    first, second = (replace(arm, seeds=np.arange(len(arm.values))) for arm in arms)
    by_run, by_seed = (p_value(seed_jackknife(*pair, 0.95).p) for pair in ((first, second), arms))
    unpaired, paired = (p_value(robust_ratio(*arms, pairs=pairs).p) for pairs in (False, True))
    means, medians = _two_way("margin")
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
        "means": means,
        "medians": medians,
    }


def _twins(arm: Group) -> SameSeedRuns:
    found = same_seed_runs(arm)
    if found is None:
        raise ValueError(f"{arm.name} has one run per seed")
    return found


def _between_seeds() -> dict[str, Any]:
    ten, hundred = ([components(arm) for arm in _arms(s)] for s in ("cifar10", "cifar100"))
    return {"ten": ten, "hundred": hundred}


def _dose_response() -> dict[str, Any]:
    low = robust_ratios([_arms("cifar10-low")])[0]
    cut = 1 - values("cifar10-low/clamp").var() / values("cifar10/clamp").var()
    return {"cut": cut, "low": f"{number(low.ratio)} {between(low.interval)}, p = {p_value(low.p)}"}


def _inversion() -> dict[str, Any]:
    f_p = [f_test(*_arms(setting), 0.95, None, None).p for setting in MAIN]
    tests = {"f_p": p_value(f_p[-1]), "f_adjusted": p_value(adjusted(f_p)[-1])}
    return _judged("fashion-mnist") | tests | {"heterogeneity": p_value(_heterogeneity())}


def _heterogeneity() -> float:
    """Test whether the datasets have one ratio; a posterior's interval gives its standard error."""
    intervals = [found.interval for found, _ in paper_ratios().values() if found.interval]
    logs = np.log([[i.low, i.high] for i in intervals])
    effects = np.log([found.ratio or np.nan for found, _ in paper_ratios().values()])
    return heterogeneity(effects, (logs[:, 1] - logs[:, 0]) / (2 * stats.norm.ppf(0.975)))[1]


def _difficulty() -> dict[str, Any]:
    _, failed, fisher = _hard_failures()
    ten, svhn, fashion = (values(f"{s}/subtract").var(ddof=1) for s in (MAIN[0], *MAIN[2:]))
    return {"ten": ten, "svhn": svhn, "fashion": fashion, "failed": failed, "fisher": p_value(fisher)}


def _hard_failures() -> tuple[float, list[int], float]:
    """Return SVHN's largest class in per cent, how many of 5 hard runs reach no more, and Fisher's p."""
    largest, size = values("largest class and size of the SVHN test set")
    majority = 100 * largest / size
    failed = [int((values(f"svhn-hard/{m}") <= majority).sum()) for m in ("clamp", "subtract")]
    return majority, failed, float(stats.fisher_exact([[n, 5 - n] for n in failed]).pvalue)


def _stability() -> dict[str, Any]:
    direct, detach = (values(f"cifar10-low/clamp/{mode}") for mode in ("direct", "detach"))
    return {
        "direct": direct.var(ddof=1),
        "detach": detach.var(ddof=1),
        "p": METHODS["f_p"](direct, detach),
    }


def _test_set() -> dict[str, Any]:
    arm = published_arm("cifar10", "subtract")
    bound = noise_from_accuracies("", arm.values, int(values("test images, cifar10")[0]), 100.0).floor
    return {"within": arm.within_variance, "bound": bound}


def audit_published(settings: tuple[str, ...] = MAIN) -> AuditResult:
    """Audit the paper's own accuracies, datasets adjusted together."""
    table = published_table()
    rows = table[table["setting"].isin(settings)]
    return audit(rows, "accuracy", "margin_type", "subtract", "stability", by="setting")
