"""Claims in words about the loss, checked in numpy."""

import numpy as np

from seedspread.paper.values import CheckResult
from seedspread.stats.arms import Floats


def _supcon(features: Floats, labels: Floats, margin: float, kind: str, reduction: str) -> float:
    """The loss of Eqs. 4 to 9 in a dozen lines."""
    z = features / np.linalg.norm(features, axis=1, keepdims=True)
    s = z @ z.T
    other = ~np.eye(len(z), dtype=bool)
    positive = (labels[:, None] == labels) & other
    if kind == "clamp":
        s = np.where(positive, np.minimum(s + margin, 1), s)
    logits = np.where(other, s / 0.15, -np.inf)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    if kind == "subtract":
        log_p = log_p - margin * positive
    sums = np.where(positive, log_p, 0).sum(axis=1)
    return float(-(sums / (positive.sum(axis=1) if reduction == "mean" else 1)).mean())


def neutral_only_for_means() -> CheckResult:
    """Checks whether what subtraction adds to the loss is the same at every point."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0.0, 1.0, 2.0], [2, 3, 5])
    shifts = {}
    for reduction in ("mean", "sum"):
        points = [rng.normal(size=(10, 4)) for _ in range(50)]
        gaps = [
            _supcon(p, labels, 0.4, "subtract", reduction) - _supcon(p, labels, 0.0, "none", reduction)
            for p in points
        ]
        shifts[reduction] = float(np.ptp(gaps))
    comment = (
        "summed over positives, subtraction adds m times the number of positives to each anchor's term: as "
        "constant as under the mean, so that gradients are unchanged there too"
    )
    spread = (
        f"the added term varies by {shifts['mean']:.0e} (mean) and {shifts['sum']:.0e} (sum) over 50 points"
    )
    return shifts["sum"] > 1e-9, spread, comment


def denominator_pathway() -> CheckResult:
    """Changes a saturated similarity and checks whether any anchor's loss changes."""
    s, margin = np.array([[0.0, 0.9, 0.1], [0.9, 0.0, 0.2], [0.1, 0.2, 0.0]]), 0.4

    def losses(similarity: float) -> Floats:
        t = s.copy()
        t[0, 1] = t[1, 0] = min(similarity + margin, 1)
        logits = np.where(np.eye(3, dtype=bool), -np.inf, t / 0.15)
        out: Floats = np.logaddexp.reduce(logits, axis=1)
        return out

    moved = float(np.abs(losses(0.9) - losses(0.7)).max())
    comment = (
        "what enters the denominators is the clamped similarity, a constant: no anchor's loss changes with "
        "the saturated one, by any path. What remains is its weight in the softmax"
    )
    computed = f"moving a saturated similarity from 0.9 to 0.7 changes the losses by {moved:g}"
    return moved > 0, computed, comment


def modes_differ() -> CheckResult:
    """d/d alpha of log p is -1 + sum of softmax = 0, whatever the logits."""
    logits = np.random.default_rng(1).normal(size=(100, 20)) * 5
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    residual = float(np.abs(1 - p.sum(axis=1)).max())
    comment = (
        "so the graphs do; but what flows is 1 - sum of p = 0: the modes have one gradient, and the factor "
        "measures rounding"
    )
    return residual < 1e-9, f"1 - sum of p is at most {residual:.0e}", comment
