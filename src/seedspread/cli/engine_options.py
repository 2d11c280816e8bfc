"""The options of `seedspread run`, each with the engines that it is for."""

from typing import Annotated, Literal

import typer

Backend = Annotated[str, typer.Option(help="Where: local, ray or slurm.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="local, slurm: how many at once; on local one per core by default."),
]
Implementation = Annotated[
    Literal["fast", "plain", "native"] | None,
    typer.Option(
        help="All engines: how the paper's training is computed, part of a run's identity; native takes a "
        "C++ compiler. By default what the store's record says, or the study."
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="local: CPU threads per run; the study's by default, or 1.")
]
CpusPerRun = Annotated[
    int | None,
    typer.Option(min=1, help="ray, slurm: CPUs per run, and its threads; the study's by default, or 1."),
]
GpusPerRun = Annotated[
    float | None,
    typer.Option(min=0, help="local, ray, slurm: GPUs per run; on local and ray 0.25 lets four share one."),
]
Address = Annotated[str | None, typer.Option(help="ray: an existing cluster, such as auto.")]
Partition = Annotated[str | None, typer.Option(help="slurm: the partition.")]
Minutes = Annotated[int | None, typer.Option(min=1, help="slurm: the time limit of a job; 720 by default.")]
Wait = Annotated[bool | None, typer.Option(help="slurm: wait for the jobs; the default.", show_default=False)]
MaxFailures = Annotated[
    int | None, typer.Option(min=1, help="All engines: stop once this many runs have failed.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="All engines: try failed runs again.")]
LeaseSeconds = Annotated[
    float,
    typer.Option(min=1, help="All engines: take over a run whose worker has been silent for this long."),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="All engines: allow other threads or another implementation than the study began with.",
    ),
]
