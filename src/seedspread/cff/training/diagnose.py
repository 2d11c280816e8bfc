"""The layer table of a finished run, and the paper's advice on it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seedspread.cff.advice import Advice, advise
from seedspread.cff.identity import margin_of
from seedspread.cff.objective.schedule import layer_margins
from seedspread.cff.presets import read_config
from seedspread.cff.training.result import RunResult
from seedspread.runs.folder import RunFolder
from seedspread.runs.histogram import rate_from_histogram


@dataclass(frozen=True)
class Diagnosis:
    """What `seedspread diagnose` shows.

    Attributes:
        result: the run's result.
        would_be: whether the rates are only what a clamp would have cut.
        rate_name: what they are called.
        margins: by layer.
        rates: clamp activation rates by layer.
        advice: the paper's.
    """

    result: RunResult
    would_be: bool
    rate_name: str
    margins: list[float]
    rates: list[float]
    advice: Advice

    def values(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def diagnose(folder: "Path | str") -> Diagnosis:
    """Reads a finished run's folder."""
    folder = Path(folder)
    run = RunFolder(folder)
    result = RunResult.read(folder)
    config = read_config(str(run.config_path()))
    margins = layer_margins(config)
    # Where margins are part of the run, the rate was counted; elsewhere it follows from the histogram.
    histograms = run.predictions("similarity_histogram")["similarity_histogram"]
    rates = [
        rate_from_histogram(histograms[layer.layer], margin)
        if layer.clamp_activation_rate is None
        else layer.clamp_activation_rate
        for layer, margin in zip(result.layers, margins, strict=True)
    ]
    kind = margin_of(config)
    advice = advise(
        rates[0], clamp=kind.saturates, accuracy=result.test_accuracy, pair_share=result.pair_share
    )
    return Diagnosis(result, not kind.saturates, kind.rate_name, margins, rates, advice)
