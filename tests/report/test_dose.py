"""Dose response: the curve of a numeric factor, by strata and as what is compared."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from seedspread.report.dose import dose_curves
from seedspread.report.load import load_table
from seedspread.report.page import Report, write_figures
from seedspread.stats.groups import Group
from seedspread.stats.seed_summaries import summarize
from tests.report.helpers import depth, filled

LEVELS = (0.01, 0.1, 1.0)


def table(folder: Path) -> Path:
    """Two arms at three learning rates; at the last, two of eight runs of one arm have collapsed."""
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm, "lr": lr, "seed": seed, "collapsed": bad,
         "accuracy": 0.1 if bad else 0.8 + rng.normal(0, 0.01 + 0.05 * lr)}
        for arm in ("new", "old")
        for lr in LEVELS
        for seed in range(8)
        for bad in [arm == "new" and lr == 1.0 and seed < 2]
    ]  # fmt: skip
    path = folder / "runs.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_a_numeric_stratum_gets_its_curve_on_the_page_and_as_a_file(tmp_path: Path) -> None:
    material = load_table(table(tmp_path), "accuracy", "arm", "old", None, "seed", "lr")
    (curve,) = dose_curves(material)
    assert (curve.factor, curve.levels, curve.lines) == ("lr", LEVELS, ("new", "old"))
    for dose in curve.line("new"):
        setting = next(s for s in material.settings if s.name == f"lr = {dose.level:g}")
        c = setting.comparisons[0]
        assert (dose.ratio, dose.interval) == (c.headline.ratio, c.headline.shown_interval)
        if c.failures is None:  # a dose's mean and sd are of all runs, the comparison's of successful ones
            assert dose.summary.mean == pytest.approx(c.pooled[0].mean)
            assert dose.summary.sd == pytest.approx(c.pooled[0].sd)
    assert [d.summary.failed for d in curve.line("new")] == [0, 0, 2]
    assert all(d.ratio is None for d in curve.line("old"))
    report = Report(material)
    chart = next(c for c in report.charts if c.id == curve.id)
    assert [p.title for p in chart.panels] == [
        "variance ratio over old", "sd over seeds", "failed seeds", "mean",
    ]  # fmt: skip
    assert all(panel.x.log for panel in chart.panels)
    assert any(t.id == f"{curve.id}-table" for t in report.tables)
    assert f"{curve.id}.pdf" in {p.name for p in write_figures(report, tmp_path / "figures", lambda _: None)}


def test_a_numeric_group_is_a_curve_over_its_baseline(tmp_path: Path) -> None:
    frame = pd.read_csv(table(tmp_path))
    frame[frame["arm"] == "old"].to_csv(tmp_path / "old.csv", index=False)
    material = load_table(tmp_path / "old.csv", "accuracy", "lr", "0.01", None, "seed", None)
    (curve,) = dose_curves(material)
    assert (curve.factor, curve.lines, curve.levels) == ("lr", ("",), LEVELS)
    assert curve.line("")[0].ratio == 1.0
    assert "lr = 1 instead of" not in Report(material).summary.question


def test_two_levels_or_words_are_no_curve(tmp_path: Path) -> None:
    frame = pd.read_csv(table(tmp_path))
    frame[frame["lr"] < 1].to_csv(tmp_path / "two.csv", index=False)
    assert not dose_curves(load_table(tmp_path / "two.csv", "accuracy", "arm", "old", None, "seed", "lr"))
    frame["lr"] = frame["lr"].map({0.01: "low", 0.1: "middle", 1.0: "high"})
    frame.to_csv(tmp_path / "words.csv", index=False)
    assert not dose_curves(load_table(tmp_path / "words.csv", "accuracy", "arm", "old", None, "seed", "lr"))


def test_a_study_of_depths_has_its_curve(tmp_path: Path) -> None:
    (curve,) = dose_curves(filled(tmp_path, depth(tmp_path)))
    assert (curve.factor, curve.levels, curve.id) == ("depth", (2.0, 4.0, 8.0), "multi3-by-depth")


def test_a_summary_is_the_textbooks(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(3, 2, 9)
    arm = Group("a", values, np.zeros(9, dtype=np.intp), np.arange(9))
    found = summarize(arm, failed=2, seeds=len(arm.seed_codes))
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.mean_interval is not None
    assert (found.mean_interval.low, found.mean_interval.high) == pytest.approx(tuple(interval))
    assert found.sd == pytest.approx(values.std(ddof=1))
    assert found.rate_interval.high == pytest.approx(stats.beta.ppf(0.975, 3, 7))
    # Wider than the exact interval of normal values.
    exact = np.sqrt(8 * values.var(ddof=1) / stats.chi2.ppf([0.975, 0.025], 8))
    assert found.sd_interval is not None
    assert found.sd_interval.low < exact[0] < found.sd < exact[1] < found.sd_interval.high


def test_of_one_seed_there_is_no_interval() -> None:
    one = Group("a", np.array([1.0]), np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp))
    found = summarize(one, failed=0, seeds=1)
    assert (found.sd, found.sd_interval, found.mean_interval) == (None, None, None)
