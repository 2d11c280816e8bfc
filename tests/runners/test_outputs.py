"""Metrics from what programs print and leave anyway: lines of output, fields of files."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread.runners.outputs import MetricSource, field_of_file, matched, plain_text, suggested_regex
from seedspread.runs.folder import RunFailedError
from seedspread.study.display import lacking, tidy_runs
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError, StudySpec
from tests.study.here import Here

STUDY = """
seeds = {seeds}
[run]
command = ["{{python}}", "-S", "train.py", "{{seed}}", "{{x}}"]
[factors]
x = [0, 1]
[metrics]
accuracy = {metric}
[audit]
group = "x"
baseline = 0
"""
PROGRAM = """
import json, os, sys, time
seed, x = int(sys.argv[1]), int(sys.argv[2])
value = 50 + seed + x / 10
"""
# Colors, a progress bar, and lines after the one that counts, as unchanged programs print them.
PRINTS = r"""
for step in range(3): print(f"\rstep {step}: acc: {step}", end="", file=sys.stderr)
print(f"\n\x1b[1mFinal acc:\x1b[0m \x1b[32m{value}\x1b[0m%")
print("took 3 s")
"""


def plan_of(folder: Path, body: str, metric: str, seeds: int = 3) -> Plan:
    (folder / "train.py").write_text(PROGRAM + body)
    path = folder / "study.toml"
    path.write_text(STUDY.format(seeds=seeds, metric=metric))
    return Plan.make(StudySpec.from_file(path), folder / "store")


def accuracies(plan: Plan) -> dict[tuple[str, int], float]:
    table = tidy_runs(plan, ["accuracy"])
    return {(str(row["x"]), row["seed"]): row["accuracy"] for _, row in table.iterrows()}


TRUTH = {(str(x), seed): 50 + seed + x / 10 for x in (0, 1) for seed in (1, 2, 3)}


def test_a_number_of_the_output_whatever_its_colors(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, PRINTS, r"{ regex = 'acc: ([\d.]+)%', unit = 'percent' }")
    run_plan(plan, Here())
    assert accuracies(plan) == TRUTH


FILES = {
    "{folder}/results.json": "json.dump({'final': {'acc': value}}, open(os.environ['SEEDSPREAD_FOLDER'] + "
    "'/results.json', 'w'))",
    "out-{x}-{seed}.yaml": "os.chdir(os.environ['SEEDSPREAD_FOLDER']); "
    "open(f'out-{x}-{seed}.yaml', 'w').write(f'final:\\n  acc: {value}\\n')",
    "log.csv": "open(os.environ['SEEDSPREAD_FOLDER'] + '/log.csv', 'w')"
    ".write(f'epoch,final.acc\\n1,0.1\\n2,{value}\\n')",
}


@pytest.mark.parametrize("name", FILES)
def test_a_field_of_a_file_in_the_runs_folder(tmp_path: Path, name: str) -> None:
    plan = plan_of(tmp_path, FILES[name], f"{{ file = '{name}', key = 'final.acc' }}")
    run_plan(plan, LocalExecutor(workers=2))
    assert accuracies(plan) == TRUTH


@pytest.mark.parametrize("name", ["results.json", "../results.json", "{checkout}/results.json"])
def test_a_file_that_other_runs_overwrite_is_not_read(tmp_path: Path, name: str) -> None:
    program = "open('results.json', 'w').write('{\"accuracy\": 0.99}')"
    if "checkout" in name:
        name = f"{tmp_path}/results.json"
    failed = run_plan(plan_of(tmp_path, program, f"{{ file = '{name}' }}", seeds=1), Here()).failed
    words = (
        "no file results.json in the run's folder" if name == "results.json" else "not in the run's folder"
    )
    assert all(words in message for message in failed.values())
    assert len(failed) == 2


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    source = MetricSource("acc", file="x", key="runs.1.acc")
    values = {"runs": [{"acc": 1}, {"acc": 2.5}]}
    (tmp_path / "a.json").write_text(json.dumps(values))
    (tmp_path / "a.jsonl").write_text("{}\n" + json.dumps(values) + "\n\n")
    (tmp_path / "a.yml").write_text("runs: [{acc: 1}, {acc: 2.5}]")
    for name in ("a.json", "a.jsonl", "a.yml"):
        assert field_of_file(source, tmp_path / name) == 2.5
    (tmp_path / "a.tsv").write_text("epoch\tacc\n1\t1\n2\t2.5\n")
    assert field_of_file(MetricSource("acc", file="x"), tmp_path / "a.tsv") == 2.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file a.json"),
        ("{", "a.json cannot be read"),
        ("[]", "a.json has no acc"),
        ('{"acc": {}}', None),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: str | None, message: str | None) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    if message is None:
        assert field_of_file(MetricSource("acc"), tmp_path / "a.json") == {}  # refused as no number
        return
    with pytest.raises(RunFailedError, match=message):
        field_of_file(MetricSource("acc"), tmp_path / "a.json")


def test_a_pattern_that_finds_nothing_or_no_number() -> None:
    source = MetricSource("acc", regex=r"acc: (\S+)")
    assert matched(source, "acc: 1\nacc: 2e-1\n") == 0.2
    with pytest.raises(RunFailedError, match="matches nothing that the program printed"):
        matched(source, "loss: 3")
    with pytest.raises(RunFailedError, match="found 'high', which is not a number"):
        matched(source, "acc: high")


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("{ regex = 'acc' }", "needs a group"),
        ("{ regex = '(' }", "is not a regular expression"),
        ("{ regex = '(a)', file = 'x.json' }", "not both"),
        ("{ key = 'a' }", "name it with file"),
        ("{ file = 'x.npy' }", "must end in one of .json"),
        ("{ file = '{nope}.json' }", "{nope}"),
    ],
)
def test_a_study_that_cannot_be_read_is_refused(tmp_path: Path, metric: str, message: str) -> None:
    with pytest.raises(StudyError, match=re.escape(message)):
        plan_of(tmp_path, "", metric)


def test_the_first_runs_without_the_metric_stop_the_study(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, PRINTS, "{}", seeds=20)
    progress = run_plan(plan, LocalExecutor(workers=2))
    assert len(progress.failed) < 20
    assert "all ended without the metric 'accuracy'" in progress.stopped
    assert "last output: took 3 s" in progress.stopped
    found = re.search(r"accuracy = (\{ regex = .* \}) under \[metrics\]", progress.stopped)
    assert found is not None
    mended = plan_of(tmp_path, PRINTS, found[1], seeds=3)
    assert not run_plan(mended, Here(), retry_failed=True).failed
    assert accuracies(mended) == TRUTH


def test_a_metric_that_is_declared_later_is_named_with_the_runs_that_lack_it(tmp_path: Path) -> None:
    run_plan(plan_of(tmp_path, PRINTS, r"{ regex = 'acc: ([\d.]+)%' }"), Here())
    later = plan_of(tmp_path, PRINTS, "{ regex = 'acc: ([\\d.]+)%' }\ntook = { regex = 'took (\\d+)' }")
    (line,) = lacking(later)
    assert line.startswith("6 finished runs have no took, ")


def test_runs_that_fail_each_in_its_own_way_do_not_stop_a_study(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "print('abc'[seed % 3]); sys.exit(1 + seed % 3)", "{}", seeds=4)
    assert "missing" not in run_plan(plan, Here()).stopped


@given(st.floats(-1e6, 1e6, allow_nan=False), st.sampled_from(["test acc", "Accuracy (val)", "[1/2] acc ="]))
def test_the_pattern_that_is_suggested_finds_the_number(value: float, label: str) -> None:
    line = f"  {label}: {value:.6g} %"
    regex = suggested_regex("test_acc", ["epoch 1", line, "bye 7"])
    assert regex is not None
    assert matched(MetricSource("test_acc", regex=regex), f"{line}\n") == float(f"{value:.6g}")


def test_a_line_is_what_a_reader_sees() -> None:
    assert plain_text(b"a\r\x1b[2Kb\r\n\x1b]0;title\x07c\x1b[0;1md") == "a\nb\ncd"


def test_a_shell_script_and_a_compiled_program_as_they_are(tmp_path: Path) -> None:
    """Neither knows of seedspread, and neither is Python."""
    (tmp_path / "train.sh").write_text(
        'cd /; printf "\\rstep 1"; echo; echo "final accuracy = $((50 + $1))"\n'
    )
    source = '#include <cstdio>\n#include <cstdlib>\nint main(int n, char **v) { FILE *f = fopen(v[2], "w"); '
    source += 'fprintf(f, "epoch,accuracy\\n1,0\\n2,%d\\n", 50 + atoi(v[1])); return fclose(f); }'
    (tmp_path / "train.cpp").write_text(source)
    subprocess.run(["g++", "train.cpp", "-o", "train"], cwd=tmp_path, check=True)
    metrics = {
        '"bash", "train.sh", "{seed}"': r"{ regex = 'accuracy = (\d+)' }",
        '"./train", "{seed}", "{folder}/log.csv"': "{ file = 'log.csv' }",
    }
    for number, (command, metric) in enumerate(metrics.items()):
        text = STUDY.format(seeds=2, metric=metric).replace(
            '"{python}", "-S", "train.py", "{seed}", "{x}"', command
        )
        path = tmp_path / f"study{number}.toml"
        path.write_text(text)
        plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
        assert not run_plan(plan, Here()).failed
        assert sorted(tidy_runs(plan, ["accuracy"])["accuracy"]) == [51, 51, 52, 52]
