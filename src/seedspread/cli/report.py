"""The commands about pages: `report`, `serve` and `docs`."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seedspread.cli.options import TableOptions, argument, option, say, say_json, say_prose, with_options
from seedspread.errors import SeedspreadError, require_extra

if TYPE_CHECKING:
    from seedspread.report.extension import ReportData

Studies = Annotated[
    list[str] | None,
    option(
        "Study to report on, by name or .toml file. Repeat for several. Default: all of the store.",
        "--study",
    ),
]
Value = Annotated[str | None, "Metric, or the table's column with one number per run. Default: the study's."]
DataDir = Annotated[Path | None, "Data folder, for --study on partial data."]


@with_options(value=Value)
def report(
    source: Annotated[
        str | None,
        argument("A store of runs, a table with one row per run, or another tool's log (see collect)."),
    ] = None,
    out: Annotated[
        Path | None, "Page to write. Default: report.html, unless only figures or tables are asked for."
    ] = None,
    study: Studies = None,
    figures: Annotated[Path | None, "Folder for all figures (PDF, PNG), with captions."] = None,
    tables: Annotated[Path | None, "Folder for all tables (LaTeX with booktabs, CSV)."] = None,
    data_dir: DataDir = None,
    *,
    asked: TableOptions,
    json: Annotated[bool, "Print JSON."] = False,
) -> None:
    """Write a page with the answer, tables and figures.

    One file that opens offline.
    """
    require_extra("report", "seedspread report")
    from rich.text import Text

    from seedspread.render.terminal import Terminal
    from seedspread.report.page import Report, check_page, write_figures, write_page, write_tables

    if source is None:
        raise SeedspreadError("give a store or a table to report on")
    page = out or (None if figures or tables else Path("report.html"))
    check_page(page)
    with Terminal(stderr=True).status("reading ...") as status:

        def tell(what: str) -> None:
            status.update(Text(f"{what} ..."))

        material = _material(source, asked, study or (), data_dir, tell)
        tell("making the page")
        made = Report(material)
        if page:
            write_page(made, page)
        drawn = write_figures(made, figures, tell) if figures else []
        written = write_tables(made, tables) if tables else []
    if json:
        values = {
            "page": None if page is None else str(page),
            "answer": made.answer,
            "about": made.about,
            "details": [{"setting": title, "verdict": verdict} for title, verdict in made.verdicts],
            "advice": made.advice,
            "caveats": made.caveats,
            "figures": [str(path) for path in drawn],
            "tables": [str(path) for path in written],
        }
        say_json(values)
        return
    say_prose(made.answer)
    say_prose(made.about)
    if page:
        say(f"page: {page}")
    for what, paths, folder in (("figures", drawn, figures), ("tables", written, tables)):
        if folder:
            say(f"{what}: {len(paths)} files in {folder}")


def _material(
    source: str, asked: TableOptions, study: Sequence[str], data_dir: Path | None, tell: Callable[[str], None]
) -> "ReportData":
    """Read the data of a report from a table or a store."""
    from seedspread.report.load import load_store, load_table
    from seedspread.tables.read import is_table

    q = asked.question()
    if is_table(source):
        return load_table(
            source, q.value, q.group, q.baseline, q.block, q.seed, q.by, asked.better, **asked.rows
        )
    flags = {"seed": "no-seed", "paired": "unpaired", "steps": "no-steps"}
    given = [(n if v else flags.get(n, n)).replace("_", "-") for n, v in q.asked() if n != "value"]
    for name in [*given, *([f"{asked.better}-is-better"] if asked.better else [])]:
        raise SeedspreadError(f"--{name} is for a table; a store's studies define what is compared")
    if not study:
        return load_store(Path(source), value=q.value, tell=tell)
    from seedspread.study.study import store_material

    return store_material(source, study, value=q.value, data_dir=data_dir, tell=tell)


def serve(
    store: Annotated[str, argument("A store of runs.")],
    host: Annotated[str, "Address to listen on. Default: this machine only."] = "127.0.0.1",
    port: Annotated[int, option("Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    study: Studies = None,
    value: Value = None,
    data_dir: DataDir = None,
) -> None:
    """Show the report in a browser while a study runs."""
    require_extra("report", "seedspread serve")
    from seedspread.render.terminal import Terminal
    from seedspread.report.page import Report
    from seedspread.report.server import LiveReport, make_server, signature, under_way
    from seedspread.runs.store import Store
    from seedspread.study.store_questions import studies_asked
    from seedspread.study.study import store_material

    with Terminal(stderr=True).status("making the page ..."):
        place = Path(store)

        def make() -> Report:
            return Report(store_material(place, study or (), value=value, data_dir=data_dir))

        asked = studies_asked(place, study or (), data_dir)
        live = LiveReport(make, lambda: signature(place), lambda: under_way(Store(place), asked))
    server = make_server(live, host, port)
    say(f"{server.url}  (Ctrl-C stops it)")
    if not server.only_local:
        say("anyone who can reach this address can read the report", err=True)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("stopped", err=True)
    finally:
        server.server_close()


def docs(
    page: Annotated[str | None, argument("Page to read. Without one, the pages are listed.")] = None,
    examples: Annotated[Path | None, "Copy the examples into this new folder."] = None,
) -> None:
    """Read the documentation offline."""
    from seedspread.pages import copy_examples, page_named, pages, title

    if examples is not None:
        copy_examples(examples)
        say(f"examples: {examples}")
    try:
        if page is not None:
            _show(page_named(page))
        elif examples is None:
            there = pages()
            width = max(map(len, there))
            for name, path in there.items():
                say(f"{name:{width}}  {title(path)}".rstrip())
            say("\nTo read one: seedspread docs statistics")
            say("To run the examples: seedspread docs --examples examples")
    except BrokenPipeError:  # `| head` has read enough; the rest must not be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(path: Path) -> None:
    """Show a page formatted in a pager on a terminal, and as plain text in a pipe."""
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
    os.environ.setdefault("LESS", "-FRX")  # interpret colors; no pager for text that fits the screen
    with console.pager(styles=True):
        console.print(Markdown(content) if is_page else Syntax(content, Syntax.guess_lexer(str(path))))
