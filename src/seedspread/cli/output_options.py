"""The options that describe how a result is printed, declared once for all commands that print one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from seedspread.errors import SeedspreadError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Form = Annotated[str, typer.Option("--format", help="text, markdown or latex.")]
Level = Annotated[float, typer.Option(help="The level of the intervals.")]


def check_forms(form: str, plot: Path | None = None, values: Sequence[str] | None = None) -> None:
    """Refuses what cannot be printed or drawn, before the work."""
    forms = ("text", "markdown", "latex")
    if form not in forms:
        raise SeedspreadError(f"--format must be one of {', '.join(forms)}; got {form!r}")
    if plot:
        from seedspread.render.pictures import check_picture

        check_picture(plot)
    if plot and values and len(values) > 1:
        raise SeedspreadError("a picture shows one value: give one --value with --plot")
