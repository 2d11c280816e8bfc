"""Any program as a runner: a command with placeholders, started once per run without a shell."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seedspread.errors import did_you_mean
from seedspread.runners import supervise
from seedspread.runners.contract import Level, RunnerError, WorkItem
from seedspread.runners.outputs import MetricSource, field_of_file, matched, missing, plain_text, state_of
from seedspread.runners.own_code import (
    RESERVED,
    THREADS,
    OwnCode,
    OwnRun,
    Parameters,
    Reported,
    read_metrics_file,
    signal_name,
)
from seedspread.runners.revisions import REVISION, WORKING_TREE, Revisions
from seedspread.runs.folder import RunFailedError
from seedspread.runs.run import key_of
from seedspread.runs.stopping import StoppedError, StopRequest
from seedspread.runs.store import Store

# A doubled brace, a placeholder, or a single brace.
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Command:
    """A command with placeholders, which is started once per run.

    Attributes:
        template: its words; `{seed}`, `{folder}`, `{python}` (the interpreter running this) and
            `{PARAMETER}` are replaced in each, `{{` is a brace.
        timeout: seconds that it may take.
    """

    template: tuple[str, ...]
    folder: str
    timeout: float | None = None

    def words(self, values: Mapping[str, Level], home: str, path: str) -> list[str]:
        """Return the words with placeholders replaced: a value stays within its word, whatever it contains.

        The program is searched for in `home`, where it runs, and along `path`.
        """
        words = [filled_in(word, values) for word in self.template]
        return [_found(words[0], home, path) or words[0], *words[1:]]

    @property
    def is_there(self) -> bool:
        """True if its program can be found, or depends on the run."""
        program = self.template[0]
        return bool(_PLACEHOLDER.search(program)) or _found(program, self.folder, search_path()) is not None


def placeholders(words: Sequence[str]) -> list[str]:
    """Return the names of the placeholders in a command; `RunnerError` for an unmatched brace."""
    matches = [match for word in words for match in _PLACEHOLDER.finditer(word)]
    for match in matches:
        if match[0] in ("{", "}"):
            raise RunnerError(
                f"run.command has a single {match[0]} in {match.string!r}: write it twice, or put a "
                "placeholder that has a blank in quotes"
            )
    return [match[1] for match in matches if match[1] is not None]


def _found(program: str, home: str, path: str) -> str | None:
    if os.path.dirname(program):
        return shutil.which(os.path.join(home, program))
    return shutil.which(program, path=path)


def filled_in(text: str, values: Mapping[str, Level]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        word = values[match[1]]
        return str(word).lower() if isinstance(word, bool) else str(word)  # as in TOML

    return _PLACEHOLDER.sub(value, text)


def search_path() -> str:
    """Return the search path for programs: this Python's folder comes last, so that there is a `python`."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)])


METRICS = "metrics.json"


class ProgramRun(OwnRun):
    """One run of a program: started under a supervisor, watched, and recorded when it has succeeded."""

    def __init__(self, runner: "ProgramRunner", item: WorkItem, stop: StopRequest) -> None:
        super().__init__(runner, item, stop)
        self._command, self._sources = runner.command, runner.sources
        self._home, self._path = Path(self._command.folder), search_path()
        self._own_variables: dict[str, str] = {}
        self._revisions = runner.revisions

    def _run(self) -> dict[str, float]:
        self._end_former()
        self._prepare()
        if not any(self._work.iterdir()):
            self._forget_attempts()  # nothing to resume from: start afresh
        ended = self._supervised()
        if self._stop.number is not None and ended.get("stopped"):
            raise StoppedError("stopped; what the program left in its folder is kept", self._stop.number)
        try:
            self._check_inputs("when it ended")
            if "error" in ended:
                raise RunFailedError(f"{self._command.template[0]!r} could not be started: {ended['error']}")
            if ended["timed_out"]:
                limit = self._command.timeout
                raise self._with_tail(f"it took longer than its timeout of {limit:g} s", timeout=limit)
            if ended["signal"] is not None:
                name = signal_name(ended["signal"])
                raise self._with_tail(f"it was ended by signal {name}", signal=ended["signal"])
            if status := ended["exit_status"]:
                raise self._with_tail(f"exit status {status}", exit_status=status)
            try:
                return self._leave_record(self._reported(ended["last_line"]))
            except RunFailedError as error:
                raise self._with_tail(str(error), **error.details) from None
        except RunFailedError:
            files = [self._work / METRICS, *(self._file(source) for source in self._sources if source.file)]
            self._note_failure({str(path): state_of(path) for path in files})
            raise

    def _prepare(self) -> None:
        """Find the program: for a revision, in its checkout, which may have vanished since planning."""
        if self._revisions is None:
            return
        store, found = self._folder.path.parent, str(dict(self._parameters.values)[REVISION])
        try:
            self._revisions.prepare(store, found)
        except RunnerError as error:
            raise RunFailedError(str(error)) from None
        self._home = self._revisions.where(store, found)
        self._own_variables = self._revisions.environment(store, found)
        self._path = self._own_variables.get("PATH", "") + search_path()

    def _reported(self, last_line: str) -> Reported:
        """Return all that was reported, in any way, except in files from a failed attempt."""
        logs, path = self._read_logged(), self._work / METRICS
        in_file = {} if self._is_of_failure(path) else read_metrics_file(path)
        text = plain_text(self._output()) if any(source.regex for source in self._sources) else ""
        found = {
            source.metric: matched(source, text) if source.regex else self._in_file(source)
            for source in self._sources
        }
        return replace(logs, values={**logs.values, **_object(last_line), **in_file, **found})

    def _file(self, source: MetricSource) -> Path:
        """Return where the program writes the file that contains a metric."""
        return Path(os.path.normpath(self._work / filled_in(source.file or "", self._values())))

    def _in_file(self, source: MetricSource) -> Any:
        path = self._file(source)
        if not path.is_relative_to(self._work):
            raise missing(
                source, f"{path} is not in the run's folder, {{folder}}, but where others overwrite it"
            )
        if self._is_of_failure(path):
            raise missing(source, f"the program did not write {path.name}")
        return field_of_file(source, path)

    def _is_of_failure(self, path: Path) -> bool:
        """Return whether a file is unchanged since a failed attempt."""
        left = self._left_by_failure()[0].get(str(path))
        return left is not None and left == state_of(path)

    def _supervised(self) -> dict[str, Any]:
        """Run the program under a supervisor, which ends with this process; return how the program ended."""
        order = {
            "command": self._command.words(self._values(), str(self._home), self._path),
            "folder": str(self._home),
            "environment": self._environment(),
        }
        with subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", supervise.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as supervisor:
            return self._ended(supervisor, order, self._command.timeout)

    def _environment(self) -> dict[str, str]:
        planned = dict(self._parameters.environment)  # whatever their values are here
        return {
            "PYTHONUNBUFFERED": "1",  # so that its last line is visible while it runs
            **dict.fromkeys(THREADS, str(self._threads)),
            **{name: value for name, value in os.environ.items() if name not in planned},
            **self._own_variables,
            "PATH": self._path,
            **{name: value for name, value in planned.items() if value is not None},
            **self._variables(),
        }

    def _values(self) -> dict[str, Level]:
        known = self._runner.randomness
        given: dict[str, Level] = {f"seed.{name}": seed for name, seed in known.seeds(self._seed).items()}
        python = shutil.which("python", path=self._path) if self._own_variables else None
        given |= {"seed": known.run_seed(self._seed), "folder": str(self._work)}
        given |= {"python": python or sys.executable, "checkout": str(self._home)}
        return dict(self._parameters.values) | given


def _object(line: str) -> dict[str, Any]:
    """Return the JSON object on the last line of a program's output; empty if it is anything else."""
    try:
        values = json.loads(plain_text(line.encode()))
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


@dataclass(frozen=True)
class ProgramRunner(OwnCode):
    command: Command
    sources: tuple[MetricSource, ...] = ()
    revisions: Revisions | None = None
    name: str = "program"
    run_type = ProgramRun

    @property
    def folder(self) -> str:
        return self.command.folder

    @property
    def origin(self) -> str:
        return self.command.folder

    @property
    def code(self) -> dict[str, Any]:
        setup = self.revisions.setup if self.revisions else ""
        return {"command": list(self.command.template), **({"setup": setup} if setup else {})}

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """Return the values with the current inputs; every placeholder must have a value."""
        names = [*RESERVED, *values, *(f"seed.{source}" for source in self.randomness.sources)]
        if self.revisions is not None:
            names.append("checkout")
            values = {**values, REVISION: dict(self.revisions.ids)[str(values[REVISION])]}
        places = {"run.command": (self.command.template, "; a brace is written twice")}
        places |= {f"metrics.{one.metric}.file": ((one.file or "",), "") for one in self.sources}
        for where, (words, more) in places.items():
            for name in (name for name in placeholders(words) if name not in names):
                hint = did_you_mean(name, names)
                known = f"there are {', '.join(names)}{more}"
                raise RunnerError(f"{where} has {{{name}}}, which is not a parameter{hint} ({known})")
        return super().parameters(base, values)

    def base_keys(self, runs: Sequence[tuple[Parameters, int]]) -> list[str | None]:
        """Return hashes without the inputs but with the folder: elsewhere, it is another program."""
        named = () if self.revisions is None else self.revisions.ids
        changing = [found for name, found in named if name == WORKING_TREE]
        bases: list[str | None] = []
        for parameters, seed in runs:
            identity = self.identity(parameters, seed) | {"folder": self.folder}
            values = identity["parameters"]
            if is_working_tree := values.get(REVISION) in changing:
                identity["parameters"] = {**values, REVISION: WORKING_TREE}
            bases.append(key_of(identity) if self.inputs or is_working_tree else None)
        return bases

    def notes(self, parameters: Iterable[Parameters]) -> list[str]:
        """Return notes on parameters that the command does not use, which may be an oversight."""
        seeds = [f"seed.{source}" for source in self.randomness.sources] or ["seed"]
        names = dict.fromkeys([*seeds, *(name for one in parameters for name, _ in one.values)])
        known = (*placeholders(self.command.template), *((REVISION,) if self.revisions else ()))
        unused = [f"{{{name}}}" for name in names if name not in known]
        advice = (
            'Name the program\'s files under [run], such as inputs = ["*.py"]: else changes go unnoticed.'
        )
        notes = [] if self.inputs or self.revisions else [advice]
        if not unused:
            return notes
        where = "SEEDSPREAD_SEED or SEEDSPREAD_PARAMETERS"
        return [*notes, f"The command does not name {', '.join(unused)}: the program must look into {where}."]

    def check(self, parameters: Iterable[Parameters], data_dir: Path | None) -> None:
        """Refuse a program that cannot be found; for a revision, it is searched for in its checkout."""
        if self.revisions is None and not self.command.is_there:
            program = self.command.template[0]
            raise RunnerError(f"the program {program!r} is not there, or cannot be run; see run.command")

    def prepare(self, parameters: Iterable[Parameters], store: Store) -> None:
        if self.revisions is not None:
            for found in dict.fromkeys(str(dict(one.values)[REVISION]) for one in parameters):
                self.revisions.prepare(store.path, found)
