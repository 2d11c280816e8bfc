"""Studies and configs that ask for the absurd are refused in one line, before anything is made of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seedspread.cff.config import ModelConfig
from seedspread.cff.presets import ConfigError, check, read_config
from seedspread.cff.training.run import seconds_of_run
from seedspread.errors import SeedspreadError
from seedspread.runs.files import TomlError, parse_toml
from seedspread.study.plan import Plan
from seedspread.study.spec import MAX_RUNS, StudyError, StudySpec
from tests.cff.training.tiny import tiny
from tests.commands import seedspread_here

HEAD = 'title = "t"\nrunner = "cff"\npreset = "quickstart"\n'
FIELDS = ("margin_first", "margin_last", "temperature", "dim", "depth", "margin_exponent")


def refused(tmp_path: Path, text: str, **options: Any) -> str:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        StudySpec.from_file(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def crossed(factors: int, seeds: int = 1, levels: int = 10) -> str:
    chosen = "".join(f"{name} = {list(range(1, levels + 1))}\n" for name in FIELDS[:factors])
    return f"{HEAD}seeds = {list(range(seeds))}\n[factors]\n{chosen}"


@pytest.mark.parametrize(
    ("factors", "seeds", "count"), [(5, 1, "100,000"), (6, 1, "1,000,000"), (6, 1000, "1,000,000,000")]
)
def test_runs_are_counted_before_they_are_made(factors: int, seeds: int, count: str, tmp_path: Path) -> None:
    assert f"names {count} runs; the limit is 20,000: make several studies of it" in refused(
        tmp_path, crossed(factors, seeds)
    )


def test_more_factors_than_there_are_numbers_for(tmp_path: Path) -> None:
    chosen = "".join(f"f{i} = [1, 2]\n" for i in range(20_000))
    assert "more than 10^15 runs" in refused(tmp_path, f"{HEAD}seeds = [1]\n[factors]\n{chosen}")


def test_a_million_seeds_are_not_even_read(tmp_path: Path) -> None:
    text = f"{HEAD}seeds = {list(range(1_000_000))}\n[factors]\ndim = [4]\n"
    assert f"has {len(text):,} bytes; the limit is 1,000,000: make several studies of it" in refused(
        tmp_path, text
    )
    assert "names 100,000 runs" in refused(
        tmp_path, text.replace(str(list(range(1_000_000))), str([*range(100_000)]))
    )


def test_includes_that_double_are_counted_and_not_followed(tmp_path: Path) -> None:
    leaf = tmp_path / "0.toml"
    leaf.write_text(crossed(1, levels=2))
    for i in range(1, 15):
        part = tmp_path / f"{i - 1}.toml"
        (tmp_path / f"{i}.toml").write_text(f'title = "t"\ninclude = ["{part}", "{part}"]\n')
    assert "names 32,768 runs" in refused(tmp_path, (tmp_path / "14.toml").read_text())
    assert len(Plan.make(StudySpec.from_file(tmp_path / "10.toml"), tmp_path).runs) == 2048
    for i in range(15, 25):
        part = tmp_path / f"{i - 1}.toml"
        (tmp_path / f"{i}.toml").write_text(f'title = "t"\ninclude = ["{part}", "{part}"]\n')
    assert "over more than 16 files" in refused(tmp_path, (tmp_path / "24.toml").read_text())


def test_the_limit_itself_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(crossed(2, seeds=MAX_RUNS // 100))
    study = StudySpec.from_file(path)
    assert len(study.cells) * len(study.seeds) == MAX_RUNS
    path.write_text(crossed(2, seeds=MAX_RUNS // 100 + 1))
    for command in ("plan", "status", "run"):
        done = seedspread_here(command, str(path), "--store", str(tmp_path / "store"))
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "20,100 runs" in done.stderr


def test_a_plan_of_very_many_cells_is_cut_on_a_terminal_and_whole_in_json(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(crossed(3))
    (tmp_path / "store").mkdir()
    arguments = ("status", str(path), "--store", str(tmp_path / "store"))
    assert "and 500 more cells, which --json lists" in " ".join(seedspread_here(*arguments).stdout.split())
    assert len(json.loads(seedspread_here(*arguments, "--json").stdout)["runs"]) == 1000


@pytest.mark.parametrize("seed", ["true", "1.5", "1.0", '"1"', "-1", str(10**30), "nan", str(2**63), "[1]"])
def test_a_seed_is_a_whole_number(seed: str, tmp_path: Path) -> None:
    assert "seeds" in refused(tmp_path, f"{HEAD}seeds = [{seed}]\n[factors]\ndim = [4]\n")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000 + "]" * 100_000,
        "a = " + "{b=" * 50_000 + "1" + "}" * 50_000,
        ".".join("a" * 100_000) + " = 1",
        " . ".join("a" * 100_000) + " = 1",
        "[" + ".".join("a" * 100_000) + "]",
        ".".join('"a"' for _ in range(100_000)) + " = 1",
        "a = 0x" + "f" * 100_000,
        "a = " + "9" * 100_000,
        "a" * 1_000_000 + ".",
    ],
)  # fmt: skip
def test_toml_that_is_nested_or_counted_absurdly_is_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(TomlError):
        parse_toml(text, "it")
    refused(tmp_path, text)
    with pytest.raises(ConfigError):
        read_config(str(tmp_path / "s.toml"))


def test_many_decimals_on_a_line_are_no_long_key() -> None:
    values = [0.5 + i for i in range(1000)]
    assert parse_toml(f"a = {values}\nb = 'a. b. c.'", "it")["a"] == values


@pytest.mark.parametrize(
    "setting",
    [
        "model.depth=1000000000", "model.dim=1000000000", "model.heads=1000000000", "model.channels=100000",
        "model.image_size=1000000000", "model.patch_size=1000000000", "training.epochs=10000000000",
        "training.batch_size=10000000000", "probe.repeats=1000000", "probe.epochs=10000000",
        "runtime.micro_batch_size=100000000000", "data.limit_per_class=100000000000", "seeds.run=true",
        "model.depth=1e9", f"seeds.run={10**30}", "model.depth=[[[[1]]]]", f"model.depth={'9' * 5000}",
        "data.augment=[" + "{op='random_crop',padding=1}," * 101 + "]",
    ],
)  # fmt: skip
def test_no_config_field_can_be_absurd(setting: str, tmp_path: Path) -> None:
    done = seedspread_here("train", "quickstart", "--set", setting, "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1000
    assert not (tmp_path / "run").exists()


def test_a_model_that_no_machine_holds_is_refused_by_its_size(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="model: 2,149,318,656 parameters; at most 1,000,000,000"):
        check({"model": {"dim": 16_384, "depth": 1}})
    text = f"{HEAD}seeds = [1]\n[factors]\ndepth = [4, 1000000000]\n"
    assert "model.depth" in refused(tmp_path, text)
    assert ModelConfig().parameters == 1_062_912


def test_a_study_of_many_shapes_is_estimated_from_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure(config: Any) -> float:
        measured.append(config.model.depth)
        return float(config.model.parameters * config.model.tokens)

    monkeypatch.setattr("seedspread.cff.training.run._seconds_per_image", measure)
    monkeypatch.setattr("seedspread.cff.training.run._measured", {})
    configs = [tiny(model__depth=depth) for depth in range(1, 41)]
    estimates = list(map(seconds_of_run, configs))
    assert len(measured) == 8
    assert estimates == sorted(estimates)


SCORES = ("table.csv", "--value", "score", "--group", "arm")


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "{}.toml"), ("train", "{}"), ("train", "quickstart", "--out", "{}"),
        ("diagnose", "{}"), ("audit", "{}.csv"), ("audit", "{}"), ("audit", "{}.parquet"), ("report", "{}"),
        ("report", *SCORES, "--out", "{}.html"), ("report", *SCORES, "--tables", "{}"),
        ("report", *SCORES, "--figures", "{}"), ("serve", "{}"),
        ("plan", "{}.toml"), ("plan", "{}"),
        ("plan", "quickstart", "--store", "{}"),
        ("status", "quickstart", "--store", "{}"),
        ("run", "quickstart", "--store", "{}"), ("quickstart", "--store", "{}"),
        ("plan", "quickstart", "--data-dir", "{}"),
        ("data", "list", "--data-dir", "{}"),
        ("train", "mini/svhn-easy", "--data-dir", "{}"),
    ],
)  # fmt: skip
def test_a_name_of_300_characters_is_one_line(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.csv").write_text("score,arm,seed\n1,a,1\n2,b,1\n")
    monkeypatch.chdir(tmp_path)
    done = seedspread_here(*(argument.format("x" * 300) for argument in arguments))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_long_title_is_no_name_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 240}.toml"
    path.write_text(crossed(1, levels=2).replace('"t"', f'"{"t" * 300}"'))
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    assert plan.recorded()[0].name == "n" * 240


WORDS = "clamp subtract quickstart mini/all s.toml accuracy margin_type auto"
NAMES = (
    "title runner preset seeds settings factors cells include audit engine note group baseline block by "
    "value stack margin_type model.depth seeds.run"
)
PLAIN = st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates()
LEVELS = PLAIN | st.sampled_from(WORDS.split())
KEYS = st.sampled_from([*NAMES.split(), *FIELDS]) | st.text(max_size=5)
VALUES = st.recursive(
    LEVELS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
STUDIES = st.dictionaries(KEYS, VALUES, max_size=8) | st.fixed_dictionaries(
    {
        "title": st.just("t"),
        "runner": st.just("cff") | VALUES,
        "preset": st.just("quickstart") | VALUES,
        "seeds": st.lists(LEVELS, max_size=3),
    },
    optional={
        "factors": st.dictionaries(KEYS, st.lists(LEVELS, max_size=3), max_size=3),
        "settings": st.dictionaries(KEYS, LEVELS, max_size=3),
        "cells": st.lists(st.dictionaries(KEYS, LEVELS, max_size=3), max_size=3),
        "include": st.lists(LEVELS, max_size=3),
        "audit": st.dictionaries(KEYS, VALUES, max_size=4),
        "engine": st.dictionaries(KEYS, LEVELS, max_size=2),
    },
)


def refusal(read: Callable[[], object]) -> str:
    """What is said against a file; empty if it is read."""
    try:
        read()
    except SeedspreadError as error:
        return str(error)
    return ""


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(STUDIES)
def test_any_study_is_planned_or_refused_in_a_line(tmp_path: Path, values: dict[str, Any]) -> None:
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(values), encoding="utf-8")
    assert "\n" not in refusal(lambda: Plan.make(StudySpec.from_file(path), tmp_path / "store"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="title=\"[]{}.,\n#01ax\\u'-_:TZ ", max_size=60))
def test_any_text_is_read_or_refused_in_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    assert "\n" not in refusal(lambda: StudySpec.from_file(path))
    assert "\n" not in refusal(lambda: read_config(str(path)))
