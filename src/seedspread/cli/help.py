"""How commands explain themselves: an example each, and flags without a type."""

from typing import Any

import typer
from typer.core import TyperCommand

from seedspread.errors import SeedspreadError

# A command line for each command, as one would type it.
EXAMPLES = {
    "train": "seedspread train quickstart --seed 3 --out run3",
    "diagnose": "seedspread diagnose run3",
    "audit": "seedspread audit results.csv --value accuracy --group optimizer --baseline adam --by dataset",
    "compare": "seedspread compare old.csv new.csv --value accuracy --group optimizer --baseline adam",
    "seeds": "seedspread seeds --ratio 4",
    "collect": "seedspread collect mlruns --metric accuracy --out results.csv",
    "components": "seedspread components results.csv --value accuracy",
    "verify-paper": "seedspread verify-paper",
    "report": "seedspread report store --out report.html",
    "serve": "seedspread serve store --port 0",
    "quickstart": "seedspread quickstart --store quickstart",
    "docs": "seedspread docs statistics",
    "plan": "seedspread plan mini/cifar10-factorial --store runs",
    "run": "seedspread run mini/cifar10-factorial --store runs --workers 2",
    "status": "seedspread status mini/cifar10-factorial --store runs --watch",
    "data list": "seedspread data list",
    "data fetch": "seedspread data fetch cifar10",
    "data check": "seedspread data check cifar10",
    "data show": "seedspread data show cifar10 --out sheet.png",
}

# What an option means where no word follows it.
_ALONE = {"--wide": "auto"}


class Command(TyperCommand):
    """A command whose flags are shown without a type: there is nothing to write after them."""

    def get_params(self, ctx: Any) -> Any:
        """All of them, `--help` included."""
        return without_type(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses an option with one value that is given twice: the first would be lost without a word."""
        args = with_words(args)
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        once = [
            p
            for p in given
            if p.param_type_name == "option" and not p.multiple and not getattr(p, "is_flag", False)
        ]
        twice = next((p for k, p in enumerate(once) if p in once[:k]), None)
        if twice is not None:
            raise SeedspreadError(
                f"{twice.opts[0]} is given twice, and takes one value; leave out one of them"
            )
        return super().parse_args(ctx, args)


def with_words(args: list[str]) -> list[str]:
    """Arguments with the word that an option stands for where none follows it: `--wide` is `--wide auto`."""
    out = []
    for place, word in enumerate(args):
        out.append(word)
        if word in _ALONE and (place + 1 == len(args) or args[place + 1].startswith("--")):
            out.append(_ALONE[word])
    return out


def without_type(params: Any) -> Any:
    """Parameters, of which flags say no type in a help."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def explain(app: typer.Typer, path: str = "") -> None:
    """Gives every command of an app its example, and its flags their form."""
    for command in app.registered_commands:
        function = getattr(command.callback, "__name__", "")
        name = f"{path}{command.name or function.replace('_', '-')}"
        command.cls = Command
        command.epilog = f"Example: {EXAMPLES[name]}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            explain(group.typer_instance, f"{path}{group.name} ")
