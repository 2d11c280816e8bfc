"""`seedspread data`: list, fetch and check the datasets."""

from dataclasses import asdict
from typing import Annotated

import typer

from seedspread.cli.options import DataDir, Json, argument, described, option, say, say_json
from seedspread.errors import require_extra

app = typer.Typer(help="List, fetch and check the datasets.", no_args_is_help=True)


@app.command("list")
@described
def list_datasets(data_dir: DataDir = None, json: Json = False) -> None:
    """List the datasets: which are here, where, and how large."""
    from seedspread.cff.datasets import DATASETS, fetch_command, presence

    datasets = [presence(source, data_dir) for source in DATASETS.values()]
    if json:
        say_json([asdict(one) for one in datasets])
        return
    width = max(map(len, DATASETS))
    for one in datasets:
        state = "present" if one.found == one.expected else f"{one.found} of {one.expected} files"
        shown = f"{'cut short' if one.short else state:<13} {one.bytes / 1e6:8.1f} MB  {one.folder}"
        if not one.found:
            how = "inside the package" if "-sample" in one.name else fetch_command(one.name, data_dir)
            shown = f"absent        {how}"
        say(f"{one.name:<{width}} {shown}")


@app.command("fetch")
@described
def fetch(
    name: Annotated[str, argument("cifar10, cifar100, svhn or fashion-mnist.")],
    data_dir: DataDir = None,
) -> None:
    """Download a dataset from its official address, and check it."""
    require_extra("train", "seedspread data fetch", "pooch", "requests")
    from seedspread.cff.data.fetch import fetch as download
    from seedspread.cff.data.fetch import is_complete
    from seedspread.cff.datasets import data_folder, dataset_info

    source = dataset_info(name)
    if is_complete(source, data_folder(data_dir)):
        say(f"{source.name}: already there, whole and official")
        return
    size = sum(file.megabytes for file in source.downloads)
    say(f"{source.name}: downloading {size:,.0f} MB ...")
    say(f"{source.name}: fetched into {download(source, data_dir)}")


@app.command("check")
@described
def check(
    names: Annotated[list[str] | None, argument("Datasets to check. Default: all that are here.")] = None,
    data_dir: DataDir = None,
    allow_partial: Annotated[bool, option("Accept a partial dataset.")] = False,
    json: Json = False,
) -> None:
    """Compare datasets with the official content. Exit status 1 if one differs."""
    require_extra("train", "seedspread data check", "torch")
    from seedspread.cff.data.dataset import verify
    from seedspread.cff.datasets import DATASETS, dataset_info, presence

    chosen = [dataset_info(name) for name in names or []]
    chosen = chosen or [source for source in DATASETS.values() if presence(source, data_dir).found]
    verdicts = [verify(source, data_dir) for source in chosen]
    if json:
        say_json([asdict(verdict) for verdict in verdicts])
    else:
        for one in verdicts:
            note = f" ({one.note})" if one.note else ""
            images = f"{one.train:,} training and {one.test:,} test images, {one.fingerprint}"
            is_wrong = one.state == "wrong"
            say(f"{one.name}: wrong: {one.note}" if is_wrong else f"{one.name}: {one.state}{note}, {images}")
    good = {"whole", "partial"} if allow_partial else {"whole"}
    if any(verdict.state not in good for verdict in verdicts):
        raise typer.Exit(1)
