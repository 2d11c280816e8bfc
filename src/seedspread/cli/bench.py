"""`seedspread bench`: ratios measured within one process, interleaved."""

from typing import Annotated

import typer

from seedspread.errors import require_extra

app = typer.Typer(help="Measure speed and memory on this machine.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback()
def _group() -> None:
    pass


@app.command()
def loss(
    rounds: Annotated[int, typer.Option(min=3, help="Rounds of interleaved timings.")] = 30,
    json: JsonOption = False,
) -> None:
    """The fast loss against the plain one and pytorch-metric-learning's; its memory at N = 16384."""
    require_extra("train", "seedspread bench loss")
    from seedspread.benchmarks import loss as benchmark

    benchmark.run(rounds=rounds, as_json=json)
