"""Run the published cases of the README and docs/cases.md again, and write what they print into the pages.

`python tools/cases.py TABLES`, where TABLES is a folder with the published tables. They are not part of the
project: each case says where its table comes from. The tests do the same and compare the answers, if there
is such a folder.
"""

import os
import re
import shlex
import sys
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "cases.md", ROOT / "README.md")
TABLES = Path(os.environ.get("SEEDSPREAD_TABLES", ROOT.parent / "shared" / "tables"))
# Files as their authors call them, and as the folder of tables does, with what it has filtered already.
_STORED = {
    "replicate_results.csv": "bert-finetuning.csv",
    "per_seed.csv": "nsad-auc.csv",
    "--where 'filetype == test_last_log'": "",
}
_SHOWN = re.compile(r"^(\$ seedspread (?:[^\n]*\\\n)*[^\n]*\n)\n(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
_VERDICT = re.compile(r"^ {2}(YES|NO|MAYBE|CAN'T TELL) ", re.MULTILINE)


def shown(text: str) -> list[tuple[str, str]]:
    """Return each command of a page that is shown with its output, and that output."""
    return [(found[1], found[2]) for found in _SHOWN.finditer(text)]


def printed(command: str, tables: Path) -> str:
    """Return what a command prints today on a terminal of 80 columns, without closing hints."""
    from seedspread.cli import app  # noqa: PLC0415 - the pages can be read without it

    for theirs, ours in _STORED.items():
        command = command.replace(theirs, ours)
    words = shlex.split(command.replace("\\\n", " "))[2:]
    here = Path.cwd()
    os.chdir(tables)
    try:
        done = CliRunner().invoke(app, words, env={"COLUMNS": "80"}, catch_exceptions=False)
    finally:
        os.chdir(here)
    return re.sub(r"\n+  --details all tests .*\n", "\n", done.stdout)


def answer(output: str) -> str:
    """Return the part of an output that is the answer: its verdicts and their figures, as one line."""
    found = _VERDICT.search(output)
    return "" if found is None else " ".join(output[found.start() :].partition("\n\n")[0].split())


def main() -> None:
    """Write the outputs into the pages."""
    tables = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLES
    for path in PAGES:
        text = path.read_text()
        path.write_text(_SHOWN.sub(lambda found: f"{found[1]}\n{printed(found[1], tables)}", text))


if __name__ == "__main__":
    main()
