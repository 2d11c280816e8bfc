"""The studies that packages ship, by name, such as `mini/cifar10-factorial`."""

from importlib.resources import files
from importlib.resources.abc import Traversable

from seedspread.runs.plugins import plugins


def study_names() -> list[str]:
    """All of them, sorted."""
    return sorted(_studies())


def study_text(name: str) -> str:
    """What stands in the file of one."""
    return _studies()[name].read_text()


def _studies() -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for entry in plugins("studies").values():
        for file in files(entry.value).iterdir():
            inside = file.iterdir() if file.is_dir() else ()
            for name, study in ((file.name, file), *((f"{file.name}/{f.name}", f) for f in inside)):
                if name.endswith(".toml"):
                    found.setdefault(name.removesuffix(".toml"), study)
    return found
