"""Parameters and seeds: by nesting, by name, from the names of runs."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread.tables.columns import is_seed
from seedspread.tables.sources.run import (
    find_seed,
    flat,
    from_name,
    number,
    stem_of,
    with_name,
    with_path,
)

keys = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,6}", fullmatch=True).filter(
    lambda key: "seed" not in key.lower()
)
values = st.from_regex(r"[A-Za-z0-9.+-]{1,8}", fullmatch=True)


@given(st.dictionaries(keys, values, min_size=1, max_size=4))
def test_overrides_in_a_name_come_back(pairs: dict[str, str]) -> None:
    assert from_name(",".join(f"{key}={value}" for key, value in pairs.items())) == pairs
    assert from_name("/".join(f"{key}={value}" for key, value in pairs.items())) == pairs
    underscores = "_".join(f"{key}={value}" for key, value in pairs.items())
    if not re.search("[-+]", underscores):
        assert from_name(underscores) == pairs


@given(st.text(max_size=60))
def test_any_name_can_be_looked_at(name: str) -> None:
    assert all(value for value in from_name(name).values())
    assert isinstance(stem_of(name), str)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lr=0.1,seed=3", {"lr": "0.1", "seed": "3"}),
        ("+trainer.seed=3,optimizer@opt=adam_w", {"trainer.seed": "3", "optimizer@opt": "adam_w"}),
        ("lr=0.1_weight_decay=1e-4_seed=2", {"lr": "0.1", "weight_decay": "1e-4", "seed": "2"}),
        ("exp/lr=0.1/run_seed3", {"lr": "0.1", "seed": "3"}),
        ("resnet_seed-12", {"seed": "12"}),
        ("Seed7", {"seed": "7"}),
        ("reseed7", {}),
        ("run-17", {}),
        ("lr=,seed=", {}),
    ],
)
def test_names(name: str, expected: dict[str, str]) -> None:
    assert from_name(name) == expected


def test_what_of_a_path_is_neither_parameter_nor_seed() -> None:
    assert stem_of("adam/seed3") == "adam"
    assert stem_of("adam_seed3") == "adam"
    assert stem_of("logs/big/version_3") == "logs/big"
    assert stem_of("optimizer=adam,seed=3/log") == "log"


@pytest.mark.parametrize(
    "name",
    "seed Seed SEED random_seed random-state t.seed a/rng_seed seed_everything manual_seed m_seed".split(),
)
def test_seeds_have_many_names(name: str) -> None:
    assert is_seed(name)
    assert find_seed([{name: 1, "lr": 0.1}, {name: 2, "lr": 0.1}]) == name


@pytest.mark.parametrize("name", ["seeds", "n_seeds", "seeded", "number", "trial", "seed.path"])
def test_other_names_are_no_seed(name: str) -> None:
    assert not is_seed(name)
    assert find_seed([{name: 1}, {name: 2}]) is None


def test_of_several_seeds_the_one_that_varies_is_taken() -> None:
    rows = [{"seed": 0, "trainer.seed": n, "data.split_seed": n} for n in range(3)]
    assert find_seed(rows) == "trainer.seed"
    assert find_seed([{"seed": 1, "random_state": 1}]) == "seed"
    assert find_seed([{"a.b.seed": n, "a.seed": n} for n in range(2)]) == "a.seed"
    assert find_seed([{"seed": "None"}]) is None


def test_a_name_tells_only_what_the_config_does_not() -> None:
    assert with_name({"optimizer.lr": 0.2, "trainer.seed": 1}, "lr=0.1,seed=3,width=8") == {
        "optimizer.lr": 0.2,
        "trainer.seed": 1,
        "width": "8",
        "stem": "",
    }
    assert with_name({"seed": 1}, "glad-river-7") == {"seed": 1}
    assert with_name({}, "adam_seed3") == {"seed": "3", "stem": "adam"}
    assert with_path({"seed": 1}, "adam/1") == {"seed": 1, "stem": "adam"}


def test_nested_values_have_dotted_names() -> None:
    nested = {"a": {"b": {"c": 1}}, "l": [1, {"x": None}], "n": None, "t": True, 3: "x"}
    assert flat(nested) == {"a.b.c": 1, "l": '[1, {"x": null}]', "n": "None", "t": True, "3": "x"}


@given(st.floats() | st.integers(-(10**6), 10**6))
def test_numbers_are_read_from_text_as_from_values(value: float) -> None:
    for form in (value, str(value), repr(value), f" {value}"):
        found = number(form)
        assert found is not None
        assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize("value", ["", "x", "1_000", "1e", "0x10", None, True, [], {}, "1 2"])
def test_other_things_are_no_numbers(value: object) -> None:
    assert number(value) is None
