"""`seedspread docs`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from seedspread.cli.output import say


def docs(
    page: Annotated[str | None, typer.Argument(help="The page to read; without one, all are listed.")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="Write the examples into this new folder, ready to run.")
    ] = None,
) -> None:
    """Read the documentation, offline: which pages and examples there are, or one of them."""
    from seedspread.pages import copy_examples, page_named

    if examples is not None:
        copy_examples(examples)
        say(f"examples: {examples}")
    try:
        if page is not None:
            _show(page_named(page))
        elif examples is None:
            _list()
    except BrokenPipeError:  # `| head` has read enough; what is left must not be flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _list() -> None:
    from seedspread.pages import pages, title

    there = pages()
    width = max(map(len, there))
    for name, path in there.items():
        say(f"{name:{width}}  {title(path)}".rstrip())
    say("\nTo read one: seedspread docs statistics")
    say("To run the examples: seedspread docs --examples examples")


def _show(path: Path) -> None:
    """In a terminal formatted and in a pager; a pipe gets the text as it is written."""
    from seedspread.pages import text

    content = text(path)
    if not sys.stdout.isatty():
        say(content, end="")
        return
    from rich.markdown import Markdown
    from rich.syntax import Syntax

    from seedspread.render.terminal import Terminal

    is_page = path.suffix in (".md", ".ipynb")
    console = Terminal()
    os.environ.setdefault("LESS", "-FRX")  # colours as colours, and no pager for what fits
    with console.pager(styles=True):
        console.print(Markdown(content) if is_page else Syntax(content, Syntax.guess_lexer(str(path))))
