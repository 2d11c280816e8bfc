"""The same sixteen runs, written by each tool itself."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from mlflow.entities import Metric, Param
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from seedspread.tables.sources.run import quiet
from seedspread.tables.sources.trackers import connect

METRIC = "val_acc"
OPTIMIZERS = ("adam", "sgd")
SEEDS = range(8)
STEPS = range(1, 6)


def curve(optimizer: str, seed: int) -> list[float]:
    """Five values; the best is at step 4, and what the runs spread over is wider with sgd."""
    spread = (seed * 7 % 8 - 3.5) / (400 if optimizer == "adam" else 60)
    return [round(0.5 + 0.1 * min(step, 5.5 - step / 3) + spread, 6) for step in STEPS]


def runs() -> Iterator[tuple[str, int, list[float]]]:
    for optimizer in OPTIMIZERS:
        for seed in SEEDS:
            yield optimizer, seed, curve(optimizer, seed)


def expected(at: str) -> dict[tuple[str, int], tuple[int, float]]:
    """Step and value by optimizer and seed."""
    found = {}
    for optimizer, seed, values in runs():
        step = {"last": 5, "best": values.index(max(values)) + 1}.get(at) or int(at.removeprefix("step="))
        found[optimizer, seed] = step, values[step - 1]
    return found


def found(table: pd.DataFrame, group: str = "optimizer") -> dict[tuple[str, int], tuple[int, float]]:
    """The same of a table."""
    rows = zip(table[group], table["seed"], table["step"], table[METRIC], strict=True)
    return {(str(g), int(s)): (int(step), round(float(v), 6)) for g, s, step, v in rows}


@quiet()
def write_mlflow(uri: str, experiment: str = "first") -> Any:
    """Through MLflow's client; one run has failed and one is still running."""
    client = connect(uri)
    number = client.create_experiment(experiment)
    for optimizer, seed, values in runs():
        run = client.create_run(number, run_name=f"{optimizer}-{seed}").info.run_id
        parameters = {"optimizer": optimizer, "seed": seed, "batch_size": 32}
        points = [(METRIC, value, step) for step, value in zip(STEPS, values, strict=True)]
        points += [("val_loss", 1 - value, step) for _, value, step in points]
        client.log_batch(
            run,
            metrics=[Metric(name, value, 0, step) for name, value, step in points],
            params=[Param(name, str(value)) for name, value in parameters.items()],
        )
        client.set_terminated(run)
    failed = client.create_run(number, run_name="broken").info.run_id
    client.set_terminated(failed, "FAILED")
    client.create_run(number, run_name="going-on")
    return client


@quiet()
def write_tensorboard(folder: Path, name: str = "{optimizer}_seed{seed}", *, hparams: bool = False) -> None:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - slow, and for this only

    for optimizer, seed, values in runs():
        with SummaryWriter(str(folder / name.format(optimizer=optimizer, seed=seed))) as writer:
            for step, value in zip(STEPS, values, strict=True):
                writer.add_scalar(METRIC, value, step)
            if hparams:
                writer.add_hparams(
                    {"optimizer": optimizer, "random_seed": seed}, {"hparam/best": max(values)}
                )


@quiet()
def write_lightning(folder: Path) -> None:
    from pytorch_lightning.loggers import CSVLogger  # noqa: PLC0415 - likewise

    for optimizer, seed, values in runs():
        logger = CSVLogger(str(folder), name="logs")
        logger.log_hyperparams({"optimizer": {"name": optimizer}, "seed_everything": seed})
        for step, value in zip(STEPS, values, strict=True):
            logger.log_metrics({"train_loss": 1 - value}, step=10 * step)
            logger.log_metrics({METRIC: value}, step=step)
        logger.save()


HYDRA_APP = """
import json, sys
import hydra

def curve(optimizer, seed):
    spread = (seed * 7 % 8 - 3.5) / (400 if optimizer == "adam" else 60)
    return [round(0.5 + 0.1 * min(step, 5.5 - step / 3) + spread, 6) for step in range(1, 6)]

@hydra.main(version_base=None, config_path=".", config_name="app")
def app(config):
    if config.trainer.seed == 99:
        return
    values = curve(config.optimizer.name, config.trainer.seed)
    with open(hydra.core.hydra_config.HydraConfig.get().runtime.output_dir + "/metrics.jsonl", "w") as file:
        for step, value in enumerate(values, 1):
            print(json.dumps({"step": step, "val_acc": value}), file=file)

app()
"""
HYDRA_CONFIG = "optimizer:\n  name: adam\n  lr: 0.1\ntrainer:\n  seed: 0\n  devices: [0, 1]\n"


def write_hydra(folder: Path) -> Path:
    """A multirun of an app that is really run; the job with seed 99 leaves no metrics."""
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(HYDRA_APP)
    (folder / "app.yaml").write_text(HYDRA_CONFIG)
    seeds = ",".join(str(seed) for seed in (*SEEDS, 99))
    sweep = [f"trainer.seed={seeds}", "optimizer.name=adam,sgd", "hydra.sweep.dir=multirun"]
    command = [sys.executable, "app.py", "-m", *sweep]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "multirun"


def optuna_storage(path: Path) -> Any:
    if path.suffix == ".db":
        return RDBStorage(f"sqlite:///{path}")
    return JournalStorage(JournalFileBackend(str(path)))


@quiet()
def write_optuna(path: Path, study: str = "first", direction: Any = "maximize") -> None:
    """A trial that is pruned, those that are complete, one that failed."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = optuna.create_study(storage=optuna_storage(path), study_name=study, direction=direction)
    choices = {
        "optimizer": optuna.distributions.CategoricalDistribution(OPTIMIZERS),
        "seed": optuna.distributions.IntDistribution(0, 99),
    }

    def trial(optimizer: str, seed: int, **options: Any) -> Any:
        chosen = {"optimizer": optimizer, "seed": seed}
        return optuna.trial.create_trial(params=chosen, distributions=choices, **options)

    made.add_trial(trial("adam", 98, state=TrialState.PRUNED))
    made.add_trials(
        trial(
            optimizer,
            seed,
            value=values[-1],
            intermediate_values=dict(zip(STEPS, values, strict=True)),
            user_attrs={"test_acc": values[-1] - 0.01, "note": "x"},
        )
        for optimizer, seed, values in runs()
    )
    made.add_trial(trial("adam", 99, state=TrialState.FAIL))


def write_json(folder: Path) -> None:
    folder.mkdir(parents=True)
    for optimizer, seed, values in runs():
        content = {
            "config": {"optimizer": optimizer, "seed": seed},
            "history": [{"step": step, METRIC: value} for step, value in zip(STEPS, values, strict=True)],
        }
        (folder / f"{optimizer}-{seed}.json").write_text(json.dumps(content))


def write_json_lines(folder: Path) -> None:
    for optimizer, seed, values in runs():
        run = folder / f"optimizer={optimizer},seed={seed}"
        run.mkdir(parents=True)
        lines = [
            json.dumps({"epoch": step, METRIC: value}) for step, value in zip(STEPS, values, strict=True)
        ]
        (run / "log.jsonl").write_text("\n".join(lines) + "\n")


def wandb_row(optimizer: str, seed: int, values: list[float]) -> dict[str, Any]:
    """A row of the runs table, as the site writes it."""
    return {
        "Name": f"glad-river-{seed}",
        "State": "finished",
        "Notes": "-",
        "User": "someone",
        "Tags": "",
        "Created": f"2024-05-01T10:{seed:02}:00.000Z",
        "Runtime": 12,
        "Sweep": "",
        "optimizer": optimizer,
        "seed": seed,
        "_step": 5,
        METRIC: values[-1],
        "val_loss": 1 - values[-1],
    }


def write_wandb_runs(path: Path) -> None:
    rows = [wandb_row(*run) for run in runs()]
    rows.append(wandb_row("adam", 50, curve("adam", 50)) | {"State": "crashed", METRIC: ""})
    pd.DataFrame(rows).to_csv(path, index=False, quoting=1)


def write_wandb_wide(path: Path) -> None:
    """A panel's export: a column per run, and the bounds of what was drawn beside it."""
    columns: dict[str, Any] = {"Step": list(STEPS)}
    for optimizer, seed, values in runs():
        name = f"optimizer={optimizer},seed={seed} - {METRIC}"
        columns |= {name: values, f"{name}__MIN": values, f"{name}__MAX": values}
    pd.DataFrame(columns).to_csv(path, index=False, quoting=1)
