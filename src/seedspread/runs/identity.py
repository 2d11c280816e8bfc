"""A run is its key: a hash of everything that can alter its result, and of nothing else."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def key_of(canonical: Mapping[str, Any]) -> str:
    """20 hexadecimal digits of a run's canonical description, which a runner says."""
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def checked_key(text: Any) -> str:
    """A key that was read from a file; it names a folder, so nothing like a path may stand there."""
    if not isinstance(text, str) or not text.isalnum():
        raise ValueError(f"{text!r} is not the key of a run")
    return text
