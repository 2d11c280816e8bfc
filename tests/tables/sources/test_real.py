"""Each source as the tool itself has written it gives the same table; W&B's as its site exports it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seedspread import audit, collect
from tests.tables.sources import written
from tests.tables.sources.written import METRIC, expected, found

# What writes it, the kind as which it is recognised, the metric, the column that is compared.
SOURCES: dict[str, tuple[Callable[[Path], Any], str, str, str]] = {
    "mlflow.db": (lambda p: written.write_mlflow(f"sqlite:///{p}"), "mlflow", METRIC, "optimizer"),
    "mlruns": (lambda p: written.write_mlflow(p.as_uri()), "mlflow", METRIC, "optimizer"),
    "tensorboard": (written.write_tensorboard, "tensorboard", METRIC, "stem"),
    "overrides": (
        lambda p: written.write_tensorboard(p, "optimizer={optimizer},seed={seed}"),
        "tensorboard", METRIC, "optimizer",
    ),
    "hparams": (
        lambda p: written.write_tensorboard(p, "{optimizer}{seed}", hparams=True),
        "tensorboard", METRIC, "optimizer",
    ),
    "lightning": (written.write_lightning, "lightning", METRIC, "optimizer.name"),
    "hydra": (written.write_hydra, "hydra", METRIC, "optimizer.name"),
    "optuna.db": (written.write_optuna, "optuna", "value", "optimizer"),
    "optuna.log": (written.write_optuna, "optuna", "value", "optimizer"),
    "json": (written.write_json, "json", METRIC, "optimizer"),
    "jsonl": (written.write_json_lines, "json", METRIC, "optimizer"),
    "runs.csv": (written.write_wandb_runs, "wandb", METRIC, "optimizer"),
    "wide.csv": (written.write_wandb_wide, "wandb", METRIC, "optimizer"),
}  # fmt: skip
NO_CURVES = {"runs.csv"}


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("sources") / request.param
    SOURCES[request.param][0](path)
    return request.param, path


@pytest.mark.parametrize("at", ["last", "best", "step=2"])
def test_every_tool_gives_the_same_table(source: tuple[str, Path], at: str) -> None:
    name, path = source
    _, kind, metric, group = SOURCES[name]
    if name in NO_CURVES and at != "last":
        return
    got = collect(path, metric, at)
    assert got.kind == kind
    table = got.table.rename(columns={metric: METRIC})
    if name.startswith("optuna") and at == "last":
        table["step"] = 5  # a trial's value has no step
    assert found(table, group) == expected(at)
    assert set(got.varying) == {group}
    assert table["seed"].dtype == "Int64"


def test_what_is_not_a_result_is_listed(source: tuple[str, Path]) -> None:
    name, path = source
    reasons = {one.name.split(" ")[0]: one.reason for one in collect(path, SOURCES[name][2]).unread}
    assert reasons == {
        "mlflow.db": {"broken": "its status is FAILED", "going-on": "its status is RUNNING"},
        "mlruns": {"broken": "its status is FAILED", "going-on": "its status is RUNNING"},
        "hydra": {f"multirun/{job}": "no file with metrics (.json, .jsonl, .csv)" for job in (16, 17)},
        "optuna.db": {"first/0": "the trial's state is PRUNED", "first/17": "the trial's state is FAIL"},
        "optuna.log": {"first/0": "the trial's state is PRUNED", "first/17": "the trial's state is FAIL"},
        "runs.csv": {"glad-river-50": "its state is crashed"},
    }.get(name, {})


def test_an_audit_reads_it_as_it_lies_there(source: tuple[str, Path], tmp_path: Path) -> None:
    name, path = source
    _, _, metric, group = SOURCES[name]
    straight = audit(str(path), metric, group, "adam")
    table = tmp_path / "table.csv"
    collect(path, metric).table.to_csv(table, index=False)
    through = audit(table, metric, group, "adam")
    assert straight.comparisons == through.comparisons
    assert straight.comparisons[0].group == "sgd"
    assert any(" 16 runs " in note for note in straight.notes)


def test_nothing_is_written_where_it_is_read(source: tuple[str, Path]) -> None:
    name, path = source

    def content() -> dict[Path, tuple[int, bytes]]:
        files = sorted(path.rglob("*")) if path.is_dir() else sorted(path.parent.rglob("*"))
        return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files if file.is_file()}

    before = content()
    collect(path, SOURCES[name][2], "best")
    assert content() == before


def test_a_database_has_an_address_too(source: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, path = source
    if path.suffix != ".db":
        return
    monkeypatch.chdir(path.parent)
    for address in (f"sqlite:///{name}", f"sqlite:///{path}"):
        got = collect(address, SOURCES[name][2])
        assert (got.kind, len(got.table)) == (SOURCES[name][1], 16)
    assert [file.name for file in path.parent.iterdir()] == [name]
