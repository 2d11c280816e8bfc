"""What stands in files cannot steer a terminal: titles, levels, columns, names of files, failures."""

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import rich_utils

from seedspread.errors import SeedspreadError, printable
from seedspread.render.terminal import Terminal
from seedspread.runs.folder import Failure
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.commands import seedspread_here
from tests.report.helpers import change, made_store
from tests.study.tiny import study_file

# Clears the screen, names the window, hides text, opens C1 sequences, turns the line round, overwrites it.
EVIL = (
    "\x1b[2J\x1b]0;gone\x07\x1b[8;95mevil\x9b2J\u202etxt\u2066\r\x08\x7f[red]x[/red][link=http://e]y[/link]"
)
NAME = "\x1b[2J\x1b[8;95mevil\x9b2J\u202e[red]x"  # as a file may be called
# What rich writes to a terminal: styles, and movements of the cursor for what is live.
STYLES = re.compile(r"\x1b\[[0-9;]*m")
MOVES = re.compile(r"\x1b\[\?25[lh]|\x1b\[2K|\x1b\[\d+A|\r")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind that a command reads, with hostile text wherever text can be."""
    root = tmp_path_factory.mktemp("hostile")
    plan = made_store(root / "made", seeds=2, name=EVIL)
    change(plan, 0, dataset=EVIL)
    (root / "run").symlink_to(plan.store.folder(plan.runs[0].key))
    for path in (root / "made" / ".studies").iterdir():
        record = json.loads(path.read_text())
        for cell in record["cells"]:
            cell["cell"]["margin_type"] += EVIL
        record["audit"]["baseline"] += EVIL
        path.write_text(json.dumps(record | {"note": EVIL}))
    study = study_file(root, seeds=1)
    title = json.dumps(EVIL).replace("\x7f", "\\u007f")  # TOML's escapes too
    text = study.read_text().replace('title = "tiny"', f"title = {title}\nnote = {title}")
    (root / f"{NAME}.toml").write_text(text)
    store = root / NAME
    (store / NAME).mkdir(parents=True)
    run = Plan.make(StudySpec.from_file(root / f"{NAME}.toml"), store).runs[0]
    failed = store / run.key
    failed.mkdir()
    (failed / "failure.json").write_text(json.dumps(Failure(f"first\n{EVIL}", EVIL).values()))
    (root / "wrong.toml").write_text(f"title = {title}\n{title} = 1\n")
    (root / "preset.toml").write_text(f"[model]\n{title} = 1\n")
    rows = [f'"{arm}{EVIL}",{seed},{seed + k}.5' for k, arm in enumerate("ab") for seed in range(5)]
    (root / "t.csv").write_text(f'"arm{EVIL}",seed,"score{EVIL}"\n' + "\n".join(rows), newline="")
    return root


AUDIT = ("audit", "t.csv", "--group", f"arm{EVIL}", "--value", f"score{EVIL}", "--baseline", f"a{EVIL}")
COMMANDS = {
    "plan": ("plan", f"{NAME}.toml", "--store", NAME),
    "plan json": ("plan", f"{NAME}.toml", "--store", NAME, "--json"),
    "status": ("status", f"{NAME}.toml", "--store", NAME),
    "run": ("run", f"{NAME}.toml", "--store", NAME, "--workers", "1"),
    "wrong study": ("plan", "wrong.toml"),
    "no study": ("plan", EVIL),
    "audit": (*AUDIT, "--explain"),
    "audit markdown": (*AUDIT, "--format", "markdown"),
    "audit latex": (*AUDIT, "--format", "latex"),
    "audit json": (*AUDIT, "--json"),
    "audit plot": (*AUDIT, "--plot", f"{NAME}.png"),
    "audit a store": ("audit", "made", "--block", "stability"),
    "no such column": ("audit", "t.csv", "--group", f"arm{EVIL}x"),
    "no such table": ("audit", f"{NAME}.csv"),
    "report of a store": ("report", "made", "--out", f"{NAME}.html", "--tables", NAME + "2"),
    "report of a table": ("report", "t.csv", *AUDIT[2:], "--out", f"{NAME}.html"),
    "report json": ("report", "made", "--out", f"{NAME}.html", "--json"),
    "no report": ("report", NAME),
    "diagnose": ("diagnose", "run"),
    "diagnose json": ("diagnose", "run", "--json"),
    "diagnose nothing": ("diagnose", NAME),
    "train": ("train", "tiny.toml", "--out", NAME + "3", "--set", "training.epochs=1"),
    "train a wrong preset": ("train", "preset.toml"),
    "train no preset": ("train", EVIL),
    "train with": ("train", "tiny.toml", "--set", EVIL),
    "data list": ("data", "list", "--data-dir", NAME),
    "data check": ("data", "check", "cifar10", "--data-dir", NAME),
    "verify": ("verify-paper", "--only", "differs"),
    "verify nothing": ("verify-paper", "--only", EVIL),
    "serve nothing": ("serve", NAME + "4"),
    "too many arguments": ("audit", "t.csv", EVIL),
    "no such option": ("audit", "t.csv", f"--{EVIL}"),
    "no such command": (EVIL,),
}  # fmt: skip


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_a_control_character_out(
    folder: Path, command: str, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(rich_utils, "FORCE_TERMINAL", terminal or None)  # read once, on import
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
    done = seedspread_here(*COMMANDS[command])
    assert "Traceback" not in done.stderr
    both = done.stdout + done.stderr
    assert both.strip()
    assert "8;95m" not in "".join(STYLES.findall(both)), "the file's style"
    text = MOVES.sub("", STYLES.sub("", both)) if terminal else both
    assert printable(text) == text
    if command in ("plan", "status", "audit", "audit markdown", "report of a table", "diagnose"):
        assert "evil" in text
        assert "[red]" in text.replace("\\", ""), "shown, not obeyed"


def test_exports_have_none_either(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = seedspread_here("report", "made", "--tables", "exported")
    assert done.returncode == 0, done.stderr
    files = list((folder / "exported").iterdir())
    assert files
    for path in files:
        text = path.read_bytes().decode()
        assert printable(text) == text
    assert any("evil" in path.read_text() for path in files)


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_bug_is_shown_without_them(debug: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError(EVIL)

    monkeypatch.setattr("seedspread.analysis.seeds.seed_budget", fail)
    done = seedspread_here("seeds", "--n", "7", *debug)
    assert done.returncode == 2
    assert "ZeroDivisionError" in done.stderr
    assert ("Traceback" in done.stderr) == bool(debug)
    assert printable(done.stderr) == done.stderr


@given(st.text())
def test_an_error_is_one_harmless_line(text: str) -> None:
    message = str(SeedspreadError(text))
    assert printable(message) == message
    assert "\n" not in message


@given(st.text())
def test_the_console_prints_text_and_nothing_else(text: str) -> None:
    console = Terminal(force_terminal=True, color_system="truecolor", width=80)
    with console.capture() as capture:
        console.print(text)
        console.print(text, style="bold red")
    left = STYLES.sub("", capture.get())
    assert printable(left) == left


def test_commands_print_in_one_way_only() -> None:
    """Through `Terminal` and `say`: rich's own console and typer's echo filter nothing."""
    root = Path(sys.modules["seedspread"].__file__ or "").parent
    other = re.compile(r"typer\.echo|click\.echo|rich\.print|rich import print|[^.]\bConsole\(")
    used = [str(p) for p in root.rglob("*.py") if p.name != "terminal.py" and other.search(p.read_text())]
    assert used == []
