"""The check: each printed number recomputed from the published values by the method the paper names."""

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from seedspread.paper.answer import answer, paper_ladder
from seedspread.paper.claims import CLAIMS
from seedspread.paper.methods import METHODS, NAMES
from seedspread.paper.values import Series, half_width, series
from seedspread.stats.arms import Floats

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
    """Every claim, numbers first, in the order of the paper's sections."""
    findings = [finding for claim in number_claims() for finding in _number_findings(claim)]
    for claim in CLAIMS:
        holds, computed, comment = claim.check()
        verdict: ClaimVerdict = "not derivable" if holds is None else "reproduces" if holds else "differs"
        place = (claim.section, claim.where, claim.says)
        findings.append(Finding(*place, "in words", computed, verdict, comment))
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
    """How many claims have each verdict."""
    counts = Counter(f.verdict for f in findings)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def as_values(findings: list[Finding]) -> dict[str, Any]:
    """For JSON: the claims and how many have each verdict; what they change, and the ladder, test by test."""
    return {
        "summary": summary(findings),
        "answer": [asdict(point) for point in answer()],
        "ladder": [asdict(rung) for rung in paper_ladder()],
        "claims": [asdict(f) for f in findings],
    }


def number_claims() -> list[dict[str, Any]]:
    """Every claim in numbers, as `numbers.toml` has it."""
    data = tomllib.loads((files(__package__) / "numbers.toml").read_text())
    return [{"section": data["section"]} | claim for claim in data["claim"]]


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
    """Of what: the values' own name where there is one series of accuracies."""
    names = claim["on"]
    return names[0] if len(names) == 1 and "/" in names[0] and not names[0].startswith("stated") else ""


def recompute(method: str, printed: str, inputs: list[Series]) -> tuple[float, bool]:
    """The value from the published inputs, and whether it can round to what is printed.

    The inputs are rounded themselves. The largest and smallest values that they admit are looked for at the
    two corners to which the derivative points; both are values that the true inputs may have given.
    """
    arrays = [s.values for s in inputs]
    value = METHODS[method](*arrays)
    tolerance = _tolerance(printed)
    target = float(printed.lstrip("~+"))
    low, high = (value, value) if method.startswith("bootstrap") else _reach(method, inputs, value)
    return value, low - tolerance <= target <= high + tolerance


def _tolerance(printed: str) -> float:
    """Half of the last digit; after "~", of the last digit that is not a trailing zero."""
    slack = 1e-9
    if not printed.startswith("~"):
        return half_width(printed) * (1 + slack)
    digits = printed.lstrip("~")
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0"))) * (1 + slack)


def _reach(method: str, inputs: list[Series], value: float) -> tuple[float, float]:
    ends = np.cumsum([len(s.values) for s in inputs])[:-1]
    start = np.concatenate([s.values for s in inputs])
    widths = np.concatenate([s.half_widths for s in inputs])
    if not widths.any():
        return value, value

    def at(point: Floats) -> float:
        return METHODS[method](*np.split(point, ends))

    signs = np.zeros(len(start))
    for i in np.flatnonzero(widths):
        step = np.where(np.arange(len(start)) == i, widths, 0.0)
        signs[i] = np.sign(at(start + step) - at(start - step))
    corners = (at(start - signs * widths), at(start + signs * widths))
    return min(value, *corners), max(value, *corners)


def _like(printed: str, value: float) -> str:
    """One digit more than the paper prints, so that a difference shows."""
    if printed.startswith("~"):
        return f"{value:,.0f}"
    digits = len(printed.split(".")[1]) + 1 if "." in printed else 0
    return f"{value:.{digits}f}" if digits or value == round(value) else f"{value:.1f}"
