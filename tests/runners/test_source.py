"""What a function is: what makes it another one, and what does not."""

import ast
import copy
import dataclasses
import functools
import linecache
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from seedspread import Study
from seedspread.runners.source import Source, canonical, content_digest, is_plain, source_of
from seedspread.study.spec import StudyError

BASE = """
import math
import numpy as np
from functools import lru_cache

EPOCHS = 3
UNUSED = 1
RATES = {"low": 0.1, "high": 0.2}
DATA = np.zeros(3)

@lru_cache
def scale(x):
    return x * EPOCHS

def helper(x):
    return scale(x) + 1

class Model:
    width: int = 4

    def forward(self, x):
        return helper(x) * self.width

    @property
    def depth(self):
        return 2

def other(seed):
    return seed + UNUSED

def train(seed, rate=0.1):
    '''Trains.'''
    import pandas
    return {"score": Model().forward(seed) * RATES["low"] + math.sqrt(rate) + DATA.sum()}
"""


def source(text: str, name: str = "train") -> Source:
    """The function as it would be in a module or a notebook's cell of this text."""
    file = f"<cell {abs(hash(text))}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {"__name__": "cell"}
    exec(compile(text, file, "exec"), names)  # noqa: S102 - what a notebook does
    return source_of(names[name])


def prompted(text: str) -> Source:
    """The same, of a prompt that keeps no text."""
    names: dict[str, Any] = {"__name__": "prompt"}
    exec(compile(text, "<stdin>", "exec"), names)  # noqa: S102 - what a prompt does
    return source_of(names["train"])


def changed(before: str, after: str) -> set[str]:
    """Which parts differ once a piece of the text is another one."""
    assert BASE.count(before) == 1
    one, two = dict(source(BASE).parts), dict(source(BASE.replace(before, after)).parts)
    return {name for name in {*one, *two} if one.get(name) != two.get(name)}


def test_it_knows_what_it_reaches_and_names_the_rest() -> None:
    found = source(BASE)
    names = {name for name, _ in found.parts}
    assert names == {
        "train", "train: rate", "Model", "Model.width", "Model.forward", "Model.depth", "helper", "scale",
        "EPOCHS", "RATES",
    }  # fmt: skip
    assert [name for name, _ in found.objects] == ["DATA"]
    assert found.reads == ()  # what is installed is not one's own code


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("EPOCHS = 3", "EPOCHS = 4", {"EPOCHS"}),
        ("EPOCHS = 3", "EPOCHS = 3.0", {"EPOCHS"}),
        ('"low": 0.1', '"low": 0.3', {"RATES"}),
        ("scale(x) + 1", "scale(x) + 2", {"helper"}),
        ("x * EPOCHS", "x / EPOCHS", {"scale"}),
        ("width: int = 4", "width: int = 5", {"Model", "Model.width"}),
        ("self.width", "self.width + 1", {"Model", "Model.forward"}),
        ("return 2", "return 3", {"Model", "Model.depth"}),
        ("class Model:", "class Model(dict):", {"Model"}),
        ('"score"', '"loss"', {"train"}),
        ("rate=0.1", "rate=0.2", {"train", "train: rate"}),
    ],
)
def test_what_changes_it(before: str, after: str, parts: set[str]) -> None:
    assert changed(before, after) == parts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("UNUSED = 1", "UNUSED = 2"),
        ("seed + UNUSED", "seed - UNUSED"),
        ("    return scale(x) + 1", "    # why not\n\n    return (scale( x )\n        + 1)"),
        ("'''Trains.'''", "'''Trains a model.'''"),
        ("    '''Trains.'''\n", ""),
        ('"low": 0.1, "high": 0.2', '"high": 0.2, "low": 0.1'),
        ("import math\n", "import math\n\n\n"),
    ],
)
def test_what_does_not(before: str, after: str) -> None:
    assert changed(before, after) == set()


def made(offset: int, times: Callable[[int], int]) -> FunctionType:
    def train(seed: int) -> float:
        return times(seed) + offset

    return train  # type: ignore[return-value]


def test_a_closure_is_what_it_encloses() -> None:
    first = source_of(made(1, lambda x: x * 2))
    assert first == source_of(made(1, lambda x: x * 2))
    assert first != source_of(made(2, lambda x: x * 2))
    assert first != source_of(made(1, lambda x: x * 3))


def test_lambdas_of_one_line_are_told_apart() -> None:
    one, two = (lambda seed: seed + 1), (lambda seed: seed + 2)
    assert source_of(one) != source_of(two)  # type: ignore[arg-type]


def test_a_function_without_a_source_is_its_bytecode() -> None:
    assert prompted("def train(seed): return seed in {1, 2, 3}") == prompted(
        "def train(seed):\n  return seed in {1,2,3}"
    )
    assert prompted("def train(seed): return seed + 1") != prompted("def train(seed): return seed + 2")


def test_a_function_that_calls_itself_or_another_in_turn_is_fine() -> None:
    text = "def a(x): return b(x)\ndef b(x): return a(x)\ndef train(seed): return train(a(seed))\n"
    assert {name for name, _ in source(text).parts} == {"a", "b", "train"}


def test_what_a_dataclass_is_given_follows_from_its_fields() -> None:
    text = (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1\n\n"
        "def train(seed):\n    return C().a\n"
    )
    assert {name for name, _ in source(text).parts} == {"train", "C", "C.a"}
    assert source(text) != source(text.replace("a: int = 1", "a: int = 2"))


CLASSES = """
import functools
from dataclasses import dataclass, field
from enum import Enum
import numpy as np

class Color(Enum):
    RED = 1

class Meta(type):
    def __call__(cls):
        return type.__call__(cls)

class Clamp:
    def __init__(self, most):
        self.most = most

    def __get__(self, *_):
        return self.most

def double(x):
    return x * 2

def half(x):
    return x / 2

@dataclass
class Settings:
    rates: list = field(default_factory=lambda: [0.1])

class Model(metaclass=Meta):
    steps = [double, half]
    start = np.zeros(3)
    limit = Clamp(9)

    class Head:
        width = 4

@functools.singledispatch
def show(x):
    return x

@show.register
def _(x: int):
    return x + 7

STEPS = {"last": (half, 5)}

def train(seed):
    return Model().steps, Settings(), Color.RED, show(seed), STEPS
"""


@pytest.mark.parametrize("has_source", [True, False])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("RED = 1", "RED = 2"),
        ("return type.__call__(cls)", "return 3"),
        ("return self.most", "return -self.most"),
        ("[0.1]", "[0.2]"),
        ("[double, half]", "[half, double]"),
        ("x * 2", "x * 3"),
        ("width = 4", "width = 5"),
        ("x + 7", "x + 8"),
        ("(half, 5)", "(half, 6)"),
    ],
)
def test_what_changes_a_class_or_a_collection(before: str, after: str, has_source: bool) -> None:
    assert CLASSES.count(before) == 1
    made = source if has_source else prompted
    assert made(CLASSES) == made(CLASSES)
    assert made(CLASSES).parts != made(CLASSES.replace(before, after)).parts


def test_what_only_a_class_source_tells_counts_and_is_named_too() -> None:
    assert source(CLASSES).reads == ("what is registered with show",)
    assert [name for name, _ in source(CLASSES).objects] == ["Model.limit", "Model.start"]
    for before, after in (("np.zeros(3)", "np.ones(3)"), ("Clamp(9)", "Clamp(8)")):
        assert source(CLASSES).parts != source(CLASSES.replace(before, after)).parts
    assert source(CLASSES) == source(
        CLASSES.replace("    class Head:", "    # why\n    class Head:\n        'Of it.'")
    )


@pytest.mark.parametrize("call", ['globals()["X"]', 'eval("X")', 'exec("X")'])
def test_what_is_looked_up_by_text_is_named(call: str) -> None:
    found = source(f"X = 1\ndef train(seed):\n    return {call}\n")
    assert found.reads == (f"what train looks up by {call.partition('(')[0]}()",)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
)


@given(plain, plain)
def test_plain_values_have_one_text_each(one: Any, two: Any) -> None:
    assert (canonical(one) == canonical(two)) == (repr(one) == repr(two) or _same(one, two))


def _same(one: Any, two: Any) -> bool:
    """Equal and of one type, all the way down; dicts in any order."""
    if type(one) is not type(two):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    return bool(one == two) and repr(one) == repr(two)


def test_what_is_plain() -> None:
    itself: list[Any] = []
    itself.append(itself)
    assert all(map(is_plain, ({1, 2}, np.float64(1.5), (None, {"a": [b"x"]}))))
    assert canonical({3, 1, 2}) == canonical({2, 3, 1})
    assert not any(map(is_plain, (itself, object(), np.zeros(2), sys, ast.Pass())))


@dataclasses.dataclass
class Settings:
    rates: list[float]
    data: Any = None


class Itself:
    def __init__(self) -> None:
        self.me, self.names = self, {"b", "a"}


# Pairs that differ in the smallest way, and must not be taken for one another.
APART: list[tuple[Any, Any]] = [
    (np.zeros(3), np.zeros(4)),
    (np.zeros(4), np.zeros((2, 2))),
    (np.zeros(3, np.float32), np.zeros(3, np.int32)),
    (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-15])),
    (np.array(["a", None], object), np.array(["a", 0], object)),
    (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
    (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})),
    (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2]}, index=[1, 0])),
    (pd.Series(["x", "y"], dtype="category"), pd.Series(["x", "z"], dtype="category")),
    (Settings([0.1]), Settings([0.2])),
    (Settings([0.1], np.ones(2)), Settings([0.1], np.zeros(2))),
    (Path("a"), Path("b")),
    (functools.partial(max, 1), functools.partial(max, 2)),
    (Itself(), Settings([])),
    (np.random.default_rng(1), np.random.default_rng(2)),
    (LogisticRegression(C=1.0), LogisticRegression(C=2.0)),
    (torch.zeros(2), torch.ones(2)),
]


@pytest.mark.parametrize("place", range(len(APART)))
def test_objects_count_by_their_content(place: int) -> None:
    one, other = APART[place]
    assert content_digest(one) is not None
    assert content_digest(one) == content_digest(copy.deepcopy(one))
    assert content_digest(one) != content_digest(other)


def test_a_digest_is_the_same_in_every_process() -> None:
    made = "content_digest([np.arange(9.0)[::2], {'b', 'a', Path('q')}, 1 + 2j])"
    told = set()
    for seed in ("1", "2"):
        code = (
            "import numpy as np; from pathlib import Path; "
            f"from seedspread.runners.source import content_digest; print({made})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        told.add(done.stdout)
    assert len(told) == 1


@pytest.mark.parametrize(
    "value", [threading.Lock(), sys.stdout, Settings([], lambda: 1), (n for n in "a"), os]
)
def test_what_has_no_content_is_named(value: Any) -> None:
    assert content_digest(value) is None


def test_changed_data_are_run_anew_and_what_is_not_noticed_is_said(tmp_path: Path) -> None:
    holder = Settings([], lambda: 1)
    names: dict[str, Any] = {"__name__": "notebook", "X": np.ones(3), "holder": holder}
    exec("def train(seed, scale):\n    return {'score': float(X.sum()) * scale + seed}", names)  # noqa: S102
    study = Study(names["train"], factors={"scale": [1, 2]}, seeds=2, metrics="score")
    first = set(study.run(tmp_path, progress=False).table["score"])
    names["X"] = names["X"] * 0
    assert set(study.run(tmp_path, progress=False).table["score"]) == {1.0, 2.0} != first
    exec("def train(seed, scale):\n    print(holder)\n    return {'score': 1.0}", names)  # noqa: S102
    silent = Study(names["train"], factors={"scale": [1, 2]}, seeds=2, metrics="score")
    with pytest.warns(UserWarning, match="holder"):
        shown = silent.plan(tmp_path)._repr_html_()
    assert "holder" in shown


def test_levels_that_are_objects_are_to_be_named() -> None:
    with pytest.raises(StudyError, match="give objects names as levels"):
        Study(lambda seed, model: 1.0, factors={"model": [LogisticRegression()]}, seeds=2, metrics="score")
