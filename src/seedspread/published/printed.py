"""The paper's printed numbers, to be set beside others."""

from functools import cache
from typing import Any

from seedspread.published.check import claims, recompute
from seedspread.published.values import series

Key = tuple[int, tuple[str, ...], str]


@cache
def _index() -> dict[Key, str]:
    found: dict[Key, str] = {}
    for claim in claims():
        table, is_table = _number(claim["where"])
        if is_table and isinstance(claim["printed"], dict):
            for method, text in claim["printed"].items():
                found.setdefault((table, tuple(claim.get("on", ())), method), text)
    return found


def _number(where: str) -> tuple[int, bool]:
    name = where.split(",", maxsplit=1)[0].removeprefix("Table ")
    return (int(name), True) if name.isdigit() else (0, False)


def printed(table: int, on: tuple[str, ...], method: str, *, judge: bool = False) -> str:
    """What a table prints for a method on published values; empty if it prints nothing.

    With `judge`, a number that does not follow from the published values is marked.
    """
    text = _index().get((table, on, method), "")
    if judge and text and not _agrees(table, on, method, text):
        return f"{text} ✗"
    return text


@cache
def _agrees(_: int, on: tuple[str, ...], method: str, text: str) -> bool:
    inputs: list[Any] = [series(name) for name in on]
    return recompute(method, text, inputs)[1]
