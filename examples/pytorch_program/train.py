"""A training program without a line of seedspread: a small network on scikit-learn's handwritten digits.

    python train.py --seed 1 --smoothing 0.1 --out somewhere

It leaves a checkpoint in `--out` after every epoch, goes on from there if there is one, and prints its
metrics as JSON on the last line. Killed and started again, it ends with the same metrics.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

BATCH = 64


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`(897, 64)` and `(900, 64)` images with their labels, split the same way for every seed."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    return x[:-900], y[:-900], x[-900:], y[-900:]


def save(path: Path, state: dict[str, Any]) -> None:
    """Whole or not at all, whenever it is killed."""
    unfinished = path.with_suffix(".tmp")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def main() -> None:
    """Trains and evaluates."""
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "checkpoint.pt"
    x_train, y_train, x_val, y_val = digits()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
    loss = nn.CrossEntropyLoss(label_smoothing=args.smoothing)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])  # the next epoch shuffles and drops as it would have
        start = state["epoch"]
        print(f"resumed after epoch {start}")
    for epoch in range(start + 1, args.epochs + 1):
        for batch in torch.split(torch.randperm(len(x_train)), BATCH):
            optimizer.zero_grad()
            loss(model(x_train[batch]), y_train[batch]).backward()
            optimizer.step()
        rng = torch.get_rng_state()
        save(
            checkpoint,
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng, "epoch": epoch},
        )
        print(f"epoch {epoch} of {args.epochs}")
    model.eval()
    with torch.no_grad():
        logits = model(x_val)
    accuracy = (logits.argmax(1) == y_val).sum().item() / len(y_val)
    print(json.dumps({"val_acc": accuracy, "val_loss": nn.CrossEntropyLoss()(logits, y_val).item()}))


if __name__ == "__main__":
    main()
