"""Every command and option that a refusal or a note suggests is tried on the table that caused it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer.main

from seedspread.cli import app
from tests.commands import seedspread_here
from tests.tables.made import curves, scores

COMMAND = re.compile(
    r"seedspread (?P<words>(?:audit|components|compare|collect|check)\b.*?)(?= \(10 stands|$)"
)
OPTION = re.compile(r"(?<![\w-])(?P<name>--[a-z]+(?:-[a-z]+)*)(?: (?P<value>'[^']*'|[\w=*.-]*\w))?")
# What follows an option that is mentioned, not suggested with a value.
VERBS = set("or and is if with says audits leaves compares to keeps shows all why fig.pdf for".split())
Words = tuple[str, ...]


def suggested(typed: Words, text: str) -> list[Words]:
    """Return each command of a text, and the one that was typed with each option of the text."""
    found: list[Words] = []
    for line in text.splitlines():
        command = COMMAND.search(line)
        if command:
            found.append(tuple(shlex.split(command["words"].rstrip("."))))
        for option in OPTION.finditer(line[: command.start()] if command else line):
            name, value = option["name"], (option["value"] or "").strip("'")
            known = {o: p for p in parameters(typed[0]) for o in p.opts}
            if name not in known:
                raise AssertionError(f"{typed[0]} has no {name}: {line}")
            if known[name].is_flag:
                found += [(*typed, name)] if name not in typed else []
            elif value and value not in VERBS:
                found.append((*(typed if known[name].multiple else without(typed, name)), name, value))
    return found


def parameters(command: str) -> list[Any]:
    every: Any = typer.main.get_command(app)
    return list(every.commands[command].params)


def without(typed: Words, name: str) -> Words:
    if name not in typed:
        return typed
    at = typed.index(name)
    return (*typed[:at], *typed[at + 2 :])


def follow(typed: Words, seen: dict[Words, int], depth: int = 4) -> None:
    """Run a command and all that it suggests; a refusal that leads nowhere fails.

    What notes suggest is tried once for each option, and not what is suggested after it.
    """
    if typed in seen or not depth:
        return
    done = seedspread_here(*typed, "--json")
    seen[typed] = done.returncode
    shown = f"{shlex.join(typed)}: {done.stderr}"
    if done.returncode == 0:
        notes = "\n".join(json.loads(done.stdout)["notes"])
        tried = {words[-2:] for words in seen}
        for words in suggested(typed, notes):
            if words[-2:] not in tried:
                seen[words] = seedspread_here(*words).returncode
                assert seen[words] == 0, shlex.join(words)
        return
    assert done.returncode == 2, shown
    assert done.stderr.count("\n") == 1, shown
    further = suggested(typed, done.stderr)
    assert further, f"it suggests nothing: {shown}"
    for words in further:
        follow(words, seen, depth - 1)
    assert any(seen[words] == 0 for words in seen), f"it leads to no answer: {shown}"


def augmix() -> pd.DataFrame:
    """Error rates called top1 and top5, of the best and the last checkpoint."""
    rng = np.random.default_rng(0)
    rows = [
        (m, s, c, 100 if c == "last" else 94 + s, *np.round(np.array([24, 6, 50, 30]) + rng.random(4), 2))
        for s in range(5)
        for m in ("baseline", "augmix")
        for c in ("best", "last")
    ]
    names = "method seed checkpoint epoch clean_top1 clean_top5 corruption_top1 corruption_top5".split()
    return pd.DataFrame(rows, columns=names)


def graphsage() -> pd.DataFrame:
    """Experiments, each of one dataset and model, some of a variant; settings and diagnostics beside them."""
    rng = np.random.default_rng(1)
    rows = [
        (f"{d}_{m}_{v}", d, m, v, s, 128, 0.5, "mean" if m == "sage" else None, 8 + s, 60 + s, *rng.random(2))
        for d in ("cora", "pubmed")
        for m in ("mlp", "sage")
        for v in (("raw", "fca") if m == "mlp" else ("raw",))
        for s in range(3)
    ]
    names = "experiment dataset model variant seed hidden_channels dropout aggr best_epoch epochs_ran"
    return pd.DataFrame(rows, columns=[*names.split(), "val_accuracy", "test_accuracy"])


def nested() -> pd.DataFrame:
    rows = [("sage" if e < 3 else "other", f"e{e}", s, e + s / 7 + e * s) for e in range(6) for s in range(4)]
    return pd.DataFrame(rows, columns=["model", "experiment", "seed", "score"])


def grid(reused: bool) -> pd.DataFrame:
    """Epochs as a setting, with seeds of their own or the same ones."""
    rng = np.random.default_rng(2)
    rows = [(m, e, s + (0 if reused else e), rng.random()) for m in "ab" for e in (10, 50) for s in range(5)]
    return pd.DataFrame(rows, columns=["method", "epochs", "seed", "accuracy"])


SCORES = scores(seeds=3).query("Model != 'mix' and Dataset != 'wine'")
FRAMES = curves().rename(columns={"step": "env_frames_M"})
SINGLE = scores(seeds=1).drop(columns="Seed")
BARE = pd.DataFrame(
    {"Model": ["a", "b", "c"], "Acc.": ["28.7 ± 4.8", "26.1 ± 0.8", "27 ± 2"], "n": [9, 9, 9]}
)
TABLES: dict[str, tuple[pd.DataFrame, str]] = {
    "augmix": (augmix(), "audit"),
    "augmix, no option": (augmix(), "audit --value clean_top1 --group method"),
    "augmix, epoch": (augmix(), "audit --value clean_top1 --group method --by epoch"),
    "augmix, components": (augmix(), "components --value clean_top1 --group method"),
    "graphsage": (graphsage(), "audit"),
    "graphsage, model": (graphsage(), "audit --value test_accuracy --group model"),
    "graphsage, variant": (graphsage(), "audit --value test_accuracy --group variant --by dataset"),
    "graphsage, experiment": (graphsage(), "audit --value test_accuracy --group model --by experiment"),
    "graphsage, across": (graphsage(), "audit --value test_accuracy --group experiment"),
    "graphsage, components": (graphsage(), "components --value test_accuracy --group model"),
    "nested": (nested(), "audit --value score --group model --by experiment --baseline other"),
    "one row each": (SINGLE, "audit --value AUC --group Model"),
    "datasets": (SCORES.rename(columns={"Dataset": "data set"}), "audit --value AUC --group Model"),
    "learning seed": (
        SCORES.rename(columns={"Seed": "learning_seed"}),
        "components --value AUC --group Model",
    ),
    "curves": (curves(), "components --value reward --group method --by task"),
    "frames": (FRAMES, "audit --value reward --group method --by task --by env_frames_M"),
    "frames as blocks": (FRAMES, "audit --value reward --group method --by task --block env_frames_M"),
    "epochs of own seeds": (grid(False), "audit --value accuracy --group method"),
    "epochs of shared seeds": (grid(True), "audit --value accuracy --group method --by epochs"),
    "no seed in some": (
        grid(True).assign(seed=[np.nan, *range(1, 20)]),
        "audit --value accuracy --group method",
    ),
    "means": (BARE, "audit"),
    "means, value": (BARE, "audit --value n --group Model"),
    "wide": (pd.DataFrame({"method": ["a", "b"], **{f"seed_{k}": [k, k * k] for k in range(6)}}), "audit"),
    "long": (
        SCORES.melt(["Dataset", "Model", "Seed"], var_name="metric"),
        "audit --value AUC --group Model",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_suggested_leads_to_an_answer(tmp_path: Path, name: str) -> None:
    table, typed = TABLES[name]
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    command, *options = typed.split()
    seen: dict[Words, int] = {}
    follow((command, str(path), *options), seen)
    assert 0 in seen.values()


def report(folder: Path, function: str, seed: int | None, score: float) -> None:
    """Nested JSON with a config, and metrics by part, as tabular benchmarks write it."""
    folder.mkdir(parents=True)
    config = {"data": {"seed": 0, "path": f":data/{folder.parts[-3]}"}, "optimizer": {"lr": 6e-4}}
    config |= {"n_epochs": float("inf")} | ({} if seed is None else {"seed": seed})
    parts = {
        part: {"rmse": -score, "score": score, "0": {"support": 100}} for part in ("train", "val", "test")
    }
    content = {"function": function, "gpus": ["A100"], "config": config, "best_epoch": 9, "metrics": parts}
    (folder / "report.json").write_text(json.dumps(content | {"time": "0:39:59", "chunk_size": None}))


def test_reports_in_nested_folders_lead_to_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    for model in ("tabr", "mlp"):
        for data in ("adult", "wine"):
            for seed in range(3):
                folder = tmp_path / "exp" / model / data / "0-evaluation" / str(seed)
                report(folder, f"bin.{model}.main", seed, -rng.random())
            report(tmp_path / "exp" / model / data / "0-ensemble-5" / "0", "bin.ensemble.main", None, -0.4)
    monkeypatch.chdir(tmp_path)
    pattern = "{model}/{dataset}/0-evaluation/{seed}/report.json"
    for typed in (
        "audit exp --value test.score",
        "audit exp --value test.score --group function",
        f"collect exp --metric test.score --out t.csv --pattern {pattern}",
    ):
        words = tuple(typed.split())
        if words[0] == "collect":
            done = seedspread_here(*words)
            (words,) = [w for w in suggested(words, done.stdout.split("\n")[-2]) if w[0] == "audit"]
        seen: dict[Words, int] = {}
        follow(words, seen)
        assert 0 in seen.values()
    assert words[-2:] == ("--by", "dataset")
