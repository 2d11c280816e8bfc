"""`log` and `log_predictions`, for training programs. Light: the standard library only.

Runners name a folder in `SEEDSPREAD_LOG`. Without it, in a program started by hand, values are checked and
discarded.
"""

import json
import math
import operator
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat

from seedspread.atomic import open_regular, replacing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FOLDER = "SEEDSPREAD_LOG"
VALUES, PREDICTIONS = "values.jsonl", "predictions.safetensors"
# The argument that makes a call of `log` about a layer; figures draw every layer up to the last.
LAYER, _LAST_LAYER = "layer", 9999
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def log(**values: SupportsFloat) -> None:
    """Report numbers of a run: metrics, and where they were taken, such as the epoch.

    If a metric is reported several times, the last value counts, and all are kept as its curve.

    >>> log(accuracy=0.93, epoch=10)

    A call with `layer` is about one layer, counted from 0, and reports no metric: `rate` (the share that a
    clamp cuts, from 0 to 1), `gradient_norm`, `loss`. `Store.layers()` and the figures of a report show them.

    >>> log(layer=0, rate=0.6, gradient_norm=0.41, epoch=10)

    Args:
        values: numbers by name, including single numbers of torch and numpy.
    """
    numbers = {name: _number(name, value) for name, value in values.items()}
    if LAYER in values:
        numbers[LAYER] = _layer(values[LAYER])
        _check_layer(numbers)
    line = json.dumps(numbers) + "\n"
    folder = os.environ.get(FOLDER)
    if folder and values:
        file = open_regular(os.path.join(folder, VALUES), APPEND)
        try:
            os.write(file, line.encode())  # a single write: lines of several processes do not mix
        finally:
            os.close(file)


def _check_layer(numbers: Mapping[str, float | int | None]) -> None:
    known = ("rate", "gradient_norm", "loss")
    if not any(name in numbers for name in known):
        raise ValueError(f"log(layer=...) needs one of {', '.join(known)}; got {', '.join(numbers)}")
    if "clamp_activation_rate" in numbers:
        raise ValueError("log(layer=...): the clamp activation rate is called rate")
    rate, norm = numbers.get("rate"), numbers.get("gradient_norm")
    if rate is not None and not 0 <= rate <= 1:
        raise ValueError(f"log(rate=...) of a layer is a share from 0 to 1; got {rate!r}")
    if norm is not None and norm < 0:
        raise ValueError(f"log(gradient_norm=...) must not be negative; got {norm!r}")


def log_predictions(ids: "ArrayLike", labels: "ArrayLike", logits: "ArrayLike") -> None:
    """Record the predictions of a run, for the test-set noise; the last call counts.

    Args:
        ids: `(N,)` whole numbers that identify test examples, the same in every run.
        labels: `(N,)` true classes, from 0.
        logits: `(N, classes)` scores; only their order matters.

    Example:
        >>> log_predictions(ids=[0, 1], labels=[1, 0], logits=[[0.1, 2.0], [1.5, 0.3]])
    """
    import numpy as np  # noqa: PLC0415 - `log` must not need it

    arrays: dict[str, np.ndarray[Any, Any]] = {
        "ids": np.asarray(_on_cpu(ids), dtype=np.int64),
        "labels": np.asarray(_on_cpu(labels), dtype=np.int64),
        "logits": np.asarray(_on_cpu(logits), dtype=np.float32),
    }
    count, classes = arrays["logits"].shape if arrays["logits"].ndim == 2 else (-1, 0)
    if arrays["ids"].shape != (count,) or arrays["labels"].shape != (count,) or not count:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"ids and labels must be (N,), logits (N, classes); got {shapes}")
    if not 0 <= arrays["labels"].min() <= arrays["labels"].max() < classes:
        raise ValueError(f"labels must lie between 0 and {classes - 1}, the last class of the logits")
    folder = os.environ.get(FOLDER)
    if folder:
        from pathlib import Path  # noqa: PLC0415

        from safetensors.numpy import save  # noqa: PLC0415

        with replacing(Path(folder) / PREDICTIONS) as part:
            part.write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _on_cpu(values: Any) -> Any:
    """Return a tensor in a form that numpy accepts, whatever its device and precision; all else unchanged."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() else tensor


def _number(name: str, value: Any) -> float | int | None:
    """Return a single number, or None, as in JSON, if it is not finite."""
    if isinstance(value, str | bytes | bool):
        raise TypeError(f"log({name}=...) must be a number; got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"log({name}=...) must be a single number; got {type(value).__name__}") from None
    if not math.isfinite(number):
        return None
    return value if type(value) is int else number


def _layer(value: Any) -> int:
    try:
        layer = operator.index(value)
    except TypeError:
        layer = -1
    if not 0 <= layer <= _LAST_LAYER:
        raise ValueError(f"log(layer=...) must be a whole number from 0 to {_LAST_LAYER}; got {value!r}")
    return layer
