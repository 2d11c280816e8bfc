"""`seedspread quickstart`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say
from seedspread.errors import require_extra

if TYPE_CHECKING:
    from seedspread.analysis.comparison import AuditResult


def quickstart(
    store: Annotated[Path, typer.Option(help="The folder of results.")] = Path("quickstart"),
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; all cores by default.")] = None,
) -> None:
    """The whole pipeline in miniature on the embedded sample: train, audit, report. About a minute."""
    from seedspread.render.terminal import Terminal
    from seedspread.study.plan import Plan
    from seedspread.study.progressing import Progressing
    from seedspread.study.spec import StudySpec
    from seedspread.study.study import quickstart as run_quickstart

    require_extra("train", "seedspread quickstart")
    require_extra("report", "its report")
    implementation, how = _implementation(store)
    plan = Plan.make(StudySpec.from_file("quickstart"), store, implementation=implementation)
    say(f"{plan.study.title}. {len(plan.missing())} runs to do, in {store}/")
    say(how)
    with Progressing(Terminal(stderr=True)) as progress:
        result = run_quickstart(store, workers, progress.tell, implementation)
    say(result.to_text(width=min(Terminal().width, 110)))
    for line in _what_it_shows(result):
        say(line)
    say(f"Every test, and the reasons: {shlex.join(['seedspread', 'audit', str(store), '--explain'])}")
    say(f"Report: {store / 'report.html'}")


def _implementation(store: Path) -> tuple[str | None, str]:
    """In a new store the fastest there is here, in another what it was begun with; and what to say."""
    from seedspread.cff.training.native.build import why_not
    from seedspread.render.terminal import Terminal
    from seedspread.runs.store import Store
    from seedspread.runs.studies import recorded_study

    recorded = recorded_study(Store(store), "quickstart")
    if recorded is not None:
        begun = recorded.implementation
        return begun, f"Implementation: {begun or 'fast'}, as it was begun."
    with Terminal(stderr=True).status("compiling the native kernel ..."):
        why = why_not()
    if why is None:
        return "native", "Implementation: native, a kernel compiled for this CPU."
    return None, f"Implementation: fast. The native one is not to be had here: {why.rpartition(': ')[0]}."


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
        "What to run next: seedspread plan mini/cifar10-factorial  (real CIFAR-10 in miniature, "
        "about a minute a run), or paper/cifar10-factorial (GPUs).",
    ]
