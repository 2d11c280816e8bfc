"""Sets of runs compared, wherever they lie: stores, their studies, tables, what other tools have logged."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Unpack

from seedspread.analysis.sets.compare import compare_tables
from seedspread.analysis.sets.compared import CompareResult
from seedspread.errors import SeedspreadError
from seedspread.runs.metrics import Better
from seedspread.runs.store import Store
from seedspread.runs.studies import AuditSpec, load_studies
from seedspread.runs.table import is_store
from seedspread.study.recorded import RecordedQuestion, recorded_question
from seedspread.tables.errors import listed
from seedspread.tables.question import Question, Rows
from seedspread.tables.read import Source, Table, read_table

_NOT_COUNTED = "Its ratios here do not count the looks; its own audit does."


def compare(
    *sources: Source | Store,
    value: str | None = None,
    group: str | None = None,
    baseline: str | None = None,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    study: "str | Sequence[str] | None" = None,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    equivalence: float = 2.0,
    better: Better | None = None,
    **rows: Unpack[Rows],
) -> CompareResult:
    """The same question of two sets of runs, or more: did the spread change, and do their answers agree?

    Args:
        sources: each a store, a file, a DataFrame, what `seedspread.collect` reads, or what it returned; the
            first is what the others are compared with.
        value: the column with the result of a run; by default what a store's study is about, as are `group`,
            `baseline`, `block` and `by`.
        group: the column whose levels are the arms; without it each set is one sample.
        baseline: the arm with which the others are compared in each set; as in `audit`.
        block: columns that tell the runs of one seed in one arm apart.
        seed: the column with the seed, also found by its usual names; None if every row is a run of its own.
        by: columns, such as the dataset, whose levels are compared apart.
        study: of a store that records several: one name for all, or one for each store; of a single store
            two or more, which are then compared.
        names: what to call the sets; by default as their files or folders.
        level: of the intervals.
        equivalence: variances, and ratios of them, that differ by no more than this factor count as alike.
        better: which direction is better; by default as the metric says, or the column's name.
        rows: where, last, best, wide, metric_column, sheet, at: how one row per run is had; see `Rows`.
    """
    question = Question.of(value, group, baseline, block, seed, by, **rows)
    studies = [study] if isinstance(study, str) else list(study or ())
    return compare_sources(
        sources, studies, replace(question, command="compare"), level, equivalence, better, names
    )


def compare_sources(
    sources: Sequence[Source | Store],
    studies: Sequence[str],
    question: Question,
    level: float = 0.95,
    equivalence: float = 2.0,
    better: Better | None = None,
    names: Sequence[str] | None = None,
) -> CompareResult:
    """The same with the question as one; `question.sources` are the words that the user typed for it."""
    sets = _sets(sources, studies, question)
    called = _names(sets) if names is None else list(names)
    if len(called) != len(sets) or len(set(called)) < len(called):
        raise SeedspreadError(f"give {len(sets)} different names; got {', '.join(called)}")
    recorded = [one.recorded(question) for one in sets]
    whole = _with_spec(question, sets, recorded)
    tables = [one.table(found, whole, better) for one, found in zip(sets, recorded, strict=True)]
    if question.group is None:
        _check_columns(tables, whole)
    result = compare_tables(list(zip(called, tables, strict=True)), whole, level, equivalence, better)
    told = [
        f"{name}: {note}"
        for name, found in zip(called, recorded, strict=True)
        if found
        for note in (*found.notes, *([_NOT_COUNTED] if found.looks else []))
    ]
    return replace(result, notes=(*result.notes, *told))


@dataclass(frozen=True)
class _Set:
    """A source, and which study of it."""

    source: Source
    study: str | None

    @property
    def place(self) -> tuple[object, str | None]:
        """What tells it from others."""
        if not isinstance(self.source, str | Path):
            return id(self.source), None
        path = Path(self.source)
        return path.resolve() if path.exists() else self.source, self.study

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return str(self.source) if isinstance(self.source, str | Path) else "a DataFrame"

    @property
    def is_store(self) -> bool:
        """Whether it holds finished runs."""
        if not isinstance(self.source, str | Path):
            return False
        return Path(self.source).is_dir() and is_store(Path(self.source))

    def recorded(self, question: Question) -> RecordedQuestion | None:
        """What a store's study asks, and its runs; None of anything else."""
        if not isinstance(self.source, str | Path):
            return None
        values = [question.value] if question.value else None
        others = [*question.block, *question.by]
        return recorded_question(str(self.source), self.study, values, question.group, others)

    def table(self, found: RecordedQuestion | None, question: Question, better: Better | None) -> Table:
        """Its rows, as they come."""
        return read_table(self.source if found is None else found.table, question, better)


def _sets(sources: Sequence[Source | Store], studies: Sequence[str], question: Question) -> list[_Set]:
    """Each source with its study; refuses a single one, or one twice."""
    plain = [one.path if isinstance(one, Store) else one for one in sources]
    if len(plain) == 1 and len(studies) > 1:
        plain *= len(studies)
    recorded = [_studies_of(one) for one in plain]
    if not studies and question.group is None:
        _check_one_study(plain, recorded)
    if len(plain) < 2:
        raise SeedspreadError("give two sets of runs to compare, such as two stores or two tables")
    sets = [_Set(one, study) for one, study in zip(plain, _assigned(studies, recorded), strict=True)]
    for first, second in combinations(sets, 2):
        if first.place == second.place:
            names = first.name if first.name == second.name else f"{first.name} and {second.name}"
            raise SeedspreadError(f"{names}: the same set of runs twice; give another one to compare it with")
    return sets


def _studies_of(source: object) -> list[str]:
    """What a store records; nothing of what is no store."""
    if not isinstance(source, str | Path) or not Path(source).is_dir():
        return []
    return list(dict.fromkeys(study.name for study in load_studies(Store(source))[0]))


def _assigned(studies: Sequence[str], recorded: Sequence[Sequence[str]]) -> list[str | None]:
    """Which study of each source: one for all stores, or one for each."""
    stores = [k for k, names in enumerate(recorded) if names] or list(range(len(recorded)))
    if len(studies) == 1:
        studies = [*studies] * len(stores)
    if studies and len(studies) != len(stores):
        raise SeedspreadError(
            f"--study is given {len(studies)} times for {len(stores)} stores: give it once for all of them, "
            "or once for each"
        )
    of = dict(zip(stores, studies, strict=False))
    return [of.get(k) for k in range(len(recorded))]


def _check_one_study(sources: Sequence[object], recorded: Sequence[Sequence[str]]) -> None:
    """Refuses stores that record several studies, with the command that names them."""
    many = next((k for k, names in enumerate(recorded) if len(names) > 1), None)
    if many is None:
        return
    stores = [names for names in recorded if names]
    common = [name for name in stores[0] if all(name in names for names in stores)]
    typed = list(dict.fromkeys(str(one) for one in sources))
    wanted = recorded[many][:2] if len(typed) == 1 else common[:1] or [names[0] for names in stores]
    options = [word for name in wanted for word in ("--study", name)]
    raise SeedspreadError(
        f"{sources[many]} records {len(recorded[many])} studies ({', '.join(recorded[many])}); say which to "
        f"compare: {shlex.join(['seedspread', 'compare', *typed, *options])}"
    )


def _names(sets: Sequence[_Set]) -> list[str]:
    """The shortest that tell the sets apart: of files and folders their names, of one store its studies."""
    letters = [chr(ord("A") + k) for k in range(len(sets))]
    paths = [Path(one.name) for one in sets]
    studies = [Path(one.study).stem if one.study else "" for one in sets]
    choices = [studies] if len(set(paths)) == 1 else []
    choices += [[p.stem for p in paths], [p.name for p in paths], ["/".join(p.parts[-2:]) for p in paths]]
    choices.append([f"{one.name} {study}".strip() for one, study in zip(sets, studies, strict=True)])
    for names in choices:
        named = [
            name if isinstance(one.source, str | Path) else letter
            for one, name, letter in zip(sets, names, letters, strict=True)
        ]
        if all(named) and len(set(named)) == len(sets):
            return named
    return letters


def _with_spec(
    question: Question, sets: Sequence[_Set], recorded: Sequence[RecordedQuestion | None]
) -> Question:
    """With what the stores' studies are about, where that is left out; they must be about one thing."""
    asked = {
        one.name if one.study is None else f"{one.name} ({one.study})": _asked(question, found.spec)
        for one, found in zip(sets, recorded, strict=True)
        if found is not None
    }
    if len(set(asked.values())) > 1:
        told = ", ".join(
            f"{q.value} by {q.group} (baseline {q.baseline}) in {name}" for name, q in asked.items()
        )
        raise SeedspreadError(
            f"the studies ask different questions: {told}; say which with --value, --group and --baseline"
        )
    found_question = next(iter(asked.values()), question)
    of_store = any(one.is_store for one in sets)  # whose runs have an accuracy, if nothing else is said
    value = found_question.value or ("accuracy" if of_store else None)
    return replace(found_question, value=value)


def _check_columns(tables: Sequence[Table], question: Question) -> None:
    """Refuses a table that lacks what a store's study is compared by, which the user has not typed."""
    for table in tables:
        for name in (question.group, *question.block, *question.by):
            if name is not None and name not in table.frame.columns:
                raise SeedspreadError(
                    f"{table.name} has no column {name!r}, which the store's study names (it has "
                    f"{listed(table.frame.columns)}); rename one, or say what to compare with --group"
                )


def _asked(question: Question, spec: AuditSpec) -> Question:
    out = replace(question, value=question.value or spec.values[0])
    if question.group is None:
        out = replace(out, block=question.block or spec.blocks, by=question.by or spec.strata)
    if question.group in (None, spec.group):
        out = replace(out, group=spec.group, baseline=question.baseline or spec.baseline)
    return out
