"""A layer-local training loop of one's own: the loss, the model and the clamp monitor on made-up images.

Each class is a fixed random picture under heavy noise. A small ViT is trained layer by layer, once with
the clamp and once with subtraction, and the monitor says how much of the clamp saturates.
"""

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from seedspread import ClampMonitor, SupConLoss, ViT, margin_schedule

EPOCHS, BATCHES, BATCH, CLASSES, DEPTH = 6, 12, 64, 5, 3


def train(margin_type: str, seed: int = 0) -> ClampMonitor:
    """Trains every layer against its own loss and returns what the monitor saw."""
    torch.manual_seed(seed)
    model = ViT(image_size=16, patch_size=4, dim=32, depth=DEPTH, heads=4, num_classes=CLASSES)
    pictures = torch.randn(CLASSES, 3, 16, 16)
    margins = margin_schedule(0.4, 0.1, DEPTH)
    monitor = ClampMonitor()
    losses = [
        monitor.watch(SupConLoss(margin=margin, margin_type=margin_type), layer=layer)  # type: ignore[arg-type]
        for layer, margin in enumerate(margins)
    ]
    optimisers = [torch.optim.AdamW(layer.parameters(), lr=4e-3) for layer in model.layers]

    for _ in track(range(EPOCHS), description=f"{margin_type:>8}", transient=True):
        for _ in range(BATCHES):
            labels = torch.randint(0, CLASSES, (BATCH,)).repeat(2)  # two views of each image
            images = pictures[labels] + 2.0 * torch.randn(2 * BATCH, 3, 16, 16)
            for features, loss, optimiser in zip(model.features(images), losses, optimisers, strict=True):
                optimiser.zero_grad()
                loss(features, labels).backward()
                optimiser.step()
        monitor.end_epoch()
    return monitor


def main() -> None:
    """Trains with both margins and prints the rates by layer and epoch, and the advice."""
    console = Console()
    for margin_type, name in (("clamp", "clamp activation rate"), ("subtract", "would-be rate")):
        monitor = train(margin_type)
        table = Table(title=f"{margin_type}: {name} by layer and epoch (made-up images)")
        table.add_column("layer")
        for epoch in range(EPOCHS):
            table.add_column(f"epoch {epoch + 1}", justify="right")
        for layer in monitor.layers:
            table.add_row(str(layer), *(f"{rate:.1%}" for rate in monitor.rates(layer)))
        console.print(table)
        console.print(str(monitor.advice()), "\n")
    console.print(
        "Next: put SupConLoss into a loop of your own (README), or run [bold]seedspread bench loss[/bold]."
    )


if __name__ == "__main__":
    main()
