"""`seedspread report` and `seedspread serve`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedspread.cli.output import say, say_json, say_prose
from seedspread.errors import SeedspreadError

if TYPE_CHECKING:
    from rich.status import Status

    from seedspread.report.page.report import Report

Source = Annotated[
    str | None,
    typer.Argument(
        help="A store of runs, a table with one row per run (.csv, .tsv, .parquet), or what `collect` reads."
    ),
]
Studies = Annotated[
    list[str] | None,
    typer.Option(
        "--study", help="Report on this study; may be repeated. By default all that the store records."
    ),
]
Value = Annotated[
    str | None,
    typer.Option(help="The metric, or a table's column with one number per run; a study's own by default."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="The page to write; report.html unless only pictures or tables are wanted."),
]
Figures = Annotated[
    Path | None, typer.Option(help="A folder for the figures of a paper (PDF, PNG), with captions.")
]
Tables = Annotated[
    Path | None, typer.Option(help="A folder for the tables of a paper (LaTeX with booktabs, CSV).")
]
Everything = Annotated[bool, typer.Option("--all", help="All figures and tables; SVG and Markdown too.")]
DataDir = Annotated[Path | None, typer.Option(help="The data folder, for --study on partial data.")]


def report(
    source: Source = None,
    out: Out = None,
    published: Annotated[bool, typer.Option("--published", help="Report the paper's own numbers.")] = False,
    study: Studies = None,
    figures: Figures = None,
    tables: Tables = None,
    everything: Everything = False,
    data_dir: DataDir = None,
    value: Value = None,
    group: Annotated[str | None, typer.Option(help="Of a table: the column that is compared.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Of a table: the level to compare with; else as in `audit`.")
    ] = None,
    block: Annotated[list[str] | None, typer.Option(help="Of a table: tells a seed's runs apart.")] = None,
    seed: Annotated[str, typer.Option(help="Of a table: the column with the seed.")] = "seed",
    by: Annotated[str | None, typer.Option(help="Of a table: a column to report apart.")] = None,
    at: Annotated[str, typer.Option(help="Of runs logged by step: last, best or step=N.")] = "last",
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Write a page with the answer, every table and every figure: one file that opens offline.

    Example: seedspread report runs --out report.html --figures figures --tables tables
    """
    from seedspread.api import store_material
    from seedspread.render.terminal import Terminal
    from seedspread.report.material.from_published import from_published
    from seedspread.report.material.from_table import from_table
    from seedspread.report.page.export import check_page, write_figures, write_page, write_tables
    from seedspread.report.page.report import Report
    from seedspread.stats.tables.read import is_table

    _check(source, published, value, everything, bool(figures or tables))
    page = out or (None if figures or tables else Path("report.html"))
    check_page(page)
    with Terminal(stderr=True).status("reading ...") as status:
        tell = _teller(status)
        if source is None:
            material = from_published()
        elif is_table(source):
            material = from_table(source, value, group, reference, block, seed, by, at)
        else:
            material = store_material(source, study or (), value=value, data_dir=data_dir, tell=tell)
        tell("making the page")
        made = Report(material)
        if page:
            write_page(made, page)
        drawn = write_figures(made, figures, tell, everything) if figures else []
        written = write_tables(made, tables, everything) if tables else []
    if json:
        say_json(_values(made, page, drawn, written))
        return
    say_prose(made.answer.short)
    if page:
        say(f"page: {page}")
    more = "" if everything else " (--all writes every one)"
    for what, paths, folder in (("figures", drawn, figures), ("tables", written, tables)):
        if folder:
            say(f"{what}: {len(paths)} files in {folder}{more}")


def _check(source: str | None, published: bool, value: str | None, everything: bool, files: bool) -> None:
    if published == (source is not None):
        raise SeedspreadError("give a store or a table to report on, or --published, and not both")
    if everything and not files:
        raise SeedspreadError("--all is for --figures and --tables; the page always has everything")
    if published and value:
        raise SeedspreadError("--value is for a store or a table; the paper's own numbers are accuracies")


def _teller(status: "Status") -> Callable[[str], None]:
    from rich.text import Text

    return lambda what: status.update(Text(f"{what} ..."))


def _values(made: "Report", page: Path | None, drawn: list[Path], written: list[Path]) -> dict[str, Any]:
    answer = made.answer
    return {
        "page": None if page is None else str(page),
        "question": answer.question,
        "answer": answer.short,
        "details": [{"setting": title, "verdict": verdict} for title, verdict in answer.details],
        "advice": answer.advice,
        "caveats": answer.caveats,
        "mind": answer.caveats,  # its former name
        "figures": [str(path) for path in drawn],
        "tables": [str(path) for path in written],
    }


def serve(
    store: Annotated[Path, typer.Argument(help="A store of runs.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; this machine only by default.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    study: Studies = None,
    value: Value = None,
    data_dir: DataDir = None,
) -> None:
    """Show the report of a store while a campaign runs: new runs appear by themselves.

    Example: seedspread serve runs --port 8000
    """
    from seedspread.api import store_material
    from seedspread.render.terminal import Terminal
    from seedspread.report.page.report import Report
    from seedspread.report.page.server import LiveReport, make_server, signature
    from seedspread.report.page.under_way import UnderWay

    def make() -> Report:
        return Report(store_material(store, study or (), value=value, data_dir=data_dir))

    with Terminal(stderr=True).status("making the page ..."):
        live = LiveReport(make, lambda: signature(store), UnderWay(store).html)
    server = make_server(live, host, port)
    live.start()
    say(f"{server.url}  (Ctrl-C stops it)")
    if not server.only_local:
        say("anyone who can reach this address can read the report", err=True)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("stopped", err=True)
    finally:
        live.stop()
        server.server_close()
