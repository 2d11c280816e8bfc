"""`seedspread bench`: ratios measured within one process, interleaved."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from seedspread.errors import require_extra

app = typer.Typer(help="Measure speed and memory on this machine.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


Rounds = Annotated[int, typer.Option(min=3, help="Rounds of interleaved timings.")]


@app.command()
def loss(rounds: Rounds = 30, json: JsonOption = False) -> None:
    """The fast loss against the plain one and pytorch-metric-learning's; its memory at N = 16384."""
    require_extra("train", "seedspread bench loss")
    from seedspread.benchmarks import loss as benchmark

    benchmark.run(rounds=rounds, as_json=json)


@app.command()
def data(rounds: Rounds = 15, json: JsonOption = False) -> None:
    """Augmented views per second against the same pipeline image by image and kornia's modules."""
    require_extra("train", "seedspread bench data")
    from seedspread.benchmarks import data as benchmark

    benchmark.run(rounds=rounds, as_json=json)


@app.command()
def train(rounds: Rounds = 10, json: JsonOption = False) -> None:
    """What the diagnostics cost in a stage-1 step, and its memory as the model grows deeper."""
    require_extra("train", "seedspread bench train")
    from seedspread.benchmarks import train as benchmark

    benchmark.run(rounds=rounds, as_json=json)


@app.command()
def step(
    rounds: Rounds = 5,
    reference: Annotated[
        Path | None, typer.Option(help="A checkout of HosseinAghagol/ContrastiveFF to measure against.")
    ] = None,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Also in bf16: very slow without hardware for it.")
    ] = False,
    busy: Annotated[int, typer.Option(min=0, help="Beside this many processes that keep a core busy.")] = 0,
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="cuda: on a GPU instead, by settings, with all you would send back."),
    ] = "cpu",
    json: JsonOption = False,
) -> None:
    """A stage-1 step at the paper's size, against the public code and against the machine."""
    require_extra("train", "seedspread bench step")
    if device == "cuda":
        from seedspread.benchmarks import gpu

        gpu.run(rounds=rounds, as_json=json)
        return
    from seedspread.benchmarks import step as benchmark

    benchmark.run(rounds=rounds, as_json=json, reference=reference, bf16=bf16, busy=busy)


@app.command()
def stack(rounds: Rounds = 5, json: JsonOption = False) -> None:
    """Several small runs trained as one program, against one after another, by shape."""
    require_extra("train", "seedspread bench stack")
    from seedspread.benchmarks import stack as benchmark

    benchmark.run(rounds=rounds, as_json=json)


@app.command()
def campaign(
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of interleaved campaigns.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    preset: Annotated[str, typer.Option(help="What is trained.")] = "quickstart",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, each with both margins.")] = 4,
    programs: Annotated[
        int | None, typer.Option(min=1, help="Instead: this many runs of a program that does nothing.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Runs per hour of a small study, by ways of training them; where the time goes (minutes)."""
    if programs is not None:
        from seedspread.benchmarks import programs as of_programs

        of_programs.run(runs=programs, workers=workers, as_json=json)
        return
    require_extra("train", "seedspread bench campaign")
    from seedspread.benchmarks import campaign as benchmark

    benchmark.run(preset, seeds, rounds=rounds, workers=workers, as_json=json)


@app.command()
def precision(
    preset: Annotated[str, typer.Option(help="What is trained.")] = "mini/cifar10",
    seeds: Annotated[int, typer.Option(min=2, help="Seeds, each in both precisions.")] = 5,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder.")] = None,
    json: JsonOption = False,
) -> None:
    """What bf16 changes in accuracy and clamp activation rate, seed by seed (minutes)."""
    require_extra("train", "seedspread bench precision")
    from seedspread.benchmarks import precision as benchmark

    benchmark.run(preset=preset, seeds=seeds, workers=workers, as_json=json, data_dir=data_dir)


@app.command()
def growth(
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .pdf or .svg.")] = None,
    json: JsonOption = False,
) -> None:
    """How time and memory of a stage-1 step grow with batch, depth, tokens and classes."""
    require_extra("train", "seedspread bench growth")
    from seedspread.benchmarks import growth as benchmark

    benchmark.run(as_json=json, plot=plot)


@app.command()
def audit(rounds: Rounds = 30, json: JsonOption = False) -> None:
    """The ratio bootstrap against drawing its indices and scipy's; an audit of 100,000 rows."""
    from seedspread.benchmarks import audit as benchmark

    benchmark.run(rounds=rounds, as_json=json)


@app.command()
def calibration(
    draws: Annotated[int, typer.Option(min=10, help="Simulated experiments per condition.")] = 3000,
    others: Annotated[int, typer.Option(min=0, help="The same for the tests beside the headline.")] = 500,
    write: Annotated[Path | None, typer.Option(help="The page to write the tables into.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    json: JsonOption = False,
) -> None:
    """Type-I error, power and coverage of every test of spread, by simulation (minutes)."""
    from seedspread.benchmarks import calibration as benchmark

    benchmark.run(draws=draws, others=others, as_json=json, write=write, workers=workers)


@app.command()
def planning(
    draws: Annotated[int, typer.Option(min=100, help="Simulated experiments per design and size.")] = 600,
    write: Annotated[bool, typer.Option("--write", help="Replace the planner's table.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """What so many seeds can show, by the headline: the table behind `seedspread seeds` (minutes)."""
    from seedspread.benchmarks import planning as benchmark

    benchmark.run(draws=draws, write=write, workers=workers)


@app.command()
def sequential(
    draws: Annotated[int, typer.Option(min=100, help="Simulated studies per condition.")] = 1000,
    levels: Annotated[
        bool, typer.Option("--levels", help="Simulate the table of levels again instead, and replace it.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    json: JsonOption = False,
) -> None:
    """Type-I error, coverage and seeds of studies that are looked at while they grow (minutes)."""
    from seedspread.benchmarks import sequential as benchmark

    benchmark.run(draws=draws, levels=levels, as_json=json, workers=workers)


@app.command()
def store(
    runs: Annotated[int, typer.Option(min=1, help="Finished runs in the store.")] = 10_000,
    json: JsonOption = False,
) -> None:
    """How long a store of 10,000 runs takes to list."""
    from seedspread.benchmarks import store as benchmark

    benchmark.run(runs=runs, as_json=json)


@app.command()
def report(
    runs: Annotated[int, typer.Option(min=8, help="Finished runs in the store.")] = 1000,
    json: JsonOption = False,
) -> None:
    """How long the report of a store of 1,000 runs takes, and its page to open."""
    from seedspread.benchmarks import report as benchmark

    benchmark.run(runs=runs, as_json=json)
