"""What commands print."""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

from seedspread.errors import printable


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Prints plain text to stdout, or to stderr, without the control characters that files bring."""
    print(printable(str(text)), file=sys.stderr if err else sys.stdout, end=end, flush=True)


def say_prose(text: str) -> None:
    """Prints sentences, on a terminal in lines that end between words; a pipe gets them whole."""
    width = shutil.get_terminal_size().columns
    say(textwrap.fill(text, width, break_on_hyphens=False) if sys.stdout.isatty() else text)


def say_json(values: Any) -> None:
    """Prints JSON; what is no printable ASCII character is escaped in it."""
    print(json.dumps(values, indent=2).replace("\x7f", "\\u007f"), flush=True)


def say_result(result: Any, form: str, *, as_json: bool = False, **options: bool) -> None:
    """Print a result object in one of its forms; `options` are those of its text."""
    from seedspread.render.terminal import Terminal

    if as_json:
        say(result.to_json())
    elif form == "text":
        say(result.to_text(width=Terminal().width, **options))
    else:
        write = result.to_markdown if form == "markdown" else result.to_latex
        more = {"details": True} if any(options.values()) and "explain" in options else {}
        say(write(**more), end="")


def say_picture(path: Path) -> None:
    """Tell people, but no pipe, where a picture was written."""
    from seedspread.render.terminal import Terminal

    Terminal(stderr=True).print(f"picture in {path}", soft_wrap=True)
