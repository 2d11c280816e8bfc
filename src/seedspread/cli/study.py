"""The commands about studies: `plan`, `run` and `status`."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedspread.cli.options import (
    DataDir,
    EngineOptions,
    Json,
    Seeds,
    Settings,
    argument,
    option,
    say,
    say_json,
    with_options,
)
from seedspread.errors import MissingExtraError, SeedspreadError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedspread.runs.store import RunState
    from seedspread.study.executor import StudyProgress
    from seedspread.study.plan import Plan
    from seedspread.study.spec import StudySpec

StudyName = Annotated[
    str, argument("A study file (.toml), or the name of a shipped study such as quickstart.")
]
StoreOption = Annotated[Path, "Folder of results."]
AcceptChanged = Annotated[bool, "Keep runs although their code or input files have changed since."]


def _run_command(
    study: str, seeds: str | None, settings: list[str] | None, store: Path, data_dir: Path | None
) -> str:
    varied = [*(["--seeds", seeds] if seeds else []), *(w for s in settings or [] for w in ("--set", s))]
    data = ["--data-dir", str(data_dir)] if data_dir else []
    return shlex.join(["seedspread", "run", study, *varied, "--store", str(store), *data])


def _varied(study: str, seeds: str | None, settings: list[str] | None) -> str:
    from seedspread.study.spec import Variation

    return Variation.of([*([] if seeds is None else [f"seeds={seeds}"]), *(settings or [])]).name(study)


def plan(
    study: StudyName,
    seeds: Seeds = None,
    settings: Settings = None,
    store: StoreOption = Path("store"),
    data_dir: DataDir = None,
    accept_changed: AcceptChanged = False,
    json: Json = False,
) -> None:
    """List a study's runs: done, missing, and how long these take."""
    from rich.text import Text

    from seedspread.render.terminal import Terminal
    from seedspread.runs.store import FINISHED
    from seedspread.study import display
    from seedspread.study.plan import Estimate, Plan
    from seedspread.study.sequential import named

    made = Plan.make(_varied(study, seeds, settings), store, data_dir, accept_changed=accept_changed)
    estimate, seconds, why = Estimate(made), None, "unknown until a run has ended"
    with Terminal(stderr=True).status("estimating the time ..."):
        try:
            states = made.states()
            # Failed runs are not tried again unless requested.
            seconds = estimate.work_left({key: s for key, s in states.items() if s.state != "failed"})
        except MissingExtraError as error:
            why = str(error)
    sequential = _sequential(made)
    if json:
        say_json(_plan_values(made, states, seconds) | {"sequential": sequential})
        return
    expected = []
    if sequential:  # otherwise do without importing scipy, which is slow
        from seedspread.analysis.words import expectation

        expected = [named(made, name, expectation(facts)) for name, facts in sequential.items()]
    console = Terminal()
    asked = [line for one in made.recorded() for line in one.asked if not made.study.included]
    title = Text(made.study.title, style="bold")
    source = why if seconds is None else estimate.source
    times = [display.time_needed(states, seconds, source), *display.changed_inputs(made)]
    notes = [*display.sharing(made), *filter(None, [made.study.file.note]), *made.notes()]
    notes += [*expected, *display.lacking(made)]
    console.print(title, *map(Text, asked), *times, *display.plan_table(made, states), *notes, sep="\n")
    if any(state.state not in (*FINISHED, "failed") for state in states.values()):
        command = _run_command(study, seeds, settings, store, data_dir)
        more = " --accept-changed" if accept_changed else ""
        console.print(f"Next: {command}{more}", soft_wrap=True)


def _sequential(made: "Plan") -> "dict[str, dict[str, Any]]":
    """Return facts and expectations of each sequential study; refuse a stopping rule that is never met."""
    if not made.sequential:
        return {}
    from seedspread.analysis.sequential import factor_for, sequential_facts
    from seedspread.render.terminal import Terminal
    from seedspread.study.sequential import comparisons_of

    cells = {part.name: len(part.cells) for part in made.study.parts}
    out = {}
    with Terminal(stderr=True).status("simulating the levels of the interim looks ...") as shown:
        for name, record in made.sequential.items():
            comparisons = comparisons_of(made, name)
            factor_for(
                record.spec,
                comparisons,
                lambda done: shown.update(f"simulating the levels of the interim looks: {done:.0%} ..."),
            )
            out[name] = sequential_facts(record, comparisons, cells[name])
    return out


def _plan_values(made: "Plan", states: "dict[str, RunState]", seconds: float | None) -> dict[str, Any]:
    return {
        "study": made.study.name,
        "title": made.study.title,
        "named": len(made.runs),
        "distinct": len(made.distinct),
        "missing": sum(state.state not in ("done", "collapsed") for state in states.values()),
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


def _revisions_study(
    words: list[str], revisions: str, seeds: str | None, metric: str | None, setup: str
) -> "StudySpec":
    """Return the study of a typed command, with one group per revision."""
    from seedspread.runners.revisions import revision_names
    from seedspread.study.spec import StudySpec, Variation

    if not words or seeds is None:
        raise SeedspreadError(
            "--revisions goes with --seeds and a command: seedspread run --revisions main..my-branch "
            "--seeds 10 -- python train.py --seed {seed}"
        )
    names, (value, _, regex) = revision_names(revisions), (metric or "").partition("=")
    values: dict[str, Any] = {
        "title": f"{revisions}: {shlex.join(words)}",
        "run": {"command": words, "revisions": names, "setup": setup},
        "seeds": Variation.of([f"seeds={seeds}"]).seeds,
    }
    if value:
        values["metrics"] = {value: {"regex": regex} if regex else {}}
        values["audit"] = {"group": "revision", "baseline": names[0], "value": value}

    return StudySpec.from_values("revisions", values)


@with_options()
def run(
    study: Annotated[
        list[str] | None,
        argument("A study file (.toml), or a shipped study such as quickstart. With --revisions: a command."),
    ] = None,
    store: StoreOption = Path("store"),
    *,
    engine: EngineOptions,
    data_dir: DataDir = None,
    retry_failed: Annotated[bool, "Try failed runs again."] = False,
    keep_going: Annotated[bool, "Run the rest even if the first runs all fail in the same way."] = False,
    strict: Annotated[bool, "Exit with status 3 if a run failed."] = False,
    revisions: Annotated[
        str | None, "Git revisions to compare, such as main..my-branch. A dot is the working tree."
    ] = None,
    seeds: Seeds = None,
    settings: Settings = None,
    metric: Annotated[
        str | None,
        option("With --revisions: the metric, and a pattern for it in the output.", metavar="NAME[=REGEX]"),
    ] = None,
    setup: Annotated[str, "With --revisions: a shell line to run once per checkout."] = "",
    lease_seconds: Annotated[
        float, option("Take over a run whose worker has been silent for this long.", min=1)
    ] = 120.0,
    accept_changed: AcceptChanged = False,
    json: Json = False,
) -> None:
    """Run what is missing of a study; if interrupted, it resumes."""
    from seedspread.render.terminal import Terminal
    from seedspread.runs.studies import sequential_values
    from seedspread.study import loop
    from seedspread.study.display import ProgressDisplay
    from seedspread.study.plan import Plan
    from seedspread.study.sequential import run_sequential

    executor = engine.executor()
    asked: str | StudySpec
    if revisions is not None and settings:
        raise SeedspreadError("--set is for a study; with --revisions write the value into the command")
    if revisions is not None:
        asked = _revisions_study(study or [], revisions, seeds, metric, setup)
    elif study is None or len(study) != 1:
        raise SeedspreadError("name one study (mini/cifar10-factorial, x.toml); a command needs --revisions")
    else:
        asked = _varied(study[0], seeds, settings)
    made = Plan.make(asked, store, data_dir, accept_changed=accept_changed)
    with ProgressDisplay(Terminal(stderr=True)) as shown:
        made, progress = run_sequential(
            made, executor, shown,
            retry_failed=retry_failed, keep_going=keep_going, lease_seconds=lease_seconds,
        )  # fmt: skip
    if json:
        failed = progress.failed
        values = {
            "study": made.study.name,
            "to_do": progress.total,
            "done": sorted(progress.done),
            "failed": failed,
            "failures": [{"run": progress.title(k), "key": k, "message": m} for k, m in failed.items()],
            "stopped": progress.stopped,
            "sequential": {name: sequential_values(record) for name, record in made.sequential.items()},
        }
        say_json(values)
    else:
        say(_summary(made, progress, store, asked if isinstance(asked, str) else asked.name))
    if not executor.wait and progress.stopped:
        say(progress.stopped, err=True)
    loop.raise_if_unfinished(progress, waited=executor.wait, strict=strict)


def _summary(made: "Plan", progress: "StudyProgress", store: Path, study: str) -> str:
    from seedspread.runners.revisions import FOLDER as REVISIONS
    from seedspread.study.display import lacking

    missing, total = made.missing(), len(made.distinct)
    there, failed = total - len(missing), ""
    if without := progress.failed.keys() & missing.keys():  # other workers may have retried them successfully
        failed = f", {len(without)} failed (try again with --retry-failed)"
    lines = [f"{there} of {total} runs are done ({len(progress.done)} new){failed}. Store: {store}"]
    lines += lacking(made)
    if len(lines) == 1 and (command := _audit_command(made, store, study)):
        lines.append(f"Next: {command}")
    if (store / REVISIONS).is_dir():
        lines.append(f"Checkouts: {store / REVISIONS} (delete them when you are done)")
    return "\n".join(lines)


def _audit_command(made: "Plan", store: Path, study: str) -> str | None:
    """Return the audit to type next; None if the study has none, has not ended, or a cell has no result."""
    from seedspread.runs.store import FINISHED
    from seedspread.runs.studies import load_studies

    by_revision = any(name == "revision" for name, _ in made.runs[0].cell) and not made.study.metrics
    states = made.states()
    finished = {run.cell_id for run in made.runs if states[run.key].state in FINISHED}
    ended = all(state.state in (*FINISHED, "failed") for state in states.values())
    if not (ended and finished == {run.cell_id for run in made.runs} and (made.study.audit or by_revision)):
        return None
    recorded = load_studies(made.store)[0]
    if not {run.study for run in made.runs} <= {one.name for one in recorded}:
        return None  # its runs are there, but from another study
    # `audit --study` takes its name in the store; for a collection, or if two have that name, its file.
    same = [one for one in recorded if one.name == made.study.name]
    words = ["seedspread", "audit", str(store), "--study", made.study.name if len(same) == 1 else study]
    if made.study.audit is None:  # a typed command without --metric: its runs have shown what it reports
        words += ["--group", "revision", "--baseline", str(made.runs[0].cell[0][1])]
        done = (made.store.run(key) for key in made.distinct if made.store.is_done(key))
        words += ["--value", next(str(name) for run in done for name in run.result()["metrics"])]
    return shlex.join(words)


def status(
    study: StudyName,
    seeds: Seeds = None,
    settings: Settings = None,
    store: StoreOption = Path("store"),
    data_dir: DataDir = None,
    watch: Annotated[bool, "Refresh until everything has ended."] = False,
    verify: Annotated[bool, "Check that no file of finished runs was edited or swapped."] = False,
    json: Json = False,
) -> None:
    """Show which runs are done, running, waiting and failed."""
    from rich.console import Group
    from rich.live import Live

    from seedspread.render.terminal import Terminal
    from seedspread.study.display import status_view
    from seedspread.study.plan import Estimate, Plan, sequential_records

    made = Plan.make(_varied(study, seeds, settings), store, data_dir)
    if not store.is_dir():
        if store.exists():
            raise SeedspreadError(f"the store {store} is not a folder; name another with --store")
        begin = _run_command(study, seeds, settings, store, data_dir)
        raise SeedspreadError(
            f"there is no store {str(store)!r}; name another with --store, or begin it: {begin}"
        )
    if verify:
        _verify(made, json)
        return
    estimate = Estimate(made)
    states = made.states()
    if json:
        known = {"seconds_left": estimate.seconds_left(states), "sequential": _sequential(made)}
        say_json(_plan_values(made, states, None) | known)
        return
    console = Terminal()
    if not watch:
        console.print(status_view(made, states, estimate), *_looks(made), sep="\n")
        going = {state.state for state in states.values()}
        if "running" not in going and going & {"waiting", "interrupted"}:
            command = _run_command(study, seeds, settings, store, data_dir)
            console.print(f"Next: {command}", soft_wrap=True)
        elif audit := _audit_command(made, store, made.study.name if seeds or settings else study):
            console.print(f"Next: {audit}", soft_wrap=True)
        return
    with Live(console=console, refresh_per_second=2) as live:
        while True:
            made = made.at_interim_look(sequential_records(made.study, made.store, (*made.runs, *made.later)))
            states = made.states()
            live.update(Group(status_view(made, states, estimate), *_looks(made)), refresh=True)
            ended = all(s.state in ("done", "collapsed", "failed") for s in states.values())
            if ended and all(record.stopped for record in made.sequential.values()):
                return
            time.sleep(2)


def _verify(made: "Plan", json: bool) -> None:
    """Check all files of the finished runs; exit with status 1 if one was changed since its run wrote it."""
    from rich.progress import track

    from seedspread.render.terminal import Terminal

    finished = list(made.store.finished(made.distinct))
    checked = track(finished, "checking", console=Terminal(stderr=True), transient=True)
    problems = {key: problem for key in checked if (problem := made.store.verified(key))}
    if json:
        say_json({"checked": len(finished), "problems": problems})
    else:
        for key, problem in problems.items():
            say(f"{made.distinct[key].title}: {problem}")
        count = f"{len(problems) or 'no'} problem{'s' * (len(problems) != 1)}"
        say(f"{len(finished)} finished runs checked: {count}.")
    if problems:
        raise typer.Exit(1)


def _looks(made: "Plan") -> "list[RenderableType]":
    """Return the interim looks at each sequential study, and its current state."""
    if not made.sequential:
        return []
    from rich.text import Text

    from seedspread.analysis.sequential import looks_table, standing
    from seedspread.render.terminal import to_rich

    out: list[RenderableType] = []
    for name, record in made.sequential.items():
        if record.looks:
            out.append(to_rich(looks_table(record, f"Looks at {name}")))
        out.append(Text(standing(record)))
    return out
