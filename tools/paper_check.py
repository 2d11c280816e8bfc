"""Make `docs/paper-check.md`, the check of every claim of the paper, and the conclusions that it changes.

python tools/paper_check.py > docs/paper-check.md
"""

from seedspread.analysis.judgement import word_of
from seedspread.analysis.words import between, minus, number, p_value
from seedspread.paper.check import IN_WORDS, SECTIONS, Finding, answer, check_paper, counted, paper_ratios
from seedspread.paper.values import published_group
from seedspread.render.table import markdown_text
from seedspread.stats.classic import f_test


def check_page(findings: list[Finding]) -> str:
    """Return the content of `docs/paper-check.md`."""
    parts = [
        "# The paper, checked number by number",
        "",
        'Every printed number of "When Does Margin Clamping Affect Training Variance?", recomputed from the '
        "per-seed accuracies and tables that the paper publishes, by the method that the paper describes. "
        "`python tools/paper_check.py` makes this page.",
        "",
        f"**{' '.join(counted(findings))}**",
        "",
        "- *reproduces*: the printed digits can result, given that the published inputs are rounded too; or "
        "the statement holds;",
        "- *differs*: they cannot, or it does not; if another computation gives the digits, it is named (and "
        "checked);",
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
    return minus("\n".join(parts)).rstrip() + "\n"


def _item(f: Finding) -> str:
    printed = f.what if f.printed == IN_WORDS else f"{f.what}: printed {f.printed}"
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
        "## What this changes in the conclusions",
        "",
        *(f"{place}. **{point.title}** {point.text}" for place, point in enumerate(answer(), 1)),
        "",
        "Ratios are ratios of variances, clamp over subtract; the robust variance ratio models heavy tails "
        "([statistics](statistics.md)).",
        "",
        "| | F test, pooled: ratio | p | robust variance ratio (pairs), 95% CI | p | p, adjusted | |",
        "|---|---|---|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in ratio_rows()),
        "",
        _HOLDS,
    ]


_HOLDS = (
    "What holds: every mean, standard deviation and variance of Tables 3, 5, 10, 13 and 14, every variance "
    "ratio, every F test, the bootstrap intervals (to the digit, with numpy's legacy generator started at "
    "42), the normality tests, and the columns of the diagnostic tables."
)


def ratio_rows() -> list[tuple[str, ...]]:
    """Return a row per dataset: the pooled F test, the headline, its adjusted p value and the verdict."""
    rows: list[tuple[str, ...]] = []
    for setting, (found, together) in paper_ratios().items():
        groups = published_group(setting, "clamp"), published_group(setting, "subtract")
        f = f_test(*groups, 0.95, None, None)
        headline = f"{number(found.ratio)} {between(found.interval)}"
        judged = p_value(found.p), p_value(together), "-" if together is None else word_of(together)
        rows.append((setting, number(f.estimate), p_value(f.p), headline, *judged))
    return rows


if __name__ == "__main__":
    print(check_page(check_paper()), end="")
