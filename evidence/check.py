"""Repeat a published run, and compare it with the published result: `python evidence/check.py KEY`."""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence.gather import processor_of, same_result
from evidence.tables import FOLDER, RECORDS, RUNS_CSV, published_runs
from seedspread.cff.config import RunConfig
from seedspread.cff.presets import check
from seedspread.cff.training.display import Display
from seedspread.cff.training.run import Callback, keep_freed_memory, train
from seedspread.errors import SeedspreadError
from seedspread.render.terminal import Terminal
from seedspread.runs.files import parse_toml
from seedspread.runs.folder import CONFIG, PROVENANCE, RESULT

# On another machine a run is rounded differently; it must agree within this many sds over seeds.
_MOST = 4.0
# The bits of a native run depend on these and the processor; those of any run depend on these versions.
_NATIVE, _VERSIONS = ("compiler", "flags"), ("torch", "numpy")


@dataclass(frozen=True)
class Check:
    """Comparison of a repeated run with the published one.

    Attributes:
        key: the run's key.
        differs: differences that can change the bits, one per line; empty on an equal machine.
        same_bits: whether every value of the published result is the same, bit by bit.
        accuracy: the published accuracy and the repeated one.
        sd: sd of accuracy over the runs that differ from this one only in their seed.
    """

    key: str
    differs: tuple[str, ...]
    same_bits: bool
    accuracy: tuple[float, float]
    sd: float

    @property
    def holds(self) -> bool:
        """Whether the bits are the same or, on a different machine, rounding can explain the difference."""
        first, second = self.accuracy
        return self.same_bits or (bool(self.differs) and abs(first - second) <= _MOST * self.sd)


def published_record(key: str, folder: Path = FOLDER) -> dict[str, str]:
    """Return a run's published files, by its key or the beginning of its key."""
    found = [one for one in published_runs(folder).index if one.startswith(key)] if key else []
    if len(found) != 1:
        raise SeedspreadError(
            f"{len(found)} published runs begin with {key!r}: give a whole key"
            if found
            else f"no published run is {key!r}; all keys are in {folder / RUNS_CSV}"
        )
    table = pq.read_table(folder / RECORDS)
    return dict(table.filter(pc.equal(table["key"], found[0])).to_pylist()[0])


def config_of(record: dict[str, str]) -> RunConfig:
    """Return the config of a published run."""
    return check(parse_toml(record[CONFIG], record["key"]))


def check_run(
    record: dict[str, str],
    data_dir: Path | None = None,
    callback: Callback | None = None,
    folder: Path = FOLDER,
) -> Check:
    """Train a published run again, and compare the results.

    Args:
        record: the published files of the run.
        data_dir: the data folder.
        callback: called with its progress.
        folder: the folder of the published tables.
    """
    with tempfile.TemporaryDirectory(prefix="seedspread-") as scratch:
        out = Path(scratch) / "run"
        train(config_of(record), out, data_dir=data_dir, callback=callback)
        result, provenance = (out / RESULT).read_text(), json.loads((out / PROVENANCE).read_text())
    before, now = json.loads(record[RESULT]), json.loads(result)
    if before["key"] != now["key"]:
        raise SeedspreadError(
            f"here this config is run {now['key']}, not {before['key']}: the data are not the official ones"
        )
    return Check(
        key=before["key"],
        differs=tuple(_differs(json.loads(record[PROVENANCE]), provenance)),
        same_bits=same_result(record[RESULT], result),
        accuracy=(before["test_accuracy"], now["test_accuracy"]),
        sd=_sd(before["key"], folder),
    )


def _differs(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    pairs = [(name, before["versions"].get(name), now["versions"].get(name)) for name in _VERSIONS]
    pairs += [(name, before.get("native", {}).get(name), now.get("native", {}).get(name)) for name in _NATIVE]
    pairs.append(("processor", processor_of(before), processor_of(now)))
    return [f"{name}: {old or 'not recorded'} there, {new} here" for name, old, new in pairs if old != new]


def _sd(key: str, folder: Path) -> float:
    """Return the sd of accuracy over the published runs that differ only in their seeds."""
    runs = published_runs(folder)
    parts = tuple(f"{part}." for part in RunConfig.model_fields if part != "seeds")
    own = [name for name in runs.columns if name.startswith(parts)]
    texts = runs[own].astype(str).fillna("")
    alike = (texts == texts.loc[key]).all(axis=1)
    return float(runs.loc[alike, "accuracy"].std())


def _lines(found: Check) -> list[str]:
    published, now = found.accuracy
    if found.same_bits:
        return [f"{found.key}: the same result to the bit, accuracy {now:.2%}"]
    values = f"{found.key}: accuracy {now:.2%}, published {published:.2%}"
    spread = f"runs that differ in their seed alone spread by {100 * found.sd:.2f} points"
    if not found.differs:
        return [f"{values}: not the same bits, which an equal machine should give", spread]
    verdict = "as near as rounding lets one expect" if found.holds else "further off than rounding explains"
    return [f"{values}: {verdict} ({spread})", *(f"differs: {one}" for one in found.differs)]


def main() -> None:
    """Check one run; exit with status 1 if it does not agree."""
    parser = argparse.ArgumentParser(
        description="Repeat one published run, and compare its bits (on an equal machine) or its values."
    )
    parser.add_argument("key", help="a published run, by its key or the key's beginning")
    parser.add_argument("--data-dir", type=Path, help="the data folder")
    asked = parser.parse_args()
    try:
        record = published_record(asked.key)
        keep_freed_memory()
        display = Display(config_of(record), Terminal(stderr=True))
        found = check_run(record, asked.data_dir, display)
    except SeedspreadError as error:
        sys.exit(f"error: {error}")
    print("\n".join(_lines(found)))
    sys.exit(not found.holds)


if __name__ == "__main__":
    main()
