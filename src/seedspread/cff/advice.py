"""Advice on a clamped margin, as far as the paper and later published runs support it. Needs no torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Recommendation = Literal["try both", "leave", "not enough to say"]

# Layer-0 rate above which the paper suggests subtraction.
RULE_OF_THUMB = 0.50
# Variance ratios to look for: the paper's on CIFAR-10, as the audit estimates it, and a smaller one.
PAPER_RATIO, SMALLER_RATIO = 6.8, 3.0

_MOST_NAMES = 5  # largest number of names that a sentence lists


@dataclass(frozen=True)
class Advice:
    """A recommendation and its reasons; `str()` joins its sentences."""

    verdict: Recommendation
    sentence: str
    reasons: dict[str, str] = field(default_factory=dict)  # by topic

    def __str__(self) -> str:
        head = f"{self.verdict.capitalize()}: {self.sentence[0].lower()}{self.sentence[1:]}"
        return " ".join([head, *self.reasons.values()])

    def silent_on(self, names: Sequence[str]) -> "Advice":
        """Return this advice with one more reason: there is no evidence on these names."""
        shown = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
        silence = f"There is no evidence on {shown}, for or against: a high rate need not be harmful."
        return replace(self, reasons=self.reasons | {"Others": silence})


def no_evidence(names: Sequence[str]) -> Advice:
    """Return the advice on anything other than margins on similarities of pairs: there is no evidence."""
    return Advice(
        "not enough to say",
        "Train with and without it over several seeds, then compare them with: seedspread audit STORE.",
    ).silent_on(names)


def advise(rate: float, *, clamp: bool) -> Advice:
    """Advise on a run's margin.

    Args:
        rate: the layer-0 clamp activation rate, from 0 to 1; NaN if it was not measured.
        clamp: whether the run was trained with the clamp; otherwise `rate` is the rate if clamped.

    Returns:
        `try both` for a run that clamps, with the number of seeds that a comparison takes.

    Example:
        >>> advise(0.61, clamp=True).verdict
        'try both'
    """
    if not (math.isnan(rate) or 0 <= rate <= 1):
        raise ValueError(f"rate must be a share from 0 to 1; got {rate!r}")
    if not clamp:
        measured = "" if math.isnan(rate) else f" ({rate:.1%} at layer 0)"
        about = f"The rate if clamped{measured} says little about runs that clamp: their features differ."
        return Advice("leave", "This run does not clamp, so no gradient is cut.", {"Rate": about})
    if math.isnan(rate):
        return Advice("not enough to say", "Measure the clamp activation rate of layer 0 first.")
    return Advice(
        "try both",
        "Train with margin_type='clamp' and with 'subtract' on the same seeds, then compare them with: "
        "seedspread audit STORE.",
        {
            "Rate": f"At layer 0 the clamp cuts {rate:.1%} of the positive pairs; no rate shows by itself "
            "whether results spread more.",
            "Seeds": f"{_seeds(PAPER_RATIO)} seeds per group detect the paper's variance ratio on CIFAR-10, "
            f"{PAPER_RATIO:g}; {_seeds(SMALLER_RATIO)} detect a ratio of {SMALLER_RATIO:g} (power 0.8).",
            "Paper": f"The paper's rule of thumb is to switch to subtraction above {RULE_OF_THUMB:.0%}; it "
            "rests on 7 seeds of one dataset.",
            "Evidence": "Runs published since, of one small model, neither show that the clamp widens the "
            "spread nor rule it out: seedspread docs evidence.",
        },
    )


def _seeds(ratio: float) -> int:
    from seedspread.analysis.seeds import seed_budget  # noqa: PLC0415 - loads the statistics

    return int(seed_budget(ratio=ratio).values["seeds"][0])
