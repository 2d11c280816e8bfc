"""The paper's practical guidelines (its Discussion) as a sentence with its reasons. Needs no torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Recommendation = Literal["switch", "leave", "not enough to say"]

# Where the paper has evidence. Layer-0 rates of clamp runs: CIFAR-100 29.0 % (its variance ratio 0.39),
# low-margin CIFAR-10 40.3 % (2.98, not significant), SVHN 51.0 % (0.25), CIFAR-10 60.7 % (5.90; as the audit
# has it, with the seed as the unit, 6.8 in an interval from 1.5 to 50).
LOW_RATE = 0.30
HIGH_RATE = 0.50
# Accuracies: SVHN hard and medium about 25 % (failed and trained runs mixed), CIFAR-10 78.5 %,
# Fashion-MNIST 92.6 % and SVHN 96.7 % (ratios below 1).
LOW_ACCURACY = 0.40
HIGH_ACCURACY = 0.90
# Share of a batch's pairs that are positive: 0.01 on CIFAR-100, 0.10 on the others.
LOW_PAIR_SHARE = 0.02

_MOST_NAMES = 5  # that a sentence lists

EVIDENCE = (
    "The evidence is thin: the paper has one architecture, four datasets, 5 to 14 runs per arm, and the rate "
    "of three of them; the runs published here are of one small model (seedspread docs evidence)."
)
# What the study `margin` of docs/evidence.md found, in a clause.
_SMALL = (
    "of a small ViT on CIFAR-10, 24 seeds an arm, at a rate of 29%, the variance under the clamp was 0.45 "
    "times that under subtraction, and more than 1.25 times is excluded (95%)"
)
# What `locality` found end to end.
_BETWEEN = (
    "of a small ViT trained end to end on CIFAR-10, 24 seeds an arm, at a rate of 33%, the variance under "
    "the clamp was 0.83 times that under subtraction, and more than 2.36 times is excluded (95%)"
)
# What `fashion-mnist`, `dose` and `pair-density` found.
_HIGH = (
    "Here, of a small ViT with 24 seeds an arm and accuracies from 37% to 83%, it was not seen at such "
    "rates: on CIFAR-10 at 77% (a first margin of 0.8) the variance under the clamp was 1.14 times that "
    "under subtraction, and more than 3.15 times is excluded (95%); in the mean over 3 comparisons at 67% to "
    "77% it was 1.16 times, and more than 2.69 times is excluded. The mean accuracy under the clamp was 1.08 "
    "points higher on Fashion-MNIST, 3.76 on CIFAR-10 with a loss on 2 classes, and not shown to differ on "
    "CIFAR-10 at 77%."
)


@dataclass(frozen=True)
class Advice:
    """What to do about the clamp, and why."""

    verdict: Recommendation  # `switch` (to subtraction, on trial), `leave` (as it is) or `not enough to say`
    sentence: str  # the advice
    reasons: tuple[str, ...]  # what it rests on, one sentence each
    evidence: str = EVIDENCE  # how far it can be trusted

    def __str__(self) -> str:
        return " ".join([self.sentence, *self.reasons, self.evidence])

    def silent_on(self, names: Sequence[str]) -> "Advice":
        """Return the same advice with a reason added: there is no evidence on these names."""
        return replace(self, reasons=(*self.reasons, _silence(names)))


def no_evidence(names: Sequence[str]) -> Advice:
    """Return the advice on anything other than margins on similarities of pairs: none."""
    return Advice(
        "not enough to say",
        "No advice: what is known is about margins on the similarities of contrastive pairs.",
        (_silence(names),),
        "To find out, train with and without it over several seeds; then run: seedspread audit STORE.",
    )


def _silence(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"On {shown} there is no evidence here, for or against: a high rate need not be harmful."


def advise(
    rate: float, *, clamp: bool, accuracy: float | None = None, pair_share: float | None = None
) -> Advice:
    """The paper's advice for a run.

    Args:
        rate: the layer-0 clamp activation rate, from 0 to 1; NaN if it was not measured.
        clamp: whether the run was trained with the clamp.
        accuracy: its test accuracy, from 0 to 1, where known.
        pair_share: the share of a batch's pairs that are positive, where known.
    """
    for name, value in (("rate", rate), ("accuracy", accuracy), ("pair_share", pair_share)):
        if value is not None and not math.isnan(value) and not 0 <= value <= 1:
            raise ValueError(f"{name} must be a share from 0 to 1; got {value!r}")
    if accuracy is not None and math.isnan(accuracy):
        accuracy = None
    if not clamp:
        return _no_clamp(rate)
    measured = not math.isnan(rate)
    rate_sentence = (
        f"At layer 0 the clamp cuts {rate:.1%} of the positive pairs."
        if measured
        else "The rate at layer 0 has not been measured."
    )
    if measured and rate < LOW_RATE:
        return _inactive(rate_sentence)
    if accuracy is not None and accuracy > HIGH_ACCURACY:
        return Advice(
            "leave",
            "Leave the clamp as it is: at high accuracy it has not been seen to widen the spread.",
            (
                rate_sentence,
                f"Accuracy is {accuracy:.1%}; SVHN and Fashion-MNIST, above 92%, spread less with the clamp "
                "than without (5 runs each, no more than chance may make).",
            ),
        )
    if not measured:
        return Advice(
            "not enough to say",
            "Not enough to say: measure the clamp activation rate of layer 0 first.",
            (rate_sentence,),
        )
    if rate < HIGH_RATE:
        return Advice(
            "not enough to say",
            "Not enough to say: the rate lies between what was seen to matter and what was not.",
            (
                rate_sentence,
                "In the paper there is one inconclusive case between CIFAR-100's 29% and SVHN's 51%.",
                f"Here, {_BETWEEN}.",
            ),
        )
    return _saturated(rate_sentence, accuracy, pair_share)


def _inactive(rate_sentence: str) -> Advice:
    return Advice(
        "leave",
        "Leave the clamp as it is: the truncation pathway is largely inactive.",
        (
            rate_sentence,
            "CIFAR-100's runs, at 29.0%, spread no more under the clamp than without (5 seeds an arm).",
            f"Here, {_SMALL}.",
        ),
    )


def _no_clamp(rate: float) -> Advice:
    would_be = "" if math.isnan(rate) else f" ({rate:.1%} at layer 0)"
    return Advice(
        "leave",
        "Nothing to change: this run does not clamp, so no gradient is cut.",
        (
            f"The rate{would_be} is a would-be clamp rate; the paper's 50% rule of thumb is about runs "
            "trained with the clamp, whose features differ.",
        ),
    )


def _saturated(rate_sentence: str, accuracy: float | None, pair_share: float | None) -> Advice:
    if accuracy is None:
        return Advice(
            "not enough to say",
            "Not enough to say: a high rate is necessary for the effect, not sufficient.",
            (rate_sentence, "The test accuracy decides, and is not known here."),
        )
    if accuracy < LOW_ACCURACY:
        return Advice(
            "not enough to say",
            "Not enough to say: first count the runs that failed to train.",
            (
                rate_sentence,
                f"Accuracy is {accuracy:.1%}; at about 25% (SVHN, strong augmentation) the paper's "
                "arms mix failed and trained runs, which is not a spread of one thing.",
            ),
        )
    if pair_share is not None and pair_share < LOW_PAIR_SHARE:
        return Advice(
            "not enough to say",
            "Not enough to say: few positive pairs and a high rate were not seen together.",
            (rate_sentence, f"Only {pair_share:.1%} of the pairs in a batch are positive."),
        )
    return Advice(
        "switch",
        "Try margin_type='subtract' and compare both over seeds: the paper suggests that here the clamp "
        "widens the spread, and runs published since do not show it.",
        (
            rate_sentence,
            f"Accuracy is {accuracy:.1%}; in this regime there is one case, the paper's CIFAR-10 runs, where "
            "the variance over 7 seeds under the clamp is estimated at 6.8 times that under subtraction, "
            "with a 95% interval from 1.5 to 50 (p = 0.018; 0.072 adjusted over its four datasets): "
            "suggested, not known, and its size hardly at all.",
            _HIGH,
            f"Nor at half the paper's rate: {_SMALL}.",
        ),
    )
