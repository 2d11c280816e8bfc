"""Make the site's reference pages: commands, Python and examples, each generated from its source."""

import importlib
import re
from pathlib import Path
from typing import Any

# Public names by topic; `tests/test_site.py` compares them with `seedspread.__all__`.
API = {
    "Existing results": [
        "audit",
        "audit_factors",
        "audit_sd",
        "audit_means",
        "check",
        "review",
        "compare",
        "gate",
        "components",
        "curves",
        "collect",
        "seed_budget",
        "write_report",
    ],
    "Studies": ["Study", "run_study", "Store"],
    "Inside a run": ["log", "log_predictions", "seed_everything"],
    "The paper's training": ["train", "load_run", "RunConfig", "ViT", "SupConLoss", "margin_schedule"],
    "Layers and losses of your own": [
        "LayerLocal",
        "LocalLoss",
        "GoodnessLoss",
        "LocalCrossEntropy",
        "Margin",
    ],
    "Its images": ["ArrayDataset", "load", "Loader", "augment"],
    "What saturates": ["ClampMonitor", "clamp_activation_rate"],
}
_STEPS = ("RandomCrop", "HorizontalFlip", "RandomRotation", "RandomErasing", "ColorJitter", "RandAugment")
# Classes and functions whose objects these return or take.
RETURNED = {
    "Existing results": [
        "seedspread.analysis.audit_result.AuditResult",
        "seedspread.analysis.gate.GateResult",
        "seedspread.tables.sources.collect.Collected",
        "seedspread.tables.question.Rows",
        "seedspread.runs.metrics.Metric",
        "seedspread.stats.planning.Design",
    ],
    "Studies": ["seedspread.study.study.StudyRuns"],
    "The paper's training": ["seedspread.cff.loaded_run.LoadedRun"],
    "Its images": [
        "seedspread.cff.data.dataset.Dataset",
        "seedspread.cff.data.augment.draws",
        *(f"seedspread.cff.config.{step}" for step in _STEPS),
    ],
}
MEMBERS = {
    "Store": ["table", "layers"],
    "Study": ["plan", "run", "runs"],
    "LayerLocal": ["build", "fit", "features", "forward"],
    "SupConLoss": ["forward"],
    "Loader": ["indices", "epoch"],
    "ArrayDataset": ["save"],
    "AuditResult": ["oneline", "to_text", "to_markdown", "to_latex", "to_json", "to_frame", "plot", "draw"],
    "GateResult": ["word", "passed", "exit_code", "to_text", "to_markdown"],
    "Rows": [],
    "Metric": [],
    "Design": [],
}
_LANGUAGES = {".py": "python", ".toml": "toml", ".csv": "text"}


def api_page() -> str:
    """Return the page of all public names, which mkdocstrings fills in."""
    lines = [
        "# Python",
        "",
        "All of these can be imported from `seedspread`; each is loaded when it is first used.",
    ]
    for section, names in API.items():
        lines += ["", f"## {section}", ""]
        for path in [*map(_home, names), *RETURNED.get(section, [])]:
            lines += [f"::: {path}", *_members(path), ""]
    return "\n".join(lines)


def _members(path: str) -> list[str]:
    """Return options that restrict a class to its members for users; none if all members are."""
    names = MEMBERS.get(path.rpartition(".")[2])
    if names is None:
        return []
    return ["    options:", f"      members: [{', '.join(names)}]", "      inherited_members: true"]


def _home(name: str) -> str:
    """Return the path of a public name's definition."""
    thing = getattr(importlib.import_module("seedspread"), name)
    return f"{thing.__module__}.{thing.__qualname__}"


def commands_page() -> str:
    """Return the page of all commands with their arguments and options."""
    import typer.main  # noqa: PLC0415

    from seedspread.cli import app  # noqa: PLC0415

    root = typer.main.get_command(app)
    intro = (
        "`seedspread COMMAND --help` shows the same in a terminal; `python -m seedspread` works, too. "
        "An error is one line on stderr with exit status 2; `seedspread --debug COMMAND` shows its traceback."
    )
    return "\n".join(["# Commands", "", intro, *_command("seedspread", root)]) + "\n"


def _command(name: str, command: Any) -> list[str]:
    """Return the section of a command, and those of the commands in its group."""
    inner = getattr(command, "commands", {})
    lines = [] if name == "seedspread" else ["", f"## {name}", "", _prose(command.help)]
    if not inner or command.invoke_without_command:
        lines += _usage(name, command)
    return lines + [line for word, one in inner.items() for line in _command(f"{name} {word}", one)]


def _usage(name: str, command: Any) -> list[str]:
    """Return an example, and a table of arguments and options."""
    example = (command.epilog or "").removeprefix("Example: ")
    context = command.make_context(name, [], resilient_parsing=True)
    rows = [record for p in command.get_params(context) if (record := p.get_help_record(context))]
    table = [f"| `{_word(word)}` | {_prose(text)} |" for word, text in rows if "--help" not in word]
    shown = ["", f"```\n{example}\n```"] if example else []
    return shown + (["", "| | |", "| --- | --- |", *table] if table else [])


def _word(word: str) -> str:
    """Return an argument or option with its placeholder, in which `<list[str]>` becomes `<str>`."""
    return re.sub(r"<list\[(.*?)\]>", r"<\1>", " ".join(word.split()))


def _prose(text: str | None) -> str:
    """Return help as Markdown on one line: options as code, other markup escaped."""
    line = " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*)", r"`\1`", line)


def example_anchor(name: str) -> str:
    """Return the anchor of an example on the page: the first part of its path, without suffix."""
    return Path(name).parts[0].partition(".")[0]


def examples_page(folder: Path) -> str:
    """Return the page of all examples with their complete source."""
    lines = [
        "# Examples",
        "",
        "`seedspread docs --examples examples` writes them into a new folder, ready to run.",
    ]
    for entry in sorted(path for path in folder.iterdir() if path.name != "__pycache__"):
        lines += ["", f"## {entry.name} {{#{example_anchor(entry.name)}}}"]
        files = sorted(entry.rglob("*.*")) if entry.is_dir() else [entry]
        for path in (path for path in files if path.suffix in _LANGUAGES):
            name = [] if path == entry else ["", f"`{path.relative_to(folder)}`"]
            lines += [*name, "", f"```{_LANGUAGES[path.suffix]}", path.read_text().rstrip(), "```"]
    return "\n".join(lines) + "\n"
