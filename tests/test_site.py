"""The site without building it (`make docs` does): its navigation, links, references and commands."""

import json
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
import yaml

import seedspread
from seedspread.cff import datasets, margins
from seedspread.cff.config import PIPELINES
from seedspread.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("nbclient")
site = import_module("site_hooks")
reference = import_module("reference")

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGES = sorted(
    [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.ipynb"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for inner in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from named(inner)


def markdown(path: Path) -> str:
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def anchors(path: Path) -> set[str]:
    """Of a page's headings, as GitHub and the site make them."""
    text = FENCE.sub("", markdown(path))
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def slug(heading: str) -> str:
    heading = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_the_navigation_names_every_page_once_and_no_other() -> None:
    written = [path.name for path in DOCS.glob("*.md")]
    tutorials = [f"tutorials/{path.stem}.md" for path in DOCS.glob("tutorials/*.ipynb")]
    assert sorted(named(CONFIG["nav"])) == sorted([*written, *tutorials, *site.GENERATED])
    assert all((ROOT / source).exists() for source in site.GENERATED.values())


def test_a_warning_is_an_error_and_nothing_comes_from_the_net() -> None:
    assert CONFIG["strict"]
    assert set(CONFIG["validation"]["links"].values()) == {"warn"}
    assert CONFIG["theme"]["font"] is False
    own = [*CONFIG["extra_css"], *CONFIG["extra"]["polyfills"], CONFIG["theme"]["logo"]]
    assert all((DOCS / path).exists() for path in own)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_their_anchors_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", markdown(page))):
        if ":" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_site_has_a_page_for_every_link(page: Path) -> None:
    there = {*named(CONFIG["nav"]), "CITATION.cff"}
    depth = 1 if page.suffix == ".ipynb" else 0
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", FENCE.sub("", markdown(page))):
        target = site.site_link(link, depth).partition("#")[0]
        if target and ":" not in target:
            folder = "tutorials/" if depth and not target.startswith("../") else ""
            assert folder + target.removeprefix("../") in there, link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_heading_follows_a_blank_line(page: Path) -> None:
    """A table would take one that follows it at once for a row of its own."""
    assert not re.findall(r"^.*\S.*\n#+ .+$", FENCE.sub("", markdown(page)), re.MULTILINE)


def test_every_example_has_its_place() -> None:
    text = reference.examples_page(ROOT / "examples")
    for path in (ROOT / "examples").rglob("*.*"):
        if path.suffix != ".pyc":
            name = path.relative_to(ROOT / "examples").as_posix()
            assert f"{{#{reference.example_anchor(name)}}}" in text
            assert path.read_text().rstrip() in text


def test_the_reference_has_every_public_name() -> None:
    names = [name for section in reference.API.values() for name in section]
    assert sorted(names) == sorted(seedspread.__all__)
    assert "::: seedspread.analysis.audit.audit\n" in reference.api_page()


def test_the_reference_has_every_command_and_option() -> None:
    text = reference.commands_page()
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        inner = {"": command} | getattr(command, "commands", {})
        for word, one in inner.items():
            section = text.partition(f"\n## seedspread {name} {word}".rstrip() + "\n")[2].partition("\n## ")[
                0
            ]
            options = {o for p in one.params if not getattr(p, "hidden", False) for o in p.opts}
            assert all(f"`{o}" in section or f", {o}" in section for o in options), (name, word)


def commands_of(page: Path) -> Iterator[str]:
    for language, block in FENCE.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            if not language and line.startswith("seedspread "):
                yield line


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_commands_of_a_page_are_understood(page: Path) -> None:
    for line in commands_of(page):
        words = shlex.split(line, comments=True)[1:]
        command: Any = typer.main.get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        command.make_context("seedspread", words)  # raises at what it does not know


def test_the_margin_of_the_page_is_one() -> None:
    code = FENCE.search((DOCS / "new-margin.md").read_text())
    assert code is not None
    made: dict[str, Any] = dict(vars(margins))
    exec(code[2], made)  # noqa: S102 - our own file
    margin = made["LeakyClamp"](0.4)
    s = torch.linspace(-1, 1, 401, dtype=torch.float64).requires_grad_()
    (derivative,) = torch.autograd.grad(margin.modified(s).sum(), s)
    torch.testing.assert_close(derivative, margin.slope(s.detach()))
    assert margin.modified(s).max().item() == pytest.approx(margin.max_similarity)


def test_the_dataset_of_the_page_is_one() -> None:
    _, _, entry = (DOCS / "new-dataset.md").read_text().partition("## A dataset of the package")
    code = FENCE.search(entry)
    assert code is not None
    (info,) = datasets.read_datasets(code[2]).values()
    assert (info.train_size, info.test_size) == (60_000, 10_000)
    assert info.augment in PIPELINES
    for images, labels in (info.train, info.test):
        assert images.size == 16 + images.images * info.stored_size**2
        assert labels.size == 8 + labels.images
