"""The installed documentation: its pages, tutorials and examples, as text.

They are in `docs/`, `examples/` and `README.md` of a checkout; a wheel has copies inside the package.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from seedspread.errors import SeedspreadError, did_you_mean, reason

_PACKAGE = Path(__file__).parent


class PageError(SeedspreadError):
    """There is no such page, or the examples cannot be written to the requested folder."""


def pages() -> dict[str, Path]:
    """Return the file of each page, by name: `start`, `statistics`, `tutorials/...`, `examples/...`."""
    docs, _, readme = _folders()
    found = {"start": readme}
    found |= {path.stem: path for path in sorted(docs.glob("*.md")) if path != readme}
    found |= {f"tutorials/{path.stem}": path for path in sorted(docs.glob("tutorials/*.ipynb"))}
    return found | {f"examples/{name}": path for name, path in examples().items()}


def examples() -> dict[str, Path]:
    """Return the files of the examples, by their path in the folder of examples."""
    folder = _folders()[1]
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix(): path for path in files}


def page_named(name: str) -> Path:
    """Return the file of a page; its path in a checkout, `docs/statistics.md`, is accepted too."""
    there = pages()
    wanted = name.removeprefix("docs/")
    for ending in ("", ".md", ".ipynb"):
        if (page := wanted.removesuffix(ending)) in there:
            return there[page]
    hint = did_you_mean(wanted, there)
    raise PageError(f"there is no page {name!r}{hint or '; see which there are: seedspread docs'}")


def title(path: Path) -> str:
    """Return the first heading of a page, or the first line of a Python example's docstring."""
    if path.suffix in (".md", ".ipynb"):
        return text(path).partition("\n")[0].lstrip("# ")
    return path.read_text(encoding="utf-8").partition("\n")[0].strip('"') if path.suffix == ".py" else ""


def text(path: Path) -> str:
    """Return a page as text: a notebook as Markdown, everything else unchanged."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return content
    return "\n\n".join(_cell(cell) for cell in json.loads(content)["cells"]) + "\n"


def copy_examples(out: Path) -> None:
    """Write the examples into a new folder, which appears complete or not at all."""
    if os.path.lexists(out):
        raise PageError(f"{out} is there already; name a folder that is not")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as beside:
            made = Path(beside) / "examples"
            for name, path in examples().items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_bytes(path.read_bytes())
            made.rename(out)
    except OSError as error:
        raise PageError(f"{out} cannot be written: {reason(error)}") from None


def _folders() -> tuple[Path, Path, Path]:
    """Return the folders of pages and examples, and the README, which is the first page."""
    docs = _PACKAGE / "docs"
    if docs.is_dir():
        return docs, _PACKAGE / "examples", docs / "README.md"
    checkout = _PACKAGE.parents[1]
    return checkout / "docs", checkout / "examples", checkout / "README.md"


def _cell(cell: dict[str, Any]) -> str:
    """Return a cell of a notebook as Markdown, with its output as text."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return source
    shown = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        printed = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
        shown.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(shown)
