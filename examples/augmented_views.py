"""A contact sheet: an image of each class beside the augmented views that a run sees in its first epochs.

Run it as

    python examples/augmented_views.py [DATASET [PIPELINE [PICTURE]]]

such as `svhn svhn-hard sheet.png`; by default it draws the embedded sample with the pipeline of its dataset.
"""

import sys

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

from seedspread.cff.config import DataConfig
from seedspread.cff.data.augment import augment, draws
from seedspread.cff.data.dataset import load

CLASSES, VIEWS, SEED = 10, 7, 0


def contact_sheet(config: DataConfig) -> Figure:
    """A row for each of the first classes, with an original and views of it."""
    dataset = load(config)
    labels = dataset.train.labels
    present = torch.unique(labels).tolist()[:CLASSES]
    chosen = [int((labels == label).nonzero()[0]) for label in present]
    originals, ids = dataset.train.images[chosen], dataset.train.ids[chosen]
    columns = [originals]
    for epoch in range(VIEWS):
        uniform = draws(config.pipeline, SEED, epoch, view=0, images=int(ids.max()) + 1)[ids]
        columns.append(augment(originals, config.pipeline, uniform))
    framed = [torch.nn.functional.pad(images, (1, 1, 1, 1), value=255) for images in columns]
    height, width = framed[0].shape[-2:]
    sheet = torch.cat([torch.cat(list(images), dim=1) for images in framed], dim=2).permute(1, 2, 0).numpy()
    figure = Figure(figsize=(0.75 * (1 + VIEWS) + 1.7, 0.75 * len(chosen) + 0.9), layout="constrained")
    figure.suptitle(f"{dataset.title} · pipeline {config.augment or dataset.info.augment}", fontsize=10)
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest", cmap="gray", vmin=0, vmax=255)
    heads = ["original", *(f"view {number}" for number in range(1, 1 + VIEWS))]
    names = [dataset.classes[label] for label in present]
    axes.set_xticks([(column + 0.5) * width for column in range(len(heads))], heads)
    axes.set_yticks([(row + 0.5) * height for row in range(len(names))], names)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return figure


def main() -> None:
    """Draw what the command line asks for."""
    given = dict(zip(("name", "augment", "picture"), sys.argv[1:], strict=False))
    name = given.get("name", "fashion-mnist-sample")
    config = DataConfig(name=name, augment=given.get("augment"), allow_partial=True)
    with mpl.rc_context({"font.size": 8}):
        contact_sheet(config).savefig(given.get("picture", "sheet.png"), dpi=150)


if __name__ == "__main__":
    main()
