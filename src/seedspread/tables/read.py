"""Read a table from a file, a folder of runs, a DataFrame or the logs of another tool."""

import atexit
import codecs
import csv
import gzip
import io
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TextIO

import pandas as pd

from seedspread.errors import SeedspreadError, did_you_mean, require_extra
from seedspread.runs.metrics import Better
from seedspread.runs.store import Store, is_store, store_of
from seedspread.tables.from_store import all_runs
from seedspread.tables.markup import is_markup, tables_in
from seedspread.tables.question import Question, TableError, listed
from seedspread.tables.sources.collect import Collected, audit_notes, collect, find_reader, is_source
from seedspread.tables.sources.run import (
    UNREADABLE,
    Place,
    SourceError,
    quiet,
    read_json,
    read_json_lines,
    step_column,
)


class HasToPandas(Protocol):
    """A table of another library: polars, pyarrow and others."""

    def to_pandas(self) -> Any: ...


Source = str | Path | pd.DataFrame | Collected | Mapping[str, Any] | Sequence[Mapping[str, Any]] | HasToPandas

MOST_BYTES = 1 << 30
_MOST_CELLS, _MOST_SHEET_CELLS = 200_000_000, 20_000_000
# Limits for an Excel file's XML: openpyxl takes about 5 s per million tags, and a number has four.
_MOST_SHEET_BYTES, _MOST_TAGS = 256 << 20, 4_000_000
_EXCEL = (".xlsx", ".xlsm")
FRAME = "a DataFrame"
_KINDS = ".csv, .tsv, .txt, .md, .tex, .html, .json, .jsonl, .xlsx or .parquet"


@dataclass(frozen=True)
class Table:
    """A table as it was read, before it is checked."""

    frame: pd.DataFrame  # the cells; its index counts the rows as an editor shows them
    name: str  # its name in messages
    notes: tuple[str, ...] = ()  # on how it was read
    path: str | None = None  # as the user named it; None for a DataFrame
    store: str | None = None  # the folder of the runs, if they come from a store
    decimal_comma: bool = False  # whether a comma in a number is a decimal one unless other cells disagree
    better: Better | None = None  # the better direction of the value, if the source records it
    has_run_rows: bool = False  # whether each row is known to be a run, so that no column counts its steps


def is_table(source: "str | Path") -> bool:
    """Return whether `source` is a file or another tool's logs, as opposed to a store of runs."""
    path = Path(source)
    return path.is_file() or (not is_store(path) and is_source(source))


def read_table(source: Source, question: Question, better: Better | None = None) -> Table:
    """Return the table in a file, a folder of runs, a DataFrame, or whatever `collect` reads or returned.

    Runs of a store and of `collect` are read with the question's value, and its step; `better`
    is the better direction when choosing a step.
    """
    if isinstance(source, Collected):
        table = replace(_of_frame(source.table), better=source.declared, has_run_rows=True)
    elif isinstance(source, str | Path):
        table = _of_path(source, question, better)
    else:
        table = _of_frame(as_frame(source))
    frame = table.frame
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise TableError(f"{table.name} has two columns called {twice[0]!r}")
    if frame.empty:
        raise TableError(f"{table.name} has no rows")
    return table


def as_frame(source: Any) -> pd.DataFrame:
    """Return the rows of a table in memory: from pandas, polars, xarray, pyarrow, or columns by name."""
    frame, kind = source, type(source).__name__
    try:
        if isinstance(source, pd.Series):
            frame = source.to_frame(source.name or "value")
        elif hasattr(source, "to_dataframe"):  # xarray; a Dataset is also a mapping
            named = {} if isinstance(source, Mapping) else {"name": source.name or "value"}
            frame = source.to_dataframe(**named)
        elif isinstance(source, Mapping | list | tuple):
            frame = pd.DataFrame(source)
        elif hasattr(source, "to_pandas"):
            try:
                frame = source.to_pandas()
            except ImportError:  # polars needs pyarrow for that
                frame = pd.DataFrame(source.to_dict(as_series=False))
        elif not isinstance(source, pd.DataFrame) and hasattr(source, "__dataframe__"):
            with quiet():
                frame = pd.api.interchange.from_dataframe(source)
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        raise TableError(f"a {kind} cannot be read as a table: {error}") from None
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"a table is a file, a folder, a DataFrame or a dict of columns; got {kind}")
    return frame


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its index among its columns, if that has a name or contains texts."""
    if isinstance(frame.columns, pd.MultiIndex):
        flat = ["_".join(str(part) for part in name if str(part)) for name in frame.columns]
        frame = frame.set_axis(flat, axis=1)
    index = frame.index
    if not isinstance(index, pd.MultiIndex) and index.name is None and pd.api.types.is_numeric_dtype(index):
        return frame
    names = [name or (f"level_{n}" if index.nlevels > 1 else "index") for n, name in enumerate(index.names)]
    levels = {str(n): index.get_level_values(k) for k, n in enumerate(names) if n not in frame.columns}
    return pd.concat([pd.DataFrame(levels), frame.reset_index(drop=True)], axis=1)


_TIMES = (pd.DatetimeTZDtype, pd.PeriodDtype, pd.IntervalDtype)


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of plain cells: categories, Arrow's texts and times have types of their own."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        column = _plain(column.astype(object).infer_objects())
    elif isinstance(dtype, _TIMES) or pd.api.types.is_datetime64_dtype(dtype) or dtype.kind == "m":
        column = column.astype(str).astype(object).where(column.notna(), None)
    elif isinstance(dtype, pd.SparseDtype):
        column = column.astype(dtype.subtype)
    elif isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA):
        column = column.astype(object)
    return column


def _numbered(frame: pd.DataFrame, first: int = 2) -> pd.DataFrame:
    """Number the rows from `first`, and make the names of columns text and their cells plain."""
    frame = _with_index(frame)
    frame = frame.set_axis([str(c).strip() for c in frame.columns], axis=1)
    if frame.columns.is_unique:
        frame = frame.assign(**{str(name): _plain(column) for name, column in frame.items()})
    return frame.set_axis(pd.RangeIndex(first, first + len(frame)), axis=0)


def _of_frame(frame: pd.DataFrame) -> Table:
    """Return the table; its rows are runs of a store if its column `folder` points to them."""
    numbered = _numbered(frame)
    folders = numbered["folder"].dropna() if list(numbered.columns).count("folder") == 1 else ()
    store = store_of(dict.fromkeys(map(str, folders)))
    name = None if store is None else str(store)
    return Table(numbered, name or FRAME, store=name)


def _of_path(source: "str | Path", question: Question, better: Better | None) -> Table:
    path = Path(source)
    if str(source) == "-":
        piped = _piped(sys.stdin)
        try:
            return replace(_of_path(piped, question, better), name="standard input", path="-")
        except SeedspreadError as error:
            if str(piped) not in str(error):
                raise
            said = str(error).replace(str(piped), "standard input").replace(f"{piped.name}: ", "")
            raise TableError(said) from None
    if question.sheet is not None and path.suffix.lower() not in (*_EXCEL, *_MARKUP, ".txt"):
        raise TableError(
            f"--sheet is for Excel files (.xlsx) and texts with several tables; {source} is none"
        )
    if path.is_file() and (records := _json_records(path, question)) is not None:
        return Table(_numbered(records, 1), str(source), path=str(source))
    if path.is_file() and question.shapes and path.suffix.lower() == ".csv":
        return _of_file(path, question.sheet)  # it may be a tool's log, but the question selects its rows
    if not (path.is_dir() and is_store(path)) and is_source(source):
        _check_nested(path)
        return _of_logs(source, question, better)
    if path.suffix == ".toml":
        raise TableError(
            f"{path} is a study, not a table; audit the store of its runs: seedspread audit STORE"
        )
    if not path.exists():
        raise TableError(f"{source} does not exist; give a {_KINDS} file, or a folder of runs")
    if question.at != "last":
        raise TableError(f"--at is for runs that were logged by step; {source} has one value per run")
    if not path.is_dir():
        return _of_file(path, question.sheet)
    if not is_store(path):
        _check_nested(path)
        raise TableError(f"{path} holds no finished run; give a {_KINDS} file, or a folder of runs")
    frame, notes = all_runs(Store(path), [question.value] if question.value else [])
    return Table(_numbered(frame), str(path), notes, str(path), str(path))


def _of_logs(source: "str | Path", question: Question, better: Better | None) -> Table:
    try:
        collected = collect(source, question.value or (), question.at, better=better, all_parameters=True)
    except SourceError as error:
        if question.value is not None:
            raise
        said = str(error).replace("with metric;", "with --metric;")  # the option's name on the command line
        raise TableError(said.replace("--metric", "--value")) from None
    table = Table(_numbered(collected.table), str(source), audit_notes(collected), str(source))
    return replace(table, better=collected.declared, has_run_rows=True)


def _check_nested(path: Path) -> None:
    """Refuse a folder that only contains a store, whose records are JSON files too."""
    if not path.is_dir() or (is_source(path) and find_reader(Place.of(path))[0].kind != "json"):
        return
    inside = next((one for one in sorted(path.iterdir()) if one.is_dir() and is_store(one)), None)
    if inside is not None:
        raise TableError(f"{path} holds no finished run itself; did you mean {inside}?")


def _of_file(path: Path, sheet: str | None) -> Table:
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return Table(_numbered(_parquet(path)), str(path), path=str(path))
        if path.suffix.lower() in (*_EXCEL, ".xls"):
            return _excel(path, sheet)
        return _marked_up(path, sheet) or _text(path)
    except SeedspreadError:
        raise
    except Exception as error:  # openpyxl and pyarrow check little, so a damaged file may raise anything
        if isinstance(error, OSError) and error.filename is not None:
            raise  # refused by the system
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"{path} cannot be read as a table: {why}") from None


def _parquet(path: Path) -> pd.DataFrame:
    """Read the file if its metadata shows that it is not too large: equal rows take no space in it."""
    require_extra("parquet", f"reading {path}")
    from pyarrow import parquet  # noqa: PLC0415 - not in the base

    about = parquet.read_metadata(path)
    if about.num_rows * about.num_columns > _MOST_CELLS:
        raise TableError(
            f"{path} has {about.num_rows:,} rows of {about.num_columns:,} columns; up to {_MOST_CELLS:,} "
            "cells are read: keep what the audit needs"
        )
    return pd.read_parquet(path)


def _json_records(path: Path, question: Question) -> pd.DataFrame | None:
    """Return a JSON file that is a plain table: flat records, or columns; None for logs and configs of runs.

    Records that count steps are the log of a run, which `collect` reads, unless the question selects rows.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".jsonl", ".ndjson") or question.at != "last":
        return None
    try:
        content = read_json(path) if suffix == ".json" else read_json_lines(path)
    except UNREADABLE:
        return None
    if isinstance(content, tuple):  # lines, and a problem: a log may be cut off
        content = [] if content[1] else content[0]
    if isinstance(content, dict):
        return _json_columns(content)
    if not isinstance(content, list) or not content or not all(map(_is_flat, content)):
        return None
    if step_column(content) is not None and not question.shapes:
        with suppress(SourceError):
            if question.value is None or len(collect(path, question.value).table):
                return None
    return pd.DataFrame(content)


def _is_flat(record: object) -> bool:
    return isinstance(record, dict) and not any(isinstance(value, dict | list) for value in record.values())


def _json_columns(content: dict[str, Any]) -> pd.DataFrame | None:
    """Return columns of equal length, some of them text: the columns of a log contain numbers only."""
    columns = [list(c.values()) if isinstance(c, dict) else c for c in content.values()]
    if len(columns) < 2 or not all(isinstance(column, list) and column for column in columns):
        return None
    keys = {tuple(c) for c in content.values() if isinstance(c, dict)}
    is_table = len({len(column) for column in columns}) == 1 and len(keys) <= 1
    has_text = any(all(isinstance(cell, str) for cell in column) for column in columns)
    is_flat = not any(isinstance(cell, dict | list) for column in columns for cell in column)
    is_plain = is_table and has_text and is_flat
    return pd.DataFrame(dict(zip(content, columns, strict=True))) if is_plain else None


@lru_cache(maxsize=1)
def _piped(stream: TextIO) -> Path:
    """Copy standard input to a file, which can be read twice; it is removed when the program ends."""
    if stream.isatty():
        raise TableError("nothing is piped in; write cat table.md | seedspread audit -")
    data = stream.buffer.read()
    start = data.lstrip()[:1]
    suffix = ".json" if start in (b"{", b"[") else ".txt"
    if start == b"{" and data.strip().count(b"\n{"):
        suffix = ".jsonl"
    suffix = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx"}.get(data[:4], suffix)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / f"piped{suffix}"
    path.write_bytes(data)
    return path


# Markdown, LaTeX, HTML

_MARKUP = (".md", ".markdown", ".tex", ".html", ".htm")
_LARGEST_MARKUP = 8 << 20


def _marked_up(path: Path, sheet: str | None) -> Table | None:
    """Return the table of a text in Markdown, LaTeX or HTML; None if it contains none."""
    if path.suffix.lower() in (".csv", ".tsv", ".gz") or path.stat().st_size > _LARGEST_MARKUP:
        return None
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    if path.suffix.lower() not in _MARKUP and not is_markup(text):
        return None
    frames = [frame for frame in tables_in(text, str(path)) if len(frame)]
    if not frames:
        raise TableError(f"{path} has no table with rows; give a {_KINDS} file")
    if sheet is not None and not (sheet.isdigit() and 1 <= int(sheet) <= len(frames)):
        raise TableError(
            f"{path} has {len(frames)} tables, --sheet 1 to --sheet {len(frames)}; got {sheet!r}"
        )
    note = f"Table 1 of {len(frames)} is read; --sheet 2 is the next."
    notes = (note,) if len(frames) > 1 and sheet is None else ()
    return Table(frames[int(sheet or 1) - 1], str(path), notes, str(path))


# Text

_SAMPLE, _PIECE = 1 << 16, 1 << 20
_MOST_LINES = 200
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SEPARATORS = (",", ";", "\t", "|")


def _text(path: Path) -> Table:
    """Read cells as text, with the numbers of their lines as index.

    Values stay text until they are needed: one that is not a number can then be reported with its row.
    """
    content = _content(path)
    encoding = next((name for bom, name in _BOMS.items() if content.startswith(bom)), "utf-8")
    text = content[:_SAMPLE].decode(encoding, errors="replace")
    if "\0" in text:
        raise ValueError("it holds binary data")
    lines = text.splitlines()
    if len(content) >= _SAMPLE and len(lines) > 1:
        lines.pop()  # the last line may be cut off
    skipped = next((n for n, line in enumerate(lines) if line.strip()[:1] not in ("", "#")), len(lines))
    if skipped == len(lines):
        raise ValueError("it has no text")
    separator = _separator(lines[skipped:], path.name)
    if separator is None:
        raise ValueError("its first line has one column only")
    notes: tuple[str, ...] = ()
    try:
        frame = _parsed(content, encoding, separator, skipped)
    except UnicodeDecodeError:
        frame = _parsed(content, "cp1252", separator, skipped)
        notes = ("It is not UTF-8; read as Windows-1252.",)
    frame.index = pd.RangeIndex(2 + skipped, 2 + skipped + len(frame))
    there = set(frame.columns)  # pandas renames the second of two columns x to x.1
    plain = [(name.rpartition(".")[0], name, name in lines[skipped]) for name in frame.columns]
    frame.columns = [(base if base in there and not given else name).strip() for base, name, given in plain]
    return Table(_without_empty(frame), str(path), notes, str(path), decimal_comma=separator != ",")


def _content(path: Path) -> bytes:
    """Return the bytes of a text, unpacked; refuse more than `MOST_BYTES`, which a small archive may hide."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        pieces = iter(partial(file.read, _PIECE), b"")
        content = b"".join(islice(pieces, MOST_BYTES // _PIECE + 1))
    if len(content) > MOST_BYTES:
        raise TableError(
            f"{path} has more than {MOST_BYTES / 2**30:.0f} GiB of text; keep the rows and columns that the "
            "audit needs, or save it as .parquet"
        )
    return content


def _separator(lines: list[str], name: str) -> str | None:
    """Return the delimiter that splits most lines into as many cells as the first; None if none does."""
    lines = [line for line in lines[:_MOST_LINES] if line.strip()]
    first = "\t" if name.lower().removesuffix(".gz").endswith((".tsv", ".txt")) else ","
    candidates = sorted(_SEPARATORS, key=lambda separator: separator != first)
    best = max(candidates, key=lambda separator: _columns(lines, separator))
    if _columns(lines, best) > 1:
        return best
    if used := [separator for separator in candidates if separator in lines[0]]:
        return used[0]  # lines of unequal length, which the parser will report
    return r"\s+" if len(lines[0].split()) > 1 else None


def _columns(lines: list[str], separator: str) -> int:
    """Return the number of columns if three quarters of the lines have it, else 0."""
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator, skipinitialspace=True)]
    except csv.Error:
        return 0
    return counts[0] if 4 * Counter(counts)[counts[0]] >= 3 * len(counts) else 0


def _parsed(content: bytes, encoding: str, separator: str, skipped: int) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header's would be lost
        return pd.read_csv(
            io.BytesIO(content),
            sep=separator,
            encoding=encoding,
            skiprows=skipped,
            dtype=str,
            skipinitialspace=True,
            index_col=False,
            keep_default_na=False,  # a group may be called None
            skip_blank_lines=False,  # rows keep the numbers that an editor shows
        )


def _without_empty(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop blank lines, and comments among the rows."""
    first = frame.iloc[:, 0].fillna("").str.strip()
    suspect = frame.loc[(first == "") | first.str.startswith("#")]
    empty = (suspect.iloc[:, 1:].fillna("") == "").all(axis=1)
    return frame.drop(index=empty.index[empty]) if empty.any() else frame


# Excel


def _excel(path: Path, sheet: str | None) -> Table:
    """Read the cells of a sheet from its first row with two cells, numbering rows as Excel does."""
    if path.suffix.lower() == ".xls":
        raise TableError(f"{path} is of the old Excel format; save it as .xlsx or .csv")
    require_extra("excel", f"reading {path.name}")
    import openpyxl  # noqa: PLC0415 - an extra

    _check_unpacked_size(path)
    with path.open("rb") as file, quiet():
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        names = book.sheetnames
        name = sheet if sheet is not None or not names else names[0]
        if name not in names:
            hint = did_you_mean(name or "", names)
            raise TableError(f"{path} has no sheet {name!r}{hint} (it has {listed(names)})")
        frame = _frame(path, book[name].iter_rows(values_only=True))
    others = [one for one in names if one != name]
    note = f"The sheet is {name}; there is {listed(others)} too (--sheet)."
    return Table(frame, str(path), (note,) if others and sheet is None else (), str(path))


def _check_unpacked_size(path: Path) -> None:
    """Refuse an archive of a few kilobytes that unpacks to too many cells, shared texts or other XML."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size, tags = sum(member.file_size for member in members), 0
            if size > _MOST_SHEET_BYTES:
                raise TableError(
                    f"{path} unpacks to {size / 2**20:,.0f} MiB; up to {_MOST_SHEET_BYTES >> 20} MiB of "
                    "Excel are read: save what the audit needs as .csv"
                )
            for member in members:
                with archive.open(member) as part:
                    while tags <= _MOST_TAGS and (piece := part.read(1 << 20)):
                        tags += piece.count(b"<")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):  # damaged, packed otherwise, encrypted
        raise ValueError("it is no Excel file") from None
    if tags > _MOST_TAGS:
        raise TableError(
            f"{path} has more than {_MOST_TAGS:,} tags of XML, about {_MOST_TAGS // 4:,} cells; save what "
            "the audit needs as .csv"
        )


def _frame(path: Path, sheet: Any) -> pd.DataFrame:
    rows, numbers, header, cells = [], [], None, 0
    for number, row in enumerate(sheet, 1):
        cells += len(row)
        if cells > _MOST_SHEET_CELLS:
            raise TableError(
                f"{path} has more than {_MOST_SHEET_CELLS:,} cells; save what the audit needs as .csv"
            )
        filled = sum(cell is not None for cell in row)
        if header is None and filled > 1:
            header = row
        elif header is not None and filled:
            rows.append(row)
            numbers.append(number)
    if header is None:
        raise ValueError("no row of the sheet has two cells")
    width = max(map(len, (header, *rows)))
    head, *full = [(*row, *[None] * (width - len(row))) for row in (header, *rows)]
    names = [f"column {n}" if cell is None else str(cell).strip() for n, cell in enumerate(head, 1)]
    return pd.DataFrame(full, columns=names, index=numbers).dropna(axis=1, how="all")
