"""`seedspread evidence` and `seedspread evidence check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedspread.cli.output import say, say_json, say_prose
from seedspread.errors import require_extra

if TYPE_CHECKING:
    from seedspread.evidence.check import Check

app = typer.Typer(
    help="The paper's question asked again, with enough seeds: what was found, and every run of it.",
    invoke_without_command=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback()
def evidence(
    context: typer.Context,
    write: Annotated[
        Path | None, typer.Option(help="Write the page on it here, as Markdown, its pictures beside it.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what the published runs say to each study's question."""
    if context.invoked_subcommand is not None:
        return
    if write is not None:
        _write(write)
        return
    from seedspread.evidence import verdicts
    from seedspread.evidence.page import answer
    from seedspread.render.terminal import Terminal
    from seedspread.render.text import to_rich

    console = Terminal()
    with Terminal(stderr=True).status("auditing ..."):
        table, remarks, short = verdicts.verdict_table(console.width), verdicts.remarks(), answer()
    if json:
        say_json(verdicts.as_values())
        return
    say_prose(short)
    say("")
    console.print(to_rich(table))
    for line in [table.note, *remarks, f"Scale: {verdicts.SCALE}."]:
        say_prose(line)


def _write(path: Path) -> None:
    require_extra("report", "its pictures", "matplotlib")
    from seedspread.errors import SeedspreadError, reason
    from seedspread.evidence.page import write_page
    from seedspread.render.terminal import Terminal

    try:
        with Terminal(stderr=True).status("writing ..."):
            written = write_page(path)
    except OSError as error:
        raise SeedspreadError(f"{path} cannot be written: {reason(error)}") from None
    say(f"page: {path}, with {len(written) - 1} pictures beside it")


@app.command()
def check(
    key: Annotated[str, typer.Argument(help="A published run, by its key or the key's beginning.")],
    data_dir: Annotated[Path | None, typer.Option(help="The data folder.")] = None,
    json: Json = False,
) -> None:
    """Repeat one published run, and compare its bits (on an equal machine) or its values."""
    require_extra("train", "seedspread evidence check")
    from dataclasses import asdict

    from seedspread.cff.training.allocator import keep_freed_memory
    from seedspread.cff.training.display import Display
    from seedspread.evidence.check import check_run, config_of, published_record
    from seedspread.render.terminal import Terminal

    record = published_record(key)
    keep_freed_memory()
    with Display(config_of(record), Terminal(stderr=True)) as display:
        found = check_run(record, data_dir, display)
    if json:
        say_json(asdict(found) | {"holds": found.holds})
    else:
        say("\n".join(_lines(found)))
    if not found.holds:
        raise typer.Exit(1)


def _lines(found: "Check") -> list[str]:
    published, now = found.accuracy
    if found.same_bits:
        return [f"{found.key}: the same result to the bit, accuracy {now:.2%}"]
    values = f"{found.key}: accuracy {now:.2%}, published {published:.2%}"
    spread = f"runs that differ in their seed alone spread by {100 * found.sd:.2f} points"
    if not found.differs:
        return [f"{values}: not the same bits, which an equal machine should give", spread]
    verdict = "as near as rounding lets one expect" if found.holds else "further off than rounding explains"
    return [f"{values}: {verdict} ({spread})", *(f"differs: {one}" for one in found.differs)]
