"""Reading a table, whatever it is kept in."""

import zlib
from dataclasses import dataclass, replace
from gzip import BadGzipFile
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.errors import require_extra
from seedspread.runs.metrics import Better
from seedspread.runs.store import Store
from seedspread.runs.table import is_store, store_of
from seedspread.tables.errors import TableError
from seedspread.tables.excel import read_excel
from seedspread.tables.from_store import all_runs
from seedspread.tables.question import Question
from seedspread.tables.sources.collecting import Collected, collect, find_reader, is_source
from seedspread.tables.sources.files import UNREADABLE, read_json, read_json_lines
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.rows import step_column
from seedspread.tables.sources.run import SourceError
from seedspread.tables.sources.show import in_a_note
from seedspread.tables.text import read_text

Source = str | Path | pd.DataFrame | Collected

_MOST_CELLS = 200_000_000
_JSON_LINES = (".jsonl", ".ndjson")
_EXCEL = (".xlsx", ".xlsm")
_KINDS = ".csv, .tsv, .txt, .json, .jsonl, .xlsx or .parquet"


@dataclass(frozen=True)
class Table:
    """What was read.

    Attributes:
        frame: the cells; its index counts the rows as an editor shows them.
        name: what to call it.
        notes: on how it was read.
        path: as the user named it; None of a DataFrame.
        store: the folder of runs that it comes from, if it does.
        decimal_comma: whether a comma in a number is a decimal one unless others tell otherwise.
        better: which direction of the value is better, if the source tells.
    """

    frame: pd.DataFrame
    name: str
    notes: tuple[str, ...] = ()
    path: str | None = None
    store: str | None = None
    decimal_comma: bool = False
    better: Better | None = None


def is_table(source: "str | Path") -> bool:
    """Whether a table is read there, be it a file or what another tool has written; not a store of runs."""
    path = Path(source)
    return path.is_file() or (not is_store(path) and is_source(source))


def read_table(source: Source, question: Question, better: Better | None = None) -> Table:
    """A table from a file, a folder of runs, a DataFrame, whatever `collect` reads, or what it has read.

    Runs of a store and of `collect` are read with the value that the question names, and its step; `better`
    is the direction of the best step.
    """
    if isinstance(source, Collected):
        table = replace(_of_frame(source.table), better=source.declared)
    else:
        table = _of_frame(source) if isinstance(source, pd.DataFrame) else _of_path(source, question, better)
    frame = table.frame
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise TableError(f"{table.name} has two columns called {twice[0]!r}")
    if frame.empty:
        raise TableError(f"{table.name} has no rows")
    return table


def _numbered(frame: pd.DataFrame, first: int) -> pd.DataFrame:
    """With its rows counted from `first`, and names of columns that are text."""
    frame = frame.set_axis([str(c).strip() for c in frame.columns], axis=1)
    return frame.set_axis(pd.RangeIndex(first, first + len(frame)), axis=0)


def _of_frame(frame: pd.DataFrame) -> Table:
    """Its rows may be runs of a store, in whole or in part: their column `folder` shows it."""
    numbered = _numbered(frame, 2)
    folders = numbered["folder"].dropna() if list(numbered.columns).count("folder") == 1 else ()
    store = store_of(dict.fromkeys(map(str, folders)))
    name = None if store is None else str(store)
    return Table(numbered, name or "a DataFrame", store=name)


def _of_path(source: "str | Path", question: Question, better: Better | None) -> Table:
    path = Path(source)
    if question.sheet is not None and path.suffix.lower() not in _EXCEL:
        raise TableError(f"--sheet is for Excel files (.xlsx); {source} is none")
    if path.is_file() and (records := _records(path, question)) is not None:
        return Table(_numbered(records, 1), str(source), path=str(source))
    if path.is_file() and question.shapes and path.suffix.lower() == ".csv":
        return _of_file(path, question)  # though it may be the log of a tool: its rows are to be chosen here
    if not (path.is_dir() and is_store(path)) and is_source(source):
        _check_nested(path)
        return _of_runs(source, question, better)
    if path.suffix == ".toml":
        raise TableError(
            f"{path} is a study, not a table; audit the store of its runs: seedspread audit STORE"
        )
    if not path.exists():
        raise TableError(f"{source} does not exist; give a {_KINDS} file, or a folder of runs")
    if question.at != "last":
        raise TableError(f"--at is for runs that were logged by step; {source} has one value per run")
    return _of_store(path, question.value) if path.is_dir() else _of_file(path, question)


def _of_runs(source: "str | Path", question: Question, better: Better | None) -> Table:
    """What another tool has logged."""
    try:
        collected = collect(source, question.value or (), question.at, better=better, all_parameters=True)
    except SourceError as error:
        if question.value is not None:
            raise
        raise TableError(str(error).replace("--metric", "--value")) from None
    notes = tuple(in_a_note(collected))
    return Table(_numbered(collected.table, 2), str(source), notes, str(source), better=collected.declared)


def _of_store(path: Path, value: str | None) -> Table:
    if not is_store(path):
        _check_nested(path)
        raise TableError(f"{path} holds no finished run; give a {_KINDS} file, or a folder of runs")
    table, notes = all_runs(Store(path), [value] if value else [])
    return Table(_numbered(table, 2), str(path), notes, str(path), str(path))


def _check_nested(path: Path) -> None:
    """Refuses a folder that only holds a store, whose records are JSON files too."""
    if not path.is_dir() or (is_source(path) and find_reader(Place.of(path))[0].kind != "json"):
        return
    inside = next((one for one in sorted(path.iterdir()) if one.is_dir() and is_store(one)), None)
    if inside is not None:
        raise TableError(f"{path} holds no finished run itself; did you mean {inside}?")


def _of_file(path: Path, question: Question) -> Table:
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return Table(_numbered(_parquet(path), 2), str(path), path=str(path))
        if path.suffix.lower() in (*_EXCEL, ".xls"):
            frame, notes = read_excel(path, question.sheet)
            return Table(frame, str(path), tuple(notes), str(path))
        frame, notes, decimal_comma = read_text(path)
        return Table(frame, str(path), tuple(notes), str(path), decimal_comma=decimal_comma)
    except (
        ValueError,
        pd.errors.ParserWarning,
        EOFError,
        BadGzipFile,
        zlib.error,
    ) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"{path} cannot be read as a table: {why}") from None


def _parquet(path: Path) -> pd.DataFrame:
    """Its own figures tell how large it becomes: a small file may hold any number of equal rows."""
    require_extra("parquet", f"reading {path}")
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - not in the base

    try:
        about = parquet.read_metadata(path)
        if about.num_rows * about.num_columns > _MOST_CELLS:
            raise TableError(
                f"{path} has {about.num_rows:,} rows of {about.num_columns:,} columns; up to {_MOST_CELLS:,} "
                "cells are read: keep what the audit needs"
            )
        return pd.read_parquet(path)
    except ArrowException as error:
        raise ValueError(str(error)) from None


def _records(path: Path, question: Question) -> pd.DataFrame | None:
    """A JSON file that is a plain table: flat records, or columns; None for logs and configs of runs.

    Records that count steps are the log of a run, which `collect` reads, unless rows are to be chosen.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", *_JSON_LINES) or question.at != "last":
        return None
    try:
        content = read_json(path) if suffix == ".json" else read_json_lines(path)
    except UNREADABLE:
        return None
    if isinstance(content, tuple):  # of lines; a log may be cut
        content = [] if content[1] else content[0]
    if isinstance(content, dict):
        return _from_columns(content)
    if not isinstance(content, list) or not content or not all(map(_is_flat, content)):
        return None
    if step_column(content) is not None and not question.shapes and _is_log(path, question.value):
        return None
    return pd.DataFrame(content)


def _is_log(path: Path, value: str | None) -> bool:
    try:
        return value is None or bool(len(collect(path, value).table))
    except SourceError:
        return False


def _is_flat(record: object) -> bool:
    return isinstance(record, dict) and not any(isinstance(value, dict | list) for value in record.values())


def _from_columns(content: dict[str, Any]) -> pd.DataFrame | None:
    """Columns of one length, some of them text: those of a log hold numbers only."""
    columns = [list(c.values()) if isinstance(c, dict) else c for c in content.values()]
    if len(columns) < 2 or not all(isinstance(column, list) and column for column in columns):
        return None
    keys = {tuple(c) for c in content.values() if isinstance(c, dict)}
    is_table = len({len(column) for column in columns}) == 1 and len(keys) <= 1
    has_text = any(all(isinstance(cell, str) for cell in column) for column in columns)
    is_flat = not any(isinstance(cell, dict | list) for column in columns for cell in column)
    if not (is_table and has_text and is_flat):
        return None
    return pd.DataFrame(dict(zip(content, columns, strict=True)))
