"""`seedspread campaign plan|run|status`."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedspread.cli import engine_options as engine
from seedspread.cli.output import say, say_json
from seedspread.errors import MissingExtraError, SeedspreadError

if TYPE_CHECKING:
    from seedspread.campaign.executor import CampaignProgress
    from seedspread.campaign.plan import Plan

app = typer.Typer(help="Many runs: plan them, run them, see how they stand.", no_args_is_help=True)

StudyName = Annotated[str, typer.Argument(help="A study, such as mini/cifar10-factorial, or a .toml file.")]
StoreOption = Annotated[Path, typer.Option(help="The folder of results.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="The data folder. Else SEEDSPREAD_DATA, else your cache folder.", show_default=False),
]
MaxRuns = Annotated[int, typer.Option(min=1, help="Refuse a study that names more runs.")]
AcceptChanged = Annotated[
    bool, typer.Option("--accept-changed", help="Keep runs whose input files have changed since.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _plan(
    study: str, store: Path, data_dir: Path | None, max_runs: int, *, accept_changed: bool = False
) -> "Plan":
    from seedspread.campaign.plan import Plan
    from seedspread.campaign.study import StudySpec

    spec = StudySpec.from_file(study, max_runs)
    return Plan.make(spec, store, data_dir, accept_changed=accept_changed)


@app.command()
def plan(
    study: StudyName,
    store: StoreOption = Path("store"),
    data_dir: DataDir = None,
    max_runs: MaxRuns = 20_000,
    accept_changed: AcceptChanged = False,
    json: Json = False,
) -> None:
    """Show which runs a study names, which are there already, and how long the rest will take."""
    from seedspread.campaign.estimate import Estimate
    from seedspread.campaign.show import changed_inputs, lacking, plan_table, sharing, superseded, time_needed
    from seedspread.render.terminal import Terminal

    made = _plan(study, store, data_dir, max_runs, accept_changed=accept_changed)
    estimate, seconds, why = Estimate(made), None, "unknown until a run has ended"
    with Terminal(stderr=True).status("estimating the time ..."):
        try:
            seconds = estimate.work_left(made.states())
        except MissingExtraError as error:
            why = str(error)
    if json:
        say_json(_plan_values(made, seconds))
        return
    console = Terminal()
    console.print(plan_table(made, made.states()))
    notes = [*([made.study.note] if made.study.note else []), *made.notes()]
    changes = [*superseded(made), *changed_inputs(made), *lacking(made)]
    for line in [
        *sharing(made),
        *notes,
        time_needed(made, seconds, why if seconds is None else estimate.source),
        *changes,
    ]:
        console.print(line)


def _plan_values(made: "Plan", seconds: float | None) -> dict[str, Any]:
    states = made.states()
    return {
        "study": made.study.name,
        "title": made.study.title,
        "named": len(made.runs),
        "distinct": len(made.distinct),
        "missing": len(made.missing()),
        "superseded": made.superseded(),
        "stale": len(made.stale),
        "accepted": len(made.accepted),
        "core_seconds": seconds,
        "runs": [
            {
                "study": r.study,
                **dict(r.cell),
                "seed": r.seed,
                "key": r.key,
                "state": states[r.key].state,
                "message": states[r.key].message,
                "progress": None if (beat := states[r.key].heartbeat) is None else beat.done,
            }
            for r in made.runs
        ],
    }


@app.command()
def run(
    study: StudyName,
    store: StoreOption = Path("store"),
    backend: engine.Backend = "local",
    workers: engine.Workers = None,
    threads: engine.Threads = None,
    cpus_per_run: engine.CpusPerRun = None,
    gpus_per_run: engine.GpusPerRun = None,
    address: engine.Address = None,
    partition: engine.Partition = None,
    minutes: engine.Minutes = None,
    wait: engine.Wait = None,
    data_dir: DataDir = None,
    max_failures: engine.MaxFailures = None,
    retry_failed: engine.RetryFailed = False,
    lease_seconds: engine.LeaseSeconds = 120.0,
    force: engine.Force = False,
    max_runs: MaxRuns = 20_000,
    accept_changed: AcceptChanged = False,
    json: Json = False,
) -> None:
    """Run what a study is missing; safe to kill and to start again, here or elsewhere at once."""
    from seedspread.api import raise_if_unfinished
    from seedspread.campaign.executors import executor_named
    from seedspread.campaign.loop import run_campaign
    from seedspread.campaign.progressing import Progressing
    from seedspread.render.terminal import Terminal

    executor = executor_named(
        backend,
        {
            "workers": workers, "threads": threads, "address": address, "cpus_per_run": cpus_per_run,
            "gpus_per_run": gpus_per_run, "partition": partition, "minutes": minutes, "wait": wait,
        },
    )  # fmt: skip
    made = _plan(study, store, data_dir, max_runs, accept_changed=accept_changed)
    with Progressing(Terminal(stderr=True)) as shown:
        progress = run_campaign(
            made,
            executor,
            shown.tell,
            max_failures=max_failures,
            retry_failed=retry_failed,
            lease_seconds=lease_seconds,
            force=force,
        )
    if json:
        say_json(_progress_values(made, progress))
    else:
        say(_summary(made, progress, store, study))
    if not executor.wait and progress.stopped:
        say(progress.stopped, err=True)
    raise_if_unfinished(progress, waited=executor.wait)


def _progress_values(made: "Plan", progress: "CampaignProgress") -> dict[str, Any]:
    return {
        "study": made.study.name,
        "to_do": progress.total,
        "done": sorted(progress.done),
        "failed": progress.failed,
        "failures": [
            {"run": progress.title(key), "key": key, "message": message}
            for key, message in progress.failed.items()
        ],
        "stopped": progress.stopped,
    }


def _summary(made: "Plan", progress: "CampaignProgress", store: Path, study: str) -> str:
    from seedspread.campaign.show import lacking

    total, there = len(made.distinct), len(made.distinct) - len(made.missing())
    failed = f", {len(progress.failed)} failed" if progress.failed else ""
    lines = [f"{there} of {total} runs are done ({len(progress.done)} of them now){failed}, in {store}"]
    lines += lacking(made)
    if there == len(made.distinct) and made.study.audit and len(lines) == 1:
        words = ["seedspread", "audit", str(store), "--study", _known_as(made, study)]
        lines.append(f"audit them with: {shlex.join(words)}")
    return "\n".join(lines)


def _known_as(made: "Plan", asked: str) -> str:
    """By what `audit --study` finds it: its name in the store, unless there are two; a collection's file."""
    from seedspread.runs.studies import load_studies

    same = [study for study in load_studies(made.store)[0] if study.name == made.study.name]
    return made.study.name if len(same) == 1 else asked


@app.command()
def status(
    study: StudyName,
    store: StoreOption = Path("store"),
    data_dir: DataDir = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep looking, until Ctrl-C.")] = False,
    max_runs: MaxRuns = 20_000,
    json: Json = False,
) -> None:
    """Show what is done, running, failed, collapsed and waiting, and the last line of each failure."""
    from rich.live import Live

    from seedspread.campaign.estimate import Estimate
    from seedspread.campaign.overview import images_per_second
    from seedspread.campaign.show import status_view
    from seedspread.render.terminal import Terminal

    made = _plan(study, store, data_dir, max_runs)
    if not store.is_dir():
        if store.exists():
            raise SeedspreadError(f"the store {store} is not a folder; name another with --store")
        begin = shlex.join(["seedspread", "campaign", "run", study, "--store", str(store)])
        raise SeedspreadError(
            f"the store {store} is not there; name another with --store, or begin it: {begin}"
        )
    estimate = Estimate(made)
    states = made.states()
    if json:
        speed, left = images_per_second(states), estimate.seconds_left(states)
        say_json(_plan_values(made, None) | {"seconds_left": left, "images_per_second": speed or None})
        return
    console = Terminal()
    if not watch:
        console.print(status_view(made, states, estimate))
        return
    with Live(console=console, refresh_per_second=2) as live:
        while True:
            states = made.states()
            live.update(status_view(made, states, estimate), refresh=True)
            if all(s.state in ("done", "collapsed", "failed") for s in states.values()):
                return
            time.sleep(2)
