"""Ways of giving a command in a test, and the texts of the package that may name one."""

import ast
import contextlib
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from seedspread.cli import app, main

COMMAND = str(Path(sys.executable).with_name("seedspread"))
PAPER = ("--value", "accuracy", "--group", "margin_type", "--block", "stability")
# Makes what the base install leaves out fail to import, without a trace that others could trip over.
NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('torch', 'pooch', 'requests', 'ray', 'submitit', 'tensorboard'):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
"""
# What stands in a command's place for what the user has, or for what the program fills in.
SAMPLES = {
    "STUDY": "quickstart",
    "STORE": "store",
    "asked": "2",
    "info.name": "cifar10",
    "one.name": "cifar10",
    "data.name": "cifar10",
}


def seedspread_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def seedspread_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, where the imports are there already and not what is asked about."""
    out, err = io.StringIO(), io.StringIO()
    code: str | int | None = 0
    with (
        patch.object(sys, "argv", ["seedspread", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code
    assert code is None or isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code or 0, out.getvalue(), err.getvalue())


def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = NO_TORCH + f"sys.argv = {['seedspread', *arguments]!r}\nfrom seedspread.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def said(*arguments: object, fails: bool = False) -> str:
    """What a command prints; an error is one line, whose text is given back."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if fails:
        assert done.exception is not None
        return str(done.exception)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def literals(tree: ast.Module) -> Iterator[str]:
    """Every text of a module that is no docstring, with samples for what is filled in."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant)
                else SAMPLES.get(ast.unparse(part.value), "x") if isinstance(part, ast.FormattedValue) else ""
                for part in node.values
            )  # fmt: skip
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not isinstance(parents[node], ast.Expr | ast.JoinedStr)
        ):
            yield node.value
