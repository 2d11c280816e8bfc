"""A finished run's layers and advice on its margin, as `seedspread diagnose` prints them. Needs no torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seedspread.analysis.display import Answer, Block, Heading, Result, table_of
from seedspread.cff.advice import Advice, advise
from seedspread.cff.identity import margin_of
from seedspread.cff.margins import layer_margins
from seedspread.cff.presets import read_config
from seedspread.cff.training.result import RunResult
from seedspread.runs.folder import RunFolder
from seedspread.runs.metrics import rate_from_histogram

COLLAPSED = (
    "No better than guessing the largest class, or all features alike: not comparable with successful runs."
)


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    result: RunResult  # the run's result
    if_clamped: bool  # whether the rates are only what a clamp would have cut
    margins: list[float]  # by layer
    rates: list[float]  # clamp activation rates by layer
    advice: Advice  # on its margin

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        r, advice = self.result, self.advice
        yield Heading(f"{r.rule}, {r.margin_type} | test accuracy {r.test_accuracy:.2%} | {r.dataset}")
        if r.collapsed:
            yield Answer.of("COLLAPSED", COLLAPSED)
        yield Answer.of(advice.verdict.upper(), advice.sentence)
        rate = "rate if clamped" if self.if_clamped else "clamped"
        headings = ("layer", "margin", rate, "gradient norm", "of the block", "last epoch", "loss")
        yield table_of("", headings, self._rows())
        for label, text in advice.reasons.items():
            yield Answer.of(label, text)
        images = r.positive_image_pairs
        of_images = "" if images is None else f", {images:,.0f} of images"
        yield Answer.of(
            "Pairs", f"{r.positive_pairs:,.0f} ordered positive pairs of views per batch{of_images}."
        )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for layer, margin, share in zip(self.result.layers, self.margins, self.rates, strict=True):
            numbers = (layer.gradient_norm, layer.block_gradient_norm, layer.gradient_norm_mean, layer.loss)
            cells = ("-" if number is None else f"{number:.3f}" for number in numbers)
            yield str(layer.layer), f"{margin:.3f}", f"{share:.1%}", *cells


def diagnose(folder: Path | str) -> Diagnosis:
    """Read a finished run's layers, and advise on its margin.

    Args:
        folder: the run's folder.

    Returns:
        Margins and rates by layer, and the advice; it prints itself.

    Example:
        >>> print(diagnose("runs/KEY"))  # doctest: +SKIP
    """
    run = RunFolder(Path(folder))
    result = RunResult.read(folder)
    config = read_config(str(run.config_path()))
    margins = layer_margins(config)
    # If margins are part of the run, the rate was counted; otherwise it follows from the histogram.
    histograms = run.predictions("similarity_histogram")["similarity_histogram"]
    rates = [
        rate_from_histogram(histograms[layer.layer], margin)
        if layer.clamp_activation_rate is None
        else layer.clamp_activation_rate
        for layer, margin in zip(result.layers, margins, strict=True)
    ]
    clamps = margin_of(config).saturates
    return Diagnosis(result, not clamps, margins, rates, advise(rates[0], clamp=clamps))
