"""`seedspread verify-paper`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say_json
from seedspread.cli.output_options import Json

if TYPE_CHECKING:
    from seedspread.paper.check import Finding
    from seedspread.render.terminal import Terminal


def verify_paper(
    only: Annotated[
        str | None, typer.Option(help="Show one verdict only: reproduces, differs or 'not derivable'.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write the page for reviewers here, as Markdown.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute every number of the paper from its own per-seed values, and say which hold."""
    from seedspread.atomic import replacing
    from seedspread.errors import SeedspreadError, reason
    from seedspread.paper.check import VERDICTS, as_values, check_paper

    if only is not None and only not in VERDICTS:
        raise SeedspreadError(f"--only must be one of {', '.join(VERDICTS)}; got {only!r}")
    findings = check_paper()
    if write is not None:
        from seedspread.paper.page import page

        try:
            with replacing(write) as part:
                part.write_text(page(findings))
        except OSError as error:
            raise SeedspreadError(f"{write} cannot be written: {reason(error)}") from None
    if json:
        say_json(as_values(findings))
    else:
        _print(findings, only)


def _print(findings: "list[Finding]", only: str | None) -> None:
    from rich.text import Text

    from seedspread.paper.check import SECTIONS, summary
    from seedspread.render.table import Column, Table
    from seedspread.render.terminal import Terminal
    from seedspread.render.text import to_rich

    console = Terminal()
    styles = {"reproduces": "green", "differs": "bold red", "not derivable": "yellow"}
    headings = tuple(map(Column, ("where", "claim", "printed", "computed", "verdict")))
    for section in SECTIONS:
        rows = [f for f in findings if f.section == section and only in (None, f.verdict)]
        if not rows:
            continue
        cells = tuple((f.where, f.what, f.printed, f.computed, f.verdict) for f in rows)
        console.print(to_rich(Table("", section, headings, cells), styles))
        for f in rows:
            if f.comment:
                console.print(Text(f"{f.where}, {f.what}: {f.comment}", style="dim"))
    if only is None:
        _print_answer(console)
    counts = summary(findings)
    console.print(
        f"{len(findings)} claims: {counts['reproduces']} reproduce, {counts['differs']} differ, "
        f"{counts['not derivable']} are not derivable."
    )


def _print_answer(console: "Terminal") -> None:
    from rich.text import Text

    from seedspread.analysis.ladder_table import ladder_table
    from seedspread.paper.answer import answer, paper_ladder
    from seedspread.render.text import to_rich

    console.print(to_rich(ladder_table(paper_ladder(), full=False)))
    for point in answer():
        console.print(Text.assemble((point.title, "bold"), f" {point.text}"))
