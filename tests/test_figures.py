"""Pictures of the documentation are those that today's code and data make: data are compared, not pixels."""

import json
import re

from tools.figures import RECORD, ROOT, digest, every_chart, file_digest

_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)")


def shown() -> set[str]:
    """The pictures that pages show."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return {
        (page.parent / link).resolve().relative_to(ROOT).as_posix()
        for page in pages
        for link in _PICTURE.findall(page.read_text())
    }


def test_every_picture_is_drawn_from_todays_data() -> None:
    record = json.loads(RECORD.read_text())
    today = {name: digest(chart) for name, chart in every_chart().items()}
    recorded = {name: of["data"] for name, of in record.items()}
    stale = {name for name in today.keys() | recorded.keys() if recorded.get(name) != today.get(name)}
    assert not stale, "draw them again: make figures"
    changed = [name for name, of in record.items() if file_digest(ROOT / name) != of["file"]]
    assert not changed, "these files are not those that were drawn: make figures"


def test_every_picture_that_a_page_shows_can_be_made_again() -> None:
    kept = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.png")}
    assert shown() == set(json.loads(RECORD.read_text())) == kept
