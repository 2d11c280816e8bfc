"""The paper's tables by layer: rates and gradient norms, its own beside."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from seedspread.cff.objective.schedule import layer_margins
from seedspread.paper.report.columns import PaperColumns, is_published, of_paper
from seedspread.paper.report.scale import TITLES, paper_config
from seedspread.paper.values import series
from seedspread.render.table import Column, Table
from seedspread.report.material.layers import Profile
from seedspread.report.material.settings import ReportData, Setting, origins
from seedspread.stats.arms import Floats

_NONE = np.array([])


def rate(s: Setting | None) -> Profile | None:
    """The clamp's own rate by layer, if the setting has it."""
    return s.profiles.get("rate", {}).get("clamp") if s is not None else None


def _margins(*settings: Setting) -> list[list[str]]:
    return [[f"{m:.2f}" for m in layer_margins(s.parameters)] if s.parameters else [] for s in settings]


def _paper_margins(*names: str) -> list[list[str]]:
    return [[f"{m:.2f}" for m in layer_margins(paper_config(name))] for name in names]


def _joined(margins: list[list[str]], layer: int) -> str:
    return " / ".join(m[layer] for m in margins if layer < len(m)) or "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _columns(paper_columns: PaperColumns, measured: Sequence[str], derived: str) -> tuple[Column, ...]:
    """In a report of the paper's own numbers only what is derived stands twice: computed and printed."""
    if paper_columns.judge:
        return (*(Column(name) for name in measured), Column(derived, "computed"), Column(derived, "printed"))
    return paper_columns.columns((*measured, derived))


def _row(
    paper_columns: PaperColumns, head: str, own: Sequence[str], paper: Sequence[str], derived: tuple[str, str]
) -> tuple[str, ...]:
    """`derived` is computed from one's own values, and printed by the paper."""
    if paper_columns.judge:
        return (head, *own, *derived)
    return paper_columns.row((head,), (*own, derived[0]), (*paper, derived[1]))


def rates_by_margin(material: ReportData) -> Table | None:
    """Table 7: the clamp activation rate by layer under both schedules."""
    standard, low = of_paper(material, "cifar10"), of_paper(material, "cifar10-low")
    first, second = rate(standard), rate(low)
    if standard is None or low is None or first is None or second is None:
        return None
    paper_columns = PaperColumns(material, standard, low)
    names = ("car/cifar10 standard", "car/cifar10 low")
    paper = [series(name).values / 100 for name in names] if not is_published(material) else [_NONE, _NONE]
    margins, paper_margins = _margins(standard, low), _paper_margins("cifar10", "cifar10-low")
    rows = []
    for layer, (a, b, x, y) in enumerate(zip_longest(first.mean, second.mean, *paper)):
        own = (_joined(margins, layer), _percent(a), _percent(b))
        printed = (_joined(paper_margins, layer), _percent(x), _percent(y))
        cut = "-" if a is None or b is None or a == 0 else f"{1 - b / a:.1%}"
        stated = _unit(paper_columns.printed(7, names, f"reduction {layer}"), "%")
        rows.append(_row(paper_columns, str(layer), own, printed, (cut, stated)))
    columns = (
        Column("layer"),
        *_columns(paper_columns, ("margin (std / low)", "CAR (std)", "CAR (low)"), "reduction"),
    )
    return Table(
        "rates-by-margin", "Clamp activation rate (CAR) by layer and margin: CIFAR-10", columns,
        tuple(rows), "the paper's Table 7",
        "Clamp runs with their final weights, mean over seeds" + _depths(standard),
        scale=origins([standard, low]),
    )  # fmt: skip


def _unit(text: str, unit: str) -> str:
    """A printed number with its unit, before the mark of one that does not follow; a dash stays one."""
    if text == "-":
        return text
    number, space, mark = text.partition(" ")
    return f"{number}{unit}{space}{mark}"


def _depths(s: Setting) -> str:
    if s.parameters is None or s.parameters.model.depth == 8:
        return ""
    depth = s.parameters.model.depth
    return f"; these models have {depth} layers, the paper's 8, so that layers do not correspond"


def gradients(material: ReportData, name: str) -> Table | None:
    """Tables 8 (CIFAR-10) and 12 (CIFAR-100): gradient norms by layer."""
    s = of_paper(material, name)
    profiles = s.profiles.get("gradient", {}) if s is not None else {}
    if s is None or not {"clamp", "subtract"} <= set(profiles):
        return None
    clamp, subtract = profiles["clamp"], profiles["subtract"]
    paper_columns = PaperColumns(material, s)
    flipped = name == "cifar100"  # the paper turns the ratio round there
    ratio_of = ("clamp", "subtract") if flipped else ("subtract", "clamp")
    paper = [_stated(name, arm) for arm in ("clamp", "subtract")] if not is_published(material) else [[], []]
    margins, paper_margins = _margins(s), _paper_margins(name)
    rows = []
    for layer in range(max(len(clamp.mean), len(paper[0]))):
        ratio = _quotient(profiles[ratio_of[0]].mean, profiles[ratio_of[1]].mean, layer)
        own = (_joined(margins, layer), _with_sd(clamp, layer), _with_sd(subtract, layer))
        printed = (_joined(paper_margins, layer), *(p[layer] if layer < len(p) else "-" for p in paper))
        stated = paper_columns.printed(
            12 if flipped else 8, [f"gradient/{name} {arm}" for arm in ratio_of], f"quotient {layer}"
        )
        derived = (ratio, _unit(stated, "×"))
        rows.append(_row(paper_columns, f"L{layer}", own, printed, derived))
    heading = f"ratio ({ratio_of[0]} / {ratio_of[1]})"
    note = "One batch with the final weights, mean ± sd over seeds"
    if flipped:
        note += "; the paper has a single seed here, and turns the ratio round"
    return Table(
        f"gradients-{name}", f"Gradient norms by layer: {TITLES[name]}",
        (Column("layer"), *_columns(paper_columns, ("margin", "clamp", "subtract"), heading)), tuple(rows),
        f"the paper's Table {12 if flipped else 8}", note + _depths(s), scale=s.origin,
    )  # fmt: skip


def _stated(name: str, arm: str) -> list[str]:
    mean, sd = (series(f"{part}/{name} {arm}").values for part in ("gradient", "gradient_sd"))
    return [f"{m:.3f} ± {d:.3f}" for m, d in zip(mean, sd, strict=True)]


def _with_sd(p: Profile, layer: int) -> str:
    if layer >= len(p.mean):
        return "-"
    return f"{p.mean[layer]:.3f}" + ("" if p.sd is None else f" ± {p.sd[layer]:.3f}")


def _quotient(a: Floats, b: Floats, layer: int) -> str:
    if layer >= min(len(a), len(b)) or b[layer] == 0:
        return "-"
    return f"{a[layer] / b[layer]:.2f}×"


def rates_across(material: ReportData, name: str) -> Table | None:
    """Tables 11 (CIFAR-100) and 18 (SVHN): the rate by layer beside CIFAR-10's."""
    base, other = of_paper(material, "cifar10"), of_paper(material, name)
    first, second = rate(base), rate(other)
    if base is None or other is None or first is None or second is None:
        return None
    number = {"cifar100": 11, "svhn": 18}[name]
    paper_columns = PaperColumns(material, base, other)
    names = (f"car/{name}", "car/cifar10 standard")
    published = [series(n).values / 100 for n in reversed(names)]
    paper = (
        [_NONE, _NONE] if is_published(material) else [values[: len(published[1])] for values in published]
    )
    rows = []
    for layer, (a, b, x, y) in enumerate(zip_longest(first.mean, second.mean, *paper)):
        if b is None and y is None:
            continue  # SVHN is printed to layer 3 only
        derived = (_points(a, b), _signed(paper_columns.printed(number, names, f"difference {layer}")))
        own, printed = (_percent(a), _percent(b)), (_percent(x), _percent(y))
        rows.append(_row(paper_columns, str(layer), own, printed, derived))
    rows.append(_mean_row(paper_columns, name, number, first, second))
    titles = (f"CAR ({TITLES['cifar10']})", f"CAR ({TITLES[name]})")
    columns = (Column("layer"), *_columns(paper_columns, titles, "difference"))
    return Table(
        f"rates-{name}", f"Clamp activation rate (CAR): CIFAR-10 against {TITLES[name]}", columns,
        tuple(rows), f"the paper's Table {number}",
        "Clamp runs, standard margins, mean over seeds" + _depths(other),
        scale=origins([base, other]),
    )  # fmt: skip


def _mean_row(
    paper_columns: PaperColumns, name: str, number: int, first: Profile, second: Profile
) -> tuple[str, ...]:
    stated = [f"{series(f'stated/mean car {n}').values[0]:.1f}%" for n in ("cifar10", name)]
    difference = paper_columns.printed(number, (f"car/{name}", "car/cifar10 standard"), "difference_of_means")
    if difference == "-":
        difference = paper_columns.printed(
            number, (f"stated/mean car {name}", "stated/mean car cifar10"), "difference_of_means"
        )
    if paper_columns.judge:  # the paper publishes four of SVHN's eight layers: its mean can only be quoted
        return ("mean, all layers", *stated, "-", _signed(difference))
    a, b = float(first.mean.mean()), float(second.mean.mean())
    own = (_percent(a), _percent(b))
    return _row(paper_columns, "mean, all layers", own, stated, (_points(a, b), _signed(difference)))


def _points(a: float | None, b: float | None) -> str:
    return "-" if a is None or b is None else f"{100 * (b - a):+.1f} pp"


def _signed(text: str) -> str:
    return _unit(text if text.startswith("-") else f"+{text}", " pp")
