"""Damaged files of every source: bytes flipped, cut or overwritten give an answer or one line."""

import io
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from seedspread import collect
from seedspread.errors import SeedspreadError
from tests.tables.made import check, scores
from tests.tables.sources import written

METRICS = {"optuna.db": "value", "journal.log": "value"}
TABLES = ("runs.xlsx", "runs.parquet", "runs.csv", "runs.json")
SOURCES = (
    "optuna.db", "journal.log", "mlflow.db", "tensorboard", "json", *TABLES,
)  # fmt: skip


MADE: dict[str, Callable[[Path], None]] = {
    "optuna.db": written.write_optuna,
    "journal.log": written.write_optuna,
    "mlflow.db": lambda path: written.write_mlflow(f"sqlite:///{path}"),
    "tensorboard": written.write_tensorboard,
    "json": written.write_json,
    "runs.xlsx": lambda path: scores().to_excel(path, index=False),
    "runs.parquet": lambda path: scores().astype({"Model": "category"}).to_parquet(path),
    "runs.csv": lambda path: scores().to_csv(path, index=False),
    "runs.json": lambda path: scores().to_json(path, orient="records"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The undamaged source of a name, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("whole")

    def make(name: str) -> Path:
        if not (folder / name).exists():
            MADE[name](folder / name)
        return folder / name

    return make


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with a few bytes flipped, its end cut off, or a piece of it overwritten or taken out."""
    changed, at = bytearray(content), rng.randrange(len(content))
    size = rng.choice((1, 4, 16, 100, 1000))
    match rng.choice(("flip", "flip", "cut", "overwrite", "remove")):
        case "flip":
            for _ in range(rng.choice((1, 3, 30))):
                changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        case "cut":
            del changed[at:]
        case "overwrite":
            changed[at : at + size] = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))
        case "remove":
            del changed[at : at + size]
    return bytes(changed)


def damaged_inside(content: bytes, rng: random.Random) -> bytes:
    """An archive that is whole, with a damaged file in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            new.writestr(name, damaged(old.read(name), rng) if name == chosen else old.read(name))
    return out.getvalue()


def read_mutants(whole: Path, folder: Path, numbers: range) -> None:
    name = whole.name
    files = [whole] if whole.is_file() else sorted(path for path in whole.rglob("*") if path.is_file())
    for number in numbers:
        rng = random.Random(f"{name} {number}")  # noqa: S311 - not for cryptography
        path = rng.choice(files)
        mutant = folder / name
        if whole.is_dir():
            shutil.rmtree(mutant, ignore_errors=True)
            shutil.copytree(whole, mutant)
        target = mutant if whole.is_file() else mutant / path.relative_to(whole)
        damage = damaged_inside if name.endswith(".xlsx") and number % 2 else damaged
        target.write_bytes(damage(path.read_bytes(), rng))
        try:
            if name in TABLES:
                check(mutant, "AUC", "Model", by="Dataset")
            else:
                frame = collect(mutant, METRICS.get(name, written.METRIC), "best", better="higher").table
                assert isinstance(frame, pd.DataFrame)
        except Exception as error:
            if not isinstance(error, SeedspreadError) or "\n" in str(error):
                raise AssertionError(f"mutant {number} of {name}") from error


@pytest.mark.parametrize("name", SOURCES)
def test_a_damaged_file_is_read_or_refused_in_a_line(
    whole: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    read_mutants(whole(name), tmp_path, range(8))


@pytest.mark.soak
@pytest.mark.parametrize("name", SOURCES)
def test_many_damaged_files(whole: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    read_mutants(whole(name), tmp_path, range(600))
