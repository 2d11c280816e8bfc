"""A run that is killed and goes on ends with the same bits as one that never was."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from safetensors.torch import load_file

from seedspread import train
from seedspread.cff.presets import to_toml
from seedspread.cff.training.state import Position, load_checkpoint, save_checkpoint
from seedspread.runs.folder import RunFolder, RunFolderError
from seedspread.runs.stopping import StoppedError

from .crashing import CrashAt, CrashError
from .tiny import EVERY_BATCH, files, needs_bf16, needs_native, tiny

# Both stages take a while, and a checkpoint is written after every batch: kills hit all of them.
CONFIG = tiny(training__epochs=5, probe__epochs=5, probe__repeats=2, **EVERY_BATCH)


def test_a_checkpoint_from_before_block_norms_goes_on(tmp_path: Path) -> None:
    train(CONFIG, tmp_path / "whole")
    with pytest.raises(CrashError):
        train(CONFIG, tmp_path / "run", callback=CrashAt(9))
    folder = RunFolder(tmp_path / "run", json.loads((tmp_path / "run" / "run.json").read_text())["key"])
    found = load_checkpoint(folder)
    assert found is not None
    state, tensors = found
    assert state["position"]["epoch"] > 0
    old = {name: tensor for name, tensor in tensors.items() if "block_gradient_norm" not in name}
    assert len(old) == len(tensors) - 2  # the epoch's sums, and the epochs before
    save_checkpoint(folder, state, old)
    train(CONFIG, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "result.json").read_bytes() == (
        tmp_path / "whole" / "result.json"
    ).read_bytes()
    norms = folder.history(["epoch", "block_gradient_norm"]).to_pandas().set_index("epoch").squeeze()
    assert norms[0].isna().all()
    assert norms[4].notna().all()


@pytest.mark.parametrize(
    "changes",
    [
        {"probe__layers": "all", "probe__repeats": 2},
        {"probe__features": "cached", "data__order": "balanced"},
        {"runtime__precision": "bf16"},
        {"runtime__implementation": "plain"},
        {"training__optimizer": "sgd", "training__learning_rate": 0.05, "training__max_gradient_norm": 0.5},
        {"training__optimizer": "adam", "training__schedule": "cosine", "training__warmup_epochs": 0.6},
        {"training__optimizer": "sgd", "training__rule": "cross_entropy", "training__schedule": "cosine"},
        {"training__rule": "end_to_end", "objective__margin_warmup_epochs": 2, "training__optimizer": "adam"},
        {"training__select": "best_val_loss", "objective__margin_warmup_epochs": 1.3},
        {"objective__loss": "goodness"},
        {"objective__loss": "local_cross_entropy", "training__optimizer": "sgd"},
        pytest.param(
            {
                "runtime__implementation": "native",
                "training__optimizer": "sgd",
                "training__schedule": "cosine",
                "training__max_gradient_norm": 0.5,
                "objective__margin_warmup_epochs": 2,
            },
            marks=needs_native,
        ),
        *(
            pytest.param(part, marks=pytest.mark.soak)  # most of what these are is in the others
            for part in (
                {"training__rule": "end_to_end"},
                {"training__rule": "cross_entropy"},
                {"training__select": "best_val_loss"},
                {"objective__margin_type": "subtract", "objective__stability": "direct"},
            )
        ),
        pytest.param({"runtime__implementation": "native"}, marks=[needs_native, pytest.mark.soak]),
        pytest.param({"runtime__implementation": "native", "runtime__precision": "bf16"}, marks=needs_bf16),
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_kind_of_run_resumes_exactly(changes: dict[str, object], tmp_path: Path) -> None:
    config = tiny(training__epochs=2, probe__epochs=2, **EVERY_BATCH, **changes)
    train(config, tmp_path / "whole")
    folder = tmp_path / "broken"
    for batches in (1, 4, 3, 5, 4):  # in both stages, in the midst and at the ends of epochs
        with contextlib.suppress(CrashError):
            train(config, folder, resume=True, callback=CrashAt(batches))
    train(config, folder, resume=True)
    assert files(folder) == files(tmp_path / "whole")


def test_a_run_keeps_its_thread_count_through_a_resume(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with contextlib.suppress(CrashError):
        train(tiny(**EVERY_BATCH), folder, callback=CrashAt(2))
    train(tiny(runtime__threads=2), folder, resume=True)
    assert json.loads((folder / "provenance.json").read_text())["threads"] == 1


@pytest.mark.parametrize("implementation", ["fast", "plain", pytest.param("native", marks=needs_native)])
def test_a_checkpoint_that_only_a_stop_has_written_is_whole(
    implementation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes at the last moment: after the batch, while the run shows that it is alive."""
    config = tiny(runtime__checkpoint_seconds=1e9, runtime__implementation=implementation)
    train(config, tmp_path / "whole")
    beats = []

    def beat(_: RunFolder, __: object) -> None:
        beats.append(1)
        if len(beats) == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "beat", beat)
        with pytest.raises(StoppedError):
            train(config, tmp_path / "broken")
    assert len(list((tmp_path / "broken").glob("checkpoint-*"))) == 1
    train(config, tmp_path / "broken", resume=True)
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


def test_a_position_in_a_checkpoint() -> None:
    stored = '{"stage": "probe", "epoch": 2, "batch": 1, "repeat": 0}'
    assert Position(**json.loads(stored)) == Position("probe", 2, 1, 0)
    assert json.dumps(asdict(Position("probe", 2, 1, 0))) == stored


STORED_NAMES = """0.0.position 0.0.project.weight 0.0.project.bias 0.1.attention.0.weight 0.1.attention.0.bias
0.1.attention.1.qkv.weight 0.1.attention.1.qkv.bias 0.1.attention.1.proj.weight 0.1.attention.1.proj.bias
0.1.mlp.0.weight 0.1.mlp.0.bias 0.1.mlp.1.weight 0.1.mlp.1.bias 0.1.mlp.3.weight 0.1.mlp.3.bias""".split()


def test_weights_stand_in_checkpoints_under_these_names(tmp_path: Path) -> None:
    """So that a later version with the same names resumes from them, to the same bits."""
    config = tiny(model__depth=1, training__select="best_val_loss", **EVERY_BATCH)
    train(config, tmp_path / "whole")
    with pytest.raises(CrashError):
        train(config, tmp_path / "broken", callback=CrashAt(5))
    stored = load_file(max((tmp_path / "broken").glob("checkpoint-*")))
    for prefix in ("model", "best"):
        layers = [name for name in stored if name.startswith(f"{prefix}.layers.")]
        assert sorted(layers) == sorted(f"{prefix}.layers.{name}" for name in STORED_NAMES)
    train(config, tmp_path / "broken", resume=True)
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


def start(folder: Path) -> subprocess.Popen[str]:
    config = folder.with_suffix(".toml")
    config.write_text(to_toml(CONFIG))
    command = "from seedspread.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", command, "train", str(config), "--out", str(folder), "--resume"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[str], before: set[Path]) -> None:
    """Until a checkpoint appears that is not known yet: the run is really going on."""
    deadline = time.monotonic() + 300
    while not set(folder.glob("checkpoint-*")) - before and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train(CONFIG, folder)
    return files(folder)


def killed_at_random_and_resumed(folder: Path, kills: int, seed: int) -> int:
    """Kills a run up to `kills` times, each some time after it goes on; returns how often it was killed."""
    rng = random.Random(seed)  # noqa: S311
    done = 0
    for _ in range(kills):
        before = set(folder.glob("checkpoint-*"))
        process = start(folder)
        wait_for_checkpoint(folder, process, before)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.communicate()
        if (folder / "result.json").exists():
            break
        done += 1
    process = start(folder)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return done


def test_killed_at_random_moments_it_ends_with_the_same_bits(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    assert killed_at_random_and_resumed(tmp_path / "run", kills=1, seed=0) >= 1
    assert files(tmp_path / "run") == undisturbed


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_killed_fifty_times_it_ends_with_the_same_bits(
    seed: int, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    killed_at_random_and_resumed(tmp_path / "run", kills=5, seed=100 + seed)
    assert files(tmp_path / "run") == undisturbed


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)]
)
def test_asked_to_stop_it_writes_a_checkpoint_and_says_how_to_go_on(
    number: signal.Signals, code: int, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    folder = tmp_path / "run"
    process = start(folder)
    wait_for_checkpoint(folder, process, before=set())
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    train(CONFIG, folder, resume=True)
    assert files(folder) == undisturbed


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed when it had two checkpoints."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    process = start(folder)
    while len(list(folder.glob("checkpoint-*"))) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    return folder


@pytest.fixture
def interrupted(left_behind: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(left_behind, tmp_path / "run")


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(
    damage: str, interrupted: Path, undisturbed: dict[str, bytes]
) -> None:
    newest = max(interrupted.glob("checkpoint-*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes({"cut": bytes(content[:-100]), "flipped": bytes(content), "emptied": b""}[damage])
    train(CONFIG, interrupted, resume=True)
    assert files(interrupted) == undisturbed


def test_when_all_are_damaged_the_run_begins_afresh_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(tmp_path, "key")
    save_checkpoint(folder, {}, {})
    (path,) = folder.checkpoints()
    path.write_bytes(b"nothing")
    assert load_checkpoint(folder) is None
    assert "can be resumed from" in caplog.text
    assert "its checksum differs): put aside, and the run begun afresh" in caplog.text
    assert [file.name for file in tmp_path.iterdir()] == [f"{path.name}.damaged"]


def test_a_begun_folder_is_only_gone_on_with_by_the_same_run(interrupted: Path) -> None:
    config = (interrupted / "config.toml").read_bytes()
    with pytest.raises(RunFolderError, match="unfinished run; add --resume"):
        train(CONFIG, interrupted)
    with pytest.raises(RunFolderError, match="holds another run"):
        train(tiny(seeds__run=9), interrupted, resume=True)
    assert (interrupted / "config.toml").read_bytes() == config


def test_a_checkpoint_of_another_run_is_not_resumed_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_checkpoint(RunFolder(tmp_path, "one"), {}, {})
    assert load_checkpoint(RunFolder(tmp_path, "other")) is None
    assert "belongs to another run" in caplog.text


def test_what_a_kill_leaves_half_written_is_swept_away(interrupted: Path) -> None:
    (interrupted / ".checkpoint-000009-fedcba9876543210-0123456789abcdef.safetensors").write_bytes(b"half")
    train(CONFIG, interrupted, resume=True)
    assert not list(interrupted.glob(".*"))


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "key")
    for number in range(12):
        save_checkpoint(folder, {"number": number}, {})
    assert len(folder.checkpoints()) == 2
    newest = load_checkpoint(folder)
    assert newest is not None
    assert newest[0] == {"number": 11}
