"""A test that fails if the accuracy drops: judged by past runs, with 1% false alarms."""

from pathlib import Path

from seedspread import gate

HERE = Path(__file__).parent


def evaluate(seed: int) -> float:
    """Train and evaluate your model here."""
    return 0.838 + 0.002 * (seed % 3 - 1)


def test_accuracy_has_not_dropped() -> None:
    new = {"seed": [101, 102, 103], "accuracy": [evaluate(seed) for seed in (101, 102, 103)]}
    result = gate(HERE / "history.csv", new, value="accuracy", alpha=0.01)
    assert result.passed, str(result)
