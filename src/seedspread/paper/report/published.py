"""A report's material from the paper's own per-seed numbers."""

from seedspread.analysis.comparison import AuditResult
from seedspread.paper.answer import MAIN
from seedspread.paper.check import check_paper
from seedspread.paper.page import audit_published
from seedspread.paper.report.extension import PaperReport
from seedspread.paper.report.scale import PAPER, TITLES, paper_config
from seedspread.paper.report.setting import paper_values
from seedspread.paper.values import SETTINGS, published_runs, series
from seedspread.report.material.layers import Profile
from seedspread.report.material.settings import ReportData, Run, Setting, ordered, slug
from seedspread.runs.metrics import metric_of
from seedspread.version import __version__

# Published profiles: setting, quantity, arm, and by what name the values are known.
_RATES = {"cifar10": "cifar10 standard", "cifar10-low": "cifar10 low", "cifar100": "cifar100", "svhn": "svhn"}
_GRADIENTS = ("cifar10", "cifar100")


def from_published() -> ReportData:
    """Seven settings, the verdicts of `verify-paper`, and what the paper measured by layer."""
    main = audit_published()
    audits = {name: main if name in MAIN else audit_published((name,)) for name in SETTINGS}
    return ReportData(
        title="The paper's own numbers: “When Does Margin Clamping Affect Training Variance?”",
        source="the paper's tables",
        settings=ordered([_setting(name, result) for name, result in audits.items()]),
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
        extensions=(PaperReport(tuple(check_paper())),),
    )


def _setting(name: str, result: AuditResult) -> Setting:
    runs = tuple(
        Run(row["margin_type"], row["stability"], row["seed"], float(row["accuracy"]))
        for row in published_runs()
        if row["setting"] == name
    )
    return Setting(
        id=slug(name),
        title=TITLES[name],
        name=TITLES[name],
        study="",
        arms=("clamp", "subtract"),
        group="margin_type",
        block="stability",
        metric=metric_of("accuracy").for_display[0],
        runs=runs,
        comparisons=tuple(c for c in result.comparisons if c.stratum == name),
        audit=result,
        published=paper_values(name, judge=True),
        parameters=paper_config(name),
        all_parameters=(paper_config(name),),
        scale=PAPER,
        profiles=_profiles(name),
    )


def _profiles(name: str) -> dict[str, dict[str, Profile]]:
    out: dict[str, dict[str, Profile]] = {"rate": {}, "gradient": {}}
    if name in _RATES:
        out["rate"]["clamp"] = Profile(series(f"car/{_RATES[name]}").values / 100, None, 0)
    if name in _GRADIENTS:
        for arm in ("clamp", "subtract"):
            mean, sd = (series(f"{part}/{name} {arm}").values for part in ("gradient", "gradient_sd"))
            out["gradient"][arm] = Profile(mean, sd, 0)
    return out
