"""Make `docs/paper-report.html`: the report of the paper's own numbers, each printed one beside what follows.

python tools/paper_report.py
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import AuditResult
from seedspread.paper.check import Finding, check_paper
from seedspread.paper.report import PaperReport, paper_config, paper_values, printed_norms
from seedspread.paper.values import MAIN, SETTINGS, published_runs, published_table, series
from seedspread.render.table import Column, Table
from seedspread.report.extension import Point, ReportData, Scale, Section, Setting, ordered, slug
from seedspread.report.layers import LayerBand
from seedspread.report.page import Report, write_page
from seedspread.runs.metrics import metric_of
from seedspread.version import __version__

PAPER = Scale("the paper's own published numbers", same=True)
# Published profiles: setting, quantity, arm, and by what name the values are known.
_RATES = {"cifar10": "cifar10 standard", "cifar10-low": "cifar10 low", "cifar100": "cifar100", "svhn": "svhn"}
_GRADIENTS = ("cifar10", "cifar100")


@dataclass(frozen=True)
class PublishedReport(PaperReport):
    """The paper's report with `findings`, the verdicts."""

    findings: tuple[Finding, ...]

    def sections(self, data: ReportData) -> list[Section]:
        """Return the check of the paper."""
        legend = (
            "Each printed number is recomputed from the published values; ✗ marks one that does not follow."
        )
        bad, good = (verdicts(self.findings, hold=hold) for hold in (False, True))
        words = (counted(self.findings), legend)
        return [Section("paper-check", "The paper, checked", words, (bad,), (), good.title, (good,))]


def verdicts(findings: tuple[Finding, ...], *, hold: bool) -> Table:
    """List the paper's claims that hold, or those that do not, differing ones first."""
    chosen = [f for f in findings if (f.verdict == "reproduces") == hold]
    chosen.sort(key=lambda f: f.verdict != "differs")
    rows = tuple((f.verdict, f.where, f.what, f.printed, f.computed, f.comment) for f in chosen)
    columns = tuple(Column(t) for t in ("verdict", "where", "claim", "printed", "computed", "remark"))
    name, title = ("verdicts-hold", "Claims that hold") if hold else ("verdicts", "Claims that do not hold")
    return Table(name, title, columns, rows)


def counted(findings: tuple[Finding, ...]) -> str:
    counts = Counter(f.verdict for f in findings)
    return (
        f"{len(findings)} claims were checked: {counts['reproduces']} reproduce, {counts['differs']} differ, "
        f"{counts['not derivable']} cannot be derived from what is published."
    )


def audit_published(settings: tuple[str, ...] = MAIN) -> AuditResult:
    """Audit the paper's own accuracies, datasets adjusted together."""
    table = published_table()
    rows = table[table["setting"].isin(settings)]
    return audit(rows, "accuracy", "margin_type", "subtract", "stability", by="setting")


def load_published() -> ReportData:
    """Return the paper's own numbers as a report: settings, verdicts, and what it measured by layer."""
    main = audit_published()
    audits = {name: main if name in MAIN else audit_published((name,)) for name in SETTINGS}
    return ReportData(
        title="The paper's own numbers: “When Does Margin Clamping Affect Training Variance?”",
        source="the paper's tables",
        settings=ordered([_published_setting(name, result) for name, result in audits.items()]),
        across=main,
        notes=(
            "Every value here is computed from the per-seed accuracies that the paper publishes. It "
            "publishes no course over training, no per-seed rates and no predictions: figures that need them "
            "are missing.",
        ),
        provenance=(
            ("made by", f"seedspread {__version__}"),
            (
                "data",
                "the per-seed accuracies of the paper's Appendices A and C, its Tables 7, 8, 11, 12, 18",
            ),
            ("seeds", "1 to 7 on CIFAR-10, 1 to 5 elsewhere, as the paper's Appendix E says"),
        ),
        extensions=(PublishedReport(tuple(check_paper())),),
    )


def _published_setting(name: str, result: AuditResult) -> Setting:
    runs = tuple(
        Point(row["margin_type"], (row["stability"],), row["seed"], float(row["accuracy"]))
        for row in published_runs()
        if row["setting"] == name
    )
    return Setting(
        id=slug(name),
        title=SETTINGS[name]["title"],
        name=SETTINGS[name]["title"],
        study="",
        arms=("clamp", "subtract"),
        group="margin_type",
        block_factors=("stability",),
        metric=metric_of("accuracy").for_display[0],
        runs=runs,
        comparisons=tuple(c for c in result.comparisons if c.stratum == (name,)),
        audit=result,
        published=paper_values(name, judge=True),
        parameters=paper_config(name),
        all_parameters=(paper_config(name),),
        scale=PAPER,
        profiles=_profiles(name),
    )


def _profiles(name: str) -> dict[str, dict[str, LayerBand]]:
    out: dict[str, dict[str, LayerBand]] = {"rate": {}, "gradient": {}}
    if name in _RATES:
        out["rate"]["clamp"] = LayerBand(series(f"car/{_RATES[name]}").values / 100, None, 0)
    if name in _GRADIENTS:
        out["gradient"] = {arm: printed_norms(name, arm) for arm in ("clamp", "subtract")}
    return out


if __name__ == "__main__":
    write_page(Report(load_published()), Path(__file__).parents[1] / "docs" / "paper-report.html")
