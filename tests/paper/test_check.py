"""The check of the paper: known verdicts, and that a changed number changes its verdict."""

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seedspread.analysis.audit import audit
from seedspread.cff.loss import SupConLoss
from seedspread.paper.check import (
    Finding,
    PaperCheck,
    answer,
    check_paper,
    counted,
    paper_ratios,
    summary,
)
from seedspread.paper.values import (
    MAIN,
    METHODS,
    NAMES,
    Series,
    components,
    half_width,
    paper_data,
    published_group,
    published_table,
    recompute,
    series,
    values,
)
from seedspread.stats.groups import intraclass_correlation

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
check_page = import_module("paper_check").check_page


@cache
def findings() -> list[Finding]:
    return check_paper()


def verdict(where: str, claim: str) -> str:
    matches = [f for f in findings() if f.where == where and claim in f.what]
    assert len(matches) == 1, [f.what for f in matches]
    return matches[0].verdict


def test_every_per_seed_accuracy_of_the_appendices_is_there() -> None:
    """Tables 16 and 17, 19 to 22: 28 + 21 + 20 + 10 + 10 + 20 values."""
    table = published_table()
    assert len(table) == 28 + 21 + 20 + 10 + 10 + 20
    # Checksums worked out by adding up the printed rows.
    sums = table.assign(a=table["accuracy"].astype(float)).groupby("setting")["a"].sum()
    assert sums["svhn"] == pytest.approx(483.52 + 476.43)
    assert sums["cifar100"] == pytest.approx(260.34 + 257.85 + 256.48 + 257.32)


@pytest.mark.parametrize(
    ("where", "what", "expected"),
    [
        ("Section 5.2, variance comparison", "variance ratio", "reproduces"),
        ("Section 5.2, variance comparison", "p, F test", "reproduces"),
        ("Section 5.2, bootstrap interval", "low", "reproduces"),
        ("Section 5.2, bootstrap interval", "high", "reproduces"),
        ("Section 5.2, low margin, bootstrap interval", "high", "reproduces"),
        ("Section 5.2, mean comparison", "Welch df", "differs"),
        ("Section 5.2, mean comparison", "t of subtract", "reproduces"),
        ("Section 5.2, variance comparison", "Levene", "differs"),
        ("Sections 7.5, 8", "92", "reproduces"),
        ("Table 9, positive pairs, CIFAR-100", "pairs", "differs"),
        ("Table 4, Levene", "margin type", "differs"),
        ("Table 4, Brown-Forsythe", "interaction", "differs"),
        ("Table 15, medium", "variance, clamp", "differs"),
        ("Table 15, medium", "variance ratio", "reproduces"),
        ("Section 5.1, all runs", "runs in all", "differs"),
        ("Section 6.4", "halves the rate", "differs"),
        ("Section 7.1", "the reverse", "differs"),
        ("Section 7.4", "progressively", "differs"),
        ("Section 9", "other reductions", "differs"),
        ("Section 10", "nearly six-fold", "reproduces"),
        ("Abstract", "no cost", "reproduces"),
        ("Table 18, mean (L0-L7)", "mean", "not derivable"),
        ("Abstract, Sections 7.2, 7.3, 7.5, 8", "high accuracy compresses", "not derivable"),
        ("Sections 6, 6.4", "different seeds separate more", "reproduces"),
        ("Section 7.1", "absence of a variance effect", "reproduces"),
        ("Sections 3, 4.4, 10", "is training variance", "not derivable"),
        ("Sections 5.1, 5.2, 9", "does not affect variance", "differs"),
    ],
)
def test_known_verdicts(where: str, what: str, expected: str) -> None:
    assert verdict(where, what) == expected


def test_where_a_number_differs_a_reason_is_given() -> None:
    assert all(f.comment for f in findings() if f.verdict != "reproduces")


def test_the_counts_add_up() -> None:
    numbers, statements = summary(findings()).values()
    assert sum(numbers.values()) + sum(statements.values()) == len(findings()) == 261
    assert (numbers["differs"], statements["differs"]) == (13, 18)
    assert counted(findings())[0].startswith(f"{numbers['reproduces']} of {sum(numbers.values())} printed")


def test_the_screen_is_short_and_says_first_how_many_hold() -> None:
    lines = PaperCheck(tuple(findings())).to_text(80).splitlines()
    assert lines[0].startswith("  Numbers     ")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("printed", "agrees"), [("0.927", True), ("0.926", False), ("0.928", False)])
def test_a_changed_digit_changes_the_verdict(printed: str, agrees: bool) -> None:
    assert recompute("sd", printed, [series("cifar10/clamp/detach")])[1] is agrees


def test_rounding_of_the_inputs_counts() -> None:
    """1.2 may be anything up to 1.25, so a product of 1.2 and 1.2 can be 1.56, and not 1.57."""
    rounded = Series(np.array([1.2, 1.2]), np.array([0.05, 0.05]))
    exact = Series(np.array([1.2, 1.2]), np.zeros(2))
    assert recompute("product", "1.56", [rounded])[1]
    assert not recompute("product", "1.57", [rounded])[1]
    assert not recompute("product", "1.56", [exact])[1]


def test_half_of_the_last_digit() -> None:
    assert half_width("78.52") == pytest.approx(0.005)
    assert half_width("7") == pytest.approx(0.5)
    assert half_width("-0.64") == pytest.approx(0.005)


def test_claims_in_words_have_outcomes_of_every_kind() -> None:
    """And none rests on a missing value."""
    in_words = [f for f in findings() if f.printed == "in words"]
    assert {f.verdict for f in in_words} == {"reproduces", "differs", "not derivable"}
    assert not any("nan" in f.computed for f in in_words)


def test_a_method_that_is_named_has_a_name_that_exists() -> None:
    assert set(NAMES) <= set(METHODS)


def test_the_page_in_docs_is_the_one_that_the_data_give() -> None:
    assert (ROOT / "docs" / "paper-check.md").read_text() == check_page(findings())


def test_the_published_accuracies_can_be_audited() -> None:
    table = published_table()
    rows = table[table["setting"].isin(MAIN)]
    result = audit(rows, "accuracy", "margin_type", "subtract", "stability", by="setting")
    assert [c.stratum[0] for c in result.comparisons] == ["cifar10", "cifar100", "svhn", "fashion-mnist"]
    assert [round(c.pooled_test.ratio or 0, 2) for c in result.comparisons] == [5.90, 0.39, 0.25, 0.08]


def test_what_is_said_to_follow_from_the_equations_does() -> None:
    """One gradient in both modes; none through a saturated pair; subtraction is neutral summed, too."""
    proved = {c["where"]: c["proved"] for c in paper_data("claims.toml")["claim"] if "proved" in c}
    assert proved == {"Section 4.2": True, "Section 6.1": False, "Section 9": False}
    torch.manual_seed(0)
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2])
    features = torch.randn(len(labels), 4, dtype=torch.float64, requires_grad=True)

    def gradient(**options: Any) -> torch.Tensor:
        chosen: dict[str, Any] = {"margin": 0.4, "margin_type": "subtract"} | options
        loss = SupConLoss(**chosen)(features, labels)
        (found,) = torch.autograd.grad(loss, features)
        return found

    for margin_type in ("clamp", "subtract"):
        modes = [gradient(stability=mode, margin_type=margin_type) for mode in ("detach", "direct")]
        torch.testing.assert_close(*modes)
    for reduction in ("mean", "sum"):
        torch.testing.assert_close(gradient(reduction=reduction), gradient(reduction=reduction, margin=0.0))
    saturated = gradient(margin_type="clamp", margin=2.5)  # every positive pair is cut
    others = gradient(margin_type="clamp", margin=3.0)
    torch.testing.assert_close(saturated, others)


def test_the_odd_degrees_of_freedom_are_another_comparisons() -> None:
    finding = next(f for f in findings() if f.what == "Welch df" and f.verdict == "differs")
    assert "cifar10-low/clamp and cifar10/subtract gives 19.44" in finding.comment


def computed(claim: str) -> str:
    return next(f"{f.computed} {f.comment}" for f in findings() if claim in f.what)


@pytest.mark.parametrize(
    ("claim", "figures"),
    [  # recomputed independently from the appendices
        ("high accuracy compresses", ("cifar10 0.172", "svhn 0.727", "fashion-mnist 0.165")),
        ("different seeds separate more", ("0.896 (clamp)", "-0.012", "0.204 vs 0.146")),
        ("is training variance", ("cifar10, subtract: 0.134 (bound 0.169)",)),
        ("does not affect variance", ("1.135 (direct)", "0.149 (detach)", "p = 0.026")),
    ],
)
def test_figures_that_others_found(claim: str, figures: tuple[str, ...]) -> None:
    text = computed(claim)
    assert [f for f in figures if f not in text] == []


@pytest.mark.parametrize("setting", ["cifar10", "cifar100"])
@pytest.mark.parametrize("margin_type", ["clamp", "subtract"])
def test_components_are_those_of_the_intraclass_correlation(setting: str, margin_type: str) -> None:
    """ICC(3,1) is the share of the variance that is between seeds; together they are the cells' variance."""
    group = published_group(setting, margin_type)
    between, noise = components(group)
    assert between / (between + noise) == pytest.approx(intraclass_correlation(group.matrix)[0])
    assert between + noise == pytest.approx(group.within_variance)


def test_components_of_a_made_table() -> None:
    """Seed effects -1, 0, 1 (variance 1) and noise of +-0.1 that no seed or block has on average."""
    group = published_group("cifar10", "clamp")
    made = replace(
        group,
        values=np.array([-1.1, 0.2, 0.9, -0.9, -0.2, 1.1]),
        blocks=np.array([0, 0, 0, 1, 1, 1]),
        seeds=np.array([0, 1, 2, 0, 1, 2]),
    )
    noise = (2 * 0.1**2 + 2 * 0.2**2 + 2 * 0.1**2) / 2
    assert components(made) == pytest.approx((1 - noise / 2, noise))


def test_the_arms_are_the_published_values() -> None:
    group = published_group("cifar10", "clamp")
    assert group.block_names == (("detach",), ("direct",))
    assert group.cells[1].tolist() == values("cifar10/clamp/direct").tolist()


def test_the_answer_rests_on_the_headline_and_gives_each_step() -> None:
    first, second = answer()[:2]
    found, adjusted = paper_ratios()["cifar10"]
    assert found.pairs == 7
    assert f"p = {found.p:.3f}" in first.text
    assert f"p = {adjusted:.3f}" in first.text
    assert "times the sd" in first.text
    steps = ("0.0009 to 0.0018", "as copies, to 0.0216", "to 0.027 (jackknife)", "whole seeds to 0.070")
    for step in (*steps, "0.013, with pairs 0.018"):
        assert step in second.text


def test_nothing_blames_dependence_alone() -> None:
    text = check_page(findings())
    assert "overstates" not in text
    assert "makes every p value of Section 5.2 too small" not in text


def test_a_ratio_says_of_what() -> None:
    for finding in findings():
        if "ratio" in finding.what:
            words = f"{finding.where} {finding.what}"
            assert "variance ratio" in words or "norm" in words, words
