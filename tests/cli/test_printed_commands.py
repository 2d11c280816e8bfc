"""Every command that the program prints is run, and gives the answer that it promises."""

import ast
import json
import re
import shlex
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import seedspread
from benchmarks.report import fill
from seedspread.cli import app
from seedspread.paper.quickstart import what_next
from seedspread.runs.store import Store
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.cff.data.small import Serve
from tests.commands import SAMPLES, literals, said
from tests.report.helpers import AUDIT, MARGINS, written

SOURCE = Path(seedspread.__file__).parent
# Options of other programs, of all commands, and one whose name is filled in.
OTHERS = {"--list-gpus", "--help", "--version", "--debug", "--x", "--x-is-better"}
PROGRAM = """
import json, random, sys
arm, seed = sys.argv[1:]
if arm == "broken":
    sys.exit("cannot train")
print(json.dumps({"accuracy": 0.8 + random.Random(arm + seed).gauss(0, 0.02), "loss": float(seed)}))
"""


def printed(text: str) -> list[str]:
    """The command in a text, without `seedspread`."""
    (command,) = re.findall(
        r"seedspread ((?:audit|plan|run|status|compare|report|collect|seeds|data) .*?)(?:$|;|\. |\.$|  | \()",
        text,
        re.M,
    )
    return shlex.split(command)


def answered(words: list[str]) -> dict[str, Any]:
    """What an audit finds, as JSON."""
    assert words[0] == "audit"
    found: dict[str, Any] = json.loads(said(*words, "--json"))
    return found


def standing(study: Path, store: Path, *options: str) -> dict[str, int]:
    """How many runs are in which state."""
    found = json.loads(said("status", study, "--store", store, *options, "--json"))
    return dict(Counter(run["state"] for run in found["runs"]))


def program_study(folder: Path, name: str, arms: str = '"new", "old"') -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(PROGRAM)
    path = folder / f"{name}.toml"
    path.write_text(
        textwrap.dedent(f"""
        seeds = 3
        [run]
        command = "{{python}} train.py {{arm}} {{seed}}"
        [factors]
        arm = [{arms}]
        [metrics]
        accuracy = {{}}
        loss = {{}}
        [audit]
        group = "arm"
        baseline = "old"
        value = "accuracy"
        """)
    )
    return path


def test_the_audit_of_shared_runs_has_every_level_also_beside_another_study(tmp_path: Path) -> None:
    """Subtract runs serve all three margins, and carry one."""
    store = tmp_path / "a store"
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(study), store))
    command = printed(said("run", study, "--store", store))
    alone = answered(command)
    compared = [(c["stratum"], c["group"]) for c in alone["comparisons"]]
    assert compared == [(m, arm) for m in ("0.2", "0.4", "0.8") for arm in ("clamp", "soft_clamp")]
    assert json.loads(said("audit", store, "--json")) == alone  # the only study is the one that is meant
    assert any("0.2, 0.4 and 0.8" in str(n) for n in alone["notes"])
    other = written(tmp_path, "other", MARGINS.replace("0.8", "0.3"), AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(other), store))
    assert answered(command) == alone
    refused = said("audit", store, fails=True)
    assert refused.endswith("name one with --study: margins, other")
    for name in ("margins", "other"):
        assert answered(["audit", str(store), "--study", name])["by"] == "margin_first"
    page = said("report", store, "--study", "margins", "--out", tmp_path / "page.html", "--json")
    levels = {detail["setting"].partition(":")[0] for detail in json.loads(page)["details"]}
    assert levels == {"margin_first = 0.2", "margin_first = 0.4", "margin_first = 0.8"}


def test_what_is_asked_of_one_study_by_its_factors_is_asked_of_all_its_cells(tmp_path: Path) -> None:
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(study), tmp_path / "store"))
    options = ("--group", "margin_type", "--baseline", "clamp", "--by", "margin_first")
    found = json.loads(said("audit", tmp_path / "store", *options, "--json"))
    assert len(found["comparisons"]) == 6
    assert found["baseline"] == "clamp"


def test_the_audits_of_programs_and_of_a_collection_of_them(tmp_path: Path) -> None:
    store, one = tmp_path / "store", program_study(tmp_path / "one", "same")
    two = program_study(tmp_path / "two", "same", '"newer", "old"')
    both = tmp_path / "both.toml"
    audit = '[audit]\ngroup = "arm"\nbaseline = "old"\nby = "study"\nvalue = "accuracy"\n'
    both.write_text(f'include = ["{one}", "{program_study(tmp_path / "three", "third")}"]\n{audit}')
    first = printed(said("run", one, "--store", store, "--workers", 2))
    assert first[-1] == "same"
    assert [c["group"] for c in answered(first)["comparisons"]] == ["new"]
    second = printed(said("run", two, "--store", store, "--workers", 2))
    assert second[-1] == str(two)  # the store has two of that name
    assert [c["group"] for c in answered(second)["comparisons"]] == ["newer"]
    assert ".toml" in said(*first, fails=True)
    assert ".toml" in said("audit", store, fails=True)
    third = printed(said("run", both, "--store", store, "--workers", 2))
    found = answered(third)
    assert [(c["stratum"], c["group"]) for c in found["comparisons"]] == [
        ("same", "new"),
        ("third", "new"),
    ]


def test_what_is_printed_of_a_varied_study_is_about_the_variation(tmp_path: Path) -> None:
    """Also beside the study as it is, another variation, another of the same name, and in a collection."""
    store, one = tmp_path / "store", program_study(tmp_path / "one", "same")
    one.write_text(
        one.read_text().replace("train.py {arm}", "train.py {arm}{extra}") + '[settings]\nextra = ""\n'
    )
    varied = ("--seeds", "2", "--set", "extra=a b")
    hint = said("status", one, *varied, "--store", store, fails=True)
    assert printed(hint) == ["run", str(one), *varied, "--store", str(store)]
    first = printed(said(*printed(hint), "--workers", 2))
    assert first == ["audit", str(store), "--study", "same seeds=2 'extra=a b'"]
    whole = printed(said("run", one, "--store", store, "--workers", 2))
    other = printed(said("run", one, "--seeds", "1,3", "--store", store, "--workers", 2))
    rows = [answered(words)["rows"] for words in (first, whole, other)]
    assert rows == [4, 6, 4]
    assert standing(one, store, *varied) == {"done": 4}
    assert "--study: same, same seeds=1,3, same seeds=2" in said("audit", store, fails=True)
    two = program_study(tmp_path / "two", "same", '"newer", "old"')
    twin = printed(said("run", two, "--seeds", "1,3", "--store", store, "--workers", 2))
    assert twin[-1] == f"{two} seeds=1,3"  # the store has two of that name
    assert [c["group"] for c in answered(twin)["comparisons"]] == ["newer"]
    both = tmp_path / "both.toml"
    both.write_text(f'include = ["{two}"]\n[audit]\ngroup = "arm"\nbaseline = "old"\nby = "study"\n')
    third = printed(said("run", both, "--seeds", "1,3", "--store", store))
    assert [c["group"] for c in answered(third)["comparisons"]] == ["newer"]
    page = ("--out", tmp_path / "page.html", "--json")
    assert json.loads(said("report", *third[1:2], "--study", first[-1], *page))["details"]


def test_a_study_is_the_same_from_wherever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, store = program_study(tmp_path / "one", "same"), tmp_path / "store"
    said("run", study, "--store", store, "--workers", 2)
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "two")
    again = said("run", "../one/same.toml", "--store", "../store")
    assert answered(printed(again)) == answered(["audit", "../store"])  # one study, not two of a name


def test_a_study_that_the_store_does_not_have_is_an_error_with_those_that_it_has(tmp_path: Path) -> None:
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(study), tmp_path / "store"))
    for command in ("audit", "report"):
        assert "'margins'" in said(command, tmp_path / "store", "--study", "margin", fails=True)
    assert "quickstart" in said("audit", tmp_path / "store", "--study", "quickstart", fails=True)
    (tmp_path / "runs.csv").write_text("accuracy,arm,seed\n")
    assert "--study" in said("audit", tmp_path / "runs.csv", "--study", "margins", fails=True)


def test_what_an_error_says_to_run_mends_it(tmp_path: Path) -> None:
    store, study = tmp_path / "store", program_study(tmp_path, "study")
    assert said("audit", study, "--value", "accuracy", fails=True).endswith("seedspread audit STORE")
    command = printed(said("report", store, fails=True))
    said(*(str(study) if word == "STUDY" else word for word in command))
    said("report", store, "--out", tmp_path / "report.html")
    (tmp_path / "empty").mkdir()
    command = printed(said("report", tmp_path / "empty", fails=True))
    assert command == ["run", "STUDY", "--store", str(tmp_path / "empty")]


def test_failed_runs_are_advised_to_be_mended_and_that_helps(tmp_path: Path) -> None:
    """Not `let the study go on`: all have failed."""
    study, store = program_study(tmp_path, "study"), tmp_path / "store"
    (tmp_path / "train.py").write_text(PROGRAM.replace('"broken"', "arm"))
    command = ["run", str(study), "--store", str(store), "--keep-going"]
    assert "--retry-failed" in said(*command)
    assert standing(study, store) == {"failed": 6}
    advice = json.loads(said("report", store, "--out", tmp_path / "r.html", "--json"))["advice"]
    assert "--retry-failed" in advice[0]
    assert len(advice) == 1
    (tmp_path / "train.py").write_text(PROGRAM)
    said(*command, "--retry-failed")
    assert standing(study, store) == {"done": 6}
    assert "retry" not in said("report", store, "--out", tmp_path / "r.html", "--json")


def test_what_the_page_says_to_plan_with_can_be_run(tmp_path: Path) -> None:
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(study), tmp_path / "store"))
    values = json.loads(said("report", tmp_path / "store", "--out", tmp_path / "r.html", "--json"))
    (line,) = (line for line in values["advice"] if "seedspread seeds" in line)
    assert "seeds" in said(*printed(line))


def test_what_collect_says_to_audit_can_be_audited(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for arm in ("a", "b"):
        for seed in range(3):
            folder = tmp_path / "logs" / f"{arm}{seed}"
            folder.mkdir()
            run = {"arm": arm, "seed": seed, "accuracy": 0.5 + 0.01 * ((seed * 7 + ord(arm)) % 5)}
            (folder / "result.json").write_text(json.dumps(run))
    out = said("collect", tmp_path / "logs", "--metric", "accuracy", "--out", tmp_path / "runs.csv")
    assert answered(printed(out))["group"] == "arm"


def test_what_compare_says_to_type_compares(tmp_path: Path) -> None:
    """Of a store with two studies, with and without another source, and of tables that tell too little."""
    store, table = tmp_path / "a store", tmp_path / "table.csv"
    for name, levels in (("margins", MARGINS), ("other", MARGINS.replace("0.8", "0.3"))):
        study = written(tmp_path, name, levels, AUDIT + 'by = "margin_first"\n')
        fill(Plan.make(StudySpec.from_file(study), store))
    assert "--study" in said("compare", store, fails=True)
    found = json.loads(said("compare", store, "--study", "margins", "--study", "other", "--json"))
    assert found["names"] == ["margins", "other"]
    assert {c["stratum"] for c in found["spread"]["comparisons"]} == {
        f"{margin}, {arm}" for margin in ("0.2", "0.4") for arm in ("clamp", "subtract", "soft_clamp")
    }
    assert "30 of 45" in found["copies"][0]
    assert "twice" in said("compare", store, store, "--study", "margins", fails=True)
    Store(store).table().to_csv(table, index=False)
    assert "--study: margins, other" in said("compare", store, table, fails=True)


def test_what_compare_says_of_tables_compares_them(tmp_path: Path) -> None:
    for name in ("old", "new"):
        rows = [
            f"{data},{arm},{seed},{0.5 + ((seed * 7 + ord(arm)) % 5) / (50 + len(name))}"
            for data in ("mnist", "cifar")
            for arm in "ab"
            for seed in range(5)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["dataset,method,seed,accuracy", *rows]))
    tables = [str(tmp_path / "old.csv"), str(tmp_path / "new.csv")]
    for options in ([], ["--value", "accuracy"], ["--value", "accuracy", "--by", "dataset"]):
        command = printed(said("compare", *tables, *options, fails=True))
        assert command[:3] == ["compare", *tables]
        found = json.loads(said(*command, "--json"))
        assert (found["group"], found["spread"]["by"]) == ("method", "dataset, method")
        assert [a["stratum"] for a in found["agreements"]] == ["mnist", "cifar"]
    pooled = "\n".join(["method,accuracy", *(f"{'ab'[k % 2]},{k / 9}" for k in range(8))])
    for path in tables:
        Path(path).write_text(pooled)
    command = printed(said("compare", *tables, "--value", "accuracy", fails=True))
    assert command[-2:] == ["--group", "method"]
    said(*command)


def test_what_report_says_of_a_table_reports_on_it(tmp_path: Path) -> None:
    """With the options of `audit`, under its own name."""
    rows = [
        f"{d},{a},{s},{e},{(s * 7 + ord(a) + e) % 5}"
        for d in "xy"
        for a in "ab"
        for s in (1, 2, 3)
        for e in (1, 2)
    ]
    table, out = tmp_path / "curves.csv", str(tmp_path / "r.html")
    table.write_text("\n".join(["dataset,method,seed,epoch,accuracy", *rows]))
    for options in (
        [],
        ["--value", "accuracy"],
        ["--value", "accuracy", "--group", "method", "--by", "dataset"],
    ):
        command = printed(said("report", table, *options, "--out", out, fails=True))
        assert command[:2] == ["report", str(table)]
        assert command[-2:] == ["--last", "epoch"]
        said(*command, "--out", out)
    question = ("--value", "accuracy", "--group", "method", "--by", "dataset", "--higher-is-better")
    said("report", table, *question, "--where", "epoch == 1", "--out", out)
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(study), tmp_path / "store"))
    for option in (
        ["--where", "epoch == 1"],
        ["--no-seed"],
        ["--unpaired"],
        ["--no-steps"],
        ["--lower-is-better"],
    ):
        assert said("report", tmp_path / "store", *option, fails=True) == (
            f"{option[0]} is for a table; a store's studies define what is compared"
        )


def texts() -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(SOURCE)), text)
        for path in sorted(SOURCE.rglob("*.py"))
        for text in literals(ast.parse(path.read_text()))
    ]


def commands() -> dict[str, Any]:
    """Every command by its words."""
    out: dict[str, Any] = {}

    def add(words: str, command: Any) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            add(f"{words} {name}".strip(), inner)
        if not hasattr(command, "commands"):
            out[words] = command

    add("", typer.main.get_command(app))
    return out


# A command's words, and its arguments and options; what follows is the sentence around it.
WORDS = re.compile(
    r"seedspread (?P<name>NAMES)\b(?P<arguments>(?: (?!--)[\w./-]*[\w/])?(?: --[\w-]+(?: [\w./]+\b)?)*)"
)


def test_every_command_in_a_text_can_be_given() -> None:
    """With its options, and with samples for what is filled in; a name alone is a mention of a command."""
    there, given = commands(), []
    names = "|".join(sorted(there, key=len, reverse=True))
    pattern = re.compile(WORDS.pattern.replace("NAMES", names))
    for _, text in texts():
        for found in pattern.finditer(text):
            arguments = [SAMPLES.get(word, word) for word in found["arguments"].split()]
            if arguments:
                there[found["name"]].make_context(found["name"], arguments)  # raises a usage error
                given.append(f"{found['name']} {found['arguments'].strip()}")
    assert {"audit STORE", "plan mini/cifar10-factorial"} <= set(given)


def test_every_command_in_a_text_is_there() -> None:
    """A word after `seedspread` is a command, but for a verb in a sentence."""
    there = {words.partition(" ")[0] for words in commands()}
    named = {
        (place, word) for place, text in texts() for word in re.findall(r"seedspread ([a-z][\w-]*)", text)
    }
    others = {
        (place, word) for place, word in named if word not in there | {"x"}
    }  # x: a word that is filled in
    assert others == {("runs/files.py", "reads")}


def test_every_option_in_a_text_is_there() -> None:
    options = {o for c in commands().values() for p in c.params for o in (*p.opts, *p.secondary_opts)}
    mentioned = {
        (place, o) for place, text in texts() for o in re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", text)
    }
    gits = "runners/revisions.py"  # which talks to git in its own words
    assert {(p, o) for p, o in mentioned if o not in options | OTHERS and p != gits} == set()


def test_runs_that_ended_with_an_error_are_named_in_the_audit(tmp_path: Path) -> None:
    study = program_study(tmp_path, "some")
    program = PROGRAM.replace('arm == "broken"', '(arm, seed) == ("new", "2")')
    (tmp_path / "train.py").write_text(program)
    done = CliRunner().invoke(app, ["run", str(study), "--store", str(tmp_path / "store")])
    assert "--retry-failed" in done.stdout
    notes = answered(printed(done.stdout))["notes"]
    assert any("(new, seed 2)" in note for note in notes)


def test_the_command_that_status_prints_begins_the_store(tmp_path: Path) -> None:
    study, store = program_study(tmp_path / "a study", "study"), tmp_path / "a store"
    asked = ("status", study, "--store", store)
    command = printed(said(*asked, fails=True))
    assert command == ["run", str(study), "--store", str(store)]
    said(*command)
    assert standing(study, store) == {"done": 6}
    said(*asked)


def test_what_status_says_of_failed_runs_can_be_done(tmp_path: Path) -> None:
    study, store = program_study(tmp_path, "study"), tmp_path / "store"
    (tmp_path / "train.py").write_text(PROGRAM.replace('"broken"', '"new"'))
    assert "--retry-failed" in said("run", study, "--store", store)
    plan = said("plan", study, "--store", store)
    assert "--retry-failed" in plan
    assert standing(study, store) == {"done": 3, "failed": 3}
    (tmp_path / "train.py").write_text(PROGRAM)
    said("run", study, "--store", store, "--retry-failed")
    assert json.loads(said("plan", study, "--store", store, "--json"))["missing"] == 0


def test_the_data_that_an_error_says_to_fetch_is_fetched_to_where_it_is_looked_for(
    serve: Serve, tmp_path: Path
) -> None:
    serve("cifar10")
    data, study = tmp_path / "my data", tmp_path / "study.toml"
    study.write_text(
        'runner = "cff"\npreset = "mini/cifar10"\nseeds = 1\n[factors]\nmargin_type = ["clamp", "subtract"]\n'
    )
    asked = ("run", study, "--store", tmp_path / "store", "--data-dir", data)
    command = printed(said(*asked, fails=True))
    assert command == ["data", "fetch", "cifar10", "--data-dir", str(data)]
    listed = said("data", "list", "--data-dir", data)
    assert printed(next(line for line in listed.splitlines() if line.startswith("cifar10 "))) == command
    assert "cifar10: fetched into" in said(*command)
    assert "cifar10: already there" in said(*command)
    assert "cifar10: whole" in said("data", "check", "cifar10", "--data-dir", data)


def test_a_status_without_a_store_names_the_folder_of_data_too(tmp_path: Path) -> None:
    asked = ("status", "mini/cifar10-factorial", "--store", tmp_path / "store")
    assert printed(said(*asked, "--data-dir", tmp_path, fails=True))[-2:] == ["--data-dir", str(tmp_path)]


def test_what_quickstart_says_to_run_next_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = printed(what_next(tmp_path).splitlines()[-1])
    assert command == ["plan", "mini/cifar10-factorial"]
    # A plan measures a step of its training, which for this one takes long.
    monkeypatch.setattr("seedspread.cff.training.run._seconds_per_image", lambda *_: 0.001)
    assert json.loads(said(*command, "--json"))["distinct"] == 28
