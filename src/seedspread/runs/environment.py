"""Where and with what a run was made, for its provenance."""

import hashlib
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any


def environment(started: datetime, packages: Sequence[str]) -> dict[str, Any]:
    """Times, machine and versions of a run that ends now; `packages` are those that can alter its result."""
    ended = datetime.now(UTC)
    return {
        "started": started.isoformat(),
        "ended": ended.isoformat(),
        "seconds_since_last_start": (ended - started).total_seconds(),
        "platform": platform.platform(),
        "processor": processor(),
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in ("seedspread", *packages)},
    }


@cache
def processor() -> str:
    """Its name, and a digest of the arithmetic it has, as far as the system tells; equal ones round alike."""
    try:
        told = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:  # no Linux, or closed to this user
        return f"{platform.machine()} {platform.processor()}".strip()
    wanted = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "Features")
    pairs = [line.partition(":") for line in told.split("\n\n")[0].splitlines()]
    facts = [value.strip() for name, _, value in pairs if name.strip() in wanted]
    digest = hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]
    name = next((value.strip() for name, _, value in pairs if name.strip() == "model name"), "")
    return f"{platform.machine()} {name} ({digest})"
