"""Hooks that mkdocs calls while it builds the site (`make docs`); they make the generated pages.

The start page is the README, the tutorials are the notebooks, executed again, and the references come from
the commands, the docstrings and the examples themselves. Notebooks become ordinary Markdown here, which has
the theme's search, copy buttons and dark colors; mkdocs-jupyter would add nbconvert, its own style sheets,
and scripts from the network.
"""

import re
import sys
import tempfile
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))  # mkdocs imports this file by its path alone

from reference import api_page, commands_page, example_anchor, examples_page  # noqa: E402
from run_tutorials import executed  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

# Pages that are made here, and the source of each in the checkout.
GENERATED = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "examples.md": "examples",
    "commands.md": "src/seedspread/cli",
    "api.md": "src/seedspread",
}


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the generated pages to those in docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - the tests read this file without mkdocs

    made = {
        "index.md": (ROOT / "README.md").read_text(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "CITATION.cff": (ROOT / "CITATION.cff").read_text(),
        "examples.md": examples_page(ROOT / "examples"),
        "commands.md": commands_page(),
        "api.md": api_page(),
    }
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        made[f"tutorials/{path.stem}.md"] = notebook_page(path)
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Turn links to files of the checkout into links to pages of the site."""
    depth = page.file.src_uri.count("/")
    return re.sub(r"\]\(([^)\s]+)\)", lambda found: f"]({site_link(found[1], depth)})", markdown)


def site_link(link: str, depth: int = 0) -> str:
    """Return a link for the site, from a page `depth` folders deep."""
    if ":" in link or link.startswith("#"):
        return link
    up = "../" * depth
    if found := re.fullmatch(r"(?:\.\./)*examples/([^#]+)", link):
        return f"{up}examples.md#{example_anchor(found[1])}"
    link = re.sub(r"^docs/", "", link)
    link = re.sub(r"^(?:\.\./)*(?:README|CHANGELOG)\.md", lambda f: up + _MOVED[f[0].split("/")[-1]], link)
    return re.sub(r"(?<!raw/)\.ipynb$", ".md", link)


_MOVED = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}


@cache
def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown, with the outputs of executing it now."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(path, folder)
    first, *rest = notebook.cells
    download = f'<a href="{path.name}" download>This page as a notebook</a>'
    return "\n\n".join([first.source, download, *map(cell_markdown, rest)]) + "\n"


def cell_markdown(cell: Any) -> str:
    """Return a cell and its outputs as Markdown."""
    if cell.cell_type != "code":
        return str(cell.source)
    return "\n\n".join([f"```python\n{cell.source}\n```", *map(output_markdown, cell.outputs)])


def output_markdown(output: Any) -> str:
    """Return an output in the richest form that a page can show."""
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="output">{one_block(data["text/html"])}</div>'
    if "image/png" in data:
        source = f"data:image/png;base64,{data['image/png'].strip()}"
        alt = escape(data.get("text/plain", "figure"))
        return f'<div class="output"><img alt="{alt}" src="{source}"></div>'
    text = output.get("text") or data["text/plain"]
    return f'<div class="output" markdown="1">\n\n```text\n{text.rstrip()}\n```\n\n</div>'


def one_block(html: str) -> str:
    """Return HTML that Markdown leaves alone: without blank lines, and with the site's style of tables."""
    html = re.sub(r"<style scoped>.*?</style>", "", html, flags=re.DOTALL)
    html = re.sub(r'<table border="1" class="dataframe">', "<table>", html)
    return re.sub(r"\n\s*\n", "\n", html)
