"""Several factors, many groups, a claimed sd and a bound: tables in, verdicts out, one line for bad input."""

import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedspread import audit, audit_factors, audit_sd
from seedspread.analysis.words import many_groups_sentence
from seedspread.errors import SeedspreadError
from seedspread.tables.question import TableError
from tests.analysis.made import runs
from tests.commands import seedspread_here


def _study(n: int = 10, sgd: float = 3.0, shared: bool = False, **differing: Any) -> pd.DataFrame:
    """A 2 x 2 x 3 study: sgd spreads more, and the mean rises by 0.5 with each doubling of the rate."""
    rng = np.random.default_rng(differing.get("random_seed", 0))
    rows = []
    for number, (opt, aug, lr) in enumerate(product(("adam", "sgd"), ("none", "mixup"), (0.1, 0.2, 0.4))):
        for k in range(n):
            sd = sgd if opt == "sgd" else 1.0
            seed = k if shared else number * n + k
            value = 90 + 0.5 * np.log2(lr) + sd * rng.normal()
            rows.append({"opt": opt, "aug": aug, "lr": lr, "seed": seed, "score": value})
    return pd.DataFrame(rows)


def _effect(result: Any, term: str) -> Any:
    return next(effect for effect in result.effects if effect.term == term)


def test_a_study_of_three_factors_has_a_table_of_effects() -> None:
    result = audit_factors(_study(), "score", ["opt", "aug", "lr"])
    opt, lr = _effect(result, "opt"), _effect(result, "lr")
    assert (opt.word, opt.contrast) == ("YES", "sgd vs adam")
    assert 4 < opt.ratio.value < 20
    assert 9 in opt.ratio.interval
    assert lr.contrast == "per doubling"
    others = {effect.word for effect in result.effects if effect.term != "opt"}
    assert not others & {"YES", "MAYBE"}
    assert [e.term for e in result.effects][3:] == ["opt x aug", "opt x lr", "aug x lr", "everything else"]
    assert "opt changes the spread: sgd vs adam" in result.to_text()
    assert json.loads(result.to_json())["cells"] == 12
    assert "toprule" in result.to_latex()
    assert "| term |" in result.to_markdown()


def test_the_answer_does_not_depend_on_units_nor_on_the_order_of_rows() -> None:
    table = _study()
    first = audit_factors(table, "score", "opt,aug,lr")
    other = audit_factors(
        table.assign(score=1000 * table["score"]).sample(frac=1, random_state=1), "score", "opt,aug,lr"
    )
    for effect in first.effects:
        assert _effect(other, effect.term).p == pytest.approx(effect.p)


def test_an_interaction_is_the_ratio_of_the_ratios_at_two_levels() -> None:
    """Exactly so where terms are saturated: the ratio of robust sds is that of the four cells."""
    table = _study(12).query("lr == 0.1")
    table.loc[(table["opt"] == "sgd") & (table["aug"] == "mixup"), "score"] *= 4
    found = audit_factors(table.drop(columns="lr"), "score", "opt,aug")
    ratio = _effect(found, "opt x aug").ratio.value
    sd = table.groupby(["opt", "aug"])["score"].agg(lambda v: np.abs(v - v.median()).mean())
    expected = (sd["sgd", "mixup"] / sd["adam", "mixup"]) / (sd["sgd", "none"] / sd["adam", "none"])
    assert ratio == pytest.approx(expected**2)


def test_levels_that_are_no_numbers_are_compared_with_the_baseline_and_tested_together() -> None:
    table = _study().assign(lr=lambda t: t["lr"].map({0.1: "low", 0.2: "default", 0.4: "high"}))
    result = audit_factors(table, "score", "opt,lr", block="aug")
    rows = [effect for effect in result.effects if effect.term == "lr"]
    assert [row.contrast for row in rows] == ["", "low vs default", "high vs default"]
    assert [row.word is None for row in rows] == [False, True, True]


def test_a_study_of_three_factors_takes_less_than_a_second() -> None:
    table = _study()
    start = time.process_time()
    audit_factors(table, "score", "opt,aug,lr")
    assert time.process_time() - start < 1.0


def test_factors_that_cannot_be_asked_about_are_refused_in_one_line() -> None:
    table = _study()
    for given, factors, said in (
        (table, "opt", "factors=.*opt"),
        (table.query("opt == 'sgd'"), "opt,aug,lr", "every run has opt = 'sgd'"),
        (_study(2), "opt,aug,lr", "has 2 seeds; factors=... needs 3 or more"),
        (table.assign(score=1.0), "opt,aug,lr", "all values of opt = adam, aug = none, lr = 0.1 are equal"),
        (table.query("opt == 'sgd' or aug == 'none'"), "opt,aug,lr", "cannot be told apart"),
        (table, "opt,aug,rate", "no column 'rate'"),
    ):
        with pytest.raises(TableError, match=said) as caught:
            audit_factors(given, "score", factors)
        assert "\n" not in str(caught.value)
    with pytest.raises(TableError, match="must be 1"):
        audit_factors(table, "score", "opt,aug,lr", interactions=4)


_MANY = {f"group {k}": 0.01 for k in range(12)}


def test_many_groups_lead_with_the_answer_about_all_of_them() -> None:
    result = audit(runs(_MANY, 10), "score", "arm", baseline="group 0")
    assert result.omnibus is not None
    assert result.omnibus.word in ("CAN'T TELL", "NO")
    assert result.omnibus.sd.interval is not None
    assert 0.01 in result.omnibus.sd.interval
    text = result.to_text()
    assert many_groups_sentence(result.omnibus) in " ".join(text.split())
    assert "of 11" not in text
    assert "group 7" in result.to_text(details=True)
    assert json.loads(result.to_json())["omnibus"]["groups"] == 12
    few = audit(runs({"a": 0.01, "b": 0.01, "c": 0.01}), "score", "arm")
    assert few.omnibus is None


def test_the_group_that_stands_out_is_named_and_the_others_share_one_sd() -> None:
    found = audit(runs(_MANY | {"group 5": 0.06}, 10), "score", "arm", baseline="group 0").omnibus
    assert found is not None
    assert (found.word, found.stands_out) == ("YES", "group 5")
    assert found.sd.interval is not None
    assert 0.01 in found.sd.interval
    assert (found.p_others or 0) > 0.05


@pytest.mark.parametrize(("sigma", "word"), [(0.01, "YES"), (0.0105, "YES"), (0.013, "NO"), (0.007, "NO")])
def test_a_claimed_sd_is_judged_by_groups_that_share_one(sigma: float, word: str) -> None:
    result = audit_sd(runs(_MANY, 12), "score", "arm", sigma=sigma)
    assert [(a.of, a.word) for a in result.found] == [("12 groups", word)]
    assert f"Is the sd {sigma:g}?" in result.to_text()


def test_groups_that_do_not_share_one_sd_are_judged_one_by_one() -> None:
    result = audit_sd(
        runs({"a": 0.01, "b": 0.05, "c": 0.2, "d": 0.01, "e": 1.0}, 20), "score", "arm", sigma=0.01
    )
    assert {a.of: a.word for a in result.found if a.of in "bce"} == {"b": "NO", "c": "NO", "e": "NO"}
    (together,) = result.many
    assert together.word == "YES"
    assert many_groups_sentence(together) in " ".join(result.to_text().split())
    assert "5 of 5" not in result.to_text()


def test_a_bound_is_met_not_met_or_open() -> None:
    table = runs({"tight": 0.01, "wide": 0.2, "near": 0.045}, 20)
    words = {a.of: a.word for a in audit_sd(table, "score", "arm", sd_below=0.05).found}
    assert words == {"tight": "YES", "wide": "NO", "near": "CAN'T TELL"}
    alone = audit_sd(table.query("arm == 'tight'")[["score", "seed"]], "score", sd_below=0.05)
    assert [(a.of, a.word, a.seeds) for a in alone.found] == [("", "YES", 20)]
    few = audit_sd(runs({"tight": 0.001}, 4), "score", "arm", sd_below=1.0)
    assert few.found[0].word == "CAN'T TELL"


def test_questions_about_an_sd_that_cannot_be_asked_are_one_line() -> None:
    table = runs({"a": 0.01, "b": 0.01, "c": 0.01})
    asked: list[tuple[dict[str, Any], str]] = [
        ({"sigma": 0.01, "sd_below": 1.0}, "one question"),
        ({}, "one question"),
        ({"sigma": 0.0}, "positive"),
        ({"sd_below": float("nan")}, "positive"),
    ]
    for options, said in asked:
        with pytest.raises(TableError, match=said):
            audit_sd(table, "score", "arm", **options)
    with pytest.raises(TableError, match="there is no sd"):
        audit_sd(table.assign(score=1.0), "score", "arm", sd_below=1.0)


def test_the_terminal_asks_the_same_questions(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    _study().to_csv(path, index=False)
    done = seedspread_here("audit", str(path), "--value", "score", "--factors", "opt,aug,lr")
    assert done.returncode == 0, done.stderr
    assert "YES" in done.stdout
    table = tmp_path / "groups.csv"
    runs(_MANY, 12).to_csv(table, index=False)
    done = seedspread_here(
        "audit", str(table), "--value", "score", "--group", "arm", "--sigma", "0.013", "--json"
    )
    assert json.loads(done.stdout)["found"][0]["word"] == "NO"
    for arguments, said in (
        (
            ("audit", str(path), "--value", "score", "--factors", "opt,aug", "--group", "lr"),
            "--group does not go",
        ),
        (("audit", str(path), "--value", "score", "--factors", "opt"), "--factors takes"),
    ):
        done = seedspread_here(*arguments)
        assert done.returncode == SeedspreadError.exit_code
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
