"""The check: each printed number recomputed from the published values by the method the paper names."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from seedspread.analysis.display import ladder_table
from seedspread.paper.claims import check_claims
from seedspread.paper.conclusions import answer, paper_ladder, ratio_rows
from seedspread.paper.values import NAMES, Series, number_claims, recompute, series
from seedspread.render.table import markdown_text, to_markdown

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
    """Return the check for JSON, with what it changes and the ladder of tests."""
    return {
        "summary": summary(findings),
        "answer": [asdict(point) for point in answer()],
        "ladder": [asdict(rung) for rung in paper_ladder()],
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


def check_page(findings: list[Finding]) -> str:
    """Return `docs/paper-check.md`: what holds, what does not, and what that changes."""
    counts = summary(findings)
    parts = [
        "# The paper, checked number by number",
        "",
        "Made by `seedspread verify-paper --write docs/paper-check.md` from the per-seed accuracies, tables "
        "and statements "
        'of "When Does Margin Clamping Affect Training Variance?" Each printed number is recomputed from the '
        "published "
        "values by the method that the paper says it used.",
        "",
        f"**{len(findings)} claims: {counts['reproduces']} reproduce, {counts['differs']} differ, "
        f"{counts['not derivable']} cannot be derived from what is published.**",
        "",
        "- *reproduces*: the printed digits can result, given that the published inputs are rounded too;",
        "- *differs*: they cannot; where another computation gives them, it is named (and checked);",
        "- *not derivable*: what would be needed is not published.",
        "",
        *_conclusions(),
        "",
        "## What does not hold",
        "",
    ]
    parts += [_item(f) for f in findings if f.verdict == "differs"]
    parts += ["", "## What cannot be derived", ""]
    parts += [_item(f) for f in findings if f.verdict == "not derivable"]
    parts += ["", "## Every claim", ""]
    for section in SECTIONS:
        rows = [f for f in findings if f.section == section]
        if rows:
            parts += [f"### {section}", "", *_claims_table(rows), ""]
    return "\n".join(parts).rstrip() + "\n"


def _item(f: Finding) -> str:
    printed = f.what if f.printed == "in words" else f"{f.what}: printed {f.printed}"
    computed = f", computed {f.computed}" if f.computed not in ("", "-") else ""
    comment = markdown_text(_sentence(f.comment))
    return f"- **{markdown_text(f.where)}**, {markdown_text(printed + computed)}. {comment}"


def _sentence(text: str) -> str:
    symbol = text[1:2] == " " and text[:1] != "a"  # such as t, which stays as it is
    first = text[:1] if symbol else text[:1].upper()
    return f"{first}{text[1:]}." if text else ""


def _claims_table(rows: list[Finding]) -> list[str]:
    lines = ["| where | claim | printed | computed | verdict | remark |", "|---|---|---|---|---|---|"]
    for f in rows:
        mark = {"differs": "**differs**", "not derivable": "*not derivable*"}.get(f.verdict, f.verdict)
        cells = [markdown_text(text) for text in (f.where, f.what, f.printed, f.computed)]
        remark = markdown_text(f.comment) if f.verdict == "reproduces" else ""
        lines.append("| " + " | ".join([*cells, mark, remark]) + " |")
    return lines


def _conclusions() -> list[str]:
    return [
        "## What it changes in the conclusions",
        "",
        *(f"{place}. **{point.title}** {point.text}" for place, point in enumerate(answer(), 1)),
        "",
        "Ratios are ratios of variances, clamp to subtract; the scale ratio is that of the bulk where tails "
        "are heavy ([statistics.md](statistics.md)).",
        "",
        "| | F test, pooled: ratio | p | scale ratio, with pairs: ratio, 95 % interval | p | p, adjusted | |",
        "|---|---|---|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in ratio_rows()),
        "",
        *to_markdown(ladder_table(paper_ladder())).splitlines(),
        "",
        "The paper's CIFAR-10 runs. Each test changes the one above it, or the one that it names.",
        "",
        _HOLDS,
    ]


_HOLDS = (
    "What holds: every mean, standard deviation and variance of Tables 3, 5, 10, 13 and 14, every variance "
    "ratio, every F test, the bootstrap intervals (to the digit, with numpy's legacy generator started at "
    "42), the normality tests, and the columns of the diagnostic tables."
)
