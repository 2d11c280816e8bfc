"""What Python says of a study, as a file would have it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def by_name(metrics: str | Sequence[str] | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is known of metrics, by name; nothing of those that are only named."""
    if metrics is None:
        return None
    if isinstance(metrics, str):
        return {metrics: {}}
    return dict(metrics) if isinstance(metrics, Mapping) else {name: {} for name in metrics}


def plain(value: Any) -> Any:
    """Levels and seeds as a file would have them: lists of them as such, numpy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
