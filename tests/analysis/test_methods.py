"""What `--methods` says is true of the result."""

import numpy as np
import pandas as pd

from seedspread import audit
from seedspread.analysis.methods import methods
from tests.commands import seedspread_here


def table(groups: str = "ab", datasets: tuple[str, ...] = ("d",), seeds: int = 8) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [(g, d, s) for d in datasets for g in groups for s in range(seeds)]
    frame = pd.DataFrame(rows, columns=["method", "dataset", "seed"])
    return frame.assign(accuracy=rng.normal(0.9, 0.01, len(frame)))


def test_one_comparison_is_not_adjusted_and_shared_seeds_are_pairs() -> None:
    said = methods(audit(table(), "accuracy", "method", "a"))
    assert "one sample standard deviation (n − 1), from 8 seeds per group." in said
    assert (
        "with shared seeds as pairs; p values are two-sided, and they and the 95% intervals are for a" in said
    )
    assert "No run is recorded as failed." in said
    assert said.count("[Yes]") == 1


def test_many_comparisons_are_adjusted() -> None:
    found = audit(table("abc", ("d", "e")), "accuracy", "method", "a", by="dataset", paired=False)
    said = methods(found)
    assert "adjusted for 4 comparisons (Bonferroni)" in said
    assert "pairs" not in said


def test_failed_runs_and_too_few_seeds_are_stated() -> None:
    lost = table()
    lost.loc[3, "accuracy"] = np.nan
    said = methods(audit(lost, "accuracy", "method", "a"))
    assert "Seeds with a failed run (0 of 8 in b and 1 of 8 in a) are left out of means and variances" in said
    few = methods(audit(table(seeds=3), "accuracy", "method", "a"))
    assert "Variances are not tested: that takes 5 seeds per group." in few


def test_latex_fits_the_checklist(tmp_path: object) -> None:
    path = f"{tmp_path}/runs.csv"
    table().to_csv(path, index=False)
    asked = ("audit", path, "--value", "accuracy", "--group", "method", "--baseline", "a", "--methods")
    shown = seedspread_here(*asked, "--format", "latex").stdout
    assert "\\paragraph{Statistics.} accuracy is reported as mean $\\pm$ standard deviation." in shown
    assert "\\item[] Answer: \\answerYes{}" in shown
