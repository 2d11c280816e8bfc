"""`seedspread train` and `seedspread diagnose`."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seedspread.cli.output import say, say_json
from seedspread.cli.output_options import Json
from seedspread.errors import require_extra

if TYPE_CHECKING:
    from seedspread.cff.training.diagnose import Diagnosis
    from seedspread.cff.training.result import RunResult


def train(
    config: Annotated[
        str, typer.Argument(help="A preset, such as quickstart or mini/cifar10, or a .toml file.")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A field, such as objective.margin_type=subtract.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The run's seed.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; the default is runs/KEY.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the last checkpoint, if there is one.")
    ] = False,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder.")] = None,
    implementation: Annotated[
        Literal["fast", "plain", "native"] | None,
        typer.Option(help="How the run is computed; native needs a C++ compiler. Short for --set."),
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write curves for TensorBoard here.")] = None,
    json: Json = False,
) -> None:
    """Train one run: stage 1, the probe, every diagnostic."""
    require_extra("train", "seedspread train")
    from seedspread.cff.presets import read_config
    from seedspread.cff.training.allocator import keep_freed_memory
    from seedspread.cff.training.callbacks import CallbackList
    from seedspread.cff.training.display import Display, TensorBoard
    from seedspread.cff.training.run import default_folder
    from seedspread.cff.training.run import train as train_run
    from seedspread.render.terminal import Terminal

    chosen = [*(settings or []), *([f"seeds.run={seed}"] if seed is not None else [])]
    chosen += [f"runtime.implementation={implementation}"] if implementation else []
    run = read_config(config, chosen)
    keep_freed_memory()
    with ExitStack() as stack:
        display = stack.enter_context(Display(run, Terminal(stderr=True)))
        callback = CallbackList(display, *([TensorBoard(tensorboard)] if tensorboard else []))
        result = train_run(run, out, resume=resume, data_dir=data_dir, callback=callback)
    if json:
        say_json(result.values())
    else:
        say(_summary(result, out or default_folder(result.key)))


def diagnose(
    run_dir: Annotated[Path, typer.Argument(help="The folder of a finished run.")], json: Json = False
) -> None:
    """Show a run's layers (margin, rate, gradient norm) and the paper's advice."""
    from seedspread.cff.training.diagnose import diagnose as diagnose_run

    diagnosis = diagnose_run(run_dir)
    if json:
        say_json(diagnosis.values())
    else:
        _print_diagnosis(diagnosis)


def _summary(result: "RunResult", folder: Path) -> str:
    lines = [
        f"test accuracy {result.test_accuracy:.2%}, validation {result.validation_accuracy:.2%}",
        f"on {result.dataset}",
        f"files in {folder}; look closer with: seedspread diagnose {folder}",
    ]
    if result.collapsed:
        lines.insert(
            1, "collapsed: no better than guessing, or all features alike; not a sample of the same thing"
        )
    return "\n".join(lines)


def _print_diagnosis(diagnosis: "Diagnosis") -> None:
    from rich.table import Table

    from seedspread.render.terminal import Terminal

    result = diagnosis.result
    table = Table(title=f"{result.dataset}: {result.rule}, {result.margin_type}", title_style="bold")
    for heading in ("layer", "margin", diagnosis.rate_name, "gradient norm", "over the last epoch", "loss"):
        table.add_column(heading, justify="right")
    for layer, margin, share in zip(result.layers, diagnosis.margins, diagnosis.rates, strict=True):
        numbers = (layer.gradient_norm, layer.gradient_norm_mean, layer.loss)
        table.add_row(
            str(layer.layer), f"{margin:.3f}", f"{share:.1%}", *(f"{number:.3f}" for number in numbers)
        )
    console = Terminal()
    console.print(table)
    console.print(
        f"Test accuracy {result.test_accuracy:.2%}; {result.positive_pairs:,.0f} positive pairs per batch."
    )
    if result.collapsed:
        console.print(
            "Collapsed: no better than guessing the largest class, or all features alike.", style="bold"
        )
    console.print(str(diagnosis.advice))
