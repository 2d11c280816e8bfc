"""The paper's printed numbers, for comparison with others."""

from functools import cache

from seedspread.paper.check import number_claims, recompute
from seedspread.paper.values import series

Key = tuple[int, tuple[str, ...], str]


@cache
def _index() -> dict[Key, str]:
    """By table, values and method; of a claim by layer the method is followed by the layer's number."""
    index: dict[Key, str] = {}
    for claim in number_claims():
        table = claim["where"].partition(",")[0].removeprefix("Table ")
        if not table.isdigit():
            continue
        on, numbers = tuple(claim.get("on", ())), claim["printed"]
        if "by_layer" in claim:
            numbers = {f"{claim['by_layer']} {layer}": text for layer, text in enumerate(numbers)}
        for method, text in numbers.items():
            index.setdefault((int(table), on, method), text)
    return index


def printed(table: int, on: tuple[str, ...], method: str, *, judge: bool = False) -> str:
    """What a table prints for a method on published values; empty if it prints nothing.

    With `judge`, a number that does not follow from the published values is marked.
    """
    text = _index().get((table, on, method), "")
    return f"{text} ✗" if judge and text and not _agrees(on, method, text) else text


@cache
def _agrees(on: tuple[str, ...], method: str, text: str) -> bool:
    inputs = [series(name) for name in on]
    name, _, layer = method.partition(" ")
    if layer:
        inputs = [s.entry(int(layer)) for s in inputs]
    return recompute(name, text, inputs)[1]
