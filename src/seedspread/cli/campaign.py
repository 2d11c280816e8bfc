"""`seedspread campaign plan|run|status` and `seedspread quickstart`."""

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedspread.errors import SeedspreadError, one_of, require_extra

if TYPE_CHECKING:
    from seedspread.campaign.executor import Executor, Report
    from seedspread.campaign.plan import Plan

app = typer.Typer(help="Many runs: plan them, carry them out, see how they stand.", no_args_is_help=True)

StudyName = Annotated[str, typer.Argument(help="A study, such as mini/cifar10-factorial, or a .toml file.")]
StoreOption = Annotated[Path, typer.Option(help="The folder of results.")]
DataDir = Annotated[Path | None, typer.Option(help="The data folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _plan(study: str, store: Path, data_dir: Path | None) -> "Plan":
    from seedspread.campaign.study import Study

    return Study.from_file(study).plan(store, data_dir)


@app.command()
def plan(
    study: StudyName, store: StoreOption = Path("store"), data_dir: DataDir = None, json: Json = False
) -> None:
    """Show which runs a study names, which are there already, and how long the rest will take."""
    from rich.console import Console

    from seedspread.campaign.show import duration, plan_table, sharing
    from seedspread.errors import MissingExtraError

    made = _plan(study, store, data_dir)
    states = made.states()
    missing = made.missing()
    seconds: float | None = None
    if missing:
        try:
            require_extra("train", "an estimate")
            seconds = _estimate(made)
        except MissingExtraError:
            seconds = None
    if json:
        typer.echo(jsonlib.dumps(_plan_values(made, seconds), indent=2))
        return
    console = Console(highlight=False)
    console.print(plan_table(made, states))
    for line in sharing(made):
        console.print(line, markup=False)
    if made.study.note:
        console.print(made.study.note, markup=False)
    if not missing:
        console.print("Everything is there.")
    elif seconds is not None:
        cores = _cores()
        console.print(
            f"{_runs(len(missing))} to do: about {duration(seconds)} on one core of this machine's CPU, "
            f"{duration(seconds / cores)} on its {cores} (from a measured step)."
        )
    else:
        console.print(
            f"{len(missing)} runs to do; to estimate their time: pip install 'seedspread[train]'",
            markup=False,
        )


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _estimate(made: "Plan") -> float:
    from rich.console import Console

    from seedspread.campaign.estimate import seconds_per_run

    with Console(stderr=True).status("measuring a step ..."):
        return sum(seconds_per_run(made.missing().values(), threads=1))


def _plan_values(made: "Plan", seconds: float | None) -> dict[str, Any]:
    states = made.states()
    return {
        "study": made.study.name,
        "title": made.study.title,
        "named": len(made.runs),
        "distinct": len(made.distinct),
        "missing": len(made.missing()),
        "core_seconds": seconds,
        "runs": [
            {
                "study": r.named.study,
                **dict(r.named.cell),
                "seed": r.named.seed,
                "key": r.key,
                "state": states[r.key].state,
                "message": states[r.key].message,
            }
            for r in made.runs
        ],
    }


@app.command()
def run(
    study: StudyName,
    store: StoreOption = Path("store"),
    backend: Annotated[str, typer.Option(help="local, ray or slurm.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once.")] = None,
    data_dir: DataDir = None,
    max_failures: Annotated[int | None, typer.Option(min=1, help="Stop once so many runs failed.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    address: Annotated[str | None, typer.Option(help="ray: an existing cluster, such as auto.")] = None,
    cpus_per_run: Annotated[int, typer.Option(min=1, help="ray, slurm: CPUs of a run.")] = 1,
    gpus_per_run: Annotated[float, typer.Option(min=0, help="ray: GPUs of a run, such as 0.25.")] = 0.0,
    partition: Annotated[str | None, typer.Option(help="slurm: the partition.")] = None,
    minutes: Annotated[int, typer.Option(min=1, help="slurm: the time limit of a job.")] = 720,
    wait: Annotated[bool, typer.Option(help="slurm: wait for the jobs.")] = True,
    lease_seconds: Annotated[
        float, typer.Option(min=1, help="Take over a run whose worker is silent for so long.")
    ] = 120.0,
    json: Json = False,
) -> None:
    """Carry out what a study is missing; safe to kill and to start again, here or elsewhere at once."""
    require_extra("train", "seedspread campaign run")
    from rich.console import Console

    from seedspread.campaign.executor import CampaignStoppedError
    from seedspread.campaign.show import Progressing

    options = {"max_failures": max_failures, "retry_failed": retry_failed, "lease_seconds": lease_seconds}
    cluster = {"cpus_per_run": cpus_per_run, "gpus_per_run": gpus_per_run}
    executor = _executor(
        backend,
        options,
        local={"workers": workers},
        ray=cluster | {"address": address},
        slurm=cluster | {"workers": workers, "partition": partition, "minutes": minutes, "wait": wait},
    )
    made = _plan(study, store, data_dir)
    with Progressing(Console(stderr=True)) as progress:
        report = made.run(executor, progress.tell)
    if json:
        typer.echo(jsonlib.dumps(_report_values(made, report), indent=2))
    else:
        typer.echo(_summary(made, report, store))
    if report.stopped == "interrupted":
        raise CampaignStoppedError("stopped; every run can be gone on with: give the same command again")
    if report.stopped and not (backend == "slurm" and not wait):
        raise SeedspreadError(report.stopped)
    if report.failed:
        raise SeedspreadError(f"{_runs(len(report.failed))} failed; try again with --retry-failed")
    if report.left and not report.stopped:
        raise SeedspreadError(f"{_runs(report.left)} did not end; give the same command again")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _executor(
    backend: str, options: dict[str, Any], local: dict[str, Any], ray: dict[str, Any], slurm: dict[str, Any]
) -> "Executor":
    try:
        one_of("--backend", backend, ("local", "ray", "slurm"))
    except ValueError as error:
        raise SeedspreadError(str(error)) from None
    for name, engine in (("address", "ray"), ("partition", "slurm")):
        if (ray | slurm)[name] is not None and backend != engine:
            raise SeedspreadError(f"--{name} is for --backend {engine}; this is {backend}")
    if backend == "ray":
        from seedspread.campaign.ray_engine import RayExecutor

        return RayExecutor(**options, **ray)
    if backend == "slurm":
        from seedspread.campaign.slurm_engine import SlurmExecutor

        whole = int(slurm["gpus_per_run"])
        if whole != slurm["gpus_per_run"]:
            raise SeedspreadError("slurm gives whole GPUs; fractions of one need --backend ray")
        return SlurmExecutor(**options, **(slurm | {"gpus_per_run": whole}))
    from seedspread.campaign.local import LocalExecutor

    return LocalExecutor(**options, **local)


def _report_values(made: "Plan", report: "Report") -> dict[str, Any]:
    return {
        "study": made.study.name,
        "to_do": report.total,
        "done": sorted(report.done),
        "failed": report.failed,
        "stopped": report.stopped,
    }


def _summary(made: "Plan", report: "Report", store: Path) -> str:
    there = len(made.distinct) - len(made.missing())
    lines = [f"{there} of {len(made.distinct)} runs are done ({len(report.done)} of them now), in {store}"]
    if there == len(made.distinct) and made.study.audit:
        spec = made.study.audit
        blocks = "".join(f" --block {block}" for block in spec.block)
        by = f" --by {spec.by}" if spec.by and spec.by != "study" else ""
        told = f"--group {spec.group} --reference {spec.reference}{blocks}{by}"
        lines.append(f"audit them with: seedspread audit {store} {told}")
    return "\n".join(lines)


@app.command()
def status(
    study: StudyName,
    store: StoreOption = Path("store"),
    data_dir: DataDir = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep looking, until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Show what is done, running, failed, collapsed and waiting, and the last line of each failure."""
    from rich.console import Console
    from rich.live import Live

    from seedspread.campaign.show import status_view

    if store.exists() and not store.is_dir():
        raise SeedspreadError(f"the store {store} is not a folder")
    made = _plan(study, store, data_dir)
    if json:
        typer.echo(jsonlib.dumps(_plan_values(made, None), indent=2))
        return
    console = Console(highlight=False)
    if not watch:
        states = made.states()
        console.print(status_view(made, states, made.seconds_left(states)))
        return
    with Live(console=console, refresh_per_second=2) as live:
        while True:
            states = made.states()
            live.update(status_view(made, states, made.seconds_left(states)), refresh=True)
            if all(s.state in ("done", "collapsed", "failed") for s in states.values()):
                return
            time.sleep(2)


def quickstart(
    store: StoreOption = Path("quickstart"),
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; all cores by default.")] = None,
) -> None:
    """The whole pipeline in miniature on the embedded sample: train, audit, report. A few minutes."""
    require_extra("train", "seedspread quickstart")
    from rich.console import Console

    from seedspread.report.quickstart import quickstart as carry_out

    carry_out(store, workers, Console(highlight=False))
