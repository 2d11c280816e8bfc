"""Extensions that installed packages name in their metadata: runners, studies, parts of the report.

[project.entry-points."seedspread.runners"]
mine = "mypackage.runner:MyRunner"      # a class; `runner = "mine"` in a study file
[project.entry-points."seedspread.studies"]
mine = "mypackage.studies"              # a package of .toml files, each a study by its name
[project.entry-points."seedspread.reports"]
mine = "mypackage.report:MyReport"      # what the page adds for runs whose runner is called `mine`
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal

from seedspread.errors import SeedspreadError, there_are

Kind = Literal["runners", "studies", "reports"]


class PluginError(SeedspreadError):
    """An extension that no package has, or that cannot be loaded."""


@cache
def plugins(kind: Kind) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"seedspread.{kind}")}


def toml_files(package: str) -> dict[str, Traversable]:
    """Return the .toml files of a package and its subpackages by name: `quickstart`, `mini/cifar10`."""
    root = files(package)
    inside = [(f"{folder.name}/", folder) for folder in root.iterdir() if folder.is_dir()]
    return {
        f"{place}{file.name.removesuffix('.toml')}": file
        for place, folder in [("", root), *inside]
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }


def load_plugin(kind: Kind, name: str) -> Any:
    """Return the object of that name; `PluginError` if there is none."""
    found = plugins(kind)
    if name not in found:
        raise PluginError(f"no installed package brings {name!r}; {there_are(name, sorted(found))}")
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        raise PluginError(f"{name} ({found[name].value}) cannot be loaded: {error}") from error
