"""What the benchmark of the loss prints."""

import json

import pytest

from benchmarks import loss
from seedspread.cff.margins import MARGIN_TYPES


def test_it_prints_json_and_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loss, "SIZES", (64,))
    monkeypatch.setattr(loss, "MEMORY_N", 512)
    loss.run(rounds=3, as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert {row["margin_type"] for row in result["timings"]} == set(MARGIN_TYPES)
    assert all(row["fast_ms"] > 0 and row["plain_over_fast"] > 0 for row in result["timings"])
    assert result["machine"]
    monkeypatch.setattr(loss, "peak_memory", lambda _: 1_000_000)  # measured above, in a process of its own
    loss.run(rounds=3, as_json=False)
    assert "plain / fast" in " ".join(capsys.readouterr().out.split())
