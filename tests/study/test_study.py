"""Studies as data: those that are shipped, and what is said of bad ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from seedspread import Study
from seedspread.cff.presets import read_config
from seedspread.cff.runner import CffRunner
from seedspread.cli import app
from seedspread.errors import SeedspreadError
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies, save_study
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError, StudySpec, Variation, study_names
from seedspread.study.store_questions import studies_asked

GOOD = """
title = "t"
runner = "cff"
preset = "quickstart"
seeds = [1, 2]
[factors]
margin_type = ["clamp", "subtract"]
"""


def plan(name: str, tmp_path: Path) -> Plan:
    return Plan.make(StudySpec.from_file(name), Store(tmp_path / "store"), tmp_path / "nodata")


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        StudySpec.from_file(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", study_names())
def test_every_shipped_study_can_be_planned_without_data(name: str, tmp_path: Path) -> None:
    made = plan(name, tmp_path)
    assert made.runs
    assert len(made.missing()) == len(made.distinct)
    assert made.study.audit is not None


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("paper/cifar10-factorial", 28),
        ("paper/dose-response", 21),
        ("paper/cifar100", 20),
        ("paper/svhn", 10),
        ("paper/fashion-mnist", 10),
        ("paper/svhn-difficulty", 30),
    ],
)
def test_the_papers_designs_have_the_papers_numbers_of_runs(name: str, named: int, tmp_path: Path) -> None:
    assert len(plan(name, tmp_path).runs) == named
    assert len(plan(name.replace("paper", "mini"), tmp_path).runs) == named


def test_all_of_the_paper_is_119_named_and_102_distinct_runs(tmp_path: Path) -> None:
    made = plan("paper/all", tmp_path)
    assert len(made.runs) == 119
    assert len(made.distinct) == 102
    shared = [{r.study for r in made.runs if r.key == key} for key in made.distinct]
    assert shared.count({"paper/cifar10-factorial", "paper/dose-response"}) == 7
    assert shared.count({"paper/svhn", "paper/svhn-difficulty"}) == 10


def test_a_paper_run_is_what_the_paper_says(tmp_path: Path) -> None:
    low = StudySpec.from_file("paper/dose-response")
    assert {c.parameters.objective.margin_first for c in low.cells} == {0.2}
    assert low.seeds == tuple(range(1, 8))
    svhn = StudySpec.from_file("paper/svhn-difficulty")
    assert {c.parameters.objective.stability for c in svhn.cells} == {"direct"}


def test_cells_are_called_by_their_factors(tmp_path: Path) -> None:
    run = plan("paper/cifar10-factorial", tmp_path).runs[0]
    assert dict(run.cell) == {"margin_type": "clamp", "stability": "detach"}
    assert run.title == "margin_type = clamp, stability = detach, seed 1"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("margin_type =", "margintype =", "'margin_type'"),
        ('"subtract"]', '"substract"]', "'subtract'"),
        (
            "[factors]",
            'audit = { group = "margin_type", baseline = "sbtract" }\n[factors]',
            "mean 'subtract'",
        ),
        ("[factors]", 'settings = { margin_type = "none" }\n[factors]', "given twice"),
        ("[factors]", '[factors]\n"objective.margin_type" = ["none"]', "given twice"),
        ('"subtract"]', '"clamp"]', "'clamp' twice"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "1 twice"),
        ("seeds = [1, 2]", "", "seeds is missing"),
        ('preset = "quickstart"', 'preset = "quikstart"', "'quickstart'"),
        ('preset = "quickstart"', "", "preset is missing"),
        ('runner = "cff"', "", 'a preset is for a runner that has presets: add runner = "cff"'),
        ('runner = "cff"', 'runner = "cf"', "'cff'"),
        ('runner = "cff"\npreset = "quickstart"', "", "nothing to run"),
        ("[factors]", "[factor]", "'factors'"),
        ('margin_type = ["clamp", "subtract"]', "", "nothing to compare"),
        ('margin_type = ["clamp", "subtract"]', '"runtime.threads" = [1, 2]', "cannot be a factor"),
        ("title", "titel", "'title'"),
        (
            "[factors]",
            "[campaign]\nthreads = 1\n[factors]",
            "campaign: no such field; it is called engine now",
        ),
        (
            "[factors]",
            "[engine]\nstack = 1\n[factors]",
            "engine.stack: no such field; every run is trained by itself",
        ),
        (
            "[factors]",
            'audit = { group = "margin_type", reference = "clamp" }\n[factors]',
            "audit.reference: no such field; it is called baseline now",
        ),
        ("[factors]", "[factors", "not a TOML file"),
        (
            "[factors]",
            'audit = { group = "margin", baseline = "x" }\n[factors]',
            "'margin_type'",
        ),
    ],
)
def test_mistakes_are_one_line_with_the_nearest_name(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    assert said in refused(tmp_path, GOOD.replace(old, new))


def test_a_cell_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    text = (
        GOOD.split("[factors]", maxsplit=1)[0]
        + 'cells = [{ margin_type = "clamp" }, { margin_type = "clamp" }]'
    )
    assert "twice" in refused(tmp_path, text)


def test_unknown_studies_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(StudyError, match="'paper/cifar100'"):
        StudySpec.from_file("paper/cifar1000")


def test_a_study_that_includes_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'title = "t"\ninclude = ["{path}"]')
    with pytest.raises(StudyError, match="includes itself"):
        StudySpec.from_file(path)


def test_a_file_includes_what_lies_beside_it_wherever_it_is_called_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studies, elsewhere = tmp_path / "studies", tmp_path / "elsewhere"
    for folder in (studies / "more", elsewhere):
        folder.mkdir(parents=True)
    (studies / "all.toml").write_text('include = ["one.toml", "more/both.toml", "quickstart"]')
    (studies / "more" / "both.toml").write_text(f'include = ["../one.toml", "{studies / "two.toml"}"]')
    for name in ("one", "two"):
        (studies / f"{name}.toml").write_text(GOOD)
    names = ["one", "one", "two", "quickstart"]
    for here, path in (
        (elsewhere, "../studies/all.toml"),
        (elsewhere, str(studies / "all.toml")),
        (tmp_path, "studies/all.toml"),
        (studies, "all.toml"),
    ):
        monkeypatch.chdir(here)
        assert [part.name for part in StudySpec.from_file(path).parts] == names


def test_a_file_that_is_not_beside_the_including_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the current folder has one of that name."""
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "all.toml").write_text('include = ["one.toml"]')
    (tmp_path / "one.toml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match=r"studies/one\.toml"):
        StudySpec.from_file("studies/all.toml")


def test_a_study_that_includes_itself_by_a_relative_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.toml").write_text('include = ["s.toml"]')
    monkeypatch.chdir(tmp_path)
    for name in ("s.toml", "./s.toml", str(tmp_path / "s.toml")):
        with pytest.raises(StudyError, match="includes itself"):
            StudySpec.from_file(name)


def test_runs_are_planned_in_the_order_of_the_study(tmp_path: Path) -> None:
    made = plan("quickstart", tmp_path)
    assert list(made.distinct) == [r.key for r in made.runs]


def read(tmp_path: Path, text: str) -> StudySpec:
    path = tmp_path / "s.toml"
    path.write_text(text)
    return StudySpec.from_file(path)


def test_a_title_is_optional_and_seeds_may_be_a_number(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD.replace('title = "t"', "").replace("[1, 2]", "10"))
    assert (study.title, study.seeds) == ("s", tuple(range(1, 11)))


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ("0", "seeds: must be a number from 1 on"),
        ("-3", "seeds: must be a number from 1 on"),
        ("true", "seeds"),
        ('"3"', "seeds"),
        ("3.0", "seeds"),
        ("[]", "seeds is missing"),
        ("[-1]", "between 0 and 2^63"),
        ("[1, true]", "seeds"),
        ("[1, 1]", "1 twice"),
        ("10000000000", "names 20,000,000,000 runs"),
    ],
)
def test_seeds_that_cannot_be_are_one_line(seeds: str, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, GOOD.replace("[1, 2]", seeds))


@pytest.mark.parametrize(
    ("levels", "baseline", "stored"),
    [
        ("[0.0, 0.1]", "0.0", "0"),
        ("[0.0, 0.1]", "0", "0"),
        ("[1, 2]", "2", "2"),
        ("[true, false]", "false", "False"),
        ('["a", "b"]', '"b"', "b"),
    ],
)
def test_a_baseline_is_any_plain_value(levels: str, baseline: str, stored: str, tmp_path: Path) -> None:
    head = 'seeds = 2\n[run]\ncommand = ["echo", "{x}", "{seed}"]\n[metrics]\nloss = {}\n'
    study = read(tmp_path, f'{head}[factors]\nx = {levels}\n[audit]\ngroup = "x"\nbaseline = {baseline}\n')
    assert study.audit is not None
    assert (study.audit.baseline, study.audit.values) == (stored, ("loss",))


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ("[1, 1.0]", "factors.x has 1 twice"),
        ('[1, "1"]', "factors.x has 1 twice"),
        ('["", "a"]', "which a table cannot tell from a missing value"),
        ("[nan, 1]", "factors.x"),
        ("[[1], [2]]", "factors.x"),
        ("[1979-05-27]", "factors.x"),
        ("3", "factors.x"),
        ("[]", "factors.x has no levels"),
    ],
)
def test_levels_that_cannot_be_are_one_line(levels: str, said: str, tmp_path: Path) -> None:
    head = 'seeds = 2\n[run]\ncommand = ["echo", "{x}", "{seed}"]\n[metrics]\nloss = {}\n'
    message = refused(tmp_path, f"{head}[factors]\nx = {levels}\n")
    assert said in message
    assert message.startswith(str(tmp_path))


SEVERAL = GOOD.replace("[factors]", "[factors]\ndepth = [1, 2]\nstability = ['detach', 'direct']")


def test_several_strata_and_several_values(tmp_path: Path) -> None:
    audit = 'group = "margin_type"\nbaseline = "clamp"\nby = ["model.depth", "stability"]\n'
    audit += 'value = ["nll", "ece"]'
    study = read(tmp_path, f"{SEVERAL}[audit]\n{audit}")
    assert study.audit is not None
    assert study.audit.strata == ("depth", "stability")
    assert study.audit.values == ("nll", "ece")
    for old, new, said in (
        ('"stability"]', '"stabilty"]', "'stability'"),
        ('"ece"]', '"ecee"]', "'ece'"),
        ('["nll", "ece"]', "[]", "audit.value"),
        ('"clamp"', '"clam"', "'clamp'"),
    ):
        assert said in refused(tmp_path, f"{SEVERAL}[audit]\n{audit.replace(old, new)}")


BOTH = "'batch_size' can mean training.batch_size or probe.batch_size"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[factors]", "[factors]\nbatch_size = [8, 16]"),
        ("[factors]", "settings = { batch_size = 8 }\n[factors]"),
        ("[factors]", 'audit = { group = "batch_size", baseline = 8 }\n[factors]'),
        ("[factors]", 'audit = { group = "margin_type", baseline = "clamp", by = "batch_size" }\n[factors]'),
    ],
)
def test_a_short_name_that_could_mean_two_fields_says_which(old: str, new: str, tmp_path: Path) -> None:
    assert BOTH in refused(tmp_path, GOOD.replace(old, new))


def test_short_names_work_in_a_single_run_as_in_a_study() -> None:
    with pytest.raises(SeedspreadError) as caught:
        read_config("quickstart", ["batch_size=8"])
    assert BOTH in str(caught.value)
    assert read_config("quickstart", ["depth=3"]).model.depth == 3


def test_seeds_may_drive_some_streams_only(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD.replace("[factors]", 'vary = ["init"]\n[factors]'))
    assert isinstance(study.runner, CffRunner)
    one, two = (study.runner.seeded(study.cells[0].parameters, seed).seeds for seed in (1, 2))
    assert (one.init, two.init, one.run) == (1, 2, two.run)
    whole = read(tmp_path, GOOD)
    assert not set(Plan.make(study, tmp_path / "x").distinct) & set(Plan.make(whole, tmp_path / "x").distinct)
    message = refused(tmp_path, GOOD.replace("[factors]", 'vary = ["weights"]\n[factors]'))
    assert "vary: " in message
    assert "'weights'; there are init, " in message


@pytest.mark.soak
def test_a_question_and_a_prediction_travel_with_the_study(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'question = "Is it so?"\nprediction = "It is."\n{GOOD}')
    printed = CliRunner().invoke(app, ["plan", str(path), "--store", str(tmp_path / "store")])
    assert "Question: Is it so?" in printed.output
    assert "Prediction: It is." in printed.output
    store = Store(tmp_path / "store")
    save_study(store, Plan.make(StudySpec.from_file(path), store, tmp_path).recorded()[0])
    assert load_studies(store)[0][0].asked == ["Question: Is it so?", "Prediction: It is."]


def test_a_variation_is_the_study_that_a_file_with_its_seeds_and_settings_would_be(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        GOOD.replace("[factors]", 'settings = { "training.epochs" = 9, dim = 8 }\n[factors]')
    )
    wanted = GOOD.replace("[1, 2]", "3").replace(
        "[factors]", 'settings = { "training.epochs" = 2, dim = 8, temperature = 0.2 }\n[factors]'
    )
    (tmp_path / "wanted.toml").write_text(wanted)
    study = Study(tmp_path / "s.toml", seeds=3, settings={"training.epochs": 2, "objective.temperature": 0.2})
    keys = [run.key for run in study.plan(tmp_path / "store").runs]
    assert keys == [run.key for run in plan(str(tmp_path / "wanted.toml"), tmp_path).runs]
    words = "seeds=3 training.epochs=2 objective.temperature=0.2"
    assert study.spec().name == f"s {words}"
    assert [run.key for run in plan(f"{tmp_path / 's.toml'} {words}", tmp_path).runs] == keys


def test_a_short_name_replaces_the_setting_that_has_the_long_one(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(GOOD.replace("[factors]", 'settings = { "model.dim" = 16 }\n[factors]'))
    varied = StudySpec.from_file(tmp_path / "s.toml", variation=Variation(settings={"dim": 8}))
    assert {cell.parameters.model.dim for cell in varied.cells} == {8}


@pytest.mark.parametrize(
    ("seeds", "expected"), [("3", (1, 2, 3)), ("4,7", (4, 7)), ("[4, 7]", (4, 7)), ("9,", (9,))]
)
def test_seeds_are_given_as_in_a_file(seeds: str, expected: tuple[int, ...]) -> None:
    assert StudySpec.from_file("quickstart", variation=Variation.of([f"seeds={seeds}"])).seeds == expected


LEVELS = st.one_of(
    st.text(max_size=9),
    st.integers(-(2**60), 2**60),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)
SEEDS = st.one_of(st.none(), st.integers(1, 99), st.lists(st.integers(0, 2**62), min_size=1, max_size=3))


@given(st.dictionaries(st.sampled_from(["lr", "training.epochs", "a_b"]), LEVELS), SEEDS)
def test_the_name_of_a_variation_says_all_of_it(settings: dict[str, object], seeds: object) -> None:
    for study in ("mini/all", "my studies/a b.toml"):
        name, read = Variation.named(Variation(seeds, settings).name(study))
        assert (name, read.seeds, dict(read.settings)) == (study, seeds, settings)
        assert {k: type(v) for k, v in read.settings.items()} == {k: type(v) for k, v in settings.items()}


def test_a_collection_is_varied_in_all_its_studies(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    audit = '[audit]\ngroup = "study"\nbaseline = "a"\nby = "margin_type"\n'
    (tmp_path / "both.toml").write_text(f'include = ["a.toml", "b.toml"]\n{audit}')
    study = StudySpec.from_file(f"{tmp_path / 'both.toml'} seeds=1 training.epochs=2")
    assert [part.name for part in study.parts] == [f"{n} seeds=1 training.epochs=2" for n in ("a", "b")]
    assert {(part.seeds, cell.parameters.training.epochs) for part in study.parts for cell in part.cells} == {
        ((1,), 2)
    }
    assert study.audit is not None
    assert study.audit.baseline == "a seeds=1 training.epochs=2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "training.epoch=2"], "no config field is called 'training.epoch'"),
        (["--set", "epochs"], "--set epochs: write it as field=value"),
        (["--set", "training.epochs=two"], "training.epochs: Input should be a valid integer; got 'two'"),
        (["--set", "margin_type=clamp"], "objective.margin_type is given twice"),
        (["--set", "temperature=[0.1, 0.2]"], "settings.temperature: must be a text, a finite number"),
        (["--seeds", "0"], "got 0"),
        (["--seeds", "1,1"], "seeds has 1 twice"),
        (["--seeds", "some"], "got 'some'"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run", "status"])
def test_a_wrong_variation_is_one_line(
    command: str, options: list[str], message: str, tmp_path: Path
) -> None:
    said = CliRunner().invoke(app, [command, "quickstart", *options, "--store", str(tmp_path / "store")])
    assert said.exit_code
    assert message in str(said.exception)
    assert "\n" not in str(said.exception)


@pytest.mark.parametrize("words", [["seeds=3", "seeds=4"], ["training.epochs=2", "training.epochs=3"]])
def test_what_is_varied_is_given_once(words: list[str]) -> None:
    with pytest.raises(StudyError, match="is given twice"):
        Variation.of(words)


@pytest.mark.parametrize("settings", [["training.epochs"], {"seeds": 3}])
def test_settings_are_fields_and_values(settings: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(GOOD)
    with pytest.raises(StudyError, match="settings must be fields and their values"):
        Study(tmp_path / "s.toml", settings=settings).plan(tmp_path / "store")


def test_a_setting_wins_over_what_the_file_says_of_models(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"settings = {{ keep_model = false }}\n{GOOD}")
    kept = StudySpec.from_file(tmp_path / "s.toml", variation=Variation(settings={"keep_model": True}))
    assert [cell.parameters.runtime.keep_model for cell in kept.cells] == [True, True]


def test_a_varied_study_of_a_store_is_found_by_its_name_alone(tmp_path: Path) -> None:
    study = "s parameter=some.toml"
    store = Store(tmp_path / "store")
    path = tmp_path / "s.toml"
    path.write_text(GOOD)
    (recorded,) = Plan.make(StudySpec.from_file(path), store).recorded()
    save_study(store, replace(recorded, name=study))
    assert [one.name for one in studies_asked(store.path, [study])] == [study]
