"""The commands about the paper: `quickstart`, `train`, `diagnose` and `verify-paper`."""

import shlex
from pathlib import Path
from typing import Annotated

from seedspread.cli.options import Form, Json, argument, option, say, say_json, say_result
from seedspread.errors import SeedspreadError, require_extra


def quickstart(
    store: Annotated[Path, "Folder of results."] = Path("quickstart"),
    workers: Annotated[int | None, option("Runs at once. Default: one per core.", min=1)] = None,
) -> None:
    """Train, audit and report in miniature: about a minute."""
    require_extra("train", "seedspread quickstart")
    require_extra("report", "its report")
    from seedspread.paper import quickstart as miniature
    from seedspread.render.terminal import Terminal
    from seedspread.study.display import ProgressDisplay
    from seedspread.study.plan import Plan

    study, how = miniature.choose_study(store)
    plan = Plan.make(study, store)
    say(f"{plan.study.title}. {len(plan.missing())} runs to do, in {store}/", err=True)
    say(how, err=True)
    with ProgressDisplay(Terminal(stderr=True)) as progress:
        result = miniature.quickstart(store, workers, progress, study)
    say_result(result, "text")
    say(miniature.what_next(store))


def train(
    config: Annotated[str, argument("A preset, such as quickstart or mini/cifar10, or a .toml file.")] = "",
    settings: Annotated[
        list[str] | None,
        option("Change a field, such as objective.margin_type=subtract. Repeat for several.", "--set"),
    ] = None,
    seed: Annotated[int | None, option("Seed of the run.", min=0)] = None,
    continued: Annotated[
        Path | None,
        option("Continue a finished run for more epochs, such as --set training.epochs=20.", "--from"),
    ] = None,
    out: Annotated[Path | None, "Folder of the run. Default: runs/KEY."] = None,
    resume: Annotated[bool, "Resume from the last checkpoint, if there is one."] = False,
    data_dir: Annotated[Path | None, "Data folder."] = None,
    json: Json = False,
) -> None:
    """Train one run and print its accuracy.

    The encoder is trained layer by layer, then the probe.
    """
    require_extra("train", "seedspread train")
    from seedspread.cff.diagnosis import COLLAPSED
    from seedspread.cff.presets import ConfigError, read_config
    from seedspread.cff.training.display import Display
    from seedspread.cff.training.model_file import continuation
    from seedspread.cff.training.run import default_folder, keep_freed_memory
    from seedspread.cff.training.run import train as train_run
    from seedspread.render.terminal import Terminal

    chosen = [*(settings or []), *([f"seeds.run={seed}"] if seed is not None else [])]
    if bool(config) == (continued is not None):
        raise ConfigError("give a preset or a .toml file, or --from RUN, whose own config is taken")
    run = read_config(config, chosen) if continued is None else continuation(continued, chosen)
    keep_freed_memory()
    display = Display(run, Terminal(stderr=True))
    result = train_run(run, out, resume=resume, data_dir=data_dir, callback=display)
    if json:
        say_json(result.values())
        return
    folder = out or default_folder(result.key)
    accuracies = f"test accuracy {result.test_accuracy:.2%} (validation {result.validation_accuracy:.2%})"
    say(f"{run.objective.margin_type}, seed {run.seeds.run} | {accuracies} | {result.dataset}")
    if result.collapsed:
        say(f"COLLAPSED  {COLLAPSED}")
    say(f"Files: {folder}")
    say(f"Next:  {shlex.join(['seedspread', 'diagnose', str(folder)])}")


def diagnose(run_dir: Annotated[Path, argument("Folder of a finished run.")], json: Json = False) -> None:
    """Show the layers of a run, and what to do about its margin."""
    from seedspread.cff.diagnosis import diagnose as diagnose_run

    say_result(diagnose_run(run_dir), "text", as_json=json)


def verify_paper(
    details: Annotated[bool, "List every claim: as printed, as computed, and the verdict."] = False,
    only: Annotated[str | None, "List one verdict only: reproduces, differs or 'not derivable'."] = None,
    form: Form = "text",
    json: Json = False,
) -> None:
    """Recompute the paper's numbers from its per-seed values."""
    from seedspread.paper.check import VERDICTS, PaperCheck, check_paper

    if only is not None and only not in VERDICTS:
        raise SeedspreadError(f"--only must be one of {', '.join(VERDICTS)}; got {only!r}")
    found = PaperCheck(tuple(check_paper()), only)
    say_result(found, form, as_json=json, details=details or only is not None)
