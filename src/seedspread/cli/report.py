"""`seedspread report` and `seedspread serve`."""

import json as jsonlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.errors import SeedspreadError

if TYPE_CHECKING:
    from seedspread.report.material import Material

Source = Annotated[
    Path | None,
    typer.Argument(help="A store of runs, or a table with one row per run (.csv, .tsv, .parquet)."),
]
Studies = Annotated[
    list[str] | None,
    typer.Option(
        "--study", help="Report on this study; may be repeated. By default all that the store records."
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="The data folder, for --study on partial data.")]


def report(
    source: Source = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write; report.html unless only pictures or tables are wanted."),
    ] = None,
    published: Annotated[bool, typer.Option("--published", help="Report the paper's own numbers.")] = False,
    study: Studies = None,
    figures: Annotated[Path | None, typer.Option(help="Write every figure as PDF, SVG, PNG here.")] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Write every table as LaTeX, Markdown, CSV here.")
    ] = None,
    data_dir: DataDir = None,
    value: Annotated[str, typer.Option(help="Of a table: the column with one number per run.")] = "accuracy",
    group: Annotated[str, typer.Option(help="Of a table: the column that is compared.")] = "margin_type",
    reference: Annotated[str, typer.Option(help="Of a table: the level to compare with.")] = "subtract",
    block: Annotated[list[str] | None, typer.Option(help="Of a table: tells a seed's runs apart.")] = None,
    seed: Annotated[str, typer.Option(help="Of a table: the column with the seed.")] = "seed",
    by: Annotated[str | None, typer.Option(help="Of a table: a column to report apart.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Write a page with the answer, every table and every figure: one file that opens offline."""
    from rich.console import Console

    from seedspread.report.export import check_page, write_figures, write_page, write_tables
    from seedspread.report.page import Report

    if published == (source is not None):
        raise SeedspreadError("give a store or a table to report on, or --published, and not both")
    page = out or (None if figures or tables else Path("report.html"))
    check_page(page)
    console = Console(stderr=True)
    with console.status("reading ...") as status:

        def tell(what: str) -> None:
            status.update(f"{what} ...")

        if source is not None and source.is_file():
            from seedspread.report.from_table import from_table

            material = from_table(source, value, group, reference, block, seed, by)
        else:
            material = _material(source, study, data_dir, tell)
        tell("making the page")
        made = Report(material)
        if page:
            write_page(made, page)
        drawn = write_figures(made, figures, tell) if figures else []
        written = write_tables(made, tables) if tables else []
    if json:
        answer = made.answer
        typer.echo(
            jsonlib.dumps(
                {
                    "page": None if page is None else str(page),
                    "question": answer.question,
                    "answer": answer.short,
                    "details": [{"setting": title, "verdict": said} for title, said in answer.details],
                    "advice": answer.advice,
                    "mind": answer.caveats,
                    "figures": [str(path) for path in drawn],
                    "tables": [str(path) for path in written],
                },
                indent=2,
            )
        )
        return
    typer.echo(made.answer.short)
    if page:
        typer.echo(f"page: {page}")
    if figures:
        typer.echo(f"{len(drawn)} pictures in {figures}")
    if tables:
        typer.echo(f"{len(written)} tables in {tables}")


def _material(
    source: Path | None, study: list[str] | None, data_dir: Path | None, tell: Callable[[str], None]
) -> "Material":
    from seedspread.report.from_published import from_published
    from seedspread.report.from_store import from_store

    if source is None:
        return from_published()
    return from_store(source, study or (), data_dir, tell)


def serve(
    store: Annotated[Path, typer.Argument(help="A store of runs.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; this machine only by default.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    study: Studies = None,
    data_dir: DataDir = None,
) -> None:
    """Show the report of a store while a campaign runs: new runs appear by themselves."""
    from rich.console import Console

    from seedspread.report.from_store import from_store
    from seedspread.report.page import Report
    from seedspread.report.server import LiveReport, make_server, signature

    def make() -> Report:
        return Report(from_store(store, study or (), data_dir, lambda _: None))

    with Console(stderr=True).status("making the page ..."):
        live = LiveReport(make, lambda: signature(store))
    server = make_server(live, host, port)
    live.start()
    typer.echo(f"http://{host}:{server.server_port}/  (Ctrl-C stops it)")
    if host not in ("127.0.0.1", "localhost"):
        typer.echo("anyone who can reach this address can read the report", err=True)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
    finally:
        live.stop()
        server.server_close()
