"""A paper's first two tables: mean ± sd of every method by dataset or cell, and the ratios of variances."""

from collections.abc import Sequence

import numpy as np

from seedspread.analysis.compare import summarise
from seedspread.analysis.comparison import Comparison
from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.overview import mean_and_sd
from seedspread.render.table import Column, Table
from seedspread.report.material.settings import ReportData, Run, Setting, origins

# Settings that stand side by side; of more, each is a row.
_MOST_COLUMNS = 6

# For each setting or cell its name and the runs of every arm.
_Cells = list[tuple[str, list[list[Run]]]]


def means_tables(material: ReportData) -> list[Table]:
    """One for each question: methods by settings; of one setting, methods by its cells.

    Nothing is marked as best: which means differ is for the tests to say.
    """
    questions: dict[tuple[str, str, str], list[Setting]] = {}
    for s in material.settings:
        if s.runs:
            questions.setdefault((s.value, s.group, s.block), []).append(s)
    return [_table(settings, number) for number, settings in enumerate(questions.values(), 1)]


def _table(settings: Sequence[Setting], number: int) -> Table:
    s = settings[0]
    arms = list(dict.fromkeys(arm for s in settings for arm in s.arms))
    cells = _by_block(s, arms) if len(settings) == 1 else _by_setting(settings, arms)
    if len(cells) > max(_MOST_COLUMNS, len(arms)):
        heads = [s.block if len(settings) == 1 else "setting", *map(s.arm_title, arms)]
        rows = [(name, *map(_mean, by_arm)) for name, by_arm in cells]
    else:
        heads = [s.group or "condition", *(name for name, _ in cells)]
        rows = [(s.arm_title(arm), *(_mean(by_arm[i]) for _, by_arm in cells)) for i, arm in enumerate(arms)]
    return Table(
        "means" if number == 1 else f"means-{number}", f"{s.value}, mean ± sd over runs",
        tuple(map(Column, heads)), tuple(rows), note=_note(settings, cells), scale=origins(list(settings)),
    )  # fmt: skip


def _by_setting(settings: Sequence[Setting], arms: list[str]) -> _Cells:
    return [(s.name, [s.of(arm) for arm in arms]) for s in settings]


def _by_block(s: Setting, arms: list[str]) -> _Cells:
    return [(s.block_title(block) or s.value, [s.of(arm, block) for arm in arms]) for block in s.blocks]


def _mean(runs: Sequence[Run]) -> str:
    if not runs:
        return "-"
    found = mean_and_sd(summarise("", "", np.array([r.value for r in runs])))
    return f"{found} †" if any(r.collapsed for r in runs) else found


def _note(settings: Sequence[Setting], cells: _Cells) -> str:
    """What a mean is of."""
    s, counts = settings[0], sorted({len(runs) for _, by_arm in cells for runs in by_arm if runs})
    runs = " to ".join(dict.fromkeys(f"{n}" for n in (counts[0], counts[-1])))
    pooled = len(settings) > 1 and any(len(s.blocks) > 1 for s in settings)
    over = f", all levels of {s.block} together" if pooled else ""
    note = f"{runs} runs per mean{over}; {s.metric.better} is better"
    failed = any(r.collapsed for s in settings for r in s.runs)
    note += ". † with runs that failed to train" if failed else ""
    crashed = sum(len(s.crashed) for s in settings)
    runs = "1 run is" if crashed == 1 else f"{crashed} runs are"
    return f"{note}. {runs} in no mean: ended with an error" if crashed else note


def _difference(c: Comparison) -> str:
    if c.collapse.found:
        return "runs fail" if c.collapse.failed else "two clusters"
    return c.word or "not tested"


def ratios_table(material: ReportData) -> Table | None:
    """Every comparison in a line."""
    pairs = [(s, c) for s in material.settings for c in s.comparisons]
    if not pairs:
        return None
    one = len({s.id for s, _ in pairs}) == 1  # a column of one name says nothing
    rows = tuple(
        (*(() if one else (s.name,)), f"{c.arm_name} / {c.baseline_name}",
         " and ".join(dict.fromkeys(map(str, c.seeds))), number(c.headline.ratio),
         between(c.headline.shown_interval), p_value(c.p_holm), _difference(c))
        for s, c in pairs
    )  # fmt: skip
    several = len(pairs) > 1
    level = next((s.audit.level for s, _ in pairs if s.audit is not None), 0.95)
    heads = ["variances", "seeds", "ratio", f"{level:.0%} interval", "p", "difference"]
    heads = heads if one else ["setting", *heads]
    note = "Each seed counted once" + (
        "; p and interval adjusted (Holm) where several are judged together" if several else ""
    )
    if any(c.headline.looks for _, c in pairs):
        note += "; where a study was looked at while it grew, p and interval count the looks"
    return Table(
        "ratios", "Ratios of variances over seeds", tuple(map(Column, heads)), rows, note=note,
        scale=origins([s for s, _ in pairs]),
    )  # fmt: skip
