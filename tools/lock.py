"""Write requirements.txt: the packages that `make run` and `make test` install, with SHA-256 of their files.

Usage: .venv/bin/python tools/lock.py INDEX, with INDEX the address of a simple index, such as pip's own.

Versions are those of constraints.txt; packages are those that `seedspread[train,dev]` and its build backend
need in the environment that runs this. torch is left out: its builds for CPUs and GPUs are different files of
one version, and the user must choose.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import requires
from pathlib import Path

import requests
from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("py3", "py2.py3", "cp311", "cp312", "cp313")
HEAD = """\
# What `make run` and `make test` install, beside torch; made by tools/lock.py from constraints.txt, for
# Python 3.11 to 3.13 on Linux and macOS. torch has no hash: its builds for CPUs and GPUs are different files
# of one version, and may come from a wheel of one's own.
"""


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the names of all packages that one needs in this environment, itself included."""
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    found = {name}
    for line in requires(name) or ():
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            found |= needed(canonicalize_name(one.name), frozenset(one.extras), seen)
    return found


def is_wanted(filename: str, version: Version) -> bool:
    """Return whether pip may choose a file for this version on Linux or macOS."""
    try:
        if not filename.endswith(".whl"):
            return parse_sdist_filename(filename)[1] == version
        _, of, _, tags = parse_wheel_filename(filename)
    except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):
        return False
    places = [tag.platform for tag in tags]
    fits = any(tag.interpreter in PYTHONS or tag.abi == "abi3" for tag in tags)
    return of == version and fits and any(p == "any" or p.startswith(("manylinux", "macosx")) for p in places)


def locked(index: str, name: str, version: str) -> str:
    """Return a requirement with its hashes in pip's format."""
    answer = requests.get(f"{index.rstrip('/')}/{canonicalize_name(name)}/", timeout=60)
    answer.raise_for_status()
    links = re.findall(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]{64})"', answer.text)
    hashes = sorted({digest for file, digest in links if is_wanted(file, Version(version))})
    if not hashes:
        raise SystemExit(f"{name} {version} has no file with a SHA-256 in {index}")
    return " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in hashes)])


def main() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    names = needed("seedspread", frozenset(("train", "dev")), set()) | needed("hatchling", frozenset(), set())
    wanted = {name: version for name, version in pins.items() if canonicalize_name(name) in names}
    if unpinned := names - {canonicalize_name(name) for name in pins} - {"seedspread"}:
        raise SystemExit(f"constraints.txt does not pin {', '.join(sorted(unpinned))}")
    wanted.pop("torch")
    with ThreadPoolExecutor(8) as pool:
        lines = pool.map(lambda pin: locked(sys.argv[1], *pin), wanted.items())
        (ROOT / "requirements.txt").write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
