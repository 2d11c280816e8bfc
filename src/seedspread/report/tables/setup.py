"""What was run: the runs by state, and why some failed."""

from seedspread.render.table import Column, Table
from seedspread.report.material.settings import ReportData
from seedspread.runs.store import STATES


def runs_by_state(material: ReportData) -> Table | None:
    """How many planned runs of each setting are where."""
    planned = [s for s in material.settings if s.states]
    if not planned:
        return None
    states = [x for x in STATES if any(s.counts[x] for s in planned)]
    rows = [
        (s.title, str(sum(s.counts.values())), *(str(s.counts[x]) if s.counts[x] else "-" for x in states))
        for s in planned
    ]
    columns = (Column("setting"), Column("planned"), *(Column(x) for x in states))
    return Table("runs", "Runs", columns, tuple(rows))


def failures(material: ReportData) -> Table | None:
    """The last line of each failed run, by cell and seed; its folder is named by its key."""
    rows = {
        key: (state.name or key, s.title, state.message, key)
        for s in material.settings
        for key, state in s.states.items()
        if state.state == "failed"
    }
    if not rows:
        return None
    return Table(
        "failures",
        "Failed runs",
        (Column("run"), Column("setting"), Column("what happened"), Column("folder")),
        tuple(rows.values()),
    )
