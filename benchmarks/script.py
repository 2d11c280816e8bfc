"""Start a benchmark, `python benchmarks/NAME.py`, and define the options that several of them share."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from seedspread.errors import SeedspreadError

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Rounds = Annotated[int, typer.Option(min=3, help="Rounds of interleaved timings.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes.")]


def main(benchmark: Callable[..., None]) -> None:
    """Run a benchmark with the options of the command line; an error is one line on stderr."""
    try:
        app_of(benchmark)()
    except SeedspreadError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def app_of(benchmark: Callable[..., None]) -> typer.Typer:
    """Return a benchmark as a command that parses and explains its options as the package's commands do."""
    from seedspread.cli import Command  # noqa: PLC0415 - not for code measured in its own process

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(cls=Command)(benchmark)
    return app
