"""The table and the command, whatever the source: steps, directions, duplicates, columns, what is printed."""

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread import collect
from seedspread.analysis.audit import audit
from seedspread.errors import install_command
from seedspread.runs.folder import RunFolder
from seedspread.tables.question import Question, TableError
from seedspread.tables.read import read_table
from seedspread.tables.sources.logs import WandbReader, which_export
from seedspread.tables.sources.run import Place, SourceError, quiet
from seedspread.tables.sources.trackers import connect
from tests.commands import seedspread_here
from tests.tables.sources import written


def runs(folder: Path, *contents: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for n, content in enumerate(contents):
        (folder / f"run-{n}.json").write_text(json.dumps(content))
    return folder


def test_the_best_of_a_loss_is_the_lowest_and_the_table_says_where(tmp_path: Path) -> None:
    log = [{"step": n, "val_loss": loss, "val_acc": n} for n, loss in enumerate((3.0, 1.0, 2.0))]
    runs(tmp_path, {"seed": 1, "log": log}, {"seed": 2, "log": log[::-1]})
    best = collect(tmp_path, ["val_loss", "val_acc"], "best")
    assert best.table[["step", "val_loss", "val_acc"]].values.tolist() == [[1, 1.0, 1.0]] * 2
    assert best.better == "lower"
    assert "The best val_loss is the lowest (by its name)." in best.notes
    assert collect(tmp_path, "val_loss", "best", better="higher").table["val_loss"].tolist() == [3.0, 3.0]
    last = collect(tmp_path, "val_loss")  # the last step, not the last line
    assert last.table["val_loss"].tolist() == [2.0, 2.0]
    with pytest.raises(SourceError, match="it has no step 9; its last is 2"):
        collect(tmp_path, "val_loss", "step=9")


@pytest.mark.parametrize("at", ["first", "step", "step=", "step=x", "step=nan", "best=3", ""])
def test_other_words_for_a_step_are_refused(tmp_path: Path, at: str) -> None:
    with pytest.raises(SourceError, match="best, last or step=N"):
        collect(runs(tmp_path, {"a": 1}), "a", at)


def test_values_that_are_not_finite_are_never_the_best(tmp_path: Path) -> None:
    runs(tmp_path, {"seed": 1, "val_acc": [0.5, float("nan"), 0.4, float("inf")]})
    assert collect(tmp_path, "val_acc", "best").table["val_acc"].tolist() == [0.5]
    with pytest.raises(SourceError, match="its last value is inf"):
        collect(tmp_path, "val_acc")


def test_constant_parameters_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    runs(tmp_path, *({"seed": n, "width": 8, "lr": 0.1 * (n % 2 + 1), "acc": n} for n in range(4)))
    got = collect(tmp_path, "acc")
    assert list(got.table.columns) == ["run", "seed", "lr", "acc"]
    assert (got.varying, got.constant) == (("lr",), ("width",))
    assert "width" in collect(tmp_path, "acc", all_parameters=True).table.columns


def test_a_run_that_was_repeated_is_listed(tmp_path: Path) -> None:
    same = {"seed": 1, "lr": 0.1}
    (tmp_path / "runs.jsonl").write_text(
        "\n".join(json.dumps(same | {"acc": acc, "name": f"r{acc}"}) for acc in (1, 2))
        + '\n{"lr": 0.1, "acc": 3}'
    )
    got = collect(tmp_path, "acc")
    assert len(got.table) == 3  # names differ
    with quiet():
        client = connect((tmp_path / "mlruns").as_uri())
    for name in ("early", "late"):
        run = client.create_run("0", run_name=name).info.run_id
        client.log_param(run, "seed", 1)
        client.log_metric(run, "acc", 0.5)
        client.set_terminated(run)
    twice = collect(tmp_path / "mlruns", "acc")
    assert list(twice.table["run"]) == ["late"]
    assert twice.unread[0].reason == "its parameters and its seed are those of late, a later run"
    assert len(collect(tmp_path / "mlruns", "acc", keep_duplicates=True).table) == 2


def test_without_a_seed_none_is_invented(tmp_path: Path) -> None:
    runs(tmp_path, {"lr": 0.1, "acc": 1}, {"lr": 0.1, "acc": 2})
    got = collect(tmp_path, "acc")
    assert got.seed is None
    assert len(got.table) == 2
    assert "seed" not in got.table.columns
    done = seedspread_here("collect", str(tmp_path), "--metric", "acc")
    assert "no parameter is a seed" in done.stderr


def test_a_parameter_called_like_a_column_of_the_table_keeps_a_name(tmp_path: Path) -> None:
    runs(
        tmp_path,
        *(
            {"seed": n, "config": {"run": f"x{n}", "step": n, "acc": -n}, "metrics": {"acc": n}}
            for n in (1, 2)
        ),
    )
    table = collect(tmp_path, "acc").table
    assert table["acc"].tolist() == [1, 2]
    assert table["param.run"].tolist() == ["x1", "x2"]
    assert table["param.step"].tolist() == [1, 2]


def test_several_experiments_or_studies_are_a_column(tmp_path: Path) -> None:
    for study in ("first", "second"):
        written.write_optuna(tmp_path / "optuna.log", study)
        written.write_mlflow((tmp_path / "mlruns").as_uri(), study)
    for source, metric, column in (("optuna.log", "value", "study"), ("mlruns", "val_acc", "experiment")):
        table = collect(tmp_path / source, metric).table
        assert table[column].value_counts().to_dict() == {"first": 16, "second": 16}


def test_text_stays_text_and_numbers_become_numbers(tmp_path: Path) -> None:
    texts = [("1e5", "007", "0.1", True), ("123e999", "010", "0.2", False)]
    runs(
        tmp_path,
        *(
            {"seed": n, "h": h, "z": z, "lr": lr, "flag": f, "acc": 1}
            for n, (h, z, lr, f) in enumerate(texts)
        ),
    )
    row = collect(tmp_path, "acc").table.iloc[1]
    assert (row["h"], row["z"], row["lr"], row["flag"]) == ("123e999", "010", 0.2, "False")


def test_a_folder_with_a_config_is_one_run(tmp_path: Path) -> None:
    for seed in (1, 2):
        run = tmp_path / f"r{seed}"
        run.mkdir()
        (run / "config.yaml").write_text(f"opt:\n  lr: 0.1\nseed: {seed}\n")
        (run / "train.jsonl").write_text('{"epoch": 0, "loss": 3}\n{"epoch": 1, "loss": 2}\n')
        (run / "result.json").write_text(json.dumps({"test": {"acc": 0.5 + seed}}))
    got = collect(tmp_path, ["acc", "loss"])
    assert got.kind == "json"  # a result.json alone makes no store
    assert got.table[["run", "seed", "acc", "loss"]].values.tolist() == [
        ["r1", 1, 1.5, 2.0],
        ["r2", 2, 2.5, 2.0],
    ]


def test_rows_of_several_runs_in_one_file(tmp_path: Path) -> None:
    rows = [{"seed": seed, "step": step, "acc": seed + step} for step in range(3) for seed in range(4)]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    table = collect(tmp_path / "log.jsonl", "acc").table
    assert table[["seed", "acc"]].values.tolist() == [[seed, seed + 2] for seed in range(4)]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(row | {"seed": 0}) for row in rows))
    with pytest.raises(SourceError, match="add a column 'run'"):
        collect(tmp_path / "log.jsonl", "acc")


names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12).map(
    str.strip
)
run_names = names.filter(
    lambda name: name and ": " not in name and " - " not in f"{name} " and not name.endswith(" -")
)


@given(
    st.lists(run_names, min_size=1, max_size=4, unique=True),
    st.lists(st.floats(-9, 9), min_size=1, max_size=4),
)
def test_a_wandb_panel_comes_back_whatever_the_runs_are_called(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[str], values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("wide") / "panel.csv"
    columns = {f"{name} - val/acc": values for name in chosen}
    bounds = {f"{name}__{end}": values for name in columns for end in ("MIN", "MAX")}
    pd.DataFrame({"Step": range(len(values)), **columns, **bounds}).to_csv(path, index=False, quoting=1)
    got = {run.name: run for run in WandbReader().read(Place.of(path), ["val/acc"], True)}
    assert set(got) == set(chosen)
    for run in got.values():
        assert [value for _, value in run.curves["val/acc"]] == pytest.approx(values)  # type: ignore[union-attr]


def test_the_shapes_of_wandbs_exports() -> None:
    assert which_export(["Step", "a - acc", "a - acc__MIN"]) == "wide"
    assert which_export(["Name", "State", "Created", "acc"]) == "runs"
    assert which_export(["run_id", "_step", "acc"]) is None  # a plain table, of which --last takes a row
    assert which_export(["margin_type", "seed", "accuracy"]) is None
    assert which_export([]) is None


def test_runs_that_only_their_names_tell_apart_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "panel.csv"
    path.write_text('"Step","adam_seed1 - acc","sgd_seed1 - acc"\n0,0.5,0.5\n')
    got = collect(path, "acc")
    assert got.table["run"].tolist() == ["adam_seed1", "sgd_seed1"]
    assert got.table["seed"].tolist() == [1, 1]
    assert not got.unread


def test_means_over_groups_are_no_runs(tmp_path: Path) -> None:
    path = tmp_path / "panel.csv"
    path.write_text('"Step","lr: 0.1 - acc","Name: a - acc"\n0,0.5,0.6\n')
    got = collect(path, "acc")
    assert list(got.table["run"]) == ["a"]
    assert "a mean over a group of runs" in got.unread[0].reason


def test_a_plain_table_is_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [{"run": f"r{n}", "name": "cifar10", "epoch": 10, "seed": n, "acc": n / 10} for n in range(4)]
    pd.DataFrame(rows).to_csv(path, index=False)
    table = read_table(path, Question("acc"))
    assert len(table.frame) == 4
    assert not table.notes
    with pytest.raises(TableError, match="has one value per run"):
        read_table(path, Question("acc", at="best"))


def test_a_store_without_a_finished_run_is_still_a_store(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "key", "key")
    run.open("a = 1", resume=False)
    run.begin(1)
    for command, why in (("audit", "finished"), ("report", "no record")):
        done = seedspread_here(command, str(tmp_path))
        assert done.returncode == 2
        assert why in done.stderr


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = seedspread_here("collect", "http://127.0.0.1:9", "--metric", "acc")
    assert done.returncode == 2
    assert done.stderr.startswith("error: MLflow cannot use http://127.0.0.1:9")
    assert done.stderr.count("\n") == 1


def test_the_command_says_what_it_read_and_what_to_do_next(tmp_path: Path) -> None:
    written.write_json(tmp_path / "json")
    (tmp_path / "json" / "cut.json").write_text("{")
    table = tmp_path / "my table.csv"
    done = seedspread_here(
        "collect", str(tmp_path / "json"), "--metric", "val_acc", "--at", "best", "--out", str(table)
    )
    assert done.returncode == 0, done.stderr
    for said in (
        "16 runs ",
        "seed: the parameter seed (8 values)",
        "optimizer (adam, sgd)",
        "cut.json: no",
    ):
        assert said in done.stdout
    command = shlex.split(done.stdout.splitlines()[-1].removeprefix("next: "))
    assert command[:2] == ["seedspread", "audit"]
    audited = seedspread_here(*command[1:])
    assert audited.returncode == 0, audited.stderr
    assert "sgd" in audited.stdout
    straight = ["--value", "val_acc", "--group", "optimizer", "--baseline", "adam", "--at", "best"]
    page = tmp_path / "page.html"
    reported = seedspread_here("report", str(tmp_path / "json"), *straight, "--out", str(page))
    assert reported.returncode == 0, reported.stderr
    assert "Read 16 runs from JSON files" in page.read_text()


def test_the_next_command_tells_runs_of_a_seed_apart(tmp_path: Path) -> None:
    grid = [(lr, opt, seed) for lr in (0.1, 0.2) for opt in ("-a b", "c") for seed in range(3)]
    runs(
        tmp_path / "runs",
        *(
            {"lr": lr, "opt": opt, "seed": seed, "data_seed": seed + 7, "note": f"{opt}!", "acc": seed + lr}
            for lr, opt, seed in grid
        ),
    )
    table = tmp_path / "table.tsv"
    done = seedspread_here("collect", str(tmp_path / "runs"), "--metric", "acc", "--out", str(table))
    command = shlex.split(done.stdout.splitlines()[-1].removeprefix("next: "))
    assert command[-6:] == ["--value", "acc", "--group", "opt", "--by", "lr"]
    audited = seedspread_here(*command[1:])
    assert audited.returncode == 0, audited.stderr


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_table_for_a_spreadsheet_starts_no_formula(tmp_path: Path, start: str) -> None:
    metric, safe = f"{start}acc", f"'{start}".replace("\r", " ")
    made = [{"opt": f"{start}{opt}(1)\r=2", "seed": n, metric: n - 1.5} for opt in "ab" for n in range(3)]
    source, out = str(runs(tmp_path / "runs", *made)), tmp_path / "t.csv"
    done = seedspread_here("collect", source, "--metric", metric, "--out", str(out))
    with out.open(newline="") as file:
        head, *cells = csv.reader(file)
    assert head == ["run", "seed", "opt", f"{safe}acc"]
    assert cells[0][1:] == ["0", f"{safe}a(1) =2", "-1.5"]
    command = shlex.split(done.stdout.splitlines()[-1].removeprefix("next: "))
    if start != "\t":  # which no command line shows
        audited = seedspread_here(*command[1:])
        assert audited.returncode == 0, audited.stderr
    alone = seedspread_here("collect", source, "--metric", metric).stdout
    assert next(csv.reader(io.StringIO(alone))) == head
    parquet = tmp_path / "t.parquet"
    seedspread_here("collect", source, "--metric", metric, "--out", str(parquet))
    assert pd.read_parquet(parquet)["opt"][0] == f"{start}a(1)\r=2"


def test_a_table_alone_and_json(tmp_path: Path) -> None:
    source = str(runs(tmp_path / "runs", *({"seed": n, "acc": n} for n in range(3))))
    alone = seedspread_here("collect", source, "--metric", "acc")
    assert alone.stdout == "run,seed,acc\nrun-0,0,0.0\nrun-1,1,1.0\nrun-2,2,2.0\n"
    values = json.loads(seedspread_here("collect", source, "--metric", "acc", "--json").stdout)
    assert (values["kind"], values["runs"], values["unread"]) == ("json", 3, [])
    parquet = tmp_path / "t.parquet"
    assert seedspread_here("collect", source, "--metric", "acc", "--out", str(parquet)).returncode == 0
    assert pd.read_parquet(parquet)["acc"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--metric", "ac"], "'acc'"),
        ([], "say which metric with --metric"),
        (["--metric", "acc", "--kind", "jsn"], "'json'"),
        (["--metric", "acc", "--kind", "mlflow"], "holds nothing of MLflow; it looks like JSON files"),
        (["--metric", "acc", "--kind", "optuna"], "holds nothing of Optuna"),
        (["--metric", "acc", "--at", "now"], "best, last or step=N"),
        (["--metric", "acc", "--out", "x.xlsx"], "must end in .csv"),
        (["--metric", "acc", "--out", "no/such/folder.csv"], "cannot write"),
        (["--metric", "acc", "--higher-is-better", "--lower-is-better"], "not both"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    source = runs(tmp_path / "runs", {"seed": 1, "acc": 1})
    done = seedspread_here("collect", str(source), *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_what_is_nothing_or_nowhere_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    for source, said in (
        ("empty", "holds no results"),
        ("nowhere", "does not exist"),
        ("notes.txt", "holds no results"),
    ):
        done = seedspread_here("collect", str(tmp_path / source), "--metric", "acc")
        assert done.returncode == 2
        assert said in done.stderr
        audited = seedspread_here("audit", str(tmp_path / source), "--value", "acc")
        assert audited.returncode == 2
        assert audited.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("library", "file", "content"),
    [
        ("mlflow", "mlruns/0/meta.yaml", ""),
        ("optuna", "mlruns", '{"op_code":0}'),
        ("tensorboard", "mlruns/events.out.tfevents.1", ""),
    ],
)
def test_a_library_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, file: str, content: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    monkeypatch.setattr("seedspread.errors.is_installed", lambda module: module != library)
    done = seedspread_here("collect", str(tmp_path / "mlruns"), "--metric", "x")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f": {install_command(library)}\n")


def test_the_direction_that_an_optuna_study_optimises_is_the_audits(tmp_path: Path) -> None:
    written.write_optuna(tmp_path / "optuna.log")  # its direction is maximize
    result = audit(tmp_path / "optuna.log", "value", "optimizer", "adam")
    assert result.metric.better == "higher"
    told = audit(tmp_path / "optuna.log", "value", "optimizer", "adam", better="higher")
    assert result.notes == told.notes
    collected = collect(tmp_path / "optuna.log", "value")
    assert audit(collected, "value", "optimizer", "adam").metric == result.metric


def test_the_suggested_audit_of_a_file_goes_by_the_direction_of_the_optuna_study(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    for direction, asked in (("minimize", True), ("maximize", False)):
        written.write_optuna(tmp_path / f"{direction}.log", direction=direction)
        log = str(tmp_path / f"{direction}.log")
        done = seedspread_here("collect", log, "--metric", "value", "--out", str(table))
        assert ("--lower-is-better" in done.stdout.splitlines()[-1]) is asked


def test_a_folder_with_a_config_and_json_that_is_no_object_gives_no_row(tmp_path: Path) -> None:
    for name, content in (("a", {"acc": 0.5}), ("b", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"seed": 1}')
        (tmp_path / name / "metrics.json").write_text(json.dumps(content))
    collected = collect(tmp_path, "acc")
    assert collected.table["run"].tolist() == ["a"]
    assert [one.name for one in collected.unread] == ["b"]
