"""The shipped studies, as TOML files."""

from importlib.resources import files


def study_names() -> list[str]:
    """All shipped studies, sorted."""
    root = files("seedspread.cff.studies")
    names = [file.name for file in root.iterdir()]
    names += [f"{d.name}/{f.name}" for d in root.iterdir() if d.is_dir() for f in d.iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def study_text(name: str) -> str:
    """What stands in the file of a shipped study."""
    return (files("seedspread.cff.studies") / f"{name}.toml").read_text()
