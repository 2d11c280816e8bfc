"""The questions of a store's studies, and `compare`: one question about several sets of runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Unpack

import pandas as pd

from seedspread.analysis.sequential import looks_of, standing
from seedspread.analysis.sets import CompareResult, compare_tables
from seedspread.analysis.words import LOOKS_NOT_COUNTED
from seedspread.errors import AdviceError, did_you_mean, in_terminal
from seedspread.runs.metrics import Better
from seedspread.runs.store import Store, is_store
from seedspread.runs.studies import AuditSpec, RecordedStudy, load_studies
from seedspread.stats.result import InterimLook
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec, is_study
from seedspread.tables.from_store import shared_runs, study_runs
from seedspread.tables.question import Question, Rows, listed, with_known_arguments
from seedspread.tables.read import Source, Table, read_table

# Most failed runs that a note names.
_FAILED_NAMED = 3


@dataclass(frozen=True)
class RecordedQuestion:
    """A study's comparison, its finished runs, notes on them, and its interim looks.

    A run that serves several cells has a row in each.
    """

    spec: AuditSpec
    table: pd.DataFrame
    notes: tuple[str, ...]
    looks: InterimLook | None = None


def recorded_question(
    source: str,
    name: str | None,
    values: Sequence[str] | None,
    group: str | None,
    others: Sequence[str],
    *,
    together: bool = False,
) -> RecordedQuestion | None:
    """Return the study to audit: the named one, or the only one of a store; None if it is a whole table.

    `name` is that of a study in the store, or its .toml file; a collection works too. `group` is the
    factor to compare instead of the study's, and `others` are further columns that the user named.
    With `together`, studies that ask the same question are combined unless one is named.
    """
    path, columns = Path(source), [*([group] if group else []), *others]
    studies = load_studies(Store(path))[0] if path.is_dir() else []
    if name is None and together and len({study.audit for study in studies}) == 1:
        chosen, spec = studies, studies[0].audit
    elif name is None:
        if len(studies) > 1 and not columns:
            raise AdviceError(
                f"{source} records {len(studies)} studies; name one with --study: {_names(studies)}"
                if len({study.name for study in studies}) > 1
                else f"{source} records {len(studies)} studies called {studies[0].name}; give the .toml file "
                "of one with --study"
            )
        if len(studies) != 1 or not set(columns) <= {factor for c in studies[0].cells for factor in c.levels}:
            return None
        chosen, spec = studies, studies[0].audit
    else:
        if not studies:
            raise AdviceError(f"--study is for a store of runs that records its studies; {source} has none")
        chosen, spec = _named(source, name, studies)
    if spec is None:
        if name is None:
            return None
        compared = [study for study in chosen if study.audit is not None]
        others = "give --group and --baseline without --study"
        advice = f"name one of its studies with --study: {_names(compared)}" if compared else others
        raise AdviceError(f"{name} names no comparison; {advice}")
    store = Store(path)
    if not any(store.is_done(key) for study in chosen for key in study.keys):
        raise AdviceError(f"no run of {name or chosen[0].name} is finished yet")
    table = study_runs(store, [study.at_last_look for study in chosen], values or spec.values[:1])
    notes = [line for study in chosen for line in (*_failed_runs(store, study), *shared_runs(study))]
    sequential = chosen[0].sequential if len(chosen) == 1 else None
    notes += [standing(sequential)] if sequential is not None else []
    return RecordedQuestion(spec, table, tuple(notes), looks_of(sequential))


def studies_asked(
    store: "Path | str", names: Iterable[str], data_dir: "Path | str | None" = None
) -> list[RecordedStudy]:
    """Return the studies to report on, named as in the store, as shipped, or by .toml files."""
    recorded, out = load_studies(Store(store))[0], []
    for name in names:
        varied = " " in name and any(study.name == name for study in recorded)
        shipped = is_study(name) and not varied
        found = [] if shipped else [study for study in recorded if study.name == name]
        if recorded and not (shipped or found):
            raise _unknown(str(store), name, recorded)
        out += found or Plan.make(name, store, data_dir).recorded()
    return out


def _failed_runs(store: Store, study: RecordedStudy) -> list[str]:
    """Return a note on runs that were killed or refused: they do not count as failed, and can be repeated."""
    left = {key for key in study.keys if store.has_failed(key) and not store.has_crashed(key)}
    failed = {key: title for cell in study.cells for key, title in cell.titles.items() if key in left}
    if not failed:
        return []
    named = "; ".join([*list(failed.values())[:_FAILED_NAMED], *["..."] * (len(failed) > _FAILED_NAMED)])
    return [
        f"{len(failed)} of {len(study.keys)} runs were stopped or refused and are "
        f"left out ({named}): rerun the study with --retry-failed."
    ]


def _names(studies: Sequence[RecordedStudy]) -> str:
    return ", ".join(dict.fromkeys(study.name for study in studies))


def _unknown(source: str, name: str, studies: Sequence[RecordedStudy]) -> AdviceError:
    hint = did_you_mean(name, [study.name for study in studies])
    return AdviceError(f"{source} records no study {name!r}{hint} (it has {_names(studies)})")


def _named(
    source: str, name: str, studies: Sequence[RecordedStudy]
) -> tuple[list[RecordedStudy], AuditSpec | None]:
    """Find a study by its name in the store, or the parts of a file or of a shipped collection."""
    found = [study for study in studies if study.name == name]
    if len(found) == 1:
        return found, found[0].audit
    if len(found) > 1:
        raise AdviceError(f"{source} records {len(found)} studies called {name}; give the study's .toml file")
    if not is_study(name):
        raise _unknown(source, name, studies)
    spec = StudySpec.from_file(name)
    wanted = {(part.name, part.origin) for part in spec.parts}
    found = [study for study in studies if (study.name, study.origin) in wanted]
    if not found:
        raise AdviceError(f"{source} records no run of {name} (it has {_names(studies)})")
    return found, spec.audit


@with_known_arguments
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
    """Compare two or more sets of runs: did the spread change, and do their answers agree?

    Args:
        sources: each a store, a file, a DataFrame, what `seedspread.collect` reads, or what it returned; the
            first is the one that the others are compared with.
        value: the column with the result of a run; by default that of a store's study, as for `group`,
            `baseline`, `block` and `by`.
        group: the column whose levels are compared; without it each set is one sample.
        baseline: the level to compare with in each set, as in `audit`.
        block: columns varied within a seed; runs that share a seed count as one.
        seed: the column with the seed, also found by its usual names; None if every row is an independent
            run.
        by: columns, such as the dataset, whose levels are compared separately.
        study: for stores with several studies: one name for all, or one for each store; for a single store,
            two or more to compare.
        names: names of the sets; by default those of their files or folders.
        level: confidence level of the intervals.
        equivalence: variances, and ratios of them, that differ by no more than this factor count as equal.
        better: which direction is better; by default that of the metric, or inferred from the column's name.
        rows: where, last, best, wide, metric_column, sheet, at: row selection; see `Rows`.

    Returns:
        The result: `spread`, an audit whose group is the set, and `agreements`, the ratios of ratios.

    Example:
        >>> old = {"loss": [0.31, 0.30, 0.29, 0.33, 0.32], "seed": range(5)}
        >>> new = {"loss": [0.25, 0.41, 0.30, 0.35, 0.22], "seed": range(5)}
        >>> compare(old, new, value="loss").spread.comparisons[0].word
        'YES'
    """
    studies = [study] if isinstance(study, str) else list(study or ())
    typed = tuple(map(str, sources)) if all(isinstance(one, str | Path) for one in sources) else ()
    if in_terminal.get():
        typed += tuple(word for name in studies for word in ("--study", name))
    question = Question.of(value, group, baseline, block, seed, by, **rows)
    question = replace(question, command="compare", sources=typed)
    sets = _sets(sources, studies)
    called = _set_names(sets) if names is None else list(names)
    if len(called) != len(sets) or len(set(called)) < len(called):
        raise AdviceError(f"give {len(sets)} different names; got {', '.join(called)}")
    values, others = [value] if value else None, [*question.block, *question.by]
    recorded = [
        None if one.path is None else recorded_question(one.name, one.study, values, group, others)
        for one in sets
    ]
    whole = _with_spec(question, sets, recorded)
    tables = [
        read_table(one.source if found is None else found.table, whole, better)
        for one, found in zip(sets, recorded, strict=True)
    ]
    if question.group is None:
        _check_columns(tables, whole)
    notes = [
        f"{name}: {note}"
        for name, found in zip(called, recorded, strict=True)
        if found
        for note in (*found.notes, *([LOOKS_NOT_COUNTED] if found.looks else []))
    ]
    return compare_tables(list(zip(called, tables, strict=True)), whole, level, equivalence, better, notes)


@dataclass(frozen=True)
class _Set:
    source: Source
    study: str | None

    @property
    def path(self) -> Path | None:
        return Path(self.source) if isinstance(self.source, str | Path) else None

    @property
    def place(self) -> tuple[object, str | None]:
        if self.path is None:
            return id(self.source), None
        return self.path.resolve() if self.path.exists() else self.source, self.study

    @property
    def name(self) -> str:
        return "a DataFrame" if self.path is None else str(self.source)


def _sets(sources: Sequence[Source | Store], studies: Sequence[str]) -> list[_Set]:
    """Return each source with its study; refuse a single one, or one twice."""
    plain = [one.path if isinstance(one, Store) else one for one in sources]
    if len(plain) == 1 and len(studies) > 1:
        plain *= len(studies)
    if len(plain) < 2:
        raise AdviceError(
            "give two sets of runs to compare: two stores, two tables, or one store and --study twice"
        )
    sets = [_Set(one, study) for one, study in zip(plain, _assigned(studies, plain), strict=True)]
    for first, second in combinations(sets, 2):
        if first.place == second.place:
            names = first.name if first.name == second.name else f"{first.name} and {second.name}"
            raise AdviceError(f"{names}: the same set of runs twice; give another one to compare it with")
    return sets


def _assigned(studies: Sequence[str], sources: Sequence[object]) -> list[str | None]:
    """Return the study of each source: one for all stores, or one for each."""
    stores = [k for k, one in enumerate(sources) if isinstance(one, str | Path) and is_store(Path(one))]
    stores = stores or list(range(len(sources)))
    if len(studies) == 1:
        studies = [*studies] * len(stores)
    if studies and len(studies) != len(stores):
        raise AdviceError(
            f"--study is given {len(studies)} times for {len(stores)} stores: give it once for all of them, "
            "or once for each"
        )
    of = dict(zip(stores, studies, strict=False))
    return [of.get(k) for k in range(len(sources))]


def _set_names(sets: Sequence[_Set]) -> list[str]:
    """Return the shortest distinct names: of files and folders, or of the studies of one store."""
    letters = [chr(ord("A") + k) for k in range(len(sets))]
    paths = [Path(one.name) for one in sets]
    studies = [Path(one.study).stem if one.study else "" for one in sets]
    choices = [studies] if len(set(paths)) == 1 else []
    choices += [[p.stem for p in paths], [p.name for p in paths], ["/".join(p.parts[-2:]) for p in paths]]
    choices.append([f"{one.name} {study}".strip() for one, study in zip(sets, studies, strict=True)])
    for names in choices:
        named = [
            letter if one.path is None else name
            for one, name, letter in zip(sets, names, letters, strict=True)
        ]
        if all(named) and len(set(named)) == len(sets):
            return named
    return letters


def _with_spec(
    question: Question, sets: Sequence[_Set], recorded: Sequence[RecordedQuestion | None]
) -> Question:
    """Fill in what is not given from the stores' studies, which must ask the same question."""
    asked = {
        one.name if one.study is None else f"{one.name} ({one.study})": _asked(question, found.spec)
        for one, found in zip(sets, recorded, strict=True)
        if found is not None
    }
    if len(set(asked.values())) > 1:
        each = ", ".join(
            f"{q.value} by {q.group} (baseline {q.baseline}) in {name}" for name, q in asked.items()
        )
        raise AdviceError(
            f"the studies ask different questions: {each}; choose one with --value, --group and --baseline"
        )
    found_question = next(iter(asked.values()), question)
    of_store = any(
        one.path is not None and is_store(one.path) for one in sets
    )  # their runs have an accuracy, unless told otherwise
    value = found_question.value or ("accuracy" if of_store else None)
    return replace(found_question, value=value)


def _check_columns(tables: Sequence[Table], question: Question) -> None:
    """Refuse a table without a column that a store's study needs, and that the user did not name."""
    for table in tables:
        for name in (question.group, *question.block, *question.by):
            if name is not None and name not in table.frame.columns:
                raise AdviceError(
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
