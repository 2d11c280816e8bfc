"""Keys outlive the code: those of every study of the evidence are what they always were."""

import hashlib
from pathlib import Path

import pytest

from evidence.plan import STUDIES
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

# Of every study, a hash over the keys of its runs on the official datasets, in order.
HASHES = {
    "all": "c58fd53891043f28",
    "dose": "cd9aff6664f8b3d1",
    "dose-again": "308ef700281224a8",
    "fashion-mnist": "c37a24fff74f615d",
    "local-rules": "ec317fd97d5f7527",
    "locality": "91c7f6d60f8724dd",
    "longer": "fd8293ac2991d0f4",
    "margin": "51198dc59f0a1185",
    "pair-density": "3fc17be3434aa0c7",
    "precision": "d024ded89e37e007",
    "rounding": "dfb72db22079fc23",
    "saturation": "53a3f8ad909fcf57",
    "soft-clamp": "74d28b02d1aa04ee",
    "source-augment": "5f00dda4aea9125e",
    "source-init": "a5429ca35321b34a",
    "source-order": "b20262348c657b6f",
    "source-probe": "cf892ea6f4ccb848",
    "sources": "b64ec98872082b29",
}


@pytest.mark.parametrize("name", HASHES)
def test_the_keys_of_every_study_are_the_same(name: str, tmp_path: Path) -> None:
    plan = Plan.make(StudySpec.from_file(STUDIES / f"{name}.toml"), tmp_path, tmp_path / "no data")
    keys = " ".join(run.key for run in plan.runs)
    assert hashlib.sha256(keys.encode()).hexdigest()[:16] == HASHES[name]


def test_no_study_is_left_out() -> None:
    assert {path.stem for path in STUDIES.iterdir()} == set(HASHES)
