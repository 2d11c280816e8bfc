"""Where and with what a run was made, for its provenance."""

import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any


def environment(started: datetime, packages: Sequence[str]) -> dict[str, Any]:
    """Times, machine and versions of a run that ends now; `packages` are those that can alter its result."""
    ended = datetime.now(UTC)
    return {
        "started": started.isoformat(),
        "ended": ended.isoformat(),
        "seconds_since_last_start": (ended - started).total_seconds(),
        "platform": platform.platform(),
        "processor": platform.processor(),
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in ("seedspread", *packages)},
    }
