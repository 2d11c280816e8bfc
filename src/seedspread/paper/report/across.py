"""The paper's tables over several settings: dose response, datasets, difficulty, normality."""

from collections.abc import Callable

from seedspread.analysis.comparison import Comparison
from seedspread.analysis.numbers import number, p_value
from seedspread.paper.report.columns import PaperColumns, is_published, name_of, of_paper
from seedspread.paper.report.layers import gradients, rate, rates_across, rates_by_margin
from seedspread.paper.report.scale import TITLES
from seedspread.paper.values import series
from seedspread.render.table import Column, Table
from seedspread.report.material.settings import ReportData, Setting, origins
from seedspread.report.tables.beside import digits


def dose_response(material: ReportData) -> Table | None:
    """Table 6: the variance ratio under both margin schedules."""
    names = {"cifar10": "0.4 → 0.1 (standard)", "cifar10-low": "0.2 → 0.1 (low)"}
    settings = _compared(material, names)
    if len(settings) < 2:
        return None
    both = PaperColumns(material, *settings)
    rows = []
    for s in settings:
        c = s.comparisons[0]
        own = (digits(c.pooled[0].variance, 4), digits(c.pooled[1].variance, 4),
               number(c.pooled_test.ratio), p_value(c.pooled_test.p))  # fmt: skip
        methods = ("first_variance", "second_variance", "ratio", "f_p")
        printed = both.in_table(6, methods, s, "clamp", "subtract")
        rows.append(both.row((names[name_of(s)],), own, printed))
    columns = both.columns(("clamp variance", "subtract variance", "ratio", "F test, p"))
    return Table(
        "dose-response", "Dose response", (Column("schedule"), *columns), tuple(rows), "the paper's Table 6",
        "Ratios of pooled variances and their F tests, as the paper reports them; the ratios that count each "
        "seed once stand with each setting", scale=origins(settings),
    )  # fmt: skip


def _compared(material: ReportData, names: "dict[str, str]") -> list[Setting]:
    return [s for s in (of_paper(material, name) for name in names) if s is not None and s.comparisons]


_PAIRS = {"cifar10": "balanced_pairs", "cifar100": "expected_pairs", "svhn": "expected_pairs",
          "fashion-mnist": "balanced_pairs"}  # fmt: skip
_CLASSES = {"cifar10": 10, "cifar100": 100, "svhn": 10, "fashion-mnist": 10}


def datasets(material: ReportData) -> Table | None:
    """Table 9: every dataset in a line."""
    settings = _compared(material, _PAIRS)
    if len(settings) < 2:
        return None
    both = PaperColumns(material, *settings)
    rows = []
    for s in settings:
        head = (TITLES[name_of(s)], str(_CLASSES[name_of(s)]))
        rows.append(both.row(head, _own_line(material, s), _paper_line(both, s)))
    names = ("positive pairs", "L0 CAR", "clamp accuracy (%)", "ratio (pooled)", "ratio (seeds once)")
    return Table(
        "across-datasets", "Across datasets", (Column("dataset"), Column("classes"), *both.columns(names)),
        tuple(rows), "the paper's Table 9",
        "Positive pairs: ordered, in a batch of two views of each image; the paper counts one view",
        scale=origins(settings),
    )  # fmt: skip


def _own_line(material: ReportData, s: Setting) -> tuple[str, ...]:
    c, profile = s.comparisons[0], None if is_published(material) else rate(s)
    pairs = [r.layers.positive_pairs for r in s.runs if r.layers is not None]
    return (
        f"{sum(pairs) / len(pairs):,.0f}" if pairs else "-",
        f"{profile.mean[0]:.1%}" if profile is not None else "-",
        digits(c.pooled[0].mean, 1),
        number(c.pooled_test.ratio),
        number(c.headline.ratio),
    )


def _paper_line(both: PaperColumns, s: Setting) -> tuple[str, ...]:
    name = name_of(s)
    arms = (f"{name}/clamp", f"{name}/subtract")
    car = "cifar10 standard" if name == "cifar10" else name
    return (
        both.printed(9, ("batch", f"classes/{name}"), _PAIRS[name]),
        "-" if name == "fashion-mnist" else f"{series(f'car/{car}').values[0]:.1f}%",
        both.printed(9, arms, "first_mean"),
        both.printed(9, arms, "ratio"),
        "-",
    )


_LEVELS = {"svhn": "easy", "svhn-medium": "medium", "svhn-hard": "hard"}
_PATTERNS = {"svhn": "inverted", "svhn-medium": "elevated", "svhn-hard": "extreme"}


def sweep(material: ReportData) -> Table | None:
    """Table 15: the SVHN difficulty sweep."""
    settings = _compared(material, _LEVELS)
    if len(settings) < 2:
        return None
    both = PaperColumns(material, *settings)
    rows = []
    for s in settings:
        name, c = name_of(s), s.comparisons[0]
        own = (str(c.pooled[0].n), digits(c.pooled[0].mean, 1), digits(c.pooled[0].variance, 3),
               digits(c.pooled[1].variance, 3), number(c.pooled_test.ratio), _pattern(c),
               *(_failed(c, arm) for arm in ("clamp", "subtract")))  # fmt: skip
        methods = ("first_size", "first_mean", "first_variance", "second_variance", "ratio")
        printed = both.in_table(15, methods, s, "clamp", "subtract")
        rows.append(both.row((_LEVELS[name],), own, (*printed, _PATTERNS[name], "-", "-")))
    names = ("n", "clamp accuracy (%)", "clamp variance", "subtract variance", "ratio", "pattern",
             "clamp seeds failed", "subtract seeds failed")  # fmt: skip
    return Table(
        "svhn-sweep", "SVHN difficulty sweep", (Column("difficulty"), *both.columns(names)), tuple(rows),
        "the paper's Table 15", "Where runs fail to train, a ratio of variances measures how often they fail",
        scale=origins(settings),
    )  # fmt: skip


def _pattern(c: Comparison) -> str:
    """Which way the pooled ratio points; the paper calls 16.73 extreme."""
    return "-" if c.pooled_test.ratio is None else "inverted" if c.pooled_test.ratio < 1 else "elevated"


def _failed(c: Comparison, arm: str) -> str:
    return next((f"{a.failed} of {a.seeds}" for a in c.collapse.arms if a.group == arm), "none")


Maker = Callable[[ReportData], Table | None]
# Number, what is needed, the section of the page, and how it is made.
WHOLE: tuple[tuple[int, str, str, Maker], ...] = (
    (6, "the factorial and the dose response", "layers", dose_response),
    (7, "clamp runs under both margin schedules", "layers", rates_by_margin),
    (8, "runs of both arms on CIFAR-10 with their layers", "layers", lambda m: gradients(m, "cifar10")),
    (9, "two datasets or more", "datasets", datasets),
    (11, "clamp runs on CIFAR-10 and CIFAR-100", "datasets", lambda m: rates_across(m, "cifar100")),
    (12, "runs of both arms on CIFAR-100 with their layers", "datasets", lambda m: gradients(m, "cifar100")),
    (18, "clamp runs on CIFAR-10 and SVHN", "datasets", lambda m: rates_across(m, "svhn")),
    (15, "the SVHN difficulty sweep", "datasets", sweep),
)
