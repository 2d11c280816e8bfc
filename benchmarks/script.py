"""How a benchmark is started, `python benchmarks/NAME.py`, and the options that several of them take."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from seedspread.errors import SeedspreadError

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Rounds = Annotated[int, typer.Option(min=3, help="Rounds of interleaved timings.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes.")]


def main(benchmark: Callable[..., None]) -> None:
    """Runs a benchmark with the options of the command line; what it refuses is one line on stderr."""
    try:
        app_of(benchmark)()
    except SeedspreadError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def app_of(benchmark: Callable[..., None]) -> typer.Typer:
    """A benchmark as a command with the manners of the package's own."""
    from seedspread.cli import Command  # noqa: PLC0415 - not by what is measured in processes of its own

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(cls=Command)(benchmark)
    return app
