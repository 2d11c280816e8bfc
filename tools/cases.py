"""Run the published cases of the README and docs/cases.md again, and write what they print into the pages.

`python tools/cases.py TABLES`, with TABLES a folder of the published tables. They are not part of the
project: each case gives the source of its table. The tests do the same and compare the answers, if there is
such a folder.
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
# File names by their authors and in the folder of tables; a filter that is already applied there is dropped.
_STORED = {
    "replicate_results.csv": "bert-finetuning.csv",
    "per_seed.csv": "nsad-auc.csv",
    "--where 'filetype == test_last_log'": "",
}
_SHOWN = re.compile(r"^(\$ seedspread (?:[^\n]*\\\n)*[^\n]*\n)\n(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
_VERDICT = re.compile(r"^ {2}(YES|NO|MAYBE|CAN'T TELL) ", re.MULTILINE)


def shown(text: str) -> list[tuple[str, str]]:
    """Return each command that a page shows with its output, and that output."""
    return [(found[1], found[2]) for found in _SHOWN.finditer(text)]


def printed(command: str, tables: Path) -> str:
    """Return the current output of a command on a terminal of 80 columns, without closing hints."""
    from seedspread.cli import app  # noqa: PLC0415 - not needed to read the pages

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
    """Return the answer in an output, its verdicts and their numbers, as one line."""
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
