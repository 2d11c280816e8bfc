"""A folder of JSON or JSON-lines files: one run per file, or per folder that has a config of its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from seedspread.tables.sources.files import (
    UNREADABLE,
    read_csv,
    read_json,
    read_json_lines,
    read_yaml,
    reason,
)
from seedspread.tables.sources.parameters import flat, is_seed, may_be_parameter, number, with_path
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.rows import column, one_run, runs_apart
from seedspread.tables.sources.run import CollectedRun, Curve, SourceError, Unread

_LINES = (".jsonl", ".ndjson")
_ENDINGS = (".json", *_LINES)
_CONFIGS = {
    "config",
    "configs",
    "params",
    "parameters",
    "args",
    "arguments",
    "hparams",
    "hyperparameters",
    "options",
}
_METRICS = {"metrics", "results", "result", "summary", "scores"}


@dataclass(frozen=True)
class JsonReader:
    """Objects, lists of objects, or one object per line."""

    kind: str = "json"
    title: str = "JSON files"
    group: str = ""

    def recognises(self, place: Place) -> bool:
        """Whether any JSON file is there."""
        return any(path.suffix in _ENDINGS for path in place.files)

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        """Files of a folder that has a config file are one run; any other file is one, or holds several."""
        files = [path for path in place.files if path.suffix in _ENDINGS or _is_config(path)]
        for folder, paths in groupby(files, key=lambda path: path.parent):
            here = list(paths)
            data = [path for path in here if not _is_config(path)]
            if len(data) < len(here):
                if data:
                    yield _folder(place, folder, here, data)
                continue
            for path in data:
                yield from _file(place, path)


def _is_config(path: Path) -> bool:
    return path.stem.lower() in _CONFIGS and path.suffix in (".json", ".yaml", ".yml")


def _folder(place: Place, folder: Path, files: Sequence[Path], data: Sequence[Path]) -> CollectedRun | Unread:
    name = place.relative(folder)
    parameters: dict[str, Any] = {}
    try:
        for path in files:
            if _is_config(path):
                content = read_json(path) if path.suffix == ".json" else read_yaml(path)
                parameters |= flat(content if isinstance(content, dict) else {})
    except UNREADABLE as error:
        return Unread(place.relative(path), reason(error))
    run = from_files(name, data, parameters)
    return run if isinstance(run, Unread) else _named(run, name)


def from_files(name: str, files: Iterable[Path], parameters: Mapping[str, Any]) -> CollectedRun | Unread:
    """One run from the files that it left: its metrics from all of them, its parameters given."""
    curves: dict[str, Curve] = {}
    problems = []
    for path in sorted(files, key=lambda p: (not any(word in p.stem.lower() for word in _METRICS), p.name)):
        try:
            curves = {**_of_one_run(name, path).curves, **curves}
        except (*UNREADABLE, SourceError) as error:
            problems.append(f"{path.name}: {reason(error)}")
    if not curves:
        return Unread(name, problems[0] if problems else "no file with metrics (.json, .jsonl, .csv)")
    return CollectedRun(name, parameters, curves)


def _of_one_run(name: str, path: Path) -> CollectedRun:
    if path.suffix == ".csv":
        return one_run(name, read_csv(path), {})
    if path.suffix in _LINES:
        return one_run(name, read_json_lines(path)[0], {})
    content = read_json(path)
    if isinstance(content, list):
        return one_run(name, _objects(content), {})
    return from_object(name, content)


def _file(place: Place, path: Path) -> Iterator[CollectedRun | Unread]:
    """The runs of a file that stands alone."""
    shown = place.relative(path)
    name = shown.removesuffix(path.suffix)
    try:
        if path.suffix in _LINES:
            rows, problem = read_json_lines(path)
            if problem:
                yield Unread(
                    shown, f"{problem}; {'its other lines were read' if rows else 'it has no other'}"
                )
            runs = _from_rows(name, rows)
            if not rows and not problem:
                yield Unread(shown, "it is empty")
        else:
            content = read_json(path)
            runs = (
                [from_object(name, content)]
                if isinstance(content, dict)
                else _from_rows(name, _objects(content))
            )
        yield from (_named(run, name) for run in runs)
    except (*UNREADABLE, SourceError) as error:
        yield Unread(shown, reason(error))


def _objects(content: object) -> list[dict[str, Any]]:
    rows = content if isinstance(content, list) else []
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it holds no JSON object, and no list of them")
    return rows


def _from_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> list[CollectedRun]:
    """A log of one run, a log of several, or a list of runs."""
    found = []
    for run, own in runs_apart(rows, name) if rows else ():
        if len(own) == 1 and len(rows) > 1:
            found.append(from_object(run, own[0]))
        else:
            found.append(one_run(run, own, {}))
    return found


def from_object(name: str, content: Mapping[str, Any]) -> CollectedRun:
    """A run from one object: `config` and `metrics` are that; of other numbers the name decides."""
    parameters: dict[str, Any] = {}
    curves: dict[str, Curve] = {}
    step_name = column([content], ("step", "global_step", "epoch"))
    step = number(content[step_name]) if step_name else None
    for key, value in content.items():
        part = key.lower()
        if part in _CONFIGS and isinstance(value, Mapping):
            parameters |= flat(value)
        elif part in _METRICS and isinstance(value, Mapping):
            curves |= _curves(value, "", step)
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            curves |= one_run(name, value, {}).curves
        else:
            curves |= _curves({key: value}, "", step)
            parameters |= {
                k: v for k, v in flat({key: value}).items() if may_be_parameter(k, v) and k != step_name
            }
    return CollectedRun(name, parameters, curves)


def _curves(values: Mapping[str, Any], prefix: str, step: float | None) -> dict[str, Curve]:
    """Numbers and lists of numbers as curves, by dotted name."""
    found: dict[str, Curve] = {}
    for key, value in values.items():
        one = number(value)
        if isinstance(value, Mapping):
            found |= _curves(value, f"{prefix}{key}.", step)
        elif isinstance(value, list):
            numbers = [number(item) for item in value]
            if numbers and None not in numbers:
                found[f"{prefix}{key}"] = [(float(n), v) for n, v in enumerate(numbers) if v is not None]
        elif one is not None and not is_seed(key):
            found[f"{prefix}{key}"] = [(step, one)]
    return found


def _named(run: CollectedRun, path: str) -> CollectedRun:
    """With what its name and its path tell."""
    told = run.name if path in run.name else f"{path}/{run.name}"
    return CollectedRun(run.name, with_path(run.parameters, told), run.curves)
