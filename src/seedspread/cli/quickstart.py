"""`seedspread quickstart`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from seedspread.cli.output import say
from seedspread.errors import require_extra


def quickstart(
    store: Annotated[Path, typer.Option(help="The folder of results.")] = Path("quickstart"),
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; all cores by default.")] = None,
) -> None:
    """The whole pipeline in miniature on the embedded sample: train, audit, report. About a minute."""
    require_extra("train", "seedspread quickstart")
    require_extra("report", "its report")
    from seedspread.paper import quickstart as miniature
    from seedspread.render.terminal import Terminal
    from seedspread.study.plan import Plan
    from seedspread.study.progressing import Progressing
    from seedspread.study.spec import StudySpec

    implementation, how = miniature.choose_implementation(store)
    plan = Plan.make(StudySpec.from_file(miniature.STUDY), store, implementation=implementation)
    say(f"{plan.study.title}. {len(plan.missing())} runs to do, in {store}/")
    say(how)
    with Progressing(Terminal(stderr=True)) as progress:
        result = miniature.quickstart(store, workers, progress, implementation)
    say(result.to_text(width=min(Terminal().width, 110)))
    for line in miniature.what_it_shows(result):
        say(line)
    say(f"Every test, and the reasons: {shlex.join(['seedspread', 'audit', str(store), '--explain'])}")
    say(f"Report: {store / 'report.html'}")
