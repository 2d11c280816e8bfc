"""Folders of TensorBoard event files, through TensorBoard's own reader."""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.errors import require_extra
from seedspread.tables.sources.files import UNREADABLE, reason
from seedspread.tables.sources.from_lightning import hparams
from seedspread.tables.sources.parameters import with_path
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.run import CollectedRun, Curve, Unread

_EVENTS = "tfevents"


@dataclass(frozen=True)
class TensorBoardReader:
    """A run is a folder with event files."""

    kind: str = "tensorboard"
    title: str = "TensorBoard"
    group: str = ""

    def recognises(self, place: Place) -> bool:
        """Whether any event file is there."""
        return any(_EVENTS in path.name for path in place.files)

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        """Each folder; what `add_hparams` writes into a folder of its own belongs to the one above."""
        require_extra("tensorboard", "reading TensorBoard's event files")
        folders = sorted({path.parent for path in place.files if _EVENTS in path.name})
        read = {folder: _read(place, folder) for folder in folders}
        parents = _parents(read)
        for folder, (run, _) in read.items():
            if folder in parents.values() and isinstance(run, CollectedRun):
                yield _joined(run, [read[child][0] for child, parent in parents.items() if parent == folder])
            elif folder not in parents:
                yield run


_Read = dict[Path, tuple[CollectedRun | Unread, bool]]


def _parents(read: _Read) -> dict[Path, Path]:
    """Of folders with parameters, the one above if it has curves, no parameters, and no other such child."""
    found = {
        folder: folder.parent
        for folder, (_, has_parameters) in read.items()
        if has_parameters and folder.parent in read and not read[folder.parent][1]
    }
    shared = Counter(found.values())
    return {child: parent for child, parent in found.items() if shared[parent] == 1}


def _joined(run: CollectedRun, children: Sequence[CollectedRun | Unread]) -> CollectedRun:
    child = next(one for one in children if isinstance(one, CollectedRun))
    curves = {**child.curves, **run.curves}
    return CollectedRun(run.name, {**child.parameters, **run.parameters}, curves)


def _read(place: Place, folder: Path) -> tuple[CollectedRun | Unread, bool]:
    """A folder's run, and whether its event files tell its parameters."""
    name = place.relative(folder)
    if any(path.is_symlink() for path in folder.iterdir() if _EVENTS in path.name):
        return Unread(name, "an event file is a link; links are not followed"), False
    try:
        curves, told = _events(folder)
        parameters = hparams(folder)
        # Lightning writes them twice, here with slashes.
        parameters |= {key: value for key, value in told.items() if key.replace("/", ".") not in parameters}
    except UNREADABLE as error:
        return Unread(name, reason(error)), False
    if not curves and not parameters:
        return Unread(name, "its event files hold no scalar that can be read"), False
    return CollectedRun(name, with_path(parameters, name), curves), bool(told)


def _events(folder: Path) -> tuple[dict[str, Curve], dict[str, Any]]:
    """The scalars of a folder as curves, and the parameters that the hparams plugin keeps there."""
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
    parameters: dict[str, Any] = {}
    start = _plugin(events, "hparams").get(metadata.SESSION_START_INFO_TAG)
    if start is not None:
        info = metadata.parse_session_start_info_plugin_data(start)
        parameters = {key: _value(value) for key, value in info.hparams.items()}
    return curves, parameters


def _plugin(events: Any, name: str) -> dict[str, bytes]:
    """What a plugin keeps, by tag."""
    try:
        return dict(events.PluginTagToContent(name))
    except KeyError:
        return {}


def _value(value: Any) -> object:
    """Of a protobuf value; whole numbers, which it has as floats, are whole again."""
    field = value.WhichOneof("kind")
    if field == "number_value" and value.number_value == int(value.number_value):
        return int(value.number_value)
    return (
        getattr(value, field)
        if field in ("number_value", "string_value", "bool_value")
        else str(value).strip()
    )
