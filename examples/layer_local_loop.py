"""A layer-local training loop of one's own, on the embedded sample of Fashion-MNIST.

A small ViT is trained layer by layer, once with the clamp and once with subtraction. The monitor shows how
much of the clamp saturates and gives advice; a nearest-class-mean classifier gives the test accuracy.
"""

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from seedspread import ClampMonitor, SupConLoss, ViT, margin_schedule
from seedspread.cff.config import DataConfig
from seedspread.cff.data.dataset import Dataset, Split, load
from seedspread.cff.data.loader import Loader

EPOCHS, BATCH, DEPTH = 8, 128, 3


def train(margin_type: str, dataset: Dataset, seed: int = 1) -> tuple[ClampMonitor, float]:
    """Train every layer on its own loss; return what the monitor counted, and the test accuracy."""
    torch.manual_seed(seed)
    model = ViT(dim=32, depth=DEPTH, heads=4)
    monitor = ClampMonitor()
    losses = [
        monitor.watch(SupConLoss(margin=margin, margin_type=margin_type), layer=layer)
        for layer, margin in enumerate(margin_schedule(0.4, 0.1, DEPTH))
    ]
    optimizers = [torch.optim.AdamW(layer.parameters(), lr=4e-3) for layer in model.layers]
    batches = Loader(
        dataset.train,
        DataConfig().pipeline,
        dataset.info.mean,
        dataset.info.std,
        batch_size=BATCH,
        views=2,
        order_seed=seed,
        augment_seed=seed,
    )
    for epoch in track(range(EPOCHS), description=f"training with {margin_type}", transient=True):
        for batch in batches.epoch(epoch):
            features = model.features(batch.images)
            for layer, loss, optimizer in zip(features, losses, optimizers, strict=True):
                optimizer.zero_grad()
                loss(layer, batch.labels).backward()
                optimizer.step()
        monitor.end_epoch()
    return monitor, accuracy(model, dataset)


@torch.no_grad()
def accuracy(model: ViT, dataset: Dataset) -> float:
    """Return the share of test images whose nearest class mean is that of their class."""

    def features(split: Split) -> Tensor:
        loader = Loader(split, (), dataset.info.mean, dataset.info.std, 500, order="given")
        return torch.cat([model.features(batch.images)[-1] for batch in loader.epoch(0)])

    train, test = features(dataset.train), features(dataset.test)
    means = torch.stack([train[dataset.train.labels == c].mean(0) for c in range(len(dataset.classes))])
    return (torch.cdist(test, means).argmin(1) == dataset.test.labels).double().mean().item()


def main() -> None:
    """Train with both margins; print the rates by layer and epoch, and the advice."""
    console = Console()
    dataset = load(DataConfig())
    console.print(
        f"{dataset.title}; a ViT of {DEPTH} layers, {EPOCHS} epochs: a demonstration, not the paper.\n"
    )
    margins = ("clamp", "subtract")
    for margin_type in margins:
        monitor, share = train(margin_type, dataset)
        name = monitor.rate_name()
        table = Table(title=f"{margin_type}: {name} by layer and epoch; test accuracy {share:.1%}")
        table.add_column("layer")
        for epoch in range(EPOCHS):
            table.add_column(f"{epoch + 1}", justify="right")
        for layer in monitor.layers:
            table.add_row(str(layer), *(f"{rate:.1%}" for rate in monitor.rates(layer)))
        console.print(table)
        console.print(str(monitor.advice()), "\n")
    console.print(
        "Next: [bold]augmented_views.py[/bold] draws the images; docs/layer-local.md trains your layers."
    )


if __name__ == "__main__":
    main()
