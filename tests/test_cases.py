"""The published cases of the documentation, run again where their tables are."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
cases = import_module("cases")
SHOWN = [(path.name, *one) for path in cases.PAGES for one in cases.shown(path.read_text())]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "cases.md").read_text()
with_tables = pytest.mark.skipif(not cases.TABLES.is_dir(), reason="needs the published tables")


def test_every_case_is_shown_with_an_answer() -> None:
    assert [name for name, _, _ in SHOWN] == ["cases.md"] * 4 + ["README.md"]
    answers = [cases.answer(output) for _, _, output in SHOWN]
    starts = ["YES 2 of 2", "NO 24 groups", "YES 1 of 24", "CAN'T TELL 117 of 117", "YES not_debiased"]
    assert all(answer.startswith(start) for answer, start in zip(answers, starts, strict=True))


@with_tables
@pytest.mark.parametrize(("command", "output"), [one[1:] for one in SHOWN], ids=[one[0] for one in SHOWN])
def test_a_command_still_gives_the_answer_of_its_page(command: str, output: str) -> None:
    today = cases.answer(cases.printed(command, cases.TABLES))
    assert today == cases.answer(output), "write it again: python tools/cases.py"


@with_tables
def test_the_other_tasks_answer_as_the_page_says() -> None:
    command = "$ seedspread audit bert-finetuning.csv --group method --baseline standard_debiased --json "
    verdicts = {}
    for task, metric in (("MRPC", "test_f1"), ("CoLA", "test_mcc"), ("STS-B", "test_spearmanr")):
        text = cases.printed(f"{command} --value {metric} --where 'dataset == {task}'", cases.TABLES)
        audited = json.loads(text)
        verdicts[task] = {one["group"]: one["word"] == "YES" for one in audited["comparisons"]}
        assert f"{task} (`{metric}`)" in PAGE
    assert verdicts == {
        "MRPC": {"not_debiased": True, "reinit_debiased": True},
        "CoLA": {"not_debiased": True, "reinit_debiased": False},
        "STS-B": {"not_debiased": False, "reinit_debiased": True},
    }


@with_tables
def test_what_the_pages_say_of_the_tables_is_so() -> None:
    bert = pd.read_csv(cases.TABLES / "bert-finetuning.csv").query("dataset == 'RTE'")
    by_method = bert.groupby("method")["test_acc"]
    sd, mean = by_method.std(), by_method.mean()
    without, correct = "not_debiased", "standard_debiased"
    for text in (README, PAGE):
        words = " ".join(text.split())
        assert f"{sd[without] / sd[correct]:.1f} times as large" in words
        assert f"{100 * (mean[correct] - mean[without]):.0f} points lower" in words
    assert f"{sd[without]:.3f} instead of {sd[correct]:.3f}" in PAGE
    assert f"to {sd['reinit_debiased']:.3f}" in PAGE
    losses = pd.read_csv(cases.TABLES / "nanogpt-optimizers.csv")
    sizes = losses.groupby("entry").size()
    assert f"{len(sizes) - 1} of the {len(sizes)} entries" in PAGE
    assert f"with {sizes.min()} to {sizes.max()} runs" in PAGE
    sweep = losses[losses["entry"].str.contains("klsoap_h_clean")]
    settings = sweep.groupby(sweep["file"].str.contains("b1090"))["val_loss"]
    low, high = settings.mean()
    assert list(settings.size()) == [6, 6]
    assert f"around {high:.3f} and {low:.3f}" in PAGE


def test_the_readme_counts_what_holds_of_the_paper_as_the_paper_check_does() -> None:
    words = " ".join((ROOT / "docs" / "paper-check.md").read_text().split())
    numbers = re.search(
        r"(\d+) of (\d+) printed numbers reproduce, (\d+) differ, (\d+) cannot be derived", words
    )
    statements = re.search(r"(\d+) of (\d+) statements hold, (\d+) do not, (\d+) cannot be judged", words)
    assert numbers is not None
    assert statements is not None
    counted = "{} of its {} numbers reproduce, {} differ and {} cannot be derived; ".format(
        *numbers.groups()
    ) + "{} of its {} statements hold, {} do not and {} cannot be judged".format(*statements.groups())
    assert counted in " ".join(README.split())
