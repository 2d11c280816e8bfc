"""The package as it is installed: what it needs, what it exports, and what it says without torch."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seedspread
from seedspread.errors import install_command
from seedspread.study import study as api

SOURCE = Path(seedspread.__file__).parent
# Makes `import torch` fail in a child process as it does where torch is not installed.
NO_TORCH = "import sys; sys.modules['torch'] = None; "


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_or_its_command_line_imports_no_torch() -> None:
    done = python("import sys, seedspread.cli; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_a_worker_imports_nothing_that_only_analyses_need() -> None:
    """Every process of a study pays for it."""
    modules = "seedspread.study.local, seedspread.runners.function, seedspread.runners.program"
    slow = "{'matplotlib', 'pandas', 'pyarrow', 'scipy', 'torch'}"
    done = python(f"import sys, {modules}; print({slow} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


def test_what_is_installed_by_hash_is_what_is_pinned() -> None:
    root = Path(__file__).parents[1]
    pins = re.findall(r"^(\S+)==(\S+)$", (root / "constraints.txt").read_text(), re.MULTILINE)
    locked = re.findall(
        r"^(\S+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
        (root / "requirements.txt").read_text(),
        re.MULTILINE,
    )
    assert len(locked) == (root / "requirements.txt").read_text().count("==")
    assert {(name, version) for name, version, _ in locked} < set(pins)
    names = {re.sub(r"[-_.]+", "-", name).lower() for name, _, _ in locked} | {"seedspread", "torch"}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["train"], *extras["report"], *extras["dev"], "hatchling"]
    assert {re.split(r"[\[>=]", one)[0] for one in needed} <= names


def test_the_version_is_the_same_wherever_it_stands() -> None:
    root = Path(__file__).parents[1]
    cited = dict(
        re.findall(r"^(version|date-released): (\S+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    )
    assert cited["version"] == seedspread.__version__
    released = re.findall(r"^## (\d\S*) - (\S+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == (cited["version"], cited["date-released"])


def test_every_public_name_is_there() -> None:
    for name in seedspread.__all__:
        assert getattr(seedspread, name).__name__ == name
        assert name in dir(seedspread)
    with pytest.raises(AttributeError, match="no attribute 'Loss'"):
        _ = seedspread.Loss


def test_no_public_name_is_a_module() -> None:
    """Which would take its place once it was imported."""
    modules = {module.name for module in pkgutil.iter_modules(seedspread.__path__)}
    assert not modules & set(seedspread.__all__)


def test_what_the_readme_imports_is_exported() -> None:
    """The names in its Python, and `seedspread.NAME` in its prose, whose modules are spelt out there."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    lines = re.findall(r"^from seedspread import (.+)$", readme, re.MULTILINE)
    named = {name.strip() for line in lines for name in line.split(",")}
    named |= set(re.findall(r"`seedspread\.(\w+)", readme))
    wanted = {"audit", "Study", "Store", "write_report", "collect", "components", "log", "seed_everything"}
    assert named | wanted <= set(seedspread.__all__)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every exported function, method and constructor, and those of the API's module."""
    exported = {name: getattr(seedspread, name) for name in seedspread.__all__}
    own = {
        name: value for name, value in vars(api).items() if getattr(value, "__module__", "") == api.__name__
    }
    for name, value in (exported | own).items():
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isroutine)
            yield from ((f"{name}.{n}", m) for n, m in methods if n == "__init__" or not n.startswith("_"))
        elif callable(value):
            yield name, value


@pytest.mark.parametrize("name", seedspread.__all__)
def test_a_public_docstring_has_arguments_result_and_an_example_that_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = getattr(seedspread, name)
    doc = inspect.getdoc(thing) or ""
    signature = inspect.signature(thing)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert "Args:" in doc or kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if not inspect.isclass(thing) and str(signature.return_annotation) != "None":
        assert "Returns:" in doc
    assert ">>> " in doc or "```python" in doc
    known = vars(importlib.import_module(thing.__module__))
    public = {public: getattr(seedspread, public) for public in seedspread.__all__}
    monkeypatch.chdir(Path(__file__).parents[1])
    example = doctest.DocTestParser().get_doctest(doc, {**known, **public, "np": np}, name, None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_paths_may_be_strings_everywhere() -> None:
    checked = 0
    for name, function in functions():
        if not getattr(function, "__module__", "").startswith("seedspread"):
            continue
        for parameter in inspect.signature(function).parameters.values():
            kinds = {kind.strip() for kind in str(parameter.annotation).replace("'", "").split("|")}
            if kinds & {"Path", "pathlib.Path", "pathlib._local.Path"}:
                checked += 1
                assert "str" in kinds, f"{name}({parameter.name}): {parameter.annotation}"
    assert checked > 10


def test_without_torch_studies_of_functions_can_be_made() -> None:
    names = "Store, Study, audit, log, log_predictions, run_study, seed_everything, write_report"
    code = f"""
import sys
class NoTorch:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
from seedspread import {names}
Study(lambda seed, a: a, factors={{"a": [1]}}, seeds=2)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_without_torch_a_name_that_needs_it_says_what_to_install() -> None:
    done = python(NO_TORCH + "from seedspread import SupConLoss")
    assert done.returncode != 0
    assert install_command("train") in done.stderr.splitlines()[-1]


def test_without_torch_a_command_that_needs_it_says_so_in_one_line() -> None:
    done = python(
        NO_TORCH + "sys.argv = ['seedspread', 'train', 'quickstart']; from seedspread.cli import main; main()"
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert install_command("train") in done.stderr
