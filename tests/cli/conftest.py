"""What tests of several commands are given."""

from pathlib import Path

import pytest

from seedspread.paper.values import published_table
from tests.cff.data.conftest import serve, server

__all__ = ["serve", "server"]


@pytest.fixture
def paper_csv(tmp_path: Path) -> str:
    """The paper's CIFAR-10 runs as a file, `paper.csv`."""
    path = tmp_path / "paper.csv"
    table = published_table()
    table[table["setting"] == "cifar10"].to_csv(path, index=False)
    return str(path)
