"""The paper's practical guidelines (its Discussion) as a sentence with its reasons. Needs no torch."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal

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

_TEXTS = tomllib.loads((files(__package__) / "advice.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Advice:
    verdict: Recommendation  # `switch` (to subtraction, on trial), `leave` (as it is) or `not enough to say`
    sentence: str  # the advice
    reasons: tuple[str, ...]  # what it rests on, one sentence each
    evidence: str = _TEXTS["evidence"]  # how far it can be trusted

    def __str__(self) -> str:
        return " ".join([self.sentence, *self.reasons, self.evidence])

    def silent_on(self, names: Sequence[str]) -> "Advice":
        """Return the same advice with a reason added: there is no evidence on these names."""
        return replace(self, reasons=(*self.reasons, _silence(names)))


def no_evidence(names: Sequence[str]) -> Advice:
    """Return the advice on anything other than margins on similarities of pairs: none."""
    return _advice("elsewhere").silent_on(names)


def _advice(case: str, **numbers: Any) -> Advice:
    text = _TEXTS[case]
    reasons = tuple(reason.format(**numbers, **_TEXTS["found"]) for reason in text["reasons"])
    return Advice(text["verdict"], text["sentence"], reasons, text.get("evidence", _TEXTS["evidence"]))


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
    unknown = math.isnan(rate)
    if not clamp:
        return _advice("no_clamp", would_be="" if unknown else f" ({rate:.1%} at layer 0)")
    measured = f"At layer 0 the clamp cuts {rate:.1%} of the positive pairs."
    measured = "The rate at layer 0 has not been measured." if unknown else measured
    case = _case(rate, accuracy, pair_share)
    return _advice(case, measured=measured, accuracy=accuracy, pair_share=pair_share)


def _case(rate: float, accuracy: float | None, pair_share: float | None) -> str:
    """Return the first case, as `advice.toml` calls it, that applies to a run that clamps."""
    cases = {
        "inactive": rate < LOW_RATE,
        "accurate": accuracy is not None and accuracy > HIGH_ACCURACY,
        "not_measured": math.isnan(rate),
        "between": rate < HIGH_RATE,
        "accuracy_unknown": accuracy is None,
        "runs_fail": accuracy is not None and accuracy < LOW_ACCURACY,
        "few_pairs": pair_share is not None and pair_share < LOW_PAIR_SHARE,
    }
    return next((case for case, applies in cases.items() if applies), "saturated")
