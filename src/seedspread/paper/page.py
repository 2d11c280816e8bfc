"""`docs/paper-check.md`, made from the findings: what holds, what does not, what it changes."""

import pandas as pd

from seedspread.analysis.audit import audit
from seedspread.analysis.comparison import AuditResult
from seedspread.analysis.ladder_table import ladder_table
from seedspread.paper.answer import MAIN, answer, paper_ladder, ratio_rows
from seedspread.paper.check import SECTIONS, Finding, summary
from seedspread.paper.values import published_runs
from seedspread.render.markdown import markdown_text, to_markdown


def published_table() -> pd.DataFrame:
    """Every per-seed accuracy of the appendices: setting, margin_type, stability, seed, accuracy."""
    return pd.DataFrame(published_runs()).replace({"stability": {"": "unstated"}})


def audit_published(settings: tuple[str, ...] = MAIN) -> AuditResult:
    """The audit of the paper's own accuracies, datasets adjusted together."""
    table = published_table()
    rows = table[table["setting"].isin(settings)]
    return audit(rows, "accuracy", "margin_type", "subtract", "stability", by="setting")


def page(findings: list[Finding]) -> str:
    """The whole page in Markdown."""
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
        *_answer(),
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
            parts += [f"### {section}", "", *_table(rows), ""]
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


def _table(rows: list[Finding]) -> list[str]:
    lines = ["| where | claim | printed | computed | verdict | remark |", "|---|---|---|---|---|---|"]
    for f in rows:
        mark = {"differs": "**differs**", "not derivable": "*not derivable*"}.get(f.verdict, f.verdict)
        cells = [markdown_text(text) for text in (f.where, f.what, f.printed, f.computed)]
        remark = markdown_text(f.comment) if f.verdict == "reproduces" else ""
        lines.append("| " + " | ".join([*cells, mark, remark]) + " |")
    return lines


def _answer() -> list[str]:
    """What a reader of the paper should change, and the tests of its central claim one by one."""
    return [
        "## What it changes in the conclusions",
        "",
        *(f"{place}. **{point.title}** {point.text}" for place, point in enumerate(answer(), 1)),
        "",
        "Ratios are ratios of variances, clamp to subtract; the scale ratio is that of the bulk where tails "
        "are heavy ([statistics.md](statistics.md)).",
        "",
        "| | F test, pooled: ratio | p | scale ratio, with pairs: ratio, 95 % interval | p | p (Holm) | |",
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
