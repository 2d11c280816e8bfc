"""`seedspread quickstart`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say

if TYPE_CHECKING:
    from seedspread.stats.audited import AuditResult


def quickstart(
    store: Annotated[Path, typer.Option(help="The folder of results.")] = Path("quickstart"),
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; all cores by default.")] = None,
) -> None:
    """The whole pipeline in miniature on the embedded sample: train, audit, report. A few minutes."""
    from seedspread.api import quickstart as run_quickstart
    from seedspread.campaign.plan import Plan
    from seedspread.campaign.progressing import Progressing
    from seedspread.campaign.study import StudySpec
    from seedspread.render.terminal import Terminal

    study = StudySpec.from_file("quickstart")
    missing = len(Plan.make(study, store).missing())
    say(f"{study.title}. {missing} runs to do, in {store}/")
    with Progressing(Terminal(stderr=True)) as progress:
        result = run_quickstart(store, workers, progress.tell)
    say(result.to_text(width=min(Terminal().width, 110)))
    for line in _what_it_shows(result):
        say(line)
    say(f"Report: {store / 'report.html'}")


def _what_it_shows(result: "AuditResult") -> list[str]:
    c = result.comparisons[0]
    seeds = min(cell.n for cell in c.cells)
    detectable = f"only variance ratios above {c.detectable:.1f}" if c.detectable else "hardly any ratio"
    return [
        "",
        f"What this can show: with {seeds} seeds per arm {detectable} (or below the inverse) are likely to "
        "be seen, in this model, on this sample.",
        "What it cannot show: anything about the paper's effect, which is about a model 37 times larger, "
        "trained 120 times longer on 80 times more images.",
        "What to run next: seedspread campaign plan mini/cifar10-factorial  (real CIFAR-10 in miniature, "
        "about a minute a run), or paper/cifar10-factorial (GPUs).",
    ]
