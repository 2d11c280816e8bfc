"""Means and sds in place of runs: cells such as `28.7 ± 4.8`, or a column of means next to one of sds."""

import re
from dataclasses import dataclass
from math import sqrt
from shlex import quote

import pandas as pd

from seedspread.errors import in_terminal
from seedspread.tables.columns import find_seed, is_empty, is_numeric, numbers_in, plain_name
from seedspread.tables.markup import clean
from seedspread.tables.question import Question, TableError, listed
from seedspread.tables.read import Table

_N = r"[-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_CELL = re.compile(rf"(?P<mean>{_N})\s*%?\s*(?:±\s*(?P<sd>{_N})|\(\s*±?\s*(?P<inside>{_N})\s*%?\s*\))\s*%?")
# A number with a decimal comma that cannot be meant to part thousands.
_COMMA = re.compile(r"0,\d+|\d+,(?:\d{1,2}|\d{4,})")
_LONGEST = 8  # a number with more digits comes from a computer, not a paper
_MEANS = {"mean", "means", "avg", "average", "mu"}
_SDS = {"std", "sd", "stdev", "stddev", "se", "sem", "stderr", "sigma", "sds", "stds"}
_SES = {"se", "sem", "stderr"}
COUNTS = set("n n_seeds num_seeds seeds n_runs num_runs runs count trials n_trials replicates".split())


@dataclass(frozen=True)
class Published:
    """A mean and a sample sd (n - 1) over n seeds; `rounding` is half the last digit of the sd."""

    name: str
    mean: float
    sd: float
    n: int
    rounding: float = 0.0
    printed: str = ""  # as published; empty if the sd had to be computed, or has very many digits

    def __str__(self) -> str:
        return self.printed or f"{self.mean:.4g} ± {self.sd:.3g}"


def as_published(text: str, n: int, name: str = "", sd_is: str = "sd") -> Published:
    """Return the mean and sd in a text such as `0.291±0.047`; refuse anything else.

    `sd_is` is what follows ±: an `sd` (n - 1), a `population` sd (with n) or the `se` of the mean.
    """
    if sd_is not in ("sd", "se", "population"):
        raise TableError(f"--sd-is must be sd, se or population; got {sd_is!r}")
    if n < 2:
        raise TableError(f"an sd needs at least two seeds; got --n {n}")
    found = mean_and_sd(text)
    if found is None:
        raise TableError(f"{text!r} is not a mean ± sd; write it as 0.291±0.047")
    factor = {"sd": 1.0, "se": sqrt(n), "population": sqrt(n / (n - 1))}[sd_is]
    mean, sd, rounding = found
    figures = re.findall(_N, _with_points(text))
    printed = " ± ".join(figures) if factor == 1 and max(map(len, figures)) <= _LONGEST else ""
    name = name or (text if "±" in text else printed or text)
    return Published(name, mean, sd * factor, n, rounding * factor, printed)


def mean_and_sd(text: str) -> tuple[float, float, float] | None:
    """Return mean, sd and half the sd's last digit; None if a cell has no such pair."""
    match = _CELL.fullmatch(_with_points(text))
    if match is None:
        return None
    mean, sd = match["mean"].replace("−", "-"), match["sd"] or match["inside"]
    if match["sd"] is None and "." in mean and "." not in sd:
        short = float(f"{sd}e-{len(mean.partition('.')[2])}")
        raise TableError(f"{text!r} may be {mean}±{short:g} or {mean}±{sd}; write it with ±")
    if sd.startswith(("-", "−")):
        raise TableError(f"{text!r} has an sd below zero")
    digits = len(sd.lower().partition("e")[0].partition(".")[2])
    exponent = int(sd.lower().partition("e")[2] or 0)
    return float(mean), float(sd), 0.5 * 10.0 ** (exponent - digits)


def summary_columns(frame: pd.DataFrame) -> dict[str, tuple[str, str | None]]:
    """Return the values of which a table has means and sds: their column, and that of the sd if separate."""
    found: dict[str, tuple[str, str | None]] = {}
    for name in frame.columns:
        texts = () if pd.api.types.is_numeric_dtype(frame[name]) else frame[name].head(100)
        cells = [str(cell) for cell in texts if not is_empty(cell)]
        both = [cell for cell in cells if any(sign in cell for sign in ("±", "(", "pm", "+-", "+/-", "+−"))]
        if both and sum(_CELL.fullmatch(_with_points(cell)) is not None for cell in both) > 0.5 * len(cells):
            found[name] = name, None
    stems = {_without(name, _MEANS): name for name in reversed(frame.columns)}
    for at, name in enumerate(frame.columns):
        rest = _without(name, _SDS)
        mean = stems.get(rest) or (frame.columns[at - 1] if at and not rest else None)
        is_sd = rest != plain_name(name) and is_numeric(frame[name])
        if is_sd and mean is not None and mean != name and is_numeric(frame[mean]):
            found[mean] = mean, name
    return found


def _with_points(text: str) -> str:
    """Return a cell without markup; decimal commas become points if they cannot part thousands."""
    text = clean(text)
    is_decimal = "." not in text and all(map(_COMMA.fullmatch, re.findall(r"[\d,]*,[\d,]*", text)))
    return text.replace(",", ".") if is_decimal else text


def _without(name: str, words: set[str]) -> str:
    return "_".join(word for word in plain_name(name).split("_") if word not in words)


def is_standard_error(column: str | None) -> bool:
    return column is not None and _without(column, _SES) != plain_name(column)


def refuse_summaries(table: Table, question: Question) -> None:
    """Refuse means and sds as runs, unless rows have a seed: a run may have its own sd, over episodes say."""
    frame = table.frame
    found = summary_columns(frame)
    own = {k: v for k, v in found.items() if question.value in (None, *v)}
    if not own or table.store is not None or table.has_run_rows or question.wide:
        return
    mean, sd = next(iter(own.values()))
    named = question.seed if question.seed not in (None, "seed") else None
    if sd is not None and (named or find_seed(frame, [c for c in frame.columns if c not in (mean, sd)])):
        return
    counts = [str(c) for c in frame.columns if plain_name(c) in COUNTS and is_numeric(frame[c])]
    n = counts[0] if counts else "10"
    what = f"{mean!r} holds means and sds" if sd is None else f"{mean!r} holds means, and {sd!r} their sds"
    asked = f"audit_means({table.path!r}, n={n!r})".replace("None", "table")
    if in_terminal.get() and table.path is not None:
        asked = f"{Question().typed(table.path)} --n {quote(n)}"
    more = "" if counts else " (10 stands for your number of seeds)"
    raise TableError(f"{what}, not runs; judge them as such: {asked}{more}")


def counts_in(frame: pd.DataFrame, n: "int | str", name: str) -> list[int]:
    """Return the number of seeds of each row: one number for all, or those in a column."""
    if isinstance(n, int) or str(n).strip().isdigit():
        return [int(n)] * len(frame)
    if n not in frame.columns:
        there = f"a column of {name} (it has {listed(frame.columns)})"
        raise TableError(f"--n must be a number of seeds, or {there}; got {n!r}")
    numbers = numbers_in(frame[n], str(n)).values
    if numbers.isna().any() or (numbers % 1 != 0).any():
        raise TableError(f"column {n!r} must hold whole numbers of seeds")
    return [int(value) for value in numbers]
