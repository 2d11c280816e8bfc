"""Metrics of a run: name, unit, better direction, and what chance scores. Needs no torch.

A metric that follows from a classifier's logits has its formula here too: for a run that did not report it,
it is computed from the run's stored predictions when needed.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedspread.errors import spoken

Floats = NDArray[np.float64]
Labels = NDArray[np.integer[Any]]
# "share" from 0 to 1, "per cent", "none", or any unit by its sign, such as "nats" or "ms".
Unit = str

_UNIT_SUFFIXES: dict[Unit, str] = {"share": "", "per cent": " (%)", "none": ""}
Better = Literal["higher", "lower"]
# Words in usual names of metrics: shares of a test set, and then by direction.
_SHARES = {"acc", "accuracy", "top1", "top5", "auc", "auroc", "f1", "precision", "recall", "iou", "share"}
# Benchmarks of language models, which count correct answers.
_SHARES |= set(
    "gsm8k mmlu humaneval mbpp hellaswag winogrande gpqa aime truthfulqa piqa boolq ifeval".split()
)
_ERRORS = set(
    "loss error err errors nll perplexity ppl rmse nrmse rmsle mse msle mae mape smape wape mase fid "
    "kid fvd fad wer cer ter eer hter regret brier ece deviance cost bpd bpc bpb lpips niqe brisque fpr "
    "fnr crossentropy xent bce nelbo aic bic waic kld mmd emd ade fde misclassification".split()
)
_LOWER = _ERRORS | set(
    "time seconds secs runtime walltime duration latency delay lag distance distances gap hamming "
    "chamfer hausdorff wasserstein divergence kl violation violations collision collisions crashes "
    "failure failures mistakes penalty risk residual suboptimality excess overfitting inertia bits nats "
    "memory energy".split()
)
_HIGHER = _SHARES | set(
    "reward rewards return returns success successes win wins won elo likelihood loglikelihood loglik "
    "elbo auprc ap map miou dice bleu rouge meteor chrf psnr ssim r2 correlation pearson spearman "
    "kendall kappa mcc ndcg mrr hits throughput fps speedup sensitivity specificity tpr tnr purity nmi "
    "ari silhouette solved travelled traveled survived".split()
)
# A Brier score is better when lower, so this word decides only if no other does.
_WEAK = {"score", "scores"}
# Words that reverse the direction, words that always mean that higher is better, and words that separate what
# is measured from where: the loss at the best accuracy is a loss.
_TURN = set("neg negative minus reduction decrease drop degradation saved savings saving".split())
_GAIN = set("improvement gain gains".split())
_WHERE = set("to at of per on in for vs over under by".split())
_TOP = 5
_BINS = 15


@dataclass(frozen=True)
class Metric:
    """A quantity of which every run has one value.

    Attributes:
        name: the column of a table, the key in a record.
        title: displayed name; the name if it is empty.
        unit: `share` from 0 to 1, `per cent`, `none`, or a sign such as `nats`.
        better: the better direction.
        chance: the score of a run that has learned nothing, if known.
    """

    name: str
    title: str = ""
    unit: Unit = "none"
    better: Better = "higher"
    chance: float | None = None

    @property
    def label(self) -> str:
        """Title with unit, for an axis or a heading: `test accuracy (%)`."""
        title = self.title or self.name
        return title if "%" in title else f"{title}{self.unit_suffix}"

    @property
    def unit_suffix(self) -> str:
        return _UNIT_SUFFIXES.get(self.unit, f" ({self.unit})")

    @property
    def full_scale(self) -> float | None:
        """The value of a share of one in this unit: 100 in per cent, 1 in shares; None for other units."""
        return {"share": 1.0, "per cent": 100.0}.get(self.unit)

    @property
    def for_display(self) -> "tuple[Metric, float]":
        """The metric for display, with shares in per cent, and the factor to multiply values by."""
        if self.unit != "share":
            return self, 1.0
        chance = None if self.chance is None else 100 * self.chance
        return replace(self, unit="per cent", chance=chance), 100.0

    def digits(self, value: float | None, places: int) -> str:
        """Format a number: per cent with `places` decimals, others with four digits; a dash for None."""
        if value is None:
            return "-"
        return f"{value:.{places}f}" if self.unit == "per cent" else f"{value:#.4g}"


def _top5(logits: Floats, labels: Labels) -> float:
    best = np.argpartition(logits, -_TOP, axis=1)[:, -_TOP:]
    return float((best == labels[:, None]).any(axis=1).mean())


def _nll(logits: Floats, labels: Labels) -> float:
    from scipy.special import log_softmax  # noqa: PLC0415 - slow, and few runs need it

    return float(-log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())


def _brier(logits: Floats, labels: Labels) -> float:
    """Return the Brier score over all classes, as in Brier (1950): from 0 to 2."""
    from scipy.special import softmax  # noqa: PLC0415 - slow, and few runs need it

    errors = softmax(logits, axis=1)
    errors[np.arange(len(labels)), labels] -= 1
    return float(np.square(errors).sum(axis=1).mean())


def _ece(logits: Floats, labels: Labels) -> float:
    """Return the expected calibration error over 15 equal bins, closed on the right (Guo et al., 2017)."""
    from scipy.special import softmax  # noqa: PLC0415 - slow, and few runs need it

    shares = softmax(logits, axis=1)
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(labels))


def _entropy(shares: Floats) -> float:
    from scipy.special import xlogy  # noqa: PLC0415 - slow, and few runs need it

    return float(-xlogy(shares, shares).sum())


@dataclass(frozen=True)
class Scored:
    """A metric that follows from logits `(N, classes)` and labels `(N,)`.

    Attributes:
        chance: score of the best constant guess, given the classes' shares of the labels, largest first.
        classes: smallest number of classes for which the metric is useful.
    """

    metric: Metric
    score: Callable[[Floats, Labels], float]
    chance: Callable[[Floats], float] | None
    classes: int = 2


SCORED = {
    one.metric.name: one
    for one in (
        Scored(Metric("accuracy", "test accuracy", "share"),
               lambda z, y: float((z.argmax(axis=1) == y).mean()), lambda p: float(p[0])),
        Scored(Metric("top5_accuracy", "test top-5 accuracy", "share"), _top5,
               lambda p: float(p[:_TOP].sum()), 11),
        Scored(Metric("nll", "test negative log-likelihood", "nats", "lower"), _nll,
               _entropy),
        Scored(Metric("brier", "test Brier score", "none", "lower"), _brier,
               lambda p: float(1 - np.square(p).sum())),
        Scored(Metric("ece", "test expected calibration error", "share", "lower"), _ece, None),
    )
}  # fmt: skip


def scores(logits: NDArray[Any], labels: Labels) -> tuple[dict[str, float], dict[str, float]]:
    """Return every metric that logits `(N, classes)` and labels `(N,)` give, and the chance score of each."""
    if not 0 < len(labels) == len(logits) or not 0 <= labels.min() <= labels.max() < logits.shape[1]:
        raise ValueError(f"these labels, {labels.shape}, are not those of logits of shape {logits.shape}")
    scored = [s for s in SCORED.values() if logits.shape[1] >= s.classes]
    wide = logits.astype(np.float64)
    shares = np.sort(np.bincount(labels, minlength=logits.shape[1]) / len(labels))[::-1]
    return (
        {s.metric.name: s.score(wide, labels) for s in scored},
        {s.metric.name: s.chance(shares) for s in scored if s.chance is not None},
    )


_UNITS_UNTIL = {
    "time", "steps", "step", "epochs", "epoch", "iterations", "samples", "frames", "updates", "tokens",
    "seconds", "minutes", "hours", "days", "episodes", "evaluations", "images", "examples",
}  # fmt: skip


def metric_of(name: str, values: Floats | None = None, *, accuracies: bool = False) -> Metric:
    """Return the metric that a column contains, by its name; a share that exceeds 1 somewhere is in per cent.

    If the name reveals no direction (`direction_of`), higher counts as better.

    Args:
        name: of the column.
        values: those of the column; without them a share is one from 0 to 1.
        accuracies: whether the values are known to be shares of a test set.
    """
    scored = SCORED.get(name)
    if scored is not None:
        metric = scored.metric
    else:
        words = {*_words(name), *re.split(r"[^a-z0-9]+", name.lower())}
        unit: Unit = "share" if accuracies or words & _SHARES else "none"
        unit = "per cent" if "%" in name or words & {"percent", "pct"} else unit
        metric = Metric(name, unit=unit, better=direction_of(name) or "higher")
    if metric.unit == "share" and values is not None and len(values) and float(np.max(values)) > 1:
        metric = replace(metric, unit="per cent")
    return metric


def is_metric_name(name: str) -> bool:
    """Return whether a column's name alone marks it as a metric, as `val_acc` and `test/loss` do."""
    return name in SCORED or bool(set(re.split(r"[^a-z0-9]+", name.lower())) & (_SHARES | _ERRORS))


def is_until(name: str) -> bool:
    """Return whether a metric counts until something is reached, as `time_to_90` and `epochsToTarget` do.

    A run that never reaches it, whose value is null or infinite, is censored and has not failed.
    """
    return any(unit in _UNITS_UNTIL and to == "to" for unit, to in pairwise(_words(name)))


def direction_of(name: str) -> Better | None:
    """Return the better direction of a metric by its name: `valLoss`, `1-AUC`, `error_rate_reduction`.

    The last word with a direction decides, like the noun in English: a `reward_loss` is a loss. Words after
    a preposition count only if those before it have none.
    """
    if name in SCORED:
        return SCORED[name].metric.better
    words = _words(name)
    where = next((k for k, word in enumerate(words) if k and word in _WHERE), len(words))
    sign = _sign(words[:where]) or _sign(words[where:])
    if re.match(r"\s*1(\.0)?\s*[-−]", name):
        sign = -sign
    told: dict[int, Better | None] = {1: "higher", -1: "lower", 0: None}
    return told[sign]


def direction_note(name: str) -> str | None:
    """Return a note on a direction that was inferred from a column's name; None for an accuracy."""
    better = direction_of(name)
    if better == "higher" and {"acc", "accuracy"} & {*_words(name)}:
        return None
    first, other = ("Lower", "higher") if better == "lower" else ("Higher", "lower")
    told = " (by its name)" if better else " (its name does not show it)"
    return spoken(f"{first} is assumed to be better for {name}{told}; change with --{other}-is-better.")


def _words(name: str) -> list[str]:
    """Split `valLoss`, `val_loss` and `Val-loss` into val and loss; keep mIoU and cross entropy whole."""
    words: list[str] = []
    for part in re.findall(r"[A-Za-z0-9]+", name):
        camel = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", part).lower().split()
        words += [part.lower()] if _word_sign(part.lower()) else camel
    return re.sub(r"\bcross entropy\b", "crossentropy", " ".join(words)).split()


def _sign(words: list[str]) -> int:
    """Return 1 if higher is better, -1 if lower is, 0 if the words have no direction."""
    if _GAIN & set(words):
        return 1
    told = [sign for word in words if (sign := _word_sign(word))]
    told = told or [1 for word in words if word in _WEAK]
    turns = sum(word in _TURN for word in words)
    return told[-1] * (-1) ** turns if told else 0


def _word_sign(word: str) -> int:
    """Return a word's sign: whole, without a final number (`fpr95`, `fid50k`), or by its ending (`nmse`)."""
    for stem in (word, re.sub(r"\d+k?$", "", word)):
        if stem in _LOWER:
            return -1
        if stem in _HIGHER:
            return 1
    return -1 if word.endswith(("loss", "error", "mse", "mae")) else 1 if word.endswith("accuracy") else 0


def rates_from_histograms(histograms: ArrayLike, margin: float) -> NDArray[np.float64]:
    """Return the share of positive pairs with s > 1 - margin; linear inside a bin, NaN without pairs.

    Args:
        histograms: `(..., bins)` counts in equal bins over [-1, 1].
        margin: m >= 0.

    Returns:
        `(...)` numbers from 0 to 1.
    """
    counts = np.asarray(histograms, dtype=np.float64)
    bins = counts.shape[-1]
    # Rounded, because 2000 * 0.4 / 2 must be 400 bins and not 399.9999.
    above = min(max(round(margin * bins / 2, 6), 0.0), float(bins))
    whole = math.floor(above)
    cut = counts[..., bins - whole :].sum(axis=-1)
    if whole < bins:
        cut = cut + (above - whole) * counts[..., bins - whole - 1]
    total = counts.sum(axis=-1)
    rates: NDArray[np.float64] = np.divide(
        cut, total, out=np.full(np.shape(total), math.nan), where=total > 0
    )
    return rates


def rate_from_histogram(histogram: ArrayLike, margin: float) -> float:
    return float(rates_from_histograms(histogram, margin))
