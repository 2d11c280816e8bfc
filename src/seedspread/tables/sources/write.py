"""A table as a file that appears whole or not at all."""

from pathlib import Path

import pandas as pd

from seedspread.atomic import replacing
from seedspread.errors import require_extra
from seedspread.tables.sources.run import SourceError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_ending(path: Path) -> None:
    """Refuses what cannot be written, before anything is read."""
    if path.suffix not in (*_SEPARATORS, ".parquet"):
        raise SourceError(f"the table must end in .csv, .tsv or .parquet; got {path}")
    if path.suffix == ".parquet":
        require_extra("parquet", f"writing {path}")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Writes CSV, TSV or Parquet, by the ending."""
    try:
        with replacing(path) as temporary:
            if path.suffix == ".parquet":
                table.to_parquet(temporary, index=False)
            else:
                table.to_csv(temporary, index=False, sep=_SEPARATORS[path.suffix], encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write {path}: {error.strerror}") from error
