"""Logs of tools inside tools, columns from paths, and files that other libraries have written."""

import json
from pathlib import Path

import pytest

from seedspread import collect
from seedspread.tables.sources.run import SourceError
from tests.commands import seedspread_here

FILES = Path(__file__).with_name("files")


def hydra_job(folder: Path, model: str, seed: int) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(f"seed: {seed}\nmodel:\n  depth: 2\n")
    (folder / ".hydra" / "overrides.yaml").write_text(f"- model={model}\n- seed={seed}\n")
    return folder


def test_hydra_jobs_have_their_metrics_in_loggers_inside_them(tmp_path: Path) -> None:
    from pytorch_lightning.loggers import CSVLogger  # noqa: PLC0415 - slow
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - slow

    for number, (model, seed) in enumerate((m, s) for m in ("small", "large") for s in range(3)):
        job = hydra_job(tmp_path / str(number), model, seed)
        if model == "small":
            with SummaryWriter(str(job / "logs" / "tb")) as writer:
                for step in range(3):
                    writer.add_scalar("val_acc", seed + step / 10, step)
        else:
            logger = CSVLogger(str(job), name="lightning")
            logger.log_hyperparams({"seed": 99})
            for step in range(3):
                logger.log_metrics({"val_acc": seed + step / 10}, step=step)
            logger.save()
    found = collect(tmp_path, "val_acc")
    assert (found.kind, found.unread) == ("hydra", ())
    table = found.table.sort_values(["model", "seed"])
    assert table["model"].tolist() == ["large"] * 3 + ["small"] * 3
    assert table["seed"].tolist() == [0, 1, 2] * 2
    assert table["val_acc"].tolist() == pytest.approx([0.2, 1.2, 2.2] * 2)


def test_columns_come_from_paths(tmp_path: Path) -> None:
    for model in ("mlp", "tabr"):
        for seed in range(3):
            folder = tmp_path / model / "adult" / f"train-100-{seed}"
            folder.mkdir(parents=True)
            (folder / "results.json").write_text(json.dumps({"test": {"score": seed + 0.5}}))
    (tmp_path / "mlp" / "results.json").write_text("{}")
    pattern = "{model}/{dataset}/train-{n}-{seed}/results.json"
    found = collect(tmp_path, "score", pattern=pattern)
    assert found.table[["model", "seed", "score"]].values.tolist() == [
        [model, seed, seed + 0.5] for model in ("mlp", "tabr") for seed in range(3)
    ]
    assert found.constant == ("dataset", "n")
    assert [one.name for one in found.unread] == ["mlp/results.json"]
    out = tmp_path / "t.csv"
    words = ("collect", str(tmp_path), "--metric", "score", "--pattern", pattern, "--out", str(out))
    assert "next: seedspread audit" in seedspread_here(*words).stdout
    for wrong, said in (
        ("{model}", "it must end in .json"),
        ("{a}/{a}.json", "'a' is no name, or twice there"),
        ("x/{seed}.json", "it has mlp/results.json"),
        ("{seed}.jsonl", "it has no .jsonl file"),
    ):
        with pytest.raises(SourceError, match=said):
            collect(tmp_path, "score", pattern=wrong)


def test_a_file_of_several_rows_is_not_one_run(tmp_path: Path) -> None:
    (tmp_path / "a-1.csv").write_text("acc\n0.5\n0.6\n")
    (tmp_path / "a-2.csv").write_text("epoch,acc\n0,0.5\n1,0.6\n")
    found = collect(tmp_path, "acc", pattern="{m}-{seed}.csv")
    assert found.table[["seed", "acc"]].values.tolist() == [[2, 0.6]]
    assert "no column counts steps" in found.unread[0].reason


def test_run_logs_of_wandb_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run-a.wandb").write_bytes(b":W&B")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SourceError, match="`wandb sync` them, then export"):
        collect(tmp_path, "loss")


def test_runs_that_end_early_are_named(tmp_path: Path) -> None:
    for seed in range(4):
        steps = range(1 if seed == 2 else 5)
        log = "".join(json.dumps({"epoch": n, "acc": n / 10 + seed}) + "\n" for n in steps)
        (tmp_path / f"seed{seed}.jsonl").write_text(log)
    (note,) = [note for note in collect(tmp_path, "acc").notes if "crashed" in note]
    assert note.startswith("1 of 4 runs ends before other seeds (seed2 at 0), and may have crashed; ")
    assert note.endswith("--at step=4 leaves them out.")
    assert len(collect(tmp_path, "acc", "step=4").table) == 3


def test_results_of_lm_evaluation_harness_are_json_and_its_samples_no_runs() -> None:
    results = sorted((FILES / "lm-eval").glob("*/results_*.json"))
    known = {json.loads(path.read_text())["config"]["random_seed"]: path for path in results}
    found = collect(FILES / "lm-eval", "sums.acc,none")
    assert found.kind == "json"
    assert found.table["seed"].tolist() == sorted(known) == [1, 2]
    wanted = [json.loads(known[seed].read_text())["results"]["sums"]["acc,none"] for seed in (1, 2)]
    assert found.table["sums.acc,none"].tolist() == wanted
    assert ["test items" in one.reason for one in found.unread] == [True, True]
