"""Claims in words about the mechanism: activation rates, gradient norms, positive pairs; see claims.py."""

import numpy as np

from seedspread.paper.methods import METHODS
from seedspread.paper.values import CheckResult, values


def halves() -> CheckResult:
    standard, low = values("car/cifar10 standard")[0], values("car/cifar10 low")[0]
    cut = 1 - low / standard
    comment = "the margin is halved, not the rate"
    return abs(cut - 0.5) < 0.05, f"{standard} % to {low} %: reduced by {cut:.1%}", comment


def over_60_early() -> CheckResult:
    rates = values("car/cifar10 standard")
    comment = "only layer 0 exceeds 60 %; layer 1 has 58.3 %"
    return bool(np.all(rates[:2] > 60)), f"layers 0 and 1: {rates[0]} %, {rates[1]} %", comment


def gap_narrows() -> CheckResult:
    gap = values("car/cifar10 standard") - values("car/cifar10 low")
    return bool(np.all(np.diff(gap) < 0)), "gaps " + ", ".join(f"{g:.1f}" for g in gap), ""


def below_half_by_layer_3() -> CheckResult:
    rates = values("car/cifar10 standard")
    return bool(rates[3] < 50 <= rates[2]), f"layer 2 {rates[2]} %, layer 3 {rates[3]} %", ""


def truncation_tracks_rate() -> CheckResult:
    rates = values("car/cifar10 standard")[:4]
    ratios = values("gradient/cifar10 subtract") / values("gradient/cifar10 clamp")
    comment = (
        "both fall from layer to layer, which is what is claimed; but the rate falls by a fifth while the "
        "ratio of norms falls to a fifth, and at layer 3, half of the pairs saturated, clamping has the "
        "larger norm"
    )
    pairs = ", ".join(f"{c} %: {r:.2f}" for c, r in zip(rates, ratios, strict=True))
    return bool(np.all(np.diff(rates) < 0) and np.all(np.diff(ratios) < 0)), pairs, comment


def ten_times_fewer() -> CheckResult:
    ten, hundred = (
        METHODS["expected_pairs"](values("batch"), values(f"classes/{c}")) for c in ("cifar10", "cifar100")
    )
    return abs(ten / hundred - 10) < 0.5, f"{ten:,.0f} / {hundred:,.0f} = {ten / hundred:.2f}", ""


def reverse_of_cifar10() -> CheckResult:
    ten, hundred = (
        values(f"gradient/{d} clamp")[0] / values(f"gradient/{d} subtract")[0]
        for d in ("cifar10", "cifar100")
    )
    comment = (
        "both ratios of norms are below 1: on both datasets clamping has the smaller gradient at layer 0, on "
        "CIFAR-10 more so. Nothing is reversed"
    )
    return (ten - 1) * (hundred - 1) < 0, f"norms, clamp / subtract: {hundred:.2f} and {ten:.2f}", comment


def no_truncation_on_cifar100() -> CheckResult:
    c, s = values("gradient/cifar100 clamp")[0], values("gradient/cifar100 subtract")[0]
    comment = "at layer 0 clamping has a norm 1.7 times smaller: truncation is weaker there, not absent"
    return bool(abs(np.log(c / s)) < np.log(1.25)), f"{c} against {s}: {s / c:.2f} times smaller", comment


def higher_under_clamping() -> CheckResult:
    c, s = values("gradient/cifar10 clamp")[0], values("gradient/cifar10 subtract")[0]
    return bool(c > s), f"clamp {c}, subtract {s}", "it is 4.0 times lower, as Table 8 and Section 6 say"


def single_seed() -> CheckResult:
    comment = "a single seed has no standard deviation over seeds; what the ± of Table 12 is, is not said"
    return None, "-", comment


def rises_with_depth() -> CheckResult:
    rates, mean = values("car/svhn"), 70.6
    rest = (8 * mean - rates.sum()) / 4
    comment = (
        "Table 18 gives 78.3 % to layer 3, Section 7.2 to layer 7. With a mean of 70.6 % over eight layers, "
        f"layers 4 to 7 average {rest:.1f} %, below layer 3: the rate rises to layer 3 and then falls"
    )
    listed = ", ".join(map(str, rates))
    return bool(rest >= rates[3]), f"layers 0 to 3: {listed}; 4 to 7 on average {rest:.1f}", comment


def falls_on_cifar10() -> CheckResult:
    rates = values("car/cifar10 standard")
    return bool(np.all(np.diff(rates) < 0)), ", ".join(map(str, rates)), ""


def lower_at_every_layer() -> CheckResult:
    lower = values("car/cifar100") < values("car/cifar10 standard")
    return bool(np.all(lower)), f"{int(lower.sum())} of {len(lower)} layers", ""


def necessary() -> CheckResult:
    comment = "the clamp activation rate was not measured in the medium and hard levels, nor on Fashion-MNIST"
    return None, "-", comment


def vanishes_at_layer_7() -> CheckResult:
    standard, low = values("car/cifar10 standard")[7], values("car/cifar10 low")[7]
    return bool(abs(standard - low) < 0.05), f"{standard} % and {low} %", ""


def gone_by_layer_2() -> CheckResult:
    ratios = values("gradient/cifar10 subtract") / values("gradient/cifar10 clamp")
    comment = (
        "and the rate at layer 2 is still 54 %: the reduction ends where more than half of the pairs saturate"
    )
    return bool(abs(ratios[2] - 1) < 0.05), f"{ratios[2]:.2f}", comment


def density_determines_rate() -> CheckResult:
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
    comment = (
        "SVHN has more positive pairs than CIFAR-10 and the lower rate at layer 0; its mean over layers is "
        "the "
        "higher one. Two datasets of one density and one of another cannot tell density from anything else"
    )
    return same_ranking, listed, comment
