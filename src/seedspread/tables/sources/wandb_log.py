"""The run log that the Weights & Biases client writes offline: `wandb/offline-run-*/run-*.wandb`.

It is a LevelDB log of protobuf records, of which config, history, summary and exit are read here. The field
numbers are those of `wandb_internal.proto`.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seedspread.tables.sources.files import UNREADABLE, Place, reason
from seedspread.tables.sources.run import CollectedRun, Curve, Unread, flat, number, with_name

_START, _BLOCK, _HEADER = b":W&B", 32768, 7
_LARGEST = 512 << 20
_FULL, _FIRST, _LAST = 1, 2, 4
_HISTORY, _SUMMARY, _CONFIG, _RUN, _EXIT = 2, 3, 5, 17, 18
Values = dict[int, list[Any]]


def offline_run(place: Place, path: Path) -> CollectedRun | Unread:
    """Return the run of a `.wandb` file; one that did not finish is not read."""
    folder = place.relative(path.parent)
    try:
        return _run(folder, path)
    except (*UNREADABLE, struct.error, IndexError, TypeError, AttributeError) as error:
        return Unread(place.relative(path), f"it is no whole log of Weights & Biases: {reason(error)}")


def _run(folder: str, path: Path) -> CollectedRun | Unread:
    name, code = folder, None
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    curves: dict[str, Curve] = {}
    for record in _records(path):
        for run in map(_fields, record.get(_RUN, [])):
            name = _text(run, 8) or name
            config |= _items(_first(run, 4))
        for update in record.get(_CONFIG, []):
            config |= _items(update)
        for update in record.get(_SUMMARY, []):
            summary |= _items(update)
        for history in record.get(_HISTORY, []):
            values = _items(history)
            step = _fields(_first(_fields(history), 2)).get(1, [values.get("_step")])[0]
            for key, value in flat({k: v for k, v in values.items() if not k.startswith("_")}).items():
                if (one := number(value)) is not None:
                    curves.setdefault(key, []).append((number(step), one))
        for ended in record.get(_EXIT, []):
            code = _fields(ended).get(1, [0])[0]
    if code != 0:
        return Unread(folder, "it did not finish" if code is None else f"it ended with exit code {code}")
    own = {k: number(v) for k, v in flat({k: v for k, v in summary.items() if k[0] != "_"}).items()}
    for key in own.keys() - curves.keys():
        if (one := own[key]) is not None:
            curves[key] = [(None, one)]
    parameters = flat({key: value for key, value in config.items() if key != "_wandb"})
    return CollectedRun(name, with_name(parameters, name), curves)


def _records(path: Path) -> Iterator[Values]:
    """Yield the records of a log; a piece of one has a checksum, its length and its kind before it."""
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST >> 20} MiB")
    data = path.read_bytes()
    if not data.startswith(_START):
        raise ValueError("it does not begin as one")
    at, whole = _HEADER, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:  # the end of a block is filled up
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + _HEADER : at + _HEADER + length]
        if len(piece) < length or not _FULL <= kind <= _LAST:
            return  # a log that was cut: what is before is whole
        at += _HEADER + length
        whole = piece if kind in (_FULL, _FIRST) else whole + piece
        if kind in (_FULL, _LAST):
            yield _fields(whole)


def _fields(message: bytes) -> Values:
    """Return the values of a protobuf message by the number of their field."""
    found: Values = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _varint(message, at)
        elif kind == 2:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            (value,) = struct.unpack_from("<d" if kind == 1 else "<f", message, at)
            at += size
        else:
            raise ValueError(f"a field of kind {kind}")
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _items(message: bytes) -> dict[str, Any]:
    """Return the keys and values of a history, or of an update of the config or the summary."""
    found: dict[str, Any] = {}
    for item in map(_fields, _fields(message).get(1, [])):
        key = ".".join(part.decode() for part in item.get(2, [])) or _text(item, 1)
        plain = next((item[kind][0] for kind in (4, 5, 6) if kind in item), None)
        found[key] = json.loads(item[16][0]) if 16 in item else plain if plain is not None else _text(item, 7)
    return found


def _first(values: Values, field: int) -> bytes:
    return bytes(values.get(field, [b""])[0])


def _text(values: Values, field: int) -> str:
    return _first(values, field).decode()
