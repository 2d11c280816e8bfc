"""A contact sheet: originals beside their augmented views."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure

from seedspread.atomic import replacing
from seedspread.cff.data.augment import augment, draws
from seedspread.cff.data.dataset import Dataset
from seedspread.cff.pipelines import Step
from seedspread.errors import DataError, reason


def contact_sheet(
    dataset: Dataset,
    steps: Sequence[Step],
    pipeline: str,
    out: Path,
    *,
    seed: int = 0,
    rows: int = 10,
    views: int = 7,
) -> None:
    """Writes a picture: a row per class (the first `rows`), the original and `views` views of it.

    The views are those that a run with this augment seed sees in its first `views` epochs.
    """
    labels = dataset.train.labels
    present = torch.unique(labels).tolist()[:rows]
    chosen = [int((labels == label).nonzero()[0]) for label in present]
    originals = dataset.train.images[chosen]
    ids = dataset.train.ids[chosen]
    columns = [originals]
    for epoch in range(views):
        uniform = draws(steps, seed, epoch, view=0, images=int(ids.max()) + 1)[ids]
        columns.append(augment(originals, steps, uniform))

    with matplotlib.rc_context({"font.size": 8, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(0.75 * (1 + views) + 1.7, 0.75 * len(chosen) + 0.9), layout="constrained")
        figure.suptitle(
            f"{dataset.title} · pipeline {pipeline} · augment seed {seed}", fontsize=10, parse_math=False
        )
        grid = figure.subplots(len(chosen), 1 + views, squeeze=False)
        for column, images in enumerate(columns):
            for row, image in enumerate(images):
                axes = grid[row][column]
                axes.imshow(
                    image.permute(1, 2, 0).numpy(), interpolation="nearest", cmap="gray", vmin=0, vmax=255
                )
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            grid[0][column].set_title("original" if column == 0 else f"view {column}", fontsize=8)
        for row, label in enumerate(present):
            grid[row][0].set_ylabel(
                dataset.classes[label], rotation=0, ha="right", va="center", labelpad=6, parse_math=False
            )
        _save(figure, out)


def _save(figure: Figure, out: Path) -> None:
    if out.suffix.lower() not in {".png", ".pdf", ".svg"}:
        raise DataError(f"{out}: name a .png, .pdf or .svg file")
    try:
        with replacing(out) as temporary:
            figure.savefig(temporary, dpi=150)
    except OSError as error:
        raise DataError(f"cannot write {out}: {reason(error)}; name another place with --out") from error
