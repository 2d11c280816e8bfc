"""Readers of log files: JSON, Hydra, Lightning, TensorBoard, Weights & Biases."""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from seedspread.errors import require_extra
from seedspread.tables.columns import is_seed
from seedspread.tables.sources.run import (
    UNREADABLE,
    CollectedRun,
    Curve,
    Place,
    Reader,
    SourceError,
    Unread,
    column,
    flat,
    header,
    may_be_parameter,
    number,
    read_csv,
    read_json,
    read_json_lines,
    read_text,
    read_yaml,
    reason,
    run_from_log,
    split_runs,
    with_name,
    with_path,
)

Items = Iterator[CollectedRun | Unread]

# JSON

_LINES = (".jsonl", ".ndjson")
_JSON = (".json", *_LINES)
_CONFIGS = set("config configs params parameters args arguments hparams hyperparameters options".split())
_METRICS = set("metrics results result summary scores".split())


class JsonReader(Reader):
    """Files that hold an object, a list of objects, or one object per line.

    In a folder with a config file, all files are one run; any other file is one run, or contains several.
    """

    kind = "json"
    title = looks_like = "JSON files"

    def recognizes(self, place: Place) -> bool:
        return any(path.suffix in _JSON for path in place.files)

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Items:
        files = [path for path in place.files if path.suffix in _JSON or _is_config(path)]
        for folder, paths in groupby(files, key=lambda path: path.parent):
            here = list(paths)
            data = [path for path in here if not _is_config(path)]
            if len(data) == len(here):
                for path in data:
                    yield from _json_file(place, path)
            elif data:
                yield _json_folder(place, folder, filter(_is_config, here), data)


def _is_config(path: Path) -> bool:
    return path.stem.lower() in _CONFIGS and path.suffix in (".json", ".yaml", ".yml")


def _json_folder(
    place: Place, folder: Path, configs: Iterable[Path], data: Sequence[Path]
) -> CollectedRun | Unread:
    name = place.relative(folder)
    parameters: dict[str, Any] = {}
    for path in configs:
        try:
            content = read_json(path) if path.suffix == ".json" else read_yaml(path)
            parameters |= flat(content if isinstance(content, dict) else {})
        except UNREADABLE as error:
            return Unread(place.relative(path), reason(error))
    return _run_from_files(name, data, with_path(parameters, name))


def _run_from_files(name: str, files: Iterable[Path], parameters: Mapping[str, Any]) -> CollectedRun | Unread:
    """Return the run that left these files, with the metrics of all of them."""
    curves: dict[str, Curve] = {}
    problems = []
    for path in sorted(files, key=lambda p: (not any(word in p.stem.lower() for word in _METRICS), p.name)):
        try:
            curves = {**_curves_in(path), **curves}
        except (*UNREADABLE, SourceError) as error:
            problems.append(f"{path.name}: {reason(error)}")
    if not curves:
        return Unread(name, problems[0] if problems else "no file with metrics (.json, .jsonl, .csv)")
    return CollectedRun(name, parameters, curves)


def _curves_in(path: Path) -> Mapping[str, Curve]:
    if path.suffix == ".csv":
        return run_from_log("", read_csv(path)).curves
    if path.suffix in _LINES:
        return run_from_log("", read_json_lines(path)[0]).curves
    content = read_json(path)
    run = _run_from_object("", content) if isinstance(content, dict) else run_from_log("", _objects(content))
    return run.curves


def _json_file(place: Place, path: Path) -> Items:
    """Yield the runs of a file without a config: one run, a log of one or several, or a list of runs."""
    shown = place.relative(path)
    name = shown.removesuffix(path.suffix)
    try:
        if path.suffix in _LINES:
            rows, problem = read_json_lines(path)
            if problem:
                rest = "its other lines were read" if rows else "it has no other"
                yield Unread(shown, f"{problem}; {rest}")
            elif rows and "doc_id" in rows[0]:
                yield Unread(shown, "its lines are test items (samples of lm-evaluation-harness), not runs")
                return
            elif not rows:
                yield Unread(shown, "it is empty")
        else:
            content = read_json(path)
            if isinstance(content, dict):
                yield _named(_run_from_object(name, content), name)
                return
            rows = _objects(content)
        for run, own in split_runs(rows, name):
            is_list = len(own) == 1 and len(rows) > 1
            yield _named(_run_from_object(run, own[0]) if is_list else run_from_log(run, own), name)
    except (*UNREADABLE, SourceError) as error:
        yield Unread(shown, reason(error))


def _objects(content: object) -> list[dict[str, Any]]:
    rows = content if isinstance(content, list) else []
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it holds no JSON object, and no list of them")
    return rows


def _run_from_object(name: str, content: Mapping[str, Any]) -> CollectedRun:
    """Return the run in one object, from `config` and `metrics`, or from its numbers by their names."""
    parameters: dict[str, Any] = {}
    curves: dict[str, Curve] = {}
    step_name = column([content], ("step", "global_step", "epoch"))
    step = number(content[step_name]) if step_name else None
    for key, value in content.items():
        if key.lower() in _CONFIGS and isinstance(value, Mapping):
            parameters |= flat(value)
        elif key.lower() in _METRICS and isinstance(value, Mapping):
            curves |= _curves(value, "", step)
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            curves |= run_from_log(name, value).curves
        else:
            curves |= _curves({key: value}, "", step)
            parameters |= {
                k: v for k, v in flat({key: value}).items() if may_be_parameter(k, v) and k != step_name
            }
    return CollectedRun(name, parameters, curves)


def _curves(values: Mapping[str, Any], prefix: str, step: float | None) -> dict[str, Curve]:
    """Return numbers and lists of numbers as curves, by dotted name."""
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


_FILES = (*_JSON, ".csv")


class PatternReader(Reader):
    """Every file whose path matches a pattern is a run; the names in braces are its parameters."""

    kind, title = "pattern", "files"

    def __init__(self, pattern: str) -> None:
        parts = re.split(r"\{([^{}]*)\}", pattern.strip("/"))
        names = [name.strip() for name in parts[1::2]]
        wrong = next((name for name in names if not name.isidentifier() or names.count(name) > 1), None)
        if not names or wrong is not None or not parts[-1].endswith(_FILES):
            ending = f"it must end in {', '.join(_FILES)}"
            why = ending if wrong is None else f"{wrong!r} is no name, or twice there"
            raise SourceError(
                f"--pattern {pattern}: {why}; write it as '{{model}}/{{dataset}}/seed-{{seed}}/results.json'"
            )
        texts = [re.escape(text).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*") for text in parts[::2]]
        groups = [f"(?P<{name}>[^/]+?)" for name in names]
        self._regex = re.compile("".join(a + b for a, b in zip(texts, [*groups, ""], strict=True)))
        self.pattern, self.suffix = pattern, Path(pattern).suffix

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Items:
        """Yield a run per file; list files of the same ending whose paths do not match as unread."""
        if place.folder is None:
            raise SourceError(f"--pattern is about the files of a folder; {place.source} is none")
        files = [path for path in place.files if path.suffix == self.suffix]
        matches = {path: self._regex.fullmatch(place.relative(path)) for path in files}
        if not any(matches.values()):
            there = place.relative(files[0]) if files else f"no {self.suffix} file"
            raise SourceError(f"no file in {place.source} is like {self.pattern} (it has {there})")
        for path, match in matches.items():
            name = place.relative(path)
            if match is None:
                yield Unread(name, f"its path is not like {self.pattern}")
                continue
            run = _run_from_files(name, [path], match.groupdict())
            if isinstance(run, Unread):
                yield Unread(name, run.reason.removeprefix(f"{path.name}: "))
            elif any(len(curve) > 1 and curve[0][0] is None for curve in run.curves.values()):
                yield Unread(name, "it has several rows, and no column counts steps: it is not one run")
            else:
                yield run


def _named(run: CollectedRun, path: str) -> CollectedRun:
    """Add the parameters in the run's name and path."""
    name = run.name if path in run.name else f"{path}/{run.name}"
    return CollectedRun(run.name, with_path(run.parameters, name), run.curves)


# Hydra

_HYDRA, _CONFIG = ".hydra", "config.yaml"


class HydraReader(Reader):
    """A run is a folder with `.hydra/config.yaml`, of a multirun or not, and the logs inside it.

    Parameters are Hydra's; metrics are in JSON or CSV files, such as Lightning's, or in TensorBoard's events.
    """

    kind = "hydra"
    title = "Hydra"
    looks_like = "Hydra jobs"

    def recognizes(self, place: Place) -> bool:
        return bool(_hydra_jobs(place))

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Items:
        files: dict[Path, list[Path]] = {job: [] for job in _hydra_jobs(place)}
        for path in place.files:
            job = next((folder for folder in path.parents if folder in files), None)
            is_log = path.suffix in _FILES or _EVENTS in path.name
            if job is not None and is_log and _HYDRA not in path.relative_to(job).parts:
                files[job].append(path)
        # Numbered jobs in the order of their numbers.
        for job in sorted(
            files, key=lambda j: (str(j.parent), int(j.name) if j.name.isdecimal() else -1, j.name)
        ):
            name = place.relative(job)
            try:
                config = flat(read_yaml(job / _HYDRA / _CONFIG))
            except UNREADABLE as error:
                yield Unread(f"{name}/{_HYDRA}/{_CONFIG}", reason(error))
                continue
            # A choice such as `model=small` occurs in no value of the config.
            parameters = {**_overrides(job / _HYDRA / "overrides.yaml"), **config}
            run = _run_from_files(name, [p for p in files[job] if _EVENTS not in p.name], parameters)
            if folders := sorted({path.parent for path in files[job] if _EVENTS in path.name}):
                require_extra("tensorboard", "reading TensorBoard's event files")
                events = [_event_run(place, folder)[0] for folder in folders]
                curves = {k: v for e in events if isinstance(e, CollectedRun) for k, v in e.curves.items()}
                if isinstance(run, CollectedRun):
                    curves |= run.curves
                run = CollectedRun(name, parameters, curves) if curves else events[0]
            yield run


def _overrides(path: Path) -> dict[str, str]:
    """Return the overrides on Hydra's command line by key; none if they cannot be read."""
    try:
        lines = read_text(path).splitlines()
    except UNREADABLE:
        return {}
    pairs = (line.removeprefix("- ").strip("'\" ").lstrip("+~").partition("=") for line in lines)
    return {key: value for key, equals, value in pairs if equals}


def _hydra_jobs(place: Place) -> list[Path]:
    configs = (path for path in place.files if path.name == _CONFIG and path.parent.name == _HYDRA)
    return [path.parent.parent for path in configs]


# Lightning

_METRICS_CSV, _HPARAMS = "metrics.csv", "hparams.yaml"


class LightningReader(Reader):
    """A run is a folder `version_N` of Lightning's `CSVLogger`."""

    kind = "lightning"
    title = "Lightning's CSVLogger"
    looks_like = "Lightning CSV logs"

    def recognizes(self, place: Place) -> bool:
        return any(
            (path.name == _METRICS_CSV and {"step", "epoch"} & set(header(path))) or path.name == _HPARAMS
            for path in place.files
            if (path.parent / _METRICS_CSV).is_file()
        )

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Items:
        files = set(place.files)
        for folder in sorted({path.parent for path in files if path.name in (_METRICS_CSV, _HPARAMS)}):
            name, log = place.relative(folder), folder / _METRICS_CSV
            try:
                parameters = with_path(_hparams(folder), name)
                yield _run_from_files(name, [log] if log in files else [], parameters)
            except UNREADABLE as error:
                yield Unread(f"{name}/{_HPARAMS}", reason(error))


def _hparams(folder: Path) -> dict[str, Any]:
    path = folder / _HPARAMS
    return flat(read_yaml(path)) if path.is_file() and not path.is_symlink() else {}


# TensorBoard

_EVENTS = "tfevents"


class TensorBoardReader(Reader):
    """A run is a folder with event files, which TensorBoard's own reader reads.

    A subfolder written by `add_hparams` belongs to the run above it.
    """

    kind = "tensorboard"
    title = "TensorBoard"
    looks_like = "TensorBoard events"

    def recognizes(self, place: Place) -> bool:
        return any(_EVENTS in path.name for path in place.files)

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Items:
        require_extra("tensorboard", "reading TensorBoard's event files")
        folders = sorted({path.parent for path in place.files if _EVENTS in path.name})
        read = {folder: _event_run(place, folder) for folder in folders}
        # A folder with parameters belongs to the one above if that has curves, no parameters, and no other.
        above = {
            folder: folder.parent
            for folder, (_, has_parameters) in read.items()
            if has_parameters and folder.parent in read and not read[folder.parent][1]
        }
        shared = Counter(above.values())
        parents = {child: parent for child, parent in above.items() if shared[parent] == 1}
        children = {parent: read[child][0] for child, parent in parents.items()}
        for folder, (run, _) in read.items():
            child = children.get(folder)
            if isinstance(run, CollectedRun) and isinstance(child, CollectedRun):
                parameters = {**child.parameters, **run.parameters}
                yield CollectedRun(run.name, parameters, {**child.curves, **run.curves})
            elif folder not in parents:
                yield run


def _event_run(place: Place, folder: Path) -> tuple[CollectedRun | Unread, bool]:
    """Return a folder's run, and whether its event files contain its parameters."""
    name = place.relative(folder)
    if any(path.is_symlink() for path in folder.iterdir() if _EVENTS in path.name):
        return Unread(name, "an event file is a link; links are not followed"), False
    try:
        curves, logged = _events(folder)
        parameters = _hparams(folder)
        # Lightning writes them twice, here with slashes.
        parameters |= {key: value for key, value in logged.items() if key.replace("/", ".") not in parameters}
    except UNREADABLE as error:
        return Unread(name, reason(error)), False
    if not curves and not parameters:
        return Unread(name, "its event files hold no scalar that can be read"), False
    return CollectedRun(name, with_path(parameters, name), curves), bool(logged)


def _events(folder: Path) -> tuple[dict[str, Curve], dict[str, Any]]:
    """Return the scalars of a folder as curves, and the parameters that the hparams plugin stores there."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorboard").setLevel(logging.CRITICAL)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415
    from tensorboard.plugins.hparams import metadata  # noqa: PLC0415
    from tensorboard.util import tensor_util  # noqa: PLC0415

    events = EventAccumulator(
        str(folder), size_guidance={"scalars": 0, "tensors": 0, "images": 1, "histograms": 1}
    )
    events.Reload()
    tags = events.Tags()
    curves: dict[str, Curve] = {
        tag: [(float(event.step), float(event.value)) for event in events.Scalars(tag)]
        for tag in tags["scalars"]
    }
    for tag in set(_plugin(events, "scalars")) & set(tags["tensors"]):  # as TensorFlow 2 writes them
        points = [(float(e.step), tensor_util.make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]
        curves[tag] = [(step, float(value)) for step, value in points if value.size == 1]
    start = _plugin(events, "hparams").get(metadata.SESSION_START_INFO_TAG)
    if start is None:
        return curves, {}
    info = metadata.parse_session_start_info_plugin_data(start)
    return curves, {key: _protobuf_value(value) for key, value in info.hparams.items()}


def _plugin(events: Any, name: str) -> dict[str, bytes]:
    try:
        return dict(events.PluginTagToContent(name))
    except KeyError:
        return {}


def _protobuf_value(value: Any) -> object:
    """Return the plain value; whole numbers, which are stored as floats, become integers again."""
    field = value.WhichOneof("kind")
    if field == "number_value" and value.number_value == int(value.number_value):
        return int(value.number_value)
    is_plain = field in ("number_value", "string_value", "bool_value")
    return getattr(value, field) if is_plain else str(value).strip()


# Weights & Biases

_BETWEEN, _OFFLINE = " - ", ".wandb"
# Columns of the runs table that describe the site, not the run.
_ABOUT = set(
    "name|state|notes|user|created|runtime|sweep|updated|id|hostname|host|command|commit|github|_step|_runtime|"
    "_timestamp|_wandb|url|description|end time|start time|heartbeat at|gpu type|gpu count|python version|os|"
    "relative time (process)".split("|")
)
_GROUPED = re.compile(r"(?P<key>[\w./ ]+): .+")


class WandbReader(Reader):
    """CSV exports: the runs table (a run is a row), or a panel (a run is a column)."""

    kind = "wandb"
    title = "Weights & Biases"
    looks_like = "a W&B export"

    def recognizes(self, place: Place) -> bool:
        if any(path.suffix == _OFFLINE for path in place.files):
            return True
        if place.file is None or place.file.suffix.lower() != ".csv":
            return False
        return which_export(header(place.file)) is not None

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Items:
        path = place.path or Path()
        if any(file.suffix == _OFFLINE for file in place.files):
            raise SourceError(
                f"{place.source} has run logs of Weights & Biases (.wandb), which only its client reads: "
                "`wandb sync` them, then export the runs table or a panel as .csv"
            )
        try:
            rows = read_csv(path)
        except UNREADABLE as error:
            raise SourceError(f"{place.source} cannot be read: {reason(error)}") from error
        if which_export(header(path)) == "wide":
            yield from _panel(rows, header(path))
        else:
            created = column(rows, ("created", "start time"))
            for row in sorted(rows, key=lambda row: row.get(created, "") if created else ""):
                yield _summary_row(row, metrics)


def which_export(names: Sequence[str]) -> Literal["runs", "wide"] | None:
    lower = {name.lower() for name in names}
    per_run = [name for name in names if _BETWEEN in name]
    if per_run and len(names) - len(per_run) == 1:
        return "wide"
    if {"name", "state"} <= lower and lower & {"created", "runtime", "user", "sweep", "id"}:
        return "runs"
    return None


def _summary_row(row: Mapping[str, str], metrics: Sequence[str]) -> CollectedRun | Unread:
    """Return the run in a row of the runs table, which has each metric's summary."""
    cells = {key.lower(): cell for key, cell in row.items()}
    name = cells.get("name") or cells.get("id") or "?"
    if cells.get("state", "finished").lower() != "finished":
        return Unread(name, f"its state is {cells['state'] or 'not given'}")
    step = number(cells.get("_step"))
    own = {key: cell for key, cell in row.items() if key.lower() not in _ABOUT and cell != ""}
    numbers = {key: number(cell) for key, cell in own.items()}
    curves: dict[str, Curve] = {key: [(step, value)] for key, value in numbers.items() if value is not None}
    parameters = {k: cell for k, cell in own.items() if k not in metrics and may_be_parameter(k, cell)}
    return CollectedRun(name, with_name(parameters, name), curves)


def _panel(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> Items:
    """Yield the runs in columns such as `run - metric`, except those with the bounds of a line."""
    axis = next(name for name in names if _BETWEEN not in name)
    runs: dict[str, dict[str, Curve]] = {}
    for name in names:
        run, between, metric = name.rpartition(_BETWEEN)
        if not between or metric.endswith(("__MIN", "__MAX")) or metric.startswith("_"):
            continue
        points = ((number(row[axis]), number(row[name])) for row in rows)
        runs.setdefault(run.removeprefix("Name: "), {})[metric] = [(s, v) for s, v in points if v is not None]
    for run, curves in runs.items():
        if _GROUPED.fullmatch(run):
            yield Unread(run, "a mean over a group of runs; ungroup the panel, then export it again")
        else:
            yield CollectedRun(run, with_name({}, run), curves)
