"""The gate: what passes, what fails, and when it can't tell."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.report import fill
from seedspread import Store, gate
from seedspread.analysis.gate import holm
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.tables.question import TableError
from tests.report.helpers import AUDIT, MARGINS, written

RNG = np.random.default_rng(5)
PAST = np.round(0.84 + 0.01 * RNG.standard_normal(30), 4)
HISTORY = {"accuracy": PAST.tolist()}


def judged(*new: float | None, past: Any = PAST, **options: Any) -> Any:
    return gate({"accuracy": list(past)}, {"accuracy": list(new)}, "accuracy", **options)


def test_a_bound_names_its_method() -> None:
    result = gate(HISTORY, value="accuracy")
    (one,) = result.gates
    assert (result.word, result.passed, result.exit_code) == ("BOUND", True, 0)
    assert one.bounds[0].method == "normal"
    assert one.bounds[0].value == pytest.approx(PAST.mean() - 2.2198 * PAST.std(ddof=1), abs=1e-4)
    assert "a distribution-free one takes 59 past runs" in " ".join(result.to_text().split())
    many = gate({"accuracy": np.linspace(0.8, 0.9, 60)}, value="accuracy").gates[0]
    assert (many.bounds[0].method, many.bounds[0].value) == ("order statistics", 0.8)


def test_runs_pass_and_fail_by_their_mean() -> None:
    assert judged(0.845).word == "PASS"
    assert judged(0.835, 0.842, 0.838).passed
    failed = judged(0.80)
    assert (failed.word, failed.exit_code, failed.gates[0].cause) == ("FAIL", 1, "mean")
    assert failed.to_text().startswith("  FAIL        accuracy: worse, 0.8000 in 1 run vs")
    assert judged(0.90, 0.91).passed  # better is no reason to fail
    assert judged(0.90, 0.91, two_sided=True).word == "FAIL"


def test_a_far_run_among_others_is_no_pass() -> None:
    hidden = judged(0.78, 0.85, 0.86, 0.845)
    assert hidden.gates[0].p["mean"] > 0.05  # it widens the spread that it is judged by
    assert (hidden.word, "0.7800, lies far from the past ones" in hidden.gates[0].why) == ("CAN'T TELL", True)
    assert judged(0.84, 0.92).passed


def test_lower_is_better_for_a_loss_and_an_unknown_name_is_asked_about() -> None:
    past = {"val_loss": (3.28 + (PAST - 0.84) / 10).tolist(), "gadget": PAST.tolist()}
    assert gate(past, {"val_loss": [3.26]}, "val_loss").passed
    assert gate(past, {"val_loss": [3.30]}, "val_loss").word == "FAIL"
    with pytest.raises(TableError, match="which direction of gadget is better"):
        gate(past, value="gadget")
    assert gate(past, {"gadget": [0.7]}, "gadget", better="lower").passed
    assert gate(past, {"gadget": [0.7]}, "gadget", two_sided=True).word == "FAIL"
    low, high = (one.value for one in gate(past, value="gadget", two_sided=True).gates[0].bounds)
    assert low < PAST.min() < PAST.max() < high


def test_a_margin_has_three_answers() -> None:
    new = PAST[:20] + 0.0001
    assert judged(*new, margin=0.01).word == "PASS"
    assert judged(*(new - 0.03), margin=0.01).word == "FAIL"
    unsure = judged(*(new[:4] - 0.008), margin=0.01)
    assert (unsure.word, unsure.exit_code, unsure.passed) == ("CAN'T TELL", 3, False)
    assert "is not shown to be within 0.01" in unsure.gates[0].why
    assert judged(*(new + 0.03), margin=0.01).word == "PASS"  # not inferior
    assert judged(*(new + 0.03), margin=0.01, two_sided=True).word == "FAIL"  # but not equivalent


def test_the_spread_is_judged_with_enough_runs() -> None:
    wide = PAST.mean() + 6 * (PAST[:10] - PAST[:10].mean())
    result = judged(*wide)
    assert (result.word, result.gates[0].cause) == ("FAIL", "spread")
    assert "spreads more" in result.claim(result.gates[0])
    assert judged(*PAST[:10]).gates[0].p["spread"] > 0.05


def test_failed_runs_are_no_values_and_fail_by_their_number() -> None:
    past = [*PAST, None]
    assert gate({"accuracy": past}, value="accuracy").gates[0].past.failed == 1
    fine = judged(0.84, 0.85, 0.83, None, past=[*PAST, *[None] * 10])
    assert (fine.word, fine.gates[0].new.failed) == ("PASS", 1)
    broken = judged(0.84, None, None, None)
    assert (broken.word, broken.gates[0].cause) == ("FAIL", "failures")
    assert judged(0.84, 0.85, 0.83, None).word == "CAN'T TELL"
    guessing = judged(0.1, 0.1, 0.84, chance=0.1)
    assert (guessing.gates[0].new.failed, guessing.word) == (2, "FAIL")


def test_gates_of_several_metrics_and_groups_are_adjusted_together() -> None:
    tests = [f"t{k}" for k in range(6)]
    past = pd.DataFrame({"test": np.repeat(tests, 30), "accuracy": np.tile(PAST, 6), "f1": np.tile(PAST, 6)})
    new = pd.DataFrame({"test": tests, "accuracy": [0.815, *[0.84] * 5], "f1": 0.84})
    alone: Any = gate(past[past["test"] == "t0"], new[:1], "accuracy", "test")
    both = gate(past, new, ["accuracy", "f1"], "test")
    assert alone.word == "FAIL"
    assert both.word == "PASS"
    assert len(both.gates) == 12
    assert both.gates[0].p_adjusted == pytest.approx(12 * alone.gates[0].p_adjusted)
    assert holm([0.01, None, 0.04, 0.03]) == [
        pytest.approx(0.03),
        None,
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]
    missing = gate(past, new[1:], "accuracy", "test")
    assert (missing.word, missing.gates[0].why) == ("CAN'T TELL", "no new run")


def test_a_store_is_gated_by_what_its_study_asks(tmp_path: Path) -> None:
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    for name in ("main", "branch"):
        fill(Plan.make(StudySpec.from_file(study), tmp_path / name))
    result = gate(tmp_path / "main", Store(tmp_path / "branch"), margin=0.5)
    assert result.word == "PASS"
    assert {g.name for g in result.gates} >= {"margin_first = 0.2, clamp", "margin_first = 0.2, subtract"}
    assert len(result.gates[0].past.values) == 5
    with pytest.raises(TableError, match="no study 'other'"):
        gate(tmp_path / "main", value="accuracy", study="other")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"alpha": 0.7}, "alpha"), ({"confidence": 1.0}, "confidence"), ({"margin": -1.0}, "margin"),
     ({"falsealarms": 0.1}, "no argument"),
     ({"two_sided": True, "better": "higher"}, "two_sided")],
)  # fmt: skip
def test_rules_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TableError, match=said):
        gate(HISTORY, value="accuracy", **options)


SKEWED = 0.9 - 0.01 * np.random.default_rng(3).exponential(size=120)


@pytest.mark.parametrize("past", [SKEWED, 0.84 + 0.01 * np.random.default_rng(4).standard_normal(120)])
@pytest.mark.parametrize("n", [3, 12, 19, 39, 99])
def test_a_run_that_is_far_off_never_passes(past: Any, n: int) -> None:
    for options in ({}, {"alpha": 0.01}, {"two_sided": True}):
        assert not judged(0.1, past=past[:n], **options).passed
        if n > 3:  # whose sd has hardly a limit
            assert not judged(0.8999, 0.8998, 0.1, past=past[:n], **options).passed
    rows = [{"accuracy": float(x), "test": k} for k in range(4) for x in past[:n]]
    new = [{"accuracy": 0.1, "test": k} for k in range(4)]
    assert not gate(rows, new, "accuracy", "test").passed


def test_units_are_not_guessed_between_history_and_new_runs() -> None:
    with pytest.raises(TableError, match="percentages in one table and like shares in the other"):
        judged(0.86, 0.90, past=100 * PAST)
