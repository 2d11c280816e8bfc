"""A sheet of an Excel file."""

import zipfile
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.errors import did_you_mean, require_extra
from seedspread.tables.errors import TableError, listed

_MOST_BYTES = 1 << 30
_MOST_CELLS = 20_000_000


def read_excel(path: Path, sheet: str | None) -> tuple[pd.DataFrame, list[str]]:
    """The cells of a sheet below its first row that has two, rows counted as Excel does; notes."""
    if path.suffix.lower() == ".xls":
        raise TableError(f"{path} is of the old Excel format; save it as .xlsx or .csv")
    require_extra("excel", f"reading {path.name}")
    import openpyxl  # noqa: PLC0415 - an extra

    _check_size(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (KeyError, OSError, SyntaxError, TypeError) as error:
        raise TableError(f"{path} cannot be read as a table: {error}") from None
    try:
        name = _sheet(path, book.sheetnames, sheet)
        frame = _frame(path, book[name].iter_rows(values_only=True))
    finally:
        book.close()
    others = [one for one in book.sheetnames if one != name]
    told = f"The sheet is {name}; there is {listed(others)} too (--sheet)."
    return frame, [told] if others and sheet is None else []


def _check_size(path: Path) -> None:
    """An archive of a few kilobytes can hold any number of cells."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except zipfile.BadZipFile:
        raise TableError(f"{path} cannot be read as a table: it is no Excel file") from None
    if size > _MOST_BYTES:
        raise TableError(
            f"{path} unpacks to {size / 2**30:.1f} GiB; up to {_MOST_BYTES / 2**30:.0f} GiB are read"
        )


def _sheet(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is None and names:
        return names[0]
    if wanted not in names:
        hint = did_you_mean(wanted or "", names)
        raise TableError(f"{path} has no sheet {wanted!r}{hint} (it has {listed(names)})")
    return str(wanted)


def _frame(path: Path, sheet: Any) -> pd.DataFrame:
    rows, numbers, header, cells = [], [], None, 0
    for number, row in enumerate(sheet, 1):
        cells += len(row)
        if cells > _MOST_CELLS:
            raise TableError(f"{path} has more than {_MOST_CELLS:,} cells; save what the audit needs as .csv")
        filled = sum(cell is not None for cell in row)
        if header is None and filled > 1:
            header = row
        elif header is not None and filled:
            rows.append(row)
            numbers.append(number)
    if header is None:
        raise TableError(f"{path} cannot be read as a table: no row of the sheet has two cells")
    width = max(map(len, (header, *rows)))
    names = [str(c).strip() if c is not None else f"column {n}" for n, c in enumerate(header, 1)]
    names += [f"column {n}" for n in range(len(names) + 1, width + 1)]
    full = [(*row, *[None] * (width - len(row))) for row in rows]
    return pd.DataFrame(full, columns=names, index=numbers).dropna(axis=1, how="all")
