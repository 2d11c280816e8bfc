"""Reading and checking a tidy table of runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from seedspread.errors import SeedspreadError, did_you_mean
from seedspread.metrics import Better
from seedspread.runs.levels import level_name
from seedspread.runs.store import Store
from seedspread.runs.studies import stale_runs
from seedspread.runs.table import is_store, runs_table
from seedspread.sources.collecting import collect, is_source
from seedspread.sources.show import in_a_note
from seedspread.stats.arms import Arm
from seedspread.stats.crashed import part_crashed

# Beyond this, squares and products of squares leave the range of floating point.
_LARGEST = 1e60
_READERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


class TableError(SeedspreadError):
    """A table that cannot be audited as requested."""


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    value: str
    group: str
    reference: str
    blocks: tuple[str, ...]
    seed: str | None
    by: tuple[str, ...]


@dataclass(frozen=True)
class Runs:
    """A checked table: columns value, group, block, seed, stratum, failed, row; one row per run.

    `store` is the folder of runs that it comes from, if any; `better` the direction that its source tells.
    `crashed` has the rows of runs without a value, which are not in `frame`.
    """

    frame: pd.DataFrame
    columns: Columns
    source: str
    notes: tuple[str, ...]
    store: str | None = None
    better: Better | None = None
    crashed: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["stratum", "group", "seed"]))

    def strata(self) -> list[tuple[str, list[Arm]]]:
        """Per stratum its arms, the reference first; in the order of the table."""
        seeds = self.frame["seed"].to_numpy()
        crashed = self.crashed.groupby(["stratum", "group"])["seed"].unique().to_dict()
        out = []
        for name, rows in self.frame.groupby("stratum", sort=False, observed=True).indices.items():
            piece = self.frame.iloc[np.sort(rows)]
            codes, names = pd.factorize(piece["block"].to_numpy(object))
            groups = list(dict.fromkeys(piece["group"]))
            groups.sort(key=lambda g: g != self.columns.reference)
            arms = []
            for group in groups:
                in_group = (piece["group"] == group).to_numpy()
                arms.append(
                    Arm(
                        name=group,
                        values=piece["value"].to_numpy(float)[in_group],
                        blocks=codes[in_group].astype(np.intp),
                        seeds=seeds[np.sort(rows)][in_group].astype(np.intp),
                        block_names=tuple(names),
                        failed=piece["failed"].to_numpy(bool)[in_group],
                        folders=tuple(piece["folder"][in_group]) if "folder" in piece else (),
                        chance=float(piece["chance"].max()) if "chance" in piece else None,
                        crashed=np.asarray(crashed.get((name, group), ()), np.intp),
                    )
                )
            out.append((str(name), arms))
        return out


def is_table(source: "str | Path") -> bool:
    """Whether a table is read there, be it a file or what another tool has written; not a store of runs."""
    path = Path(source)
    return path.is_file() or (not is_store(path) and is_source(source))


def read_table(
    source: "str | Path | pd.DataFrame", value: str, at: str = "last", better: Better | None = None
) -> tuple[pd.DataFrame, str, list[str]]:
    """A table, what to call it, and notes on how it was read.

    Args:
        source: a CSV, TSV or Parquet file, a folder of runs, a DataFrame, or whatever `collect` reads.
        value: the metric that is asked for, which runs of a store may have to compute.
        at: which step of the runs that `collect` reads.
        better: which direction is the best one, for `at`.
    """
    if isinstance(source, pd.DataFrame):
        return source, str(source.attrs.get("store", "a DataFrame")), []
    path = Path(source)
    if not (path.is_dir() and is_store(path)) and is_source(source):
        collected = collect(source, value, at, better=better, all_parameters=True)
        return collected.table, str(source), in_a_note(collected)
    if at != "last":
        raise TableError(f"--at is for runs that were logged by step; {source} has one value per run")
    if path.suffix == ".toml":
        raise TableError(
            f"{path} is a study, not a table; audit the store of its runs: seedspread audit STORE"
        )
    if not path.exists():
        raise TableError(f"{source} does not exist; give a .csv, .tsv or .parquet file, or a folder of runs")
    if path.is_dir():
        if not is_store(path):
            raise TableError(f"{path} holds no finished run")
        table, stale = runs_table(path, [value]), stale_runs(Store(path))
        is_stale = table["folder"].map(lambda folder: Path(folder).name in stale)
        notes = [f"{is_stale.sum()} runs from before their inputs changed were left out."] if stale else []
        return table.loc[~is_stale], str(path), notes
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path), str(path), []
        # Values stay text until they are asked for: what is not a number can then be named by its row.
        table = pd.read_csv(
            path,
            sep=_READERS.get(path.suffix, ","),
            dtype=str,
            skipinitialspace=True,
            index_col=False,
            keep_default_na=False,  # a group may be called None
            skip_blank_lines=False,  # rows keep the numbers that an editor shows
        )
        return table, str(path), []
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        pd.errors.EmptyDataError,
        UnicodeDecodeError,
        pa.ArrowInvalid,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"{path} cannot be read as a table: {reason}") from None


def check_table(
    source: "str | Path | pd.DataFrame",
    value: str,
    group: str,
    reference: str,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    at: str = "last",
    better: Better | None = None,
) -> Runs:
    """Reads a table and checks that it can be audited.

    Args:
        source: a file, a folder of runs, a DataFrame, or whatever `collect` reads.
        value: the column with one number per run.
        group: the column whose levels are compared.
        reference: the level with which the others are compared.
        block: columns whose levels hold runs of the same seed, such as the stability mode.
        seed: the column that names a run's seed; if the default is not there, every row counts as a seed.
        by: columns, such as the dataset, whose levels are audited apart and adjusted together.
        at: which step of the runs that `collect` reads.
        better: which direction is the best one, for `at`.
    """
    frame, name, notes = read_table(source, value, at, better)
    is_stored, told = "store" in frame.attrs, frame.attrs.get("better")
    frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise TableError(f"{name} has two columns called {twice[0]!r}")
    blocks = (block,) if isinstance(block, str) else tuple(block or ())
    if seed == "seed" and "seed" not in frame.columns:
        seed = None
        notes.append("No seed column: every row counts as an independent run.")
    strata = (by,) if isinstance(by, str) else tuple(by or ())
    columns = Columns(value, group, level_name(reference), blocks, seed, strata)
    wanted = [value, group, *blocks, *([seed] if seed else []), *strata]
    for column in wanted:
        _require(column, frame, name)
    if len(set(wanted)) < len(wanted):
        raise TableError(f"each column can have one role only; got {', '.join(wanted)}")
    if is_stored:  # runs of other studies, which have other parameters, may lie beside those asked for
        frame = frame.dropna(subset=[group, *strata])
    if frame.empty:
        raise TableError(f"{name} has no rows")
    tidy = _tidy(frame, columns, is_stored)
    if (empty := tidy["value"].isna()).any():  # a blank line in a file is no run
        blank = frame.loc[empty, wanted].map(_is_empty).all(axis=1)
        tidy = tidy.drop(index=blank.index[blank])
    tidy, crashed, others = part_crashed(tidy, is_stored)
    without = ((crashed, "count as failed"), (others, "were left out"))
    notes += [f"{len(r)} runs without a value {what} ({_rows(r['row'])})." for r, what in without if len(r)]
    _check_labels(tidy, columns)
    _check_groups(tidy, columns)
    _check_repeats(tidy, columns)
    return Runs(
        tidy.reset_index(drop=True), columns, name, tuple(notes), name if is_stored else None, told, crashed
    )


def _require(column: str, frame: pd.DataFrame, name: str) -> None:
    names = [str(c) for c in frame.columns]
    if column in names:
        return
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise TableError(f"{name} has no column {column!r}{did_you_mean(column, names)} (it has {listed})")


def _tidy(frame: pd.DataFrame, columns: Columns, is_stored: bool) -> pd.DataFrame:
    # Row numbers as a text editor shows them: the header is line 1.
    rows = np.arange(2, len(frame) + 2)
    seeds = _labels(frame[columns.seed]) if columns.seed else pd.Series(rows, index=frame.index)
    failed = frame["collapsed"].map(_truth) if "collapsed" in frame.columns else False
    # A store tells more of a run than a CSV does: where it lies, and what a guess would score.
    source = {"folder": "folder"} | ({"chance": "majority"} if columns.value == "accuracy" else {})
    if f"chance.{columns.value}" in frame.columns:
        source["chance"] = f"chance.{columns.value}"
    stored = {n: frame[column] for n, column in source.items() if is_stored and column in frame.columns}
    return pd.DataFrame(
        {
            "value": _numbers(frame[columns.value], columns.value, rows),
            "group": _labels(frame[columns.group]),
            "block": _joined(frame, columns.blocks),
            "seed": pd.factorize(seeds)[0],
            "seed_name": seeds.astype(str),
            "stratum": _joined(frame, columns.by),
            "failed": failed,
            "row": rows,
            **stored,
        }
    )


def _joined(frame: pd.DataFrame, names: tuple[str, ...]) -> "pd.Series[Any]":
    """The levels of several columns as one; nothing if there are no columns."""
    joined = _labels(frame[names[0]]) if names else pd.Series("", index=frame.index)
    for name in names[1:]:
        joined = joined + ", " + _labels(frame[name])
    return joined


def _labels(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Each level is converted to text once, however many rows have it."""
    codes, levels = pd.factorize(column, use_na_sentinel=False)
    names = np.array([_label(level) for level in levels], dtype=object)
    return pd.Series(names[codes], index=column.index, dtype=object)


_EMPTY = {"", "nan", "na", "n/a", "null", "none", "<na>"}


def _is_empty(value: object) -> bool:
    return value is None or value is pd.NA or str(value).strip().lower() in _EMPTY


def _label(value: object) -> str:
    return "" if value is pd.NA else level_name(value)


def _truth(value: object) -> bool:
    label = _label(value).lower()
    if label in {"true", "1", "yes"}:
        return True
    if label in {"false", "0", "no", ""}:
        return False
    raise TableError(f"the column 'collapsed' must hold true or false; got {value!r}")


def _numbers(
    column: "pd.Series[Any]", name: str, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> "pd.Series[float]":
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    bad = numbers.isna()
    bad[bad] = ~column[bad].map(_is_empty).astype(bool)
    bad |= np.isinf(numbers)
    if bad.any():
        positions = np.flatnonzero(bad.to_numpy())
        examples = ", ".join(f"row {rows[i]}: {column.iloc[i]!r}" for i in positions[:3])
        more = f" and {len(positions) - 3} more" if len(positions) > 3 else ""
        raise TableError(f"{name!r} must hold finite numbers; {examples}{more}")
    largest = numbers.abs().max()
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        raise TableError(f"{name!r} reaches {largest:g}; change its unit: squares of it cannot be computed")
    return numbers


def _check_labels(tidy: pd.DataFrame, columns: Columns) -> None:
    by = ", ".join(columns.by)
    for column, name in (("group", columns.group), ("seed_name", columns.seed), ("stratum", by)):
        empty = tidy[column] == ""
        if name and empty.any():
            raise TableError(
                f"column {name!r} is empty in {_rows(tidy.loc[empty, 'row'])}; fill it in, or drop the row"
            )


def _check_groups(tidy: pd.DataFrame, columns: Columns) -> None:
    groups = list(dict.fromkeys(tidy["group"]))
    if columns.reference not in groups:
        hint = did_you_mean(columns.reference, groups)
        levels = ", ".join(groups[:8]) or "no values"
        raise TableError(
            f"no run has {columns.group} = {columns.reference!r}{hint} ({columns.group} has {levels})"
        )
    if len(groups) < 2:
        raise TableError(f"every run has {columns.group} = {groups[0]!r}; a comparison needs two levels")


def _check_repeats(tidy: pd.DataFrame, columns: Columns) -> None:
    if columns.seed is None:
        return
    same = tidy.duplicated(["stratum", "group", "block", "seed"], keep=False)
    if not same.any():
        return
    first = tidy.loc[same].iloc[0]
    keys = ["stratum", "group", "block", "seed"]
    twin = tidy.loc[same & (tidy[keys] == first[keys]).all(axis=1)]
    described = ", ".join(
        part
        for part in (first["stratum"], first["group"], first["block"], f"seed {first['seed_name']}")
        if part
    )
    raise TableError(
        f"rows {twin['row'].iloc[0]} and {twin['row'].iloc[1]} are both {described}: one row per run. If "
        "another column tells them apart, name it with --block (twins of a seed) or --by (audited apart)"
    )


def _rows(rows: "pd.Series[int]") -> str:
    numbers = ", ".join(str(r) for r in rows[:5])
    return f"row {numbers}" + (", ..." if len(rows) > 5 else "")
