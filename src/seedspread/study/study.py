"""The Python interface: run, audit and report a study without the terminal."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedspread.errors import SeedspreadError, one_of
from seedspread.render.terminal import Terminal
from seedspread.runners.contract import Level
from seedspread.runners.function import FunctionRunner
from seedspread.runs.levels import several
from seedspread.study.display import ProgressDisplay, failures, size_of, study_html, tidy_runs
from seedspread.study.executor import Executor
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import raise_if_unfinished
from seedspread.study.plan import Plan
from seedspread.study.ray_engine import RayExecutor
from seedspread.study.sequential import Watcher, run_sequential
from seedspread.study.slurm_engine import SlurmExecutor
from seedspread.study.spec import StudyError, StudyFile, StudySpec, Variation
from seedspread.tables.from_store import study_runs

if TYPE_CHECKING:
    import pandas as pd

    from seedspread.analysis.audit_result import AuditResult
    from seedspread.report.extension import ReportData
    from seedspread.report.page import Report

EXECUTORS: dict[str, type[LocalExecutor] | type[RayExecutor] | type[SlurmExecutor]] = {
    "local": LocalExecutor,
    "ray": RayExecutor,
    "slurm": SlurmExecutor,
}


def executor_named(backend: str, options: dict[str, Any]) -> Executor:
    """Return an engine with the options that are set; refuse those of other engines."""
    try:
        one_of("--backend", backend, EXECUTORS)
    except ValueError as error:
        raise SeedspreadError(str(error)) from None
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        takers = [engine for engine, made in EXECUTORS.items() if name in {f.name for f in fields(made)}]
        if backend not in takers:
            option = f"--{'slurm' if name == 'extra' else name.replace('_', '-')}"
            raise SeedspreadError(f"{option} is for --backend {' or '.join(takers)}; this is {backend}")
    return EXECUTORS[backend](**given)


@dataclass(frozen=True, repr=False)
class StudyRuns:
    """The runs of a study in a store; `plan` is what the study asks for."""

    plan: Plan

    @property
    def table(self) -> "pd.DataFrame":
        """Return one row per finished run currently in the store: factors, `seed` and metrics as columns.

        Metrics are as the runs reported them.
        """
        return tidy_runs(self.plan, self._metrics)

    @property
    def _metrics(self) -> tuple[str, ...]:
        return self.plan.study.audit.values if self.plan.study.audit else ()

    def audit(self, value: str | None = None, **options: Any) -> "AuditResult":
        """Audit the study's comparison, on its metric or another one.

        Args:
            value: the metric; by default the study's own, the first if there are several.
            options: of `seedspread.audit`, such as `level` and `test_size`.
        """
        from seedspread.analysis.audit import audit  # noqa: PLC0415 - scipy, which most studies run without
        from seedspread.analysis.sequential import looks_of  # noqa: PLC0415

        spec = self.plan.study.audit
        if spec is None:
            raise SeedspreadError(
                f"{self.plan.study.name} names no comparison; give the study one, such as audit={{'group': "
                "'lr', 'baseline': 0.1, 'value': 'accuracy'}, or its file an [audit]"
            )
        wanted = value or spec.values[0]
        blocks = spec.blocks or None
        studies = self.plan.recorded()
        table = study_runs(self.plan.store, [study.at_last_look for study in studies], [wanted])
        options = {"look": looks_of(studies[0].sequential)} | options
        return audit(table, wanted, spec.group, spec.baseline, blocks, by=spec.strata, **options)

    def report(self, page: "Path | str", value: str | None = None) -> Path:
        """Write the report page of these runs, on the study's metric or another one; return its path."""
        write_report(self.plan.store.path, page, plans=[self.plan], value=value)
        return Path(page)

    def __repr__(self) -> str:
        states = self.plan.states()
        failed = "".join(f"\n  {line}" for line in failures(self.plan, states))
        return f"<StudyRuns of {self.plan.study.name}: {self.plan.counts(states).rstrip('.')}{failed}>"

    def _repr_html_(self) -> str:
        return study_html(self.plan, self._metrics)


class Study:
    """A study of a Python function, of a study file, or a shipped study.

    A function is called with the factors, the settings and `seed` as its arguments, once per cell and seed,
    in worker processes; it returns its metrics as a dict of numbers. An argument `folder` receives
    the run's own folder, which survives until the run is tried again.

    Args:
        what: the function, the path of a .toml file, or a shipped study's name. The latter two take only
            `seeds` and `settings`, in place of their own.
        factors: levels by argument; every combination is a cell.
        cells: instead of factors, the cells one by one.
        seeds: number of seeds, from 1 on, or a list of them.
        settings: further arguments, the same in every run.
        sources: names of sources of randomness; the function is given a `seed_NAME` for each.
        vary: sources that the seed controls; the others are the same in all runs. All by default.
        repeat: number of runs per seed, for noise that no seed controls.
        audit: the comparison to audit: `group`, `baseline`, `value`; also `block` and `by`.
        metrics: what a run must report: a name, names, or properties of each by name (see `Metric`); by
            default what is audited.
        sequential: for a study that adds seeds until its answer is in: `start`, `step`, `limit`, and
            `precision` to stop at a precision; `seeds` may then be left out.
        inputs: patterns of files, relative to the current folder, whose content is part of a run's identity.
        environment: environment variables whose values are part of a run's identity.
        title: title of the study.
        name: name of the study in a store; by default the function's.

    Example:
        >>> def train(seed: int, smoothing: float) -> dict[str, float]:
        ...     return {"accuracy": 0.9 + smoothing / seed}
        >>> study = Study(train, factors={"smoothing": [0.0, 0.1]}, seeds=10)
    """

    def __init__(
        self,
        what: Callable[..., Any] | Path | str,
        *,
        factors: Mapping[str, Sequence[Level]] | None = None,
        cells: Sequence[Mapping[str, Level]] | None = None,
        seeds: int | Sequence[int] | None = None,
        settings: Mapping[str, Level] | None = None,
        sources: Sequence[str] = (),
        vary: Sequence[str] = (),
        repeat: int = 1,
        audit: Mapping[str, Any] | None = None,
        metrics: str | Sequence[str] | Mapping[str, Any] | None = None,
        sequential: Mapping[str, Any] | None = None,
        inputs: Sequence[str] = (),
        environment: Sequence[str] = (),
        title: str = "",
        name: str | None = None,
    ) -> None:
        values: dict[str, Any] = {"title": title, "factors": factors, "cells": cells, "seeds": seeds}
        by_name = metrics if isinstance(metrics, Mapping) else {one: {} for one in several(metrics)}
        values |= {"settings": settings, "audit": audit, "metrics": by_name or None}
        values |= {"sequential": sequential, "sources": sources or None, "vary": vary or None}
        values |= {"repeat": None if repeat == 1 else repeat}
        self._what, self._name = what, name or getattr(what, "__name__", str(what)).strip("<>")
        self._inputs = self._listed("inputs", inputs)
        self._environment = self._listed("environment", environment)
        self._values = {key: value for key, value in _plain(values).items() if value not in (None, "")}
        others = self._values.keys() - {"seeds", "settings"}
        if not callable(what) and (others or inputs or environment or name):
            raise StudyError(f"{what} says all but seeds and settings itself; leave out the other arguments")
        self._checked = self.spec()  # mistakes show here, not when it runs

    def spec(self) -> StudySpec:
        """Return the study as data; of a function, with everything that it reads as it is now.

        Each plan and each run builds it anew: what a function reads, its inputs or a file may have changed
        since the last one, which gives other keys.
        """
        if not callable(self._what):
            seeds, settings = self._values.get("seeds"), self._values.get("settings", {})
            if not isinstance(settings, Mapping) or "seeds" in settings:
                raise StudyError("settings must be fields and their values, such as {'training.epochs': 2}")
            varied = Variation(seeds, settings) if self._values else None
            return StudySpec.from_file(self._what, varied)
        what, inputs, variables = self._what, self._inputs, self._environment

        def runner(file: StudyFile) -> FunctionRunner:
            more = {"inputs": inputs, "environment": variables, "randomness": file.randomness}
            return FunctionRunner.of(what, file.promised, **more)

        return StudySpec.from_values(self._name, self._values, runner)

    def __repr__(self) -> str:
        return f"<Study {self._checked.name}: {size_of(self._checked)}>"

    def _listed(self, argument: str, names: Sequence[str]) -> tuple[str, ...]:
        """Refuse a single name: its letters would be taken one by one."""
        if isinstance(names, str | os.PathLike):
            raise StudyError(f"{self._name}: {argument} must be a list; write [{str(names)!r}]")
        return tuple(names)

    def plan(
        self,
        store: Path | str,
        *,
        data_dir: Path | str | None = None,
        accept_changed: bool = False,
    ) -> Plan:
        """Return what there is to do, and what the store has already.

        Args:
            store: the folder of results.
            data_dir: the data folder.
            accept_changed: keep runs whose function or inputs have changed since they were made.
        """
        spec = self.spec()
        _warn(spec)
        return Plan.make(spec, store, data_dir, accept_changed=accept_changed)

    def run(
        self,
        store: Path | str,
        workers: int | None = None,
        *,
        threads: int | None = None,
        gpus_per_run: float | None = None,
        executor: Executor | None = None,
        progress: bool = True,
        **options: Any,
    ) -> StudyRuns:
        """Run what is missing and return all runs; raise if some are left without an outcome.

        A run that ended with an error of its own, or diverged, has an outcome: it counts as failed.

        Args:
            store: the folder of results.
            workers: processes on this machine; by default as many as cores allow.
            threads: CPU threads of a run; by default 1.
            gpus_per_run: GPUs of a run; by default one if this machine has any.
            executor: another engine than processes on this machine; give it these three options itself.
            progress: whether to show progress.
            options: options of `run_study`: `retry_failed`, `keep_going`, `strict`, `accept_changed`.
        """
        if executor is not None and (workers, threads, gpus_per_run) != (None, None, None):
            raise SeedspreadError("give workers, threads and gpus_per_run to the executor itself")
        executor, spec = executor or LocalExecutor(workers, threads, gpus_per_run), self.spec()
        _warn(spec)
        with ProgressDisplay(Terminal()) if progress else nullcontext() as watcher:
            return run_study(spec, store, executor, watcher, **options)

    def runs(self, store: Path | str) -> StudyRuns:
        """Return the study's runs in a store, to audit and report; nothing is run."""
        return StudyRuns(self.plan(store))


def _warn(study: StudySpec) -> None:
    """Warn of dependencies of a function whose changes go unnoticed, so that old results may be reused."""
    if isinstance(study.runner, FunctionRunner):
        for note in study.runner.notes([]):
            warnings.warn(note, stacklevel=3)


def _plain(value: Any) -> Any:
    """Return levels and seeds as a file has them: plain lists and Python numbers."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def run_study(
    study: "StudySpec | Path | str",
    store: "Path | str",
    executor: Executor | None = None,
    watcher: Watcher | None = None,
    *,
    data_dir: Path | str | None = None,
    strict: bool = False,
    accept_changed: bool = False,
    **options: Any,
) -> StudyRuns:
    """Run what a study is missing; raise if any run is left without an outcome.

    A run that ended with an error of its own, or diverged, has an outcome: it counts as failed.

    Args:
        study: a study, the name of a shipped one, or a .toml file.
        store: the folder of results.
        executor: where to run; by default worker processes on this machine.
        watcher: called at every change of a run and every interim look.
        data_dir: the data folder.
        strict: raise if any run has failed.
        accept_changed: keep runs whose program, function or inputs have changed since they were made.
        options: options of `study.loop.run_plan`: `retry_failed`, `keep_going`.

    Returns:
        The finished runs: `table`, `audit()` and `report(page)`.

    Example:
        ```python
        runs = run_study("mini/cifar10-factorial", "runs")
        print(runs.audit())
        ```
    """
    executor = executor or LocalExecutor()
    plan = Plan.make(study, store, data_dir, accept_changed=accept_changed)
    plan, progress = run_sequential(plan, executor, watcher, **options)
    raise_if_unfinished(progress, waited=executor.wait, strict=strict)
    return StudyRuns(plan)


def store_material(
    store: "Path | str",
    studies: Iterable[str] = (),
    *,
    plans: Iterable[Plan] = (),
    value: str | None = None,
    data_dir: Path | str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> "ReportData":
    """Return the data for a report on a store.

    `studies` are named as in the store, as shipped, or by .toml files; `plans` are plans of
    studies. By default, all studies that the store records.
    """
    from seedspread.report.load import load_store  # noqa: PLC0415 - a fifth of the package
    from seedspread.study.store_questions import studies_asked  # noqa: PLC0415 - scipy

    recorded = [study for plan in plans for study in plan.recorded()]
    recorded += studies_asked(store, studies, data_dir)
    return load_store(Path(store), recorded, value, tell)


def write_report(
    store: "Path | str", page: "Path | str", *, plans: Iterable[Plan] = (), value: str | None = None
) -> "Report":
    """Write the page of a store: the answer, every table and every figure, in one file.

    Args:
        store: the folder of runs.
        page: the .html file to write.
        plans: studies to report on; by default those that the store records.
        value: the metric; by default that of the study.

    Returns:
        The report, which shows itself in a notebook.

    Example:
        ```python
        write_report("runs", "report.html")
        ```
    """
    from seedspread.report.page import Report, write_page  # noqa: PLC0415 - a fifth of the package

    report = Report(store_material(store, plans=plans, value=value))
    write_page(report, page)
    return report
