"""Messages about tables name options here, as on a terminal."""

from collections.abc import Iterator

import pytest

from seedspread.errors import in_terminal


@pytest.fixture(autouse=True)
def terminal() -> Iterator[None]:
    token = in_terminal.set(True)
    yield
    in_terminal.reset(token)
