"""Did the optimizer change the spread? An audit of runs that MLflow has logged already.

A sweep of one's own has left its runs in `mlflow.db`: parameters, a seed, an accuracy per epoch. Here a toy
stands for its training. Run it as

    python examples/mlflow_audit.py [FOLDER]

The audit reads MLflow's database as it lies there (or its folder, `mlruns`; or a server). In a shell:

    seedspread collect mlflow.db --metric val_acc --at best --out table.csv
    seedspread audit mlflow.db --value val_acc --at best --group optimizer --baseline adam
"""

import sys
from pathlib import Path

import mlflow
import numpy as np

from seedspread import audit, collect

NOISE = {"adam": 0.004, "sgd": 0.02}  # of the final accuracy, over seeds
EPOCHS = 10


def train(optimizer: str, seed: int) -> None:
    """A run as one logs it; the accuracy of the toy peaks at epoch 8."""
    rng = np.random.default_rng([seed, *optimizer.encode()])
    reached = 0.9 + NOISE[optimizer] * rng.normal()
    with mlflow.start_run(run_name=f"{optimizer}-{seed}"):
        mlflow.log_param("optimizer", optimizer)
        mlflow.log_param("seed", seed)
        for epoch in range(1, EPOCHS + 1):
            mlflow.log_metric("val_acc", reached - 0.005 * abs(8 - epoch), step=epoch)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else "mlflow_audit")
folder.mkdir(parents=True, exist_ok=True)
database = folder / "mlflow.db"
mlflow.set_tracking_uri(f"sqlite:///{database}")
for optimizer in NOISE:
    for seed in range(8):
        train(optimizer, seed)

found = collect(database, "val_acc", at="best")
print(found.table)
print(audit(database, "val_acc", "optimizer", "adam", at="best"))
