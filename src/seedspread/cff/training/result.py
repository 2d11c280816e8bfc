"""The result of a run. Needs no torch."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seedspread.cff.identity import RUNNER
from seedspread.runs.files import FORMAT, RecordError
from seedspread.runs.folder import RunFolder


@dataclass(frozen=True)
class LayerResult:
    layer: int  # its number, from 0
    margin: float | None  # its margin; None if margins cannot matter
    # over all training batches with the final weights; the rate if clamped unless the run clamps; None if
    # margins cannot matter (then it follows from the stored histogram for any margin)
    clamp_activation_rate: float | None
    gradient_norm: float  # of all its parameters, on one batch with the final weights, as in the paper
    gradient_norm_mean: float  # mean over the batches of the last epoch, during training
    loss: float  # mean, likewise; without subtraction's constant
    block_gradient_norm: float | None = None  # like `gradient_norm`, of its block alone; older records: None


@dataclass(frozen=True)
class ProbeResult:
    """A chosen classifier: accuracies from 0 to 1, and the epoch (from 0) that validated best."""

    repeat: int
    layer: int
    test_accuracy: float
    validation_accuracy: float
    epoch: int


@dataclass(frozen=True)
class RunResult:
    """A finished run; the same values, to the bit, whenever it is repeated.

    Attributes:
        key: the run's identity.
        dataset: title of its dataset, with "partial" if it is.
        fingerprint: fingerprint of the data.
        rule: the training rule.
        margin_type: `none` if its loss has no margin.
        test_accuracy: accuracy of the first probe on the last layer, from 0 to 1.
        validation_accuracy: likewise.
        probes: every probe.
        layers: the diagnostics of every layer.
        positive_pairs: ordered pairs of views, those of one image included, per batch, averaged over the last
            epoch.
        pair_share: the share of a batch's ordered pairs that are positive, likewise.
        majority_share: share of the largest class in the test split.
        feature_similarity: the mean cosine between the test images' features at the last layer.
        collapsed: accuracy no better than the majority class, or features of all images alike: the run is
            finished, but not comparable with successful ones.
        metrics: metrics of the first probe's test logits, by name.
        chance: score of the best constant guess, by metric.
        positive_image_pairs: ordered pairs of different images, counted likewise; None in older records.
    """

    key: str
    dataset: str
    fingerprint: str
    rule: str
    margin_type: str
    test_accuracy: float
    validation_accuracy: float
    probes: tuple[ProbeResult, ...]
    layers: tuple[LayerResult, ...]
    positive_pairs: float
    pair_share: float
    majority_share: float
    feature_similarity: float
    collapsed: bool
    metrics: dict[str, float]
    chance: dict[str, float]
    positive_image_pairs: float | None = None

    def values(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"format": FORMAT, "runner": RUNNER} | asdict(self)

    @classmethod
    def read(cls, folder: "Path | str") -> "RunResult":
        values = RunFolder(Path(folder)).result()
        try:
            values["probes"] = tuple(ProbeResult(**probe) for probe in values["probes"])
            values["layers"] = tuple(LayerResult(**layer) for layer in values["layers"])
            return cls(**{name: value for name, value in values.items() if name not in ("format", "runner")})
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"{folder} holds no result of the paper's training ({error}); delete it to run again"
            ) from error
