"""Published means and sds: the arithmetic of scipy, and what may be said."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.published import rejected
from seedspread import audit, audit_means, check, review
from seedspread.analysis.published import EXCESS_KURTOSIS
from seedspread.stats.dispersion import degrees_of_freedom
from seedspread.tables.question import TableError
from seedspread.tables.summaries import mean_and_sd
from tests.commands import seedspread_here


@pytest.mark.parametrize(
    "text",
    [
        "28.7±4.8",
        "28.7 (4.8)",
        r"$28.7_{\pm 4.8}$",
        "28.7 +/- 4.8",
        "**28.7 ± 4.8**†",
        "28.7% ± 4.8%",
        "28.7(±4.8)",
        "28,7 ± 4,8",
    ],
)
def test_ways_of_writing_a_mean_and_sd(text: str) -> None:
    assert mean_and_sd(text) == pytest.approx((28.7, 4.8, 0.05))


@pytest.mark.parametrize("text", ["28.7", "a ± b", "28.7 ± 4.8 ± 1", "x (4)", "1,234 ± 5", "28,7 ± 4.8", ""])
def test_what_is_none(text: str) -> None:
    assert mean_and_sd(text) is None


def test_degrees_of_freedom_give_log_variances_the_variance_that_the_kurtosis_implies() -> None:
    """Var(log s²) is about 2/(n-1) + kurtosis/n; that of a chi-square's logarithm about 2/df."""
    for n in (5, 10, 40):
        assert 2 / degrees_of_freedom(n - 1, n, EXCESS_KURTOSIS) == pytest.approx(
            2 / (n - 1) + EXCESS_KURTOSIS / n
        )


def test_the_f_interval_and_welch_are_those_of_scipy() -> None:
    (c,) = check("10.0000±1.5000", "11.0000±3.0000", n=12).comparisons
    df = degrees_of_freedom(11, 12, EXCESS_KURTOSIS)
    ends = stats.f.ppf([0.975, 0.025], df, df)
    assert c.ratio == pytest.approx(4)
    assert (c.interval.low, c.interval.high) == pytest.approx(4 / ends, rel=1e-3)
    welch = stats.ttest_ind_from_stats(11, 3, 12, 10, 1.5, 12, equal_var=False)
    assert c.difference_p == pytest.approx(welch.pvalue)
    assert c.interval.low < 4 / stats.f.ppf(0.975, 11, 11)  # wider than if values were normal


@given(st.floats(0.01, 100), st.integers(5, 60), st.floats(0.01, 100))
def test_yes_if_and_only_if_the_interval_leaves_out_one(sd: float, n: int, other: float) -> None:
    (c,) = check(f"1±{sd:.6f}", f"1±{other:.6f}", n=n).comparisons
    assert (c.verdict == "YES") == (1 not in c.interval)
    if c.verdict == "NO":
        assert 0.5 < (c.ratio or 0) < 2


def test_rounding_is_part_of_the_interval() -> None:
    coarse, fine = (check("1±0.1", f"1±{sd}", n=20).comparisons[0].interval for sd in ("0.2", "0.200000"))
    assert coarse.low < fine.low < fine.high < coarse.high
    (zero,) = check("1±0.0", "1±0.4", n=20).comparisons
    assert (zero.ratio, zero.interval.high, zero.verdict) == (np.inf, np.inf, "YES")


def test_few_seeds_cannot_tell_and_have_their_numbers() -> None:
    (c,) = check("0.291±0.047", "0.316±0.004", n=3).comparisons
    assert (c.verdict, round(c.ratio or 0, 4)) == ("CAN'T TELL", 0.0072)
    (c,) = check("1±0.001", "1±0.900", n=4).comparisons
    assert c.verdict == "CAN'T TELL"
    (c,) = check("1±0.001", "1±0.900", n=5).comparisons
    assert c.verdict == "YES"


def test_standard_errors_and_population_sds() -> None:
    sd, se, population = (
        check("1±0.1", "1±0.3", n=[9, 16], sd_is=kind).comparisons[0].group.sd
        for kind in ("sd", "se", "population")
    )
    assert (sd, se, population) == pytest.approx((0.3, 1.2, 0.3 * np.sqrt(16 / 15)))


def test_false_alarms_stay_rare_on_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_t(5, size=(200, 2, 15))
    ratios = values.var(axis=2, ddof=1)
    alarms = [
        check(f"0±{np.sqrt(a):.9f}", f"0±{np.sqrt(b):.9f}", n=15).comparisons[0].verdict == "YES"
        for a, b in ratios
    ]
    assert np.mean(alarms) < 0.08  # the plain F test has 0.14


TABLE = pd.DataFrame(
    {"Model": ["a", "b"] * 2, "Dataset": ["x", "x", "y", "y"], "acc_mean": [91.2, 92.2, 71.2, 72.2],
     "acc_std": [0.5, 1.9, 0.7, 0.9], "n": [10, 12, 10, 10]}
)  # fmt: skip


def test_columns_of_means_and_sds() -> None:
    result = audit_means(TABLE, n="n")
    assert [c.title for c in result.comparisons] == ["x: b vs a", "y: b vs a"]
    assert (result.comparisons[0].group.n, result.comparisons[0].baseline.n) == (12, 10)
    assert [c.title for c in audit_means(TABLE, n=10, baseline="b").comparisons] == ["x: a vs b", "y: a vs b"]
    ses = audit_means(TABLE.rename(columns={"acc_std": "acc_sem"}), n=4).comparisons[0]
    assert ses.group.sd == pytest.approx(2 * 1.9)


def test_rows_or_columns_are_compared() -> None:
    frame = pd.DataFrame(
        {"Dataset": ["x", "y"], "old": ["1.0±0.1", "2.0±0.2"], "new": ["1.1±0.3", "2.1±0.1"]}
    )
    assert [c.title for c in audit_means(frame, n=9).comparisons] == ["x: new vs old", "y: new vs old"]
    frame = frame.rename(columns={"Dataset": "Method"})
    assert [c.title for c in audit_means(frame, n=9).comparisons] == ["old: y vs x", "new: y vs x"]
    across = audit_means(frame, n=9, group="columns").comparisons
    assert [c.title for c in across] == ["x: new vs old", "y: new vs old"]


def test_means_are_never_read_as_runs(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"audit_means\(table, n='n'\)"):
        audit(TABLE, "acc_mean", "Model")
    with pytest.raises(TableError, match="holds means, and 'acc_std' their sds"):
        audit(TABLE.iloc[:, :4], "acc_mean", "Model", seed=None)
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, index=False)
    for words in ((), ("--value", "acc_mean", "--group", "Model"), ("--value", "n", "--group", "Model")):
        done = seedspread_here("audit", str(path), *words)
        assert done.returncode == 2
        if "n" not in words:
            assert done.stderr.rstrip().endswith(f"seedspread audit {path} --n n")
    assert seedspread_here("audit", str(path), "--n", "n").returncode == 0
    for option in (("--plot", "fig.pdf"), ("--factors", "Model"), ("--details",)):
        done = seedspread_here("audit", str(path), "--n", "n", *option)
        assert done.stderr == f"error: {option[0]} does not work with --n; leave it out\n"
    seeds = pd.concat([TABLE.assign(seed=seed, acc_mean=TABLE["acc_mean"] + seed) for seed in range(5)])
    assert (
        len(audit(seeds, "acc_mean", "Model", by="Dataset").comparisons) == 2
    )  # each run has an sd of its own


def test_four_lines_for_a_review() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"m": ["a"] * 8 + ["b"] * 8, "seed": [*range(8)] * 2, "acc": rng.normal(0.8, 0.01, 16)}
    )
    for result in (check("0.291±0.047", "0.316±0.004", n=3), audit(frame, "acc", "m")):
        lines = review(result).splitlines()
        assert [line.partition(":")[0] for line in lines] == ["Claim", "Power", "Spread", "Seeds"]


def test_a_review_of_too_few_seeds_and_of_failed_runs() -> None:
    frame = pd.DataFrame({"m": ["a"] * 8 + ["b"] * 8, "seed": [*range(8)] * 2, "acc": np.r_[1.0:17.0]})
    few = review(audit(frame[frame["seed"] < 3], "acc", "m")).splitlines()
    assert few[1] == "Power: 3 seeds each cannot show a difference in spread: it takes 5 per group."
    failed = review(audit(frame.replace({"acc": {16.0: np.nan}}), "acc", "m")).splitlines()
    assert failed[0].endswith(", 7 and 8 seeds; 1 of 8 seeds of b failed vs 0 of 8 of a.")


def test_a_review_of_one_among_many_claims_no_more_than_its_power() -> None:
    """14 seeds detect a ratio of 8 in one comparison, and not in one of 36."""
    rng = np.random.default_rng(4)
    sds = {f"m{k}": 1.0 for k in range(8)} | {"wide": 2.9}
    table = pd.concat(
        pd.DataFrame({"m": name, "seed": range(14), "score": sd * stats.zscore(rng.normal(size=14))})
        for name, sd in sds.items()
    )
    found = audit(table, "score", "m")
    clearest = min(found.comparisons, key=lambda c: 1.0 if c.headline.p is None else c.headline.p)
    ratio = max(clearest.headline.ratio or 1.0, 1 / (clearest.headline.ratio or 1.0))
    assert ratio < (clearest.detectable or 0.0)
    assert review(found).splitlines()[3].startswith("Seeds: more than the ")


def test_values_and_columns_in_other_notations_are_named_once() -> None:
    (claim, *_) = review(check("94.0 +- 0.1", "93.1 ± 0.4", n=5)).splitlines()
    assert claim == "Claim: 93.1 ± 0.4 vs 94.0 ± 0.1, 5 seeds each."
    table = {"Method": ["Base", "Ours"], "A": ["93.1 ± 0.4", "94.0 ± 0.1"], "B": ["70.1 ± 0.9", "71.0 ± 0.5"]}
    (one,) = audit_means(table, n=5, value="A").comparisons
    assert (one.group.mean, one.baseline.mean) == (94.0, 93.1)
    commas = {"method": ["a", "b"], "mean": ["0,931", "0,925"], "std": ["0,004", "0,009"]}
    (one,) = audit_means(commas, n=5).comparisons
    assert one.ratio == pytest.approx((0.009 / 0.004) ** 2)


def test_a_review_shows_figures_as_published() -> None:
    frame = pd.DataFrame({"m": ["a", "b"], "acc": ["0.90 (0.10)", "78.512% ± 2.00%"]})
    claim = "Claim: b 78.512 ± 2.00 vs a 0.90 ± 0.10, 10 seeds each."
    assert review(audit_means(frame, group="m", n=10)).startswith(claim)
    assert "a 0.9 ± 0.105," in review(audit_means(frame, group="m", n=10, sd_is="population"))
    columns = pd.DataFrame({"m": ["a", "b"], "acc_mean": [0.912345678, 0.9], "acc_std": [0.02012345678, 0.1]})
    assert "b 0.9 ± 0.1 vs a 0.9123 ± 0.0201," in review(audit_means(columns, group="m", n=10))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("0.3±0.1", "0.2±0.4"), "0.3±0.1' '0.2±0.4' --n 10"),
        (("0.3", "0.2±0.4", "--n", "5"), "'0.3' is not a mean ± sd; write it as 0.291±0.047"),
        (("0.291(47)", "0.3±0.1", "--n", "5"), "may be 0.291±0.047 or 0.291±47; write it with ±"),
        (("0.3±0.1", "0.2±0.4", "--n", "1"), "at least two seeds"),
        (("0.3±0.1", "0.2±0.4", "--n", "5", "--n", "5", "--n", "5"), "--n is given 3 times for 2 values"),
        (("0.3±0.1", "0.2±0.4", "--n", "5", "--sd-is", "x"), "--sd-is must be sd, se or population"),
        (("0.3±0.1", "--n", "5"), "give two values"),
        (("0.3±-0.1", "0.2±0.4", "--n", "5"), "below zero"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], said: str) -> None:
    done = seedspread_here("check", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_forms() -> None:
    words = ("check", "-0.3±0.1", "-0.2±0.3", "--n", "20")
    assert "-0.2±0.3 vs -0.3±0.1 | 20 seeds each" in seedspread_here(*words).stdout
    assert '"excess_kurtosis": 2.0' in seedspread_here(*words, "--json").stdout
    assert "| comparison |" in seedspread_here(*words, "--format", "markdown").stdout
    assert "\\toprule" in seedspread_here(*words, "--format", "latex").stdout


def test_power_is_that_of_the_test_that_is_made() -> None:
    detectable = check("1±1", "1±1.1", n=10).comparisons[0].detectable
    assert detectable is not None
    assert rejected("normal", 10, detectable, EXCESS_KURTOSIS, 4000) == pytest.approx(0.8, abs=0.02)
    assert check("1±1", "1±1.1", n=4).comparisons[0].detectable is None
    assert check("1±1.0000", f"1±{1.001 * detectable**0.5:.4f}", n=6).comparisons[0].enough == 10
