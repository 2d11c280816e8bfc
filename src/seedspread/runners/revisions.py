"""Git revisions as levels of a factor: each is checked out into the store, and is part of its runs' keys.

A checkout is a clone that shares the objects of the user's repository, in which nothing changes: no
worktree is registered, no index refreshed, no object written. `.` is the working tree as it is, uncommitted
and new files included, identified by its content.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from seedspread.atomic import open_regular
from seedspread.errors import abridged, did_you_mean
from seedspread.runners.contract import RunnerError
from seedspread.runners.outputs import plain_text
from seedspread.runs.studies import STUDIES

REVISION, WORKING_TREE = "revision", "."
# In a store: a folder per revision, with `checkout`, `environment`, `setup.log` and, once complete, `ready`.
FOLDER = ".revisions"
_LINE_WIDTH = 200


@dataclass(frozen=True)
class Revisions:
    """The revisions of a repository that a study compares.

    Attributes:
        repository: its top folder.
        place: the folder in it where the program runs.
        ids: commit of each revision by the study's name for it; for the working tree, its hash.
        setup: a shell line, run once in each checkout.
        study: the study's file, which is not part of the code.
    """

    repository: str
    place: str
    ids: tuple[tuple[str, str], ...]
    setup: str = ""
    study: str = ""

    @classmethod
    def of(cls, folder: Path, names: tuple[str, ...], setup: str = "", study: str = "") -> "Revisions":
        """Look revisions up; `RunnerError` if one is unknown, or two are the same.

        The file of the `study` is not part of the code.
        """
        why = f"{folder} is not in a git repository"
        try:
            top = _git(folder, "rev-parse", "--show-toplevel")
            why = f"the repository {top} has no commit yet"
            _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except RunnerError:
            raise RunnerError(f"run.revisions: {why}") from None
        ids: dict[str, str] = {}
        for name in names:
            found = _working_tree(Path(top), study) if name == WORKING_TREE else _commit(folder, name)
            same = next((other for other, known in ids.items() if known == found), None)
            if same is not None:
                raise RunnerError(f"run.revisions: {same} and {name} are the same commit, {found[:10]}")
            ids[name] = found
        return cls(top, _git(folder, "rev-parse", "--show-prefix"), tuple(ids.items()), setup, study)

    def where(self, store: Path, found: str) -> Path:
        """Return the folder in a checkout where the program runs."""
        return store.absolute() / FOLDER / found[:16] / "checkout" / self.place

    def environment(self, store: Path, found: str) -> dict[str, str]:
        """Return variables that make a program import the checkout's code, not the installed one."""
        top = store.absolute() / FOLDER / found[:16]
        checkout = top / "checkout"
        places = [checkout / self.place, checkout, checkout / "src"]
        before = [path for path in [os.environ.get("PYTHONPATH", "")] if path]
        paths = os.pathsep.join([*dict.fromkeys(str(p) for p in places if p.is_dir()), *before])
        own = {"PYTHONPATH": paths}
        if self.setup:
            python = top / "environment"
            own |= {"VIRTUAL_ENV": str(python), "PATH": f"{python / 'bin'}{os.pathsep}"}
        return own

    def prepare(self, store: Path, found: str) -> None:
        """Check a revision out and set it up, unless that was done already; concurrent calls wait."""
        top = store.absolute() / FOLDER / found[:16]
        if (top / "ready").exists() and (top / "checkout").is_dir():
            return
        name = next(name for name, known in self.ids if known == found)
        top.mkdir(parents=True, exist_ok=True)
        with _locked(top / "lock"):
            if (top / "ready").exists() and (top / "checkout").is_dir():
                return
            (top / "ready").unlink(missing_ok=True)
            print(f"checking out {name} into {top / 'checkout'}", file=sys.stderr)
            shutil.rmtree(top / "checkout", ignore_errors=True)
            self._check_out(name, found, top / "checkout")
            if self.setup:
                self._set_up(name, found, store, top)
            (top / "ready").touch()

    def _check_out(self, name: str, found: str, checkout: Path) -> None:
        _git(self.repository, "clone", "--quiet", "--shared", "--no-checkout", self.repository, str(checkout))
        if name != WORKING_TREE:
            _git(checkout, "checkout", "--quiet", "--detach", found)
            return
        if _working_tree(Path(self.repository), self.study, checkout / ".git" / "objects") != found:
            raise RunnerError(
                "the working tree has changed since it was planned: give the same command again"
            )
        _git(checkout, "read-tree", found)
        _git(checkout, "checkout-index", "--all", "--force")

    def _set_up(self, name: str, found: str, store: Path, top: Path) -> None:
        """Run the setup in the revision's own environment, which includes everything installed here."""
        shutil.rmtree(top / "environment", ignore_errors=True)
        venv.EnvBuilder(symlinks=True).create(top / "environment")
        site = next((top / "environment").glob("lib/python*/site-packages"))
        known = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        lines = [f"import site; site.addsitedir({path!r})" for path in known]
        (site / "zz-installed-here.pth").write_text("\n".join(lines) + "\n")
        pip = top / "environment" / "bin" / "pip"
        pip.write_text(f'#!/bin/sh\nexec "{pip.with_name("python")}" -m pip "$@"\n')
        pip.chmod(0o755)
        own = self.environment(store, found)
        own["PATH"] += os.environ.get("PATH", os.defpath)
        print(f"setting up {name}: {self.setup}", file=sys.stderr)
        log = top / "setup.log"
        with log.open("wb") as output:
            done = subprocess.run(  # noqa: S602 - the user's own line
                self.setup, shell=True, cwd=self.where(store, found), env={**os.environ, **own},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        if done.returncode:
            lines = [line for line in plain_text(log.read_bytes()).splitlines() if line.strip()]
            last = f" (last output: {abridged(lines[-1], _LINE_WIDTH)})" if lines else ""
            raise RunnerError(f"run.setup of {name} ended with status {done.returncode}{last}; see {log}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no one else locks this file."""
    file = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def revision_names(text: str) -> list[str]:
    """Split `main..my-branch`, or names separated by commas."""
    return [name.strip() for name in text.replace("...", ",").replace("..", ",").split(",")]


def _commit(folder: Path, name: str) -> str:
    try:
        if name.startswith("-") or not name:
            raise RunnerError("no name")
        return _git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except RunnerError:
        known = _git(folder, "for-each-ref", "--format=%(refname:short)").split()
        hint = did_you_mean(name, known) or "; git log and git branch list what there is"
        raise RunnerError(f"run.revisions: no revision is called {name!r}{hint}") from None


def _working_tree(top: Path, study: str, objects: Path | None = None) -> str:
    """Return the tree of all files that git does not ignore, without touching the repository.

    The study's file and stores are left out: they change although the code does not. New objects go into
    `objects`, or are discarded.
    """
    with TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        place = objects or Path(scratch) / "objects"
        place.mkdir(exist_ok=True)
        here = Path(top, _git(top, "rev-parse", "--git-path", "index"))
        if here.exists():
            shutil.copyfile(here, index)
        known = Path(top, _git(top, "rev-parse", "--git-path", "objects"))
        own = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(place),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(known),
        }
        new = _git(top, "ls-files", "--others", "--exclude-standard", "--directory", "-z").split("\0")
        stores = [name for name in new if name.endswith("/") and (top / name / STUDIES).is_dir()]
        own_file = [os.path.relpath(study, top)] if study and Path(study).is_relative_to(top) else []
        left_out = [f":(exclude,top,literal){name.rstrip('/')}" for name in (*stores, *own_file)]
        _git(top, "add", "--all", "--", ".", *left_out, environment=own)
        return _git(top, "write-tree", environment=own)


def _git(folder: "Path | str", *words: str, environment: Mapping[str, str] | None = None) -> str:
    """Return git's output; `RunnerError` with its last line if it fails."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - git, with our own words and names that were looked up
            ["git", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *words],  # noqa: S607
            env={**plain, **quiet, **(environment or {})}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="surrogateescape", check=False,
        )  # fmt: skip
    except OSError as error:
        raise RunnerError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RunnerError(f"git {words[0]}: {lines[-1].removeprefix('fatal: ')}")
    return done.stdout.rstrip("\n")
