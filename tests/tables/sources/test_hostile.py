"""What lies around in people's folders: cut, garbled, linked, deep, huge, and meant to do harm."""

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread import collect
from seedspread.errors import SeedspreadError
from seedspread.tables.sources import run as reading
from seedspread.tables.sources.run import SourceError, flat, read_yaml
from tests.commands import seedspread_here
from tests.tables.sources import written


def good(folder: Path, *names: str) -> None:
    """A run that can be read, beside what cannot."""
    folder.mkdir(exist_ok=True, parents=True)
    for seed, name in enumerate(names or ("good",)):
        (folder / f"{name}.json").write_text(json.dumps({"seed": seed, "val_acc": 0.5 + seed}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no valid JSON"),
        (b'{"val_acc": 0.', "no valid JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[[1, 2], [3, 4]]", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"3", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b'{"seed": 1}', "it has no val_acc"),
        (b'{"val_acc": "high"}', "it has no val_acc"),
        (b'{"val_acc": NaN}', "its last value is nan"),
        (b'{"val_acc": -Infinity}', "its last value is -inf"),
        (b'{"val_acc": 1e999}', "its last value is inf"),
        (b'{"val_acc": ' + b"9" * 5000 + b"}", ""),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, ""),
        (b'{"seed": 1, "val_acc": []}', "it has no val_acc"),
    ],
)
def test_a_bad_file_is_listed_and_the_others_are_read(tmp_path: Path, content: bytes, said: str) -> None:
    good(tmp_path)
    (tmp_path / "bad.json").write_bytes(content)
    got = collect(tmp_path, "val_acc")
    assert list(got.table["run"]) == ["good"]
    assert [one.name.removesuffix(".json") for one in got.unread] == ["bad"]
    assert said in got.unread[0].reason
    assert "\n" not in got.unread[0].reason


def test_lines_that_are_cut_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "seed1.jsonl").write_text(
        '{"step": 1, "val_acc": 0.1}\n{"step": 2, "val_acc": 0.2}\n{"step": 3, "va'
    )
    got = collect(tmp_path, "val_acc")
    assert got.table["val_acc"].tolist() == [0.2]
    assert got.unread[0].reason.startswith("line 3: no valid JSON")
    assert "its other lines were read" in got.unread[0].reason


def test_links_are_not_followed(tmp_path: Path) -> None:
    good(tmp_path / "outside", "secret")
    good(tmp_path / "inside")
    (tmp_path / "inside" / "loop").symlink_to(tmp_path / "inside")
    (tmp_path / "inside" / "away").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "file.json").symlink_to(tmp_path / "outside" / "secret.json")
    got = collect(tmp_path / "inside", "val_acc")
    assert list(got.table["run"]) == ["good"]
    assert "3 links were not followed." in got.notes


def test_a_file_that_never_ends_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    monkeypatch.setitem(reading._LARGEST, ".json", 1000)
    (tmp_path / "large.json").write_text('{"val_acc": 0.5, "x": "' + "x" * 2000 + '"}')
    reasons = {one.name: one.reason for one in collect(tmp_path, "val_acc").unread}
    assert reasons["pipe.json"] == "it is not a file"
    assert "files up to" in reasons["large.json"]
    monkeypatch.setattr(reading, "_MOST_FILES", 2)
    with pytest.raises(SeedspreadError, match="name a folder inside it"):
        collect(tmp_path, "val_acc")


def hydra_job(folder: Path, config: str) -> None:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(config)
    (folder / "metrics.json").write_text('{"val_acc": 0.5}')


def test_yaml_makes_no_objects(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    hydra_job(
        tmp_path / "jobs" / "0",
        f"seed: 1\nevil: !!python/object/apply:os.system ['touch {touched}']\n"
        "model: !Net {lr: 1}\nlr: 0.1\n",
    )
    got = collect(tmp_path / "jobs", "val_acc", all_parameters=True)
    assert not touched.exists()
    assert got.table.to_dict("records") == [
        {"run": "0", "seed": 1, "evil": "None", "model": "None", "lr": 0.1, "val_acc": 0.5}
    ]


BOMB = "a: &a [x,x]\n" + "".join(f"{b}: &{b} [*{a},*{a},*{a},*{a}]\n" for a, b in pairwise("abcdefghij"))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("a: [", "no valid YAML in line"),
        ("- 1\n- 2\n", "it holds no mapping"),
        (BOMB, "more than 20,000 values"),
        ("a: &a {b: *a}", "levels"),
        ("{a: " * 3000, "nested too deep"),
        ("\0", "no valid YAML"),
    ],
)  # fmt: skip
def test_a_bad_config_is_listed(tmp_path: Path, config: str, said: str) -> None:
    hydra_job(tmp_path / "0", config)
    hydra_job(tmp_path / "1", "seed: 1\n")
    got = collect(tmp_path, "val_acc")
    assert list(got.table["run"]) == ["1"]
    assert [one.name for one in got.unread] == ["0/.hydra/config.yaml"]
    assert said in got.unread[0].reason


def test_a_tag_in_lightnings_parameters_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "hparams.yaml"
    path.write_text("model: !!python/object:torch.nn.Linear {a: 1}\nseed: 3\n")
    assert flat(read_yaml(path)) == {"model": "None", "seed": 3}
    with pytest.raises(ValueError, match="more than 20,000 values"):
        flat({str(n): n for n in range(30_000)})


def test_event_files_that_are_cut_or_garbled(tmp_path: Path) -> None:
    written.write_tensorboard(tmp_path)
    folders = sorted(path for path in tmp_path.iterdir())
    cut, garbled, empty = (next(folder.iterdir()) for folder in folders[:3])
    cut.write_bytes(cut.read_bytes()[:-20])
    garbled.write_bytes(b"\x07garbage" * 100)
    empty.write_bytes(b"")
    got = collect(tmp_path, "val_acc")
    assert got.table.loc[got.table["run"] == folders[0].name, "step"].tolist() == [
        4
    ]  # what came before the cut
    assert [one.name for one in got.unread] == [folders[1].name, folders[2].name]
    assert {one.reason for one in got.unread} == {"its event files hold no scalar that can be read"}


@pytest.mark.parametrize("name", ["mlflow.db", "optuna.db", "journal.log"])
def test_a_damaged_database_is_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"SQLite format 3\0" + b"\7" * 5000 if name.endswith("db") else b'{"op_code":0,"worker')
    with pytest.raises(SourceError) as caught:
        collect(path, "value")
    assert "\n" not in str(caught.value)


def test_what_a_terminal_would_obey_is_not_printed(tmp_path: Path) -> None:
    metric = "<script>alert(1)</script>\x1b[31m"
    for seed in range(4):
        content = {"seed": seed, "opt\x1b[2J": f"a\x07\u202e{seed % 2}", metric: seed}
        (tmp_path / f"r\x1b[1m-{seed}.json").write_text(json.dumps(content))
    (tmp_path / "\x1b]0;title\x07.json").write_text("{")
    table = tmp_path / "table.csv"
    done = seedspread_here("collect", str(tmp_path), "--metric", metric, "--out", str(table))
    assert done.returncode == 0, done.stderr
    assert not any(not letter.isprintable() for letter in (done.stdout + done.stderr).replace("\n", ""))
    assert table.read_text().startswith("run,seed,opt\x1b[2J,")
    for wrong in (["--metric", "\x1b[31m"], ["--metric", "x"], [], ["--metric", metric, "--at", "step=7"]):
        done = seedspread_here("collect", str(tmp_path), *wrong)
        assert done.returncode == 2
        assert "\x1b" not in done.stderr
        assert done.stderr.count("\n") == 1


@given(st.binary(max_size=300), st.sampled_from(["json", "jsonl", "csv", "db", "log", "yaml"]))
def test_no_bytes_are_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"x.{ending}"
    path.write_bytes(content)
    with pytest.raises(SeedspreadError):
        collect(path.parent, "no such metric")
    with pytest.raises(SeedspreadError):
        collect(path, "no such metric")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_read_or_listed(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    folder = tmp_path_factory.mktemp("json")
    good(folder)
    (folder / "other.json").write_text(json.dumps(content))
    got = collect(folder, "val_acc")
    assert "good" in set(got.table["run"])
    assert len(got.table) + len(got.unread) >= 2
