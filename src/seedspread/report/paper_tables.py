"""The paper's tables, in its form, from any setting; the paper's value stands beside wherever it has one."""

from collections.abc import Callable, Sequence

from seedspread.objective.schedule import layer_margins
from seedspread.published.printed import printed
from seedspread.published.values import series
from seedspread.report.layers import Profile
from seedspread.report.material import Material, Setting, origins
from seedspread.report.scale import TITLES
from seedspread.report.table import Column, Table
from seedspread.stats.result import Comparison, Summary
from seedspread.stats.verdict import number, p_value

# The paper's number of each kind of table, by setting.
POOLED = {"cifar10": 5, "cifar100": 10, "svhn": 13, "fashion-mnist": 14}
PER_SEED = {
    "cifar10": 16, "cifar10-low": 17, "cifar100": 19, "svhn": 20, "fashion-mnist": 21, "svhn-medium": 22,
    "svhn-hard": 22,
}  # fmt: skip


def digits(value: float | None, places: int) -> str:
    """A number as the paper prints it; a dash where there is none."""
    return "-" if value is None else f"{value:.{places}f}"


class Beside:
    """The paper's values for one setting."""

    def __init__(self, material: Material, setting: Setting) -> None:
        self._judge, self._setting = material.is_published, setting
        self.is_known = setting.is_the_papers
        self.group = "printed" if material.is_published else setting.scale.mark
        self.here = "computed" if material.is_published else "these runs"

    def value(self, table: int | None, method: str, *arms: str) -> str:
        """What the paper prints of these arms (`clamp`, `clamp/detach`); a dash if nothing."""
        if not self.is_known or table is None:
            return "-"
        on = tuple(f"{self._setting.paper}/{arm}" for arm in arms)
        return printed(table, on, method, judge=self._judge) or "-"

    def columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The headings of both groups; the paper's only where it has the setting."""
        here = tuple(Column(name, self.here if self.is_known else "") for name in names)
        return here + tuple(Column(name, self.group) for name in names) if self.is_known else here

    def row(self, head: Sequence[str], own: Sequence[str], paper: Sequence[str]) -> tuple[str, ...]:
        """A row under those headings."""
        return (*head, *own, *(paper if self.is_known else ()))


def factorial(material: Material, s: Setting) -> Table | None:
    """Table 3: mean, sd and variance of every cell."""
    if not s.comparisons or len({c.block for c in _cells(s)}) < 2:
        return None
    beside = Beside(material, s)
    number_ = 3 if s.paper == "cifar10" and s.is_the_papers else None
    rows = [
        beside.row(
            (c.group, c.block, str(c.n)),
            (digits(c.mean, 2), digits(c.sd, 3), digits(c.variance, 4)),
            [beside.value(number_, m, f"{c.group}/{c.block}") for m in ("mean", "sd", "variance")],
        )
        for c in _cells(s)
    ]
    head = (Column(s.group), Column(s.block), Column("n"))
    columns = head + beside.columns(("mean (%)", "sd (%)", "variance"))
    return Table(f"{s.id}-factorial", f"Every cell: {s.title}", columns, tuple(rows), number_, scale=s.origin)


def _cells(s: Setting) -> list[Summary]:
    """Arms in order, the reference's once."""
    found = {(c.group, c.block): c for comparison in s.comparisons for c in comparison.cells}
    return sorted(found.values(), key=lambda c: (s.arms.index(c.group), c.block))


def variance_tests(material: Material, s: Setting) -> Table | None:
    """Table 4: the two-way analyses of absolute deviations."""
    rows = []
    beside = Beside(material, s)
    number_ = 4 if s.paper == "cifar10" and s.is_the_papers else None
    four = [f"{arm}/{block}" for arm in s.arms for block in ("detach", "direct")]
    for c in s.comparisons:
        keys = {t.key for t in c.tests}
        for name, centre in (("Levene", "mean"), ("Brown-Forsythe", "median")):
            effects = [f"two_way_{centre}_{e}" for e in ("group", "block", "interaction")]
            if effects[0] not in keys:
                continue
            printed_ = [
                beside.value(number_, f"two_way_{centre}s_{e}", *four)
                for e in ("margin", "stability", "interaction")
            ]
            head = (name if len(s.comparisons) == 1 else f"{c.group}: {name}",)
            rows.append(beside.row(head, [p_value(c.test(e).p) for e in effects], printed_))
    if not rows:
        return None
    columns = (Column("test"), *beside.columns((f"{s.group}, p", f"{s.block}, p", "interaction, p")))
    note = "Two-way analysis of absolute deviations, every run counted as independent"
    if number_:
        note += ". The paper's printed p values are one-way tests, though its text describes these"
    return Table(
        f"{s.id}-variance-tests",
        f"Variance tests: {s.title}",
        columns,
        tuple(rows),
        number_,
        note,
        scale=s.origin,
    )


def pooled(material: Material, s: Setting) -> Table | None:
    """Tables 5, 10, 13 and 14: each arm over all blocks."""
    if not s.comparisons:
        return None
    beside = Beside(material, s)
    number_ = POOLED.get(str(s.paper)) if s.is_the_papers else None
    found = {summary.group: summary for c in s.comparisons for summary in c.pooled}
    rows = [
        beside.row(
            (arm, str(found[arm].n)),
            (digits(found[arm].mean, 2), digits(found[arm].sd, 3), digits(found[arm].variance, 4)),
            [beside.value(number_, m, arm) for m in ("mean", "sd", "variance")],
        )
        for arm in s.arms
        if arm in found
    ]
    columns = (Column(s.group), Column("n"), *beside.columns(("mean (%)", "sd (%)", "variance")))
    note = ""
    if len(s.blocks) > 1:
        note = f"Runs of both {s.block} modes together, as the paper pools them: n counts runs, not seeds"
    return Table(
        f"{s.id}-pooled", f"Each arm: {s.title}", columns, tuple(rows), number_, note, scale=s.origin
    )


def per_seed(material: Material, s: Setting) -> Table | None:
    """Tables 16, 17 and 19 to 22: every run; the paper's rows beneath one's own."""
    if not s.runs:
        return None
    seeds = sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x))
    rows: list[tuple[str, ...]] = []
    muted = set()
    paper = _published_runs(s) if s.is_the_papers and not material.is_published else {}
    for arm in s.arms:
        for block in s.blocks:
            runs = {r.seed: r for r in s.of(arm, block)}
            if not runs:
                continue
            name = ", ".join(part for part in (arm, block) if part)
            rows.append((name, *(_marked(runs[x]) if x in runs else "-" for x in seeds)))
            beside = paper.get((arm, block)) or (paper.get((arm, "")) if not block else None)
            if beside:
                muted.add(len(rows))
                rows.append((f"{name}: {s.scale.mark}", *(beside.get(x, "-") for x in seeds)))
    number_ = PER_SEED.get(str(s.paper)) if s.is_the_papers else None
    columns = (Column("condition"), *(Column(f"S{x}" if x.isdigit() else x) for x in seeds))
    collapsed = "† collapsed: no better than the largest class" if any(r.collapsed for r in s.runs) else ""
    title = f"Every run, {s.value}: {s.title}"
    return Table(
        f"{s.id}-per-seed", title, columns, tuple(rows), number_, collapsed, frozenset(muted), s.origin
    )


def _marked(run: object) -> str:
    value, collapsed = getattr(run, "value", 0.0), getattr(run, "collapsed", False)
    return f"{value:.2f}{' †' if collapsed else ''}"


def _published_runs(s: Setting) -> dict[tuple[str, str], dict[str, str]]:
    from seedspread.published.values import per_seed as published  # noqa: PLC0415 - the same word twice

    out: dict[tuple[str, str], dict[str, str]] = {}
    for row in published():
        if row["setting"] == s.paper:
            for block in (
                (row["stability"], "") if row["stability"] in ("", s.blocks[0]) else (row["stability"],)
            ):
                out.setdefault((row["margin_type"], block), {})[row["seed"]] = row["accuracy"]
    return out


def dose_response(material: Material) -> Table | None:
    """Table 6: the variance ratio under both margin schedules."""
    rows = []
    chosen = [material.paper("cifar10"), material.paper("cifar10-low")]
    if any(s is None or not s.comparisons for s in chosen):
        return None
    for s, name in zip(chosen, ("0.4 → 0.1 (standard)", "0.2 → 0.1 (low)"), strict=True):
        if s is None:
            continue
        c, beside = s.comparisons[0], Beside(material, s)
        own = (digits(c.pooled[0].variance, 4), digits(c.pooled[1].variance, 4),
               number(c.paper.ratio), p_value(c.paper.p))  # fmt: skip
        names = ("first_variance", "second_variance", "ratio", "f_p")
        rows.append(beside.row((name,), own, [beside.value(6, m, "clamp", "subtract") for m in names]))
    first = chosen[0]
    if first is None:
        return None
    columns = (Column("schedule"), *Beside(material, first).columns(
        ("clamp variance", "subtract variance", "ratio", "F test, p")))  # fmt: skip
    return Table(
        "dose-response", "Dose response", columns, tuple(rows), 6,
        "Ratios of pooled variances and their F tests, as the paper reports them; the seed-unit figures "
        "stand with each setting", scale=first.origin,
    )  # fmt: skip


def rates_by_margin(material: Material) -> Table | None:
    """Table 7: the clamp activation rate by layer under both schedules."""
    standard, low = material.paper("cifar10"), material.paper("cifar10-low")
    pair = [_rate(standard), _rate(low)]
    if standard is None or low is None or pair[0] is None or pair[1] is None:
        return None
    margins = [layer_margins(s.config) for s in (standard, low) if s.config is not None]
    paper = [series(f"car/cifar10 {name}").values for name in ("standard", "low")]
    beside = Beside(material, standard)
    rows = []
    for layer, (a, b) in enumerate(zip(pair[0].mean, pair[1].mean, strict=False)):
        own = (_percent(a), _percent(b), _reduction(a, b))
        theirs = ("-", "-", "-")
        if layer < len(paper[0]):
            x, y = paper[0][layer], paper[1][layer]
            theirs = (f"{x:.1f}%", f"{y:.1f}%", _reduction(x, y))
        margin = " / ".join(f"{m[layer]:.2f}" for m in margins)
        rows.append(beside.row((str(layer), margin), own, theirs if not material.is_published else ()))
    columns = (Column("layer"), Column("margin (std / low)"), *_columns(
        material, beside, ("CAR (std)", "CAR (low)", "reduction")))  # fmt: skip
    return Table(
        "rates-by-margin", "Clamp activation rate by layer and margin: CIFAR-10", columns, tuple(rows), 7,
        "Clamp runs, final weights, mean over runs", scale=standard.origin,
    )  # fmt: skip


def _columns(material: Material, beside: Beside, names: Sequence[str]) -> tuple[Column, ...]:
    """In the paper's own report measured values are not shown twice."""
    return tuple(Column(n) for n in names) if material.is_published else beside.columns(names)


def _rate(s: Setting | None) -> Profile | None:
    return s.profiles.get("rate", {}).get("clamp") if s is not None else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _reduction(a: float, b: float) -> str:
    return f"{100 * (1 - b / a):.1f}%" if a else "-"


def gradients(material: Material, name: str) -> Table | None:
    """Tables 8 (CIFAR-10) and 12 (CIFAR-100): gradient norms by layer."""
    s = material.paper(name)
    found = s.profiles.get("gradient", {}) if s is not None else {}
    if s is None or not {"clamp", "subtract"} <= set(found):
        return None
    clamp, subtract = found["clamp"], found["subtract"]
    beside = Beside(material, s)
    flipped = name == "cifar100"  # the paper turns the ratio round there
    paper = [series(f"{part}/{name} {arm}").values
             for arm in ("clamp", "subtract") for part in ("gradient", "gradient_sd")]  # fmt: skip
    rows = []
    for layer in range(len(clamp.mean)):
        own = (_with_sd(clamp, layer), _with_sd(subtract, layer),
               _ratio(clamp.mean[layer], subtract.mean[layer], flipped))  # fmt: skip
        theirs = ("-", "-", "-")
        if layer < len(paper[0]):
            a, a_sd, b, b_sd = (values[layer] for values in paper)
            theirs = (f"{a:.3f} ± {a_sd:.3f}", f"{b:.3f} ± {b_sd:.3f}", _ratio(a, b, flipped))
        rows.append(beside.row((f"L{layer}",), own, () if material.is_published else theirs))
    heading = "ratio (clamp / subtract)" if flipped else "ratio (subtract / clamp)"
    columns = (Column("layer"), *_columns(material, beside, ("clamp", "subtract", heading)))
    return Table(
        f"gradients-{name}", f"Gradient norms by layer: {TITLES[name]}", columns, tuple(rows),
        12 if flipped else 8, "One batch with the final weights, mean ± sd over runs", scale=s.origin,
    )  # fmt: skip


def _with_sd(p: Profile, layer: int) -> str:
    return f"{p.mean[layer]:.3f}" + ("" if p.sd is None else f" ± {p.sd[layer]:.3f}")


def _ratio(clamp: float, subtract: float, flipped: bool) -> str:
    a, b = (clamp, subtract) if flipped else (subtract, clamp)
    return f"{a / b:.2f}×" if b else "-"


def rates_across(material: Material, name: str) -> Table | None:
    """Tables 11 (CIFAR-100) and 18 (SVHN): the rate by layer beside CIFAR-10's."""
    base, other = material.paper("cifar10"), material.paper(name)
    pair = (_rate(base), _rate(other))
    if base is None or other is None or pair[0] is None or pair[1] is None:
        return None
    beside = Beside(material, other)
    paper = [series("car/cifar10 standard").values, series(f"car/{name}").values]
    rows = []
    for layer, (a, b) in enumerate(zip(pair[0].mean, pair[1].mean, strict=False)):
        theirs = ("-", "-", "-")
        if layer < min(map(len, paper)):
            x, y = paper[0][layer], paper[1][layer]
            theirs = (f"{x:.1f}%", f"{y:.1f}%", f"{y - x:+.1f} pp")
        own = (_percent(a), _percent(b), f"{100 * (b - a):+.1f} pp")
        rows.append(beside.row((str(layer),), own, () if material.is_published else theirs))
    if not material.is_published:
        means = pair[0].mean.mean(), pair[1].mean.mean()
        own = (_percent(means[0]), _percent(means[1]), f"{100 * (means[1] - means[0]):+.1f} pp")
        stated = [float(series(f"stated/mean car {n}").values[0]) for n in ("cifar10", name)]
        theirs = (f"{stated[0]:.1f}%", f"{stated[1]:.1f}%", f"{stated[1] - stated[0]:+.1f} pp")
        rows.append(beside.row(("mean",), own, theirs))
    titles = (f"CAR ({TITLES['cifar10']})", f"CAR ({TITLES[name]})", "difference")
    columns = (Column("layer"), *_columns(material, beside, titles))
    return Table(
        f"rates-{name}", f"Clamp activation rate: CIFAR-10 against {TITLES[name]}", columns, tuple(rows),
        {"cifar100": 11, "svhn": 18}[name], "Clamp runs, standard margins", scale=other.origin,
    )  # fmt: skip


_PAIRS = {"cifar10": "balanced_pairs", "cifar100": "expected_pairs", "svhn": "expected_pairs",
          "fashion-mnist": "balanced_pairs"}  # fmt: skip
_CLASSES = {"cifar10": 10, "cifar100": 100, "svhn": 10, "fashion-mnist": 10}


def summary(material: Material) -> Table | None:
    """Table 9: every dataset in a line."""
    found = [s for s in (material.paper(name) for name in _PAIRS) if s is not None and s.comparisons]
    if len(found) < 2:
        return None
    beside = Beside(material, found[0])
    rows = []
    for s in found:
        name, c, rate = str(s.paper), s.comparisons[0], _rate(s)
        pairs = [r.layers.positive_pairs for r in s.runs if r.layers is not None]
        own = (
            f"{sum(pairs) / len(pairs):,.0f}" if pairs else "-",
            _percent(rate.mean[0]) if rate is not None else "-",
            digits(c.pooled[0].mean, 1),
            number(c.paper.ratio),
            number(c.headline.ratio),
        )
        theirs = (
            printed(9, ("batch", f"classes/{name}"), _PAIRS[name], judge=material.is_published),
            f"{series(f'car/{_car(name)}').values[0]:.1f}%" if name != "fashion-mnist" else "-",
            *(printed(9, (f"{name}/clamp", f"{name}/subtract"), m, judge=material.is_published)
              for m in ("first_mean", "ratio")),
            "-",
        )  # fmt: skip
        rows.append(beside.row((TITLES[name], str(_CLASSES[name])), own, theirs))
    names = ("positive pairs", "L0 CAR", "clamp accuracy (%)", "ratio (pooled)", "ratio (seed as unit)")
    columns = (Column("dataset"), Column("classes"), *beside.columns(names))
    return Table(
        "across-datasets", "Across datasets", columns, tuple(rows), 9,
        "Positive pairs: ordered, in a batch of two views of each image; the paper counts one view",
        scale=origins(found),
    )  # fmt: skip


def _car(name: str) -> str:
    return "cifar10 standard" if name == "cifar10" else name


def sweep(material: Material) -> Table | None:
    """Table 15: the SVHN difficulty sweep."""
    names = {"svhn": "easy", "svhn-medium": "medium", "svhn-hard": "hard"}
    found = [
        (s, level) for n, level in names.items() if (s := material.paper(n)) is not None and s.comparisons
    ]
    if len(found) < 2:
        return None
    beside = Beside(material, found[0][0])
    rows = []
    for s, level in found:
        c = s.comparisons[0]
        own = (str(c.pooled[0].n), digits(c.pooled[0].mean, 1), digits(c.pooled[0].variance, 3),
               digits(c.pooled[1].variance, 3), number(c.paper.ratio), _failed(c))  # fmt: skip
        methods = ("first_mean", "first_variance", "second_variance", "ratio")
        theirs = ["5", *(Beside(material, s).value(15, m, "clamp", "subtract") for m in methods), "-"]
        rows.append(beside.row((level,), own, theirs))
    names_ = ("n", "clamp accuracy (%)", "clamp variance", "subtract variance", "ratio", "failed seeds")
    columns = (Column("difficulty"), *beside.columns(names_))
    return Table(
        "svhn-sweep", "SVHN difficulty sweep", columns, tuple(rows), 15,
        "Where runs fail to train, a ratio of variances measures how often they fail",
        scale=found[0][0].origin,
    )  # fmt: skip


def _failed(c: Comparison) -> str:
    return (
        ", ".join(f"{a.failed}/{a.seeds} {a.group}" for a in c.collapse.arms) if c.collapse.found else "none"
    )


def normality(material: Material) -> Table | None:
    """Table 23: Shapiro-Wilk of each arm, over all settings."""
    rows = []
    known = [s for s in material.settings if s.comparisons]
    for s in known:
        beside = Beside(material, s)
        tests = {
            t.key.removeprefix("shapiro_"): t for c in s.comparisons for t in c.tests if t.about == "shape"
        }
        sizes = {x.group: x.n for c in s.comparisons for x in c.pooled}
        for arm in s.arms:
            if arm in tests:
                t = tests[arm]
                theirs = [beside.value(23, m, arm) for m in ("shapiro_w", "shapiro_p")]
                rows.append(
                    (f"{arm}: {s.title}", str(sizes[arm]), digits(t.statistic, 4), p_value(t.p), *theirs)
                )
    if not rows:
        return None
    here, paper = ("computed", "printed") if material.is_published else ("these runs", "paper")
    columns = (
        Column("group"),
        Column("n"),
        Column("W", here),
        Column("p", here),
        Column("W", paper),
        Column("p", paper),
    )
    return Table("normality", "Normality of each arm (Shapiro-Wilk)", columns, tuple(rows), 23,
                 "Runs of an arm over all blocks")  # fmt: skip


Maker = Callable[[Material], Table | None]
# The tables that need several settings, or one of the paper's: number, what is needed, and how they are made.
WHOLE: tuple[tuple[int, str, Maker], ...] = (
    (6, "the factorial and the dose response", dose_response),
    (7, "clamp runs under both margin schedules", rates_by_margin),
    (8, "runs of both arms on CIFAR-10 with their layers", lambda m: gradients(m, "cifar10")),
    (9, "two datasets or more", summary),
    (11, "clamp runs on CIFAR-10 and CIFAR-100", lambda m: rates_across(m, "cifar100")),
    (12, "runs of both arms on CIFAR-100 with their layers", lambda m: gradients(m, "cifar100")),
    (15, "the SVHN difficulty sweep", sweep),
    (18, "clamp runs on CIFAR-10 and SVHN", lambda m: rates_across(m, "svhn")),
    (23, "an audit", normality),
)
