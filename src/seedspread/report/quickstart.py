"""The whole pipeline in miniature: a study on the embedded sample, its audit, and what to make of it."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from seedspread.campaign.executor import CampaignStoppedError
from seedspread.campaign.local import LocalExecutor
from seedspread.campaign.show import Progressing
from seedspread.campaign.store import Store
from seedspread.campaign.study import Study
from seedspread.errors import SeedspreadError
from seedspread.report.export import write_page
from seedspread.report.from_store import from_store
from seedspread.report.page import Report
from seedspread.stats.audit import audit
from seedspread.stats.result import AuditResult

NAME = "quickstart"


def quickstart(path: Path, workers: int | None, console: Console) -> AuditResult:
    """Trains, audits, writes `report.html`, and says what it can and cannot show."""
    study, store = Study.from_file(NAME), Store(path)
    plan = study.plan(store)
    count = len(plan.missing())
    console.print(f"{study.title}. {count} runs to do, in {path}/", markup=False)
    with Progressing(Console(stderr=True)) as progress:
        report = plan.run(LocalExecutor(workers=workers), progress.tell)
    if report.stopped:
        raise CampaignStoppedError(f"{report.stopped}; give the same command again to go on")
    if report.failed:
        key, message = next(iter(report.failed.items()))
        raise SeedspreadError(f"{len(report.failed)} runs failed; the first, {key}: {message}")
    result = audit(store.table(study), "accuracy", "margin_type", "subtract")
    console.print(Text(result.to_text(width=min(console.width, 110))))
    with Console(stderr=True).status("making the report ..."):
        write_page(Report(from_store(path, (), None, lambda _: None)), path / "report.html")
    for line in _what_it_shows(result):
        console.print(line, markup=False)
    console.print(f"Report: {path / 'report.html'}", markup=False, soft_wrap=True)
    return result


def _what_it_shows(result: AuditResult) -> list[str]:
    c = result.comparisons[0]
    seeds = min(cell.n for cell in c.cells)
    detectable = f"only variance ratios above {c.detectable:.1f}" if c.detectable else "hardly any ratio"
    return [
        "",
        f"What this can show: with {seeds} seeds per arm {detectable} (or below the inverse) are likely to "
        f"be seen, in this "
        "model, on this sample.",
        "What it cannot show: anything about the paper's effect, which is about a model 37 times larger, "
        "trained 120 times "
        "longer on 80 times more images.",
        "What to run next: seedspread campaign plan mini/cifar10-factorial  (real CIFAR-10 in miniature, "
        "about a minute a "
        "run), or paper/cifar10-factorial (GPUs).",
    ]
