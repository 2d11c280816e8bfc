"""The audit of whole tables: what it says, in which forms, and what it makes of odd input."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from seedspread import audit, components
from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.analysis.charts import NO_RATIO, Dots, Line, audit_chart, group_marks, lines_panel
from seedspread.analysis.words import asides, seed_counts
from seedspread.paper.values import published_table
from seedspread.render.chart import BEYOND, PlotError
from seedspread.stats.headline import MODEL
from seedspread.stats.result import Interval
from seedspread.tables.question import TableError


def paper(setting: str = "cifar10", **options: object) -> AuditResult:
    table = published_table()
    rows = table[table["setting"] == setting]
    return audit(rows, "accuracy", "margin_type", "subtract", "stability", **options)  # type: ignore[arg-type]


def table(values: dict[str, list[float]]) -> pd.DataFrame:
    rows = [(g, seed, v) for g, vs in values.items() for seed, v in enumerate(vs)]
    return pd.DataFrame(rows, columns=["group", "seed", "value"])


def two(x: list[float], y: list[float], **options: object) -> AuditResult:
    return audit(table({"new": x, "old": y}), "value", "group", "old", **options)  # type: ignore[arg-type]


def test_the_papers_table_gets_the_seed_as_unit_and_the_papers_figure_beside_it() -> None:
    c = paper().comparisons[0]
    assert c.pooled_test.ratio == pytest.approx(5.90, abs=0.005)
    assert c.pooled_test.p == pytest.approx(0.003, abs=0.0005)
    # Cell variances (0.859 + 1.341) / (0.218 + 0.050), from Table 3.
    assert c.headline.raw_ratio == pytest.approx((0.8590 + 1.3408) / (0.2178 + 0.0500), rel=1e-3)
    assert c.headline.p is not None
    assert 0.003 < c.headline.p < 0.07  # between F, which takes normal values, and the jackknife
    assert c.headline.pairs == 7
    assert c.same_seed_runs[0].correlation == pytest.approx(0.81, abs=0.005)
    assert c.means is not None
    assert c.means.interval is not None
    assert 0 in c.means.interval  # neither is better on average


def test_every_test_says_why_and_what_it_assumes() -> None:
    for setting in ("cifar10", "svhn-hard"):
        for test in paper(setting).comparisons[0].tests:
            assert test.why
            assert test.assumes
            assert test.p is not None or test.interval is not None or test.note


def test_the_order_of_rows_does_not_matter() -> None:
    rows = published_table()
    rows = rows[rows["setting"] == "cifar100"]
    mixed = rows.sample(frac=1, random_state=3)
    one, other = (
        audit(r, "accuracy", "margin_type", "subtract", "stability").comparisons[0] for r in (rows, mixed)
    )
    assert one.headline.p == pytest.approx(other.headline.p)
    assert one.test("pitman_morgan").p == pytest.approx(other.test("pitman_morgan").p)


def test_datasets_are_adjusted_together_and_stand_in_a_forest() -> None:
    rows = published_table()
    rows = rows[rows["setting"].isin(["cifar10", "svhn", "fashion-mnist"])]
    result = audit(rows, "accuracy", "margin_type", "subtract", "stability", by="setting")
    assert [c.stratum for c in result.comparisons] == [("cifar10",), ("svhn",), ("fashion-mnist",)]
    p = sorted(c.headline.p or 1 for c in result.comparisons)
    assert min(c.p_adjusted or 1 for c in result.comparisons) == pytest.approx(3 * p[0])
    (average,) = result.averages
    assert average.df == 2
    assert "Average over 3 settings" in result.to_text()


def test_three_groups_are_each_compared_with_the_baseline() -> None:
    rng = np.random.default_rng(0)
    rows = table({g: list(rng.normal(size=8)) for g in ("a", "b", "ref")})
    result = audit(rows, "value", "group", "ref")
    assert [(c.group, c.baseline) for c in result.comparisons] == [("a", "ref"), ("b", "ref")]


def test_identical_twins_are_called_one_run() -> None:
    rng = np.random.default_rng(1)
    rows = table({"new": list(rng.normal(size=6)), "old": list(rng.normal(size=6))})
    twice = pd.concat([rows.assign(mode="x"), rows.assign(mode="y")])
    c = audit(twice, "value", "group", "old", "mode").comparisons[0]
    once = audit(rows, "value", "group", "old").comparisons[0]
    assert [(t.identical, t.seeds) for t in c.same_seed_runs] == [(6, 6), (6, 6)]
    assert "6 of 6" in c.warnings[0]
    assert c.headline.p == pytest.approx(once.headline.p)
    assert c.test("f").p < once.test("f").p  # type: ignore[operator]
    assert c.test("f").assumptions_met is False


def test_a_collapsed_arm_is_asked_how_often_it_fails() -> None:
    c = paper("svhn-hard").comparisons[0]
    assert c.failures is not None
    assert (c.failures.kind, c.failures.failed, c.failures.seeds) == ("clusters", (3, 0), (5, 5))


def test_a_single_run_counts_for_the_means_only() -> None:
    c = two([1.0], [1.0, 2.0, 3.0]).comparisons[0]
    assert c.headline.ratio is None
    assert c.test("seed_means").estimate == pytest.approx(-1.0)


def test_without_spread_there_is_no_word() -> None:
    for x, y in (([1.0, 2, 3], [5.0, 5, 5]), ([2.0, 2, 2], [5.0, 5, 5])):
        assert two(x, y).comparisons[0].word == "CAN'T TELL"
    assert two([1.0, 2], [1.0, 5]).comparisons[0].word == "CAN'T TELL"


finite = st.floats(-1e6, 1e6).map(lambda v: round(v, 3))


@settings(max_examples=30, deadline=None)
@given(st.lists(finite, min_size=1, max_size=9), st.lists(finite, min_size=1, max_size=9))
def test_no_input_gives_a_nan_or_an_error(x: list[float], y: list[float]) -> None:
    result = two(x, y)
    for form in (result.to_text(), result.to_markdown(), result.to_latex()):
        assert "nan" not in form
        assert "None" not in form
    assert "NaN" not in result.to_json()
    assert result.comparisons[0].verdict


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([1.0, 1.0, 2.0, 3.0]), min_size=8, max_size=8), st.integers(0, 3))
def test_ties_and_missing_cells_are_no_error(values: list[float], missing: int) -> None:
    rows = [("new" if i < 4 else "old", "xy"[i % 2], i % 4 // 2, v) for i, v in enumerate(values)]
    rows = [row for i, row in enumerate(rows) if i != missing]
    frame = pd.DataFrame(rows, columns=["group", "mode", "seed", "value"])
    result = audit(frame, "value", "group", "old", "mode")
    assert "nan" not in result.to_text()


def test_json_has_everything_and_no_infinity() -> None:
    values = json.loads(two([1.0, 2, 3, 9], [1.0, 1, 1, 2]).to_json())
    assert values["comparisons"][0]["tests"][0]["key"] == "headline"
    assert {"comparisons", "averages", "rows", "values"} <= set(values)


def test_latex_is_booktabs_and_escaped() -> None:
    rows = table({"a_b & c%": [1.0, 2, 4], "old": [1.0, 2, 2]})
    text = audit(rows, "value", "group", "old").to_latex()
    assert "\\toprule" in text
    assert "a\\_b \\& c\\%" in text
    tables = [line for line in text.splitlines() if not line.startswith("%")]
    assert not any("a_b" in line for line in tables)


def test_markdown_does_not_let_names_out_of_their_cells() -> None:
    rows = table({"a|b <script>": [1.0, 2, 4], "old": [1.0, 2, 2]})
    text = audit(rows, "value", "group", "old").to_markdown()
    assert "<script>" not in text
    assert "a\\|b &lt;script&gt;" in text


def test_a_picture_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    for suffix in (".png", ".svg", ".pdf"):
        paths = [tmp_path / f"{k}{suffix}" for k in range(2)]
        for path in paths:
            paper().draw(path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert paths[0].stat().st_size > 5000
    with pytest.raises(PlotError, match="must end in"):
        paper().draw(tmp_path / "a.bmp")


def test_the_picture_shows_every_run_and_which_ratio_to_quote() -> None:
    runs, ratios = audit_chart(paper()).panels
    dots = [m for m in runs.marks if m.kind == "dots" and m.x]
    assert [m.name for m in dots] == [
        "clamp, detach", "clamp, direct", "subtract, detach", "subtract, direct",
    ]  # fmt: skip
    assert sum(len(m.x) for m in dots) == 28
    assert [m.name for m in runs.marks if m.legend] == ["mean ± 1 sd", "detach", "direct"]
    assert runs.y.title == "Test accuracy (%)"
    assert [m.kind for m in ratios.marks] == ["rule", "interval"]  # the headline's alone
    ratios = audit_chart(paper(), methods=True).panels[1]
    assert ratios.y.ticks[0][1] == f"* {MODEL}"
    assert len({m.name for m in ratios.marks if m.legend}) == 2


def test_strata_are_drawn_on_one_scale_and_what_is_off_the_axis_is_marked() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (task, group, seed, level + sd * rng.normal())
        for task, level in (("near", 0.0), ("far", 500.0))
        for group, sd in (("a", 1.0), ("b", 3.0))
        for seed in range(6)
    ]
    frame = pd.DataFrame(rows, columns=["task", "group", "seed", "value"])
    average, near, far = audit_chart(audit(frame, "value", "group", "a", by="task")).panels
    assert average.wide
    lengths = [high - low for low, high in (near.y.range or (0, 0), far.y.range or (0, 0))]
    assert lengths[0] == pytest.approx(lengths[1])
    assert far.y.range is not None
    assert far.y.range[0] > 450
    line = Line("x", 2.0, Interval(0.5, math.inf, 0.95))
    marks = lines_panel([line], "", "").marks
    assert [(m.symbol, m.x) for m in marks if m.kind == "dots"] == [(BEYOND[1], (3.0,))]


def test_a_picture_without_a_ratio_says_so(tmp_path: Path) -> None:
    result = two([1.0], [1.0, 2.0])
    assert audit_chart(result).panels[1] == NO_RATIO
    result.draw(tmp_path / "a.svg")
    assert NO_RATIO.title in (tmp_path / "a.svg").read_text()


def test_groups_keep_their_colors_over_comparisons() -> None:
    values = {"old": [1.0, 2, 4], "new": [1.0, 3, 9], "newer": [2.0, 2.5, 4]}
    panels = audit_chart(audit(table(values), "value", "group", "old")).panels
    colors = {(m.name, m.color) for m in panels[0].marks if m.x}
    assert len(colors) == len({name for name, _ in colors}) == len({color for _, color in colors}) == 3


@pytest.mark.parametrize("many", [1, 2, 5, 20])
def test_the_blocks_of_an_arm_do_not_reach_its_neighbour(many: int) -> None:
    blocks = [Dots(str(k), [1.0, 2.0, 3.0]) for k in range(many)]
    marks = [m for m in group_marks("arm", 0, "#000000", 2.0, 1.0, blocks) if m.kind == "dots"]
    places = [x for m in marks for x in m.x]
    assert len(set(places)) == 3 * many
    assert max(map(abs, places)) < 0.6
    assert len({m.name for m in marks}) == (many if many <= 6 else 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level"),
        ({"test_size": 1}, "test_size"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(TableError, match=message):
        two([1.0, 2, 3], [1.0, 2, 3], **options)


def test_uncorrelated_twins_are_not_blamed() -> None:
    rng = np.random.default_rng(11)
    rows = pd.DataFrame(
        [
            (g, m, s, rng.normal(scale=3 if g == "new" else 1))
            for g in ("new", "old")
            for m in "xy"
            for s in range(6)
        ],
        columns=["group", "mode", "seed", "value"],
    )
    c = audit(rows, "value", "group", "old", "mode").comparisons[0]
    assert all(t.p is not None and t.p > 0.05 for t in c.same_seed_runs)
    assert not any("overstates" in w for w in c.warnings)


def test_a_chance_tie_is_no_copy() -> None:
    rows = pd.DataFrame(
        [
            (g, m, s, float(v))
            for g, offset in (("new", 0), ("old", 1))
            for m, row in (("x", [1, 5, 2, 8, 3, 9]), ("y", [1, 2, 9, 4, 7, 3]))
            for s, v in enumerate(np.array(row) + offset)
        ],
        columns=["group", "mode", "seed", "value"],
    )
    c = audit(rows, "value", "group", "old", "mode").comparisons[0]
    assert c.same_seed_runs[0].identical == 1
    assert not any("cop" in w for w in c.warnings)


def test_seeds_are_counted_not_cells() -> None:
    """Ten seeds, five in each block."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        [(g, "xy"[s // 5], s, rng.normal()) for g in ("new", "old") for s in range(10)],
        columns=["group", "mode", "seed", "value"],
    )
    c = audit(rows, "value", "group", "old", "mode").comparisons[0]
    assert c.seeds == (10, 10)
    (power,) = [line for label, line in asides(c) if label == "Power"]
    assert power.startswith(f"{seed_counts(c.seeds)} ")


def test_blocks_with_different_means_are_no_clusters() -> None:
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(
        [
            (g, m, s, rng.normal() + (78 if m == "x" else 60))
            for g in ("new", "old")
            for m in "xy"
            for s in range(7)
        ],
        columns=["group", "mode", "seed", "value"],
    )
    assert audit(rows, "value", "group", "old", "mode").comparisons[0].failures is None


def test_groups_that_share_a_baseline_make_no_forest() -> None:
    rng = np.random.default_rng(0)
    rows = table({g: list(rng.normal(size=8)) for g in ("a", "b", "ref")})
    assert audit(rows, "value", "group", "ref").averages == ()


def test_explanations_are_whole_sentences_at_any_width() -> None:
    text = paper().to_text(width=60, explain=True)
    assert text.count("Assumes") == len(paper().comparisons[0].tests)


def test_in_a_notebook_it_shows_itself_and_text_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    one = two([1.0, 2, 4, 9, 3], [1.0, 2, 2, 3, 1])
    assert " ".join(str(one).split()).count("(95% CI ") == 2  # of the ratio and of the means
    assert "--details" not in one.to_text()  # an option of the command only
    html = one._repr_html_()
    assert "<strong>" in html
    assert "<img" in html
    assert "color:inherit" in html  # light and dark
    comparison = one.comparisons[0]
    assert isinstance(comparison, Comparison)
    assert "F test, pooled" in comparison._repr_html_()
    assert "F test, pooled" in str(comparison)
    assert comparison.to_text(width=60, explain=True).count("Assumes") == len(comparison.tests)
    named = audit(table({"<b>new": [1.0, 2, 4], "old": [1.0, 2, 2]}), "value", "group", "old")
    assert "<b>new" not in named._repr_html_()


def test_comparisons_as_a_frame_and_a_figure() -> None:
    rng = np.random.default_rng(0)
    result = audit(
        table({g: list(rng.normal(size=6)) for g in ("a", "b", "ref")}),
        "value",
        "group",
        "ref",
    )
    frame = result.to_frame()
    assert list(frame["group"]) == ["a", "b"]
    assert frame["ratio"][1] == result.comparisons[1].headline.ratio
    figure = result.plot()
    assert len(figure.axes) == 2
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    own = Figure().subplots()
    assert result.plot(own) is own.figure
    assert [label.get_text() for label in own.get_xticklabels()] == ["a", "b", "ref"]
    assert [name for _, name in result.chart().panels[1].y.ticks] == ["a vs ref", "b vs ref"]
    many = audit(table({g: list(rng.normal(size=6)) for g in "abcdefghij"}), "value", "group", "a").chart()
    assert [panel.x.title[:23] for panel in many.panels] == ["Variance ratio of value"]


def test_a_comparison_alone_is_a_row_and_a_figure_of_its_ratios() -> None:
    one = two([1.0, 2, 4, 9, 3], [1.0, 2, 2, 3, 1])
    comparison = one.comparisons[0]
    assert isinstance(comparison, Comparison)
    own = Figure().subplots()
    assert comparison.plot(own) is own.figure
    assert own.get_title("left") + own.get_title() == comparison.title
    names = [label.get_text() for label in own.get_yticklabels()]
    assert f"* {comparison.headline.method}" in names
    assert len(comparison.plot().axes) == 1


def test_three_groups_without_a_baseline_are_drawn_in_three_colors() -> None:
    rng = np.random.default_rng(0)
    result = audit(table({g: list(rng.normal(size=6)) for g in "abc"}), "value", "group")
    marks = [m for panel in audit_chart(result).panels for m in panel.marks if m.kind == "dots" and m.x]
    assert len({(m.name, m.color) for m in marks}) == len({m.color for m in marks}) == 3
    assert "<img" in result._repr_html_()


def test_ipython_prints_results_as_text() -> None:
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    table = published_table().query("setting == 'cifar10'")
    for result in (
        audit(table, "accuracy", "margin_type", "subtract", "stability"),
        components(table, "accuracy", group="margin_type", baseline="subtract", block="stability"),
    ):
        assert pretty(result) == result.to_text()
