"""Metrics against scikit-learn, against loops that follow the definition, and at values known beforehand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, top_k_accuracy_score

from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import AuditResult
from seedspread.runs.metrics import (
    SCORED,
    Metric,
    direction_of,
    metric_of,
    rate_from_histogram,
    rates_from_histograms,
    scores,
)

CLASSES = 12


@st.composite
def predictions(draw: st.DrawFn) -> tuple[Any, Any]:
    n = draw(st.integers(1, 40))
    logits = draw(arrays(np.float32, (n, CLASSES), elements=st.floats(-8, 8, width=32), unique=True))
    return logits, draw(arrays(np.int64, n, elements=st.integers(0, CLASSES - 1)))


@given(predictions())
def test_they_are_scikit_learns(batch: tuple[Any, Any]) -> None:
    logits, labels = batch
    shares, classes = softmax(logits.astype(float), axis=1), np.arange(CLASSES)
    values, _ = scores(logits, labels)
    assert values["accuracy"] == accuracy_score(labels, logits.argmax(1))
    assert values["top5_accuracy"] == pytest.approx(top_k_accuracy_score(labels, logits, k=5, labels=classes))
    assert values["nll"] == pytest.approx(log_loss(labels, shares, labels=classes))
    expected = brier_score_loss(labels, shares, labels=classes, scale_by_half=False)
    assert values["brier"] == pytest.approx(expected)


@given(predictions())
def test_the_calibration_error_is_the_one_of_its_definition(batch: tuple[Any, Any]) -> None:
    """Fifteen bins (0, 1/15], (1/15, 2/15] ...: the gap between confidence and accuracy, weighted by size."""
    logits, labels = batch
    shares = softmax(logits.astype(float), axis=1)
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == labels
    error = 0.0
    for k in range(15):
        inside = [i for i, c in enumerate(confidence) if k / 15 < c <= (k + 1) / 15]
        if inside:
            gap = np.mean([right[i] for i in inside]) - np.mean([confidence[i] for i in inside])
            error += len(inside) / len(labels) * abs(gap)
    assert scores(logits, labels)[0]["ece"] == pytest.approx(error, abs=1e-12)


def test_known_values() -> None:
    """Equal logits of K classes: log K nats, a Brier score of 1 - 1/K, confidence 1/K."""
    values, chance = scores(np.zeros((20, 10)), np.arange(20) % 10)
    assert values == pytest.approx({"accuracy": 0.1, "nll": math.log(10), "brier": 0.9, "ece": 0.0})
    assert chance == pytest.approx({"accuracy": 0.1, "nll": math.log(10), "brier": 0.9})
    sure = np.eye(2)[[0, 0, 1, 1]] * 1000
    assert scores(sure, np.array([0, 0, 1, 1]))[0] == pytest.approx(
        {"accuracy": 1, "nll": 0, "brier": 0, "ece": 0}
    )
    assert scores(sure, np.array([1, 1, 0, 0]))[0] == pytest.approx(
        {"accuracy": 0, "nll": 1000, "brier": 2, "ece": 1}
    )


@given(arrays(np.int64, 30, elements=st.integers(0, CLASSES - 1)))
def test_chance_is_what_the_best_constant_guess_scores(labels: Any) -> None:
    shares = np.bincount(labels, minlength=CLASSES) / len(labels)
    guess = np.log(np.maximum(shares, 1e-300)) * np.ones((len(labels), 1))
    values, chance = scores(guess, labels)
    for name, value in chance.items():
        assert values[name] == pytest.approx(value, abs=1e-9), name
    assert set(SCORED) - set(chance) == {"ece"}


def test_top_5_is_had_where_there_are_more_than_ten_classes() -> None:
    assert "top5_accuracy" not in scores(np.zeros((3, 10)), np.arange(3))[0]
    assert "top5_accuracy" in scores(np.zeros((3, 11)), np.arange(3))[0]


@pytest.mark.parametrize(
    ("name", "values", "unit", "label"),
    [
        ("accuracy", [0.8, 0.9], "share", "test accuracy"),
        ("accuracy", [80.0, 90.0], "per cent", "test accuracy (%)"),
        ("val_acc", [80.0, 90.0], "per cent", "val_acc (%)"),
        ("nll", [2.3, 90.0], "nats", "test negative log-likelihood (nats)"),
        ("reward", [80.0, 90.0], "none", "reward"),
        ("ece", [0.1, 0.2], "share", "test expected calibration error"),
        ("Accuracy (%)", [0.8, 0.9], "per cent", "Accuracy (%)"),
        ("val/acc", [0.8, 0.9], "share", "val/acc"),
    ],
)
def test_a_column_is_known_by_its_name_and_its_range(
    name: str, values: list[float], unit: str, label: str
) -> None:
    metric = metric_of(name, np.array(values))
    assert (metric.unit, metric.label) == (unit, label)


def test_shares_are_shown_in_per_cent_and_nothing_else_is_touched() -> None:
    percent, factor = Metric("accuracy", unit="share", chance=0.1).for_display
    assert (percent.unit, percent.chance, factor) == ("per cent", 10.0, 100.0)
    nats = metric_of("nll")
    assert nats.for_display == (nats, 1.0)
    assert (percent.full_scale, nats.full_scale) == (100.0, None)


# Names as they stand in tables of Keras, Lightning, Hugging Face, MMDetection, CleanRL, WILDS and others.
LOWER = """
val_loss, valLoss, train/loss, eval_loss, Loss, trainloss, logloss, log_loss, cross_entropy,
crossEntropyLoss, testError, test error, test_err, error_rate, top-1 error (%), Top1Error,
mean_absolute_error, RMSE, test-rmse, nmse, MAE, rmse_test, MAPE, SMAPE, WER, cer, FID, fid50k, FID-50K,
kid, perplexity, eval_ppl, nll, NLL, negative_log_likelihood, neg_log_likelihood, NegLogLikelihood,
neg_elbo, bits_per_dim, bpd, bits/dim, val_bpb, regret, simple_regret, cumulativeRegret, ece, ECE, Brier
score, brier, 1-AUC, 1 - accuracy, latency_ms, inference_time, train_seconds, cost, LPIPS, hamming_distance,
hammingDistance, edit_distance, constraint_violations, deviance, generalization_gap, EER, FPR95,
reward_loss, ssim_loss, accuracy_drop, time_to_accuracy, loss_at_best_acc, minADE, kl_divergence,
mean_of_loss, loss.mean, failure_rate, suboptimality_gap
"""
HIGHER = """
accuracy, val_acc, valAcc, testAccuracy, Accuracy (%), top1, top5_accuracy, AUC, auroc, f1, macroF1,
F1-score, mAP, mAP50, reward, episode_return, mean_reward, success_rate, win_rate, BLEU, rougeL, psnr, ssim,
r2, R2, log_likelihood, test_loglik, elbo, loss_improvement, error_rate_reduction, errorReduction,
neg_mean_squared_error, neg_log_loss, neg_root_mean_squared_error, 1-error, score, final_score, throughput,
fps, speedup, accuracy_at_loss, balanced_accuracy, distance_travelled, ndcg@10, recall@5, mIoU, IoU,
dice_score, information_gain
"""
NOTHING = "x, value, metric, objective, result, final, steps, lr, dropout, glossary"


@pytest.mark.parametrize(
    ("names", "better"),
    [(LOWER, "lower"), (HIGHER, "higher"), (NOTHING, None)],
    ids=["lower", "higher", "none"],
)
def test_a_name_tells_the_direction(names: str, better: str | None) -> None:
    listed = [" ".join(name.split()) for name in names.split(",")]
    wrong = {name: direction_of(name) for name in listed if direction_of(name) != better}
    assert not wrong
    assert all(metric_of(name).better == (better or "higher") for name in listed)


def losses(name: str = "loss") -> pd.DataFrame:
    """Two groups of 12 seeds; three runs of the first have a high value."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0.5, 0.01, 9), rng.normal(2.3, 0.01, 3), rng.normal(0.5, 0.01, 12)])
    return pd.DataFrame({name: values, "arm": ["a"] * 12 + ["b"] * 12, "seed": [*range(12)] * 2})


def test_a_direction_that_was_told_from_the_name_is_said() -> None:
    (note,) = audit(losses("valLoss"), "valLoss", "arm", "b").notes
    assert note == "Lower is assumed to be better for valLoss (by its name); change with better='higher'."
    (note,) = audit(losses("out"), "out", "arm", "b").notes
    assert note.startswith("Higher is assumed to be better for out (its name does not show it); change ")
    assert not audit(losses("val_acc"), "val_acc", "arm", "b").notes
    (note,) = audit(losses("clean_top1"), "clean_top1", "arm", "b").notes  # it may hold error rates
    assert note.startswith("Higher is assumed to be better for clean_top1 (by its name); change with ")
    assert not audit(losses("out"), "out", "arm", "b", better="lower").notes


def test_the_direction_that_is_asked_for_counts() -> None:
    asked = audit(losses("out"), "out", "arm", "b", better="lower")
    assert asked.metric.better == "lower"
    assert failed(asked) == (3, 0)
    assert failed(audit(losses("out"), "out", "arm", "b"))[0] == 9


def failed(result: AuditResult) -> tuple[int, int]:
    found = result.comparisons[0].failures
    assert found is not None
    return found.failed


def test_the_failed_runs_of_a_loss_are_its_high_ones() -> None:
    result = audit(losses(), "loss", "arm", "b")
    assert result.comparisons[0].group == "a"
    assert failed(result) == (3, 0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 1000))
def test_on_a_bins_edge_the_rate_is_the_count(seed: int, steps: int) -> None:
    margin = steps / 1000
    values = np.random.default_rng(seed).uniform(-1, 1, 500)
    counts, _ = np.histogram(values, bins=2000, range=(-1, 1))
    edge = np.histogram_bin_edges([], bins=2000, range=(-1, 1))[2000 - steps]
    assert np.isclose(rate_from_histogram(counts, margin), (values >= edge).mean())


def test_inside_a_bin_it_is_linear_and_many_are_as_one() -> None:
    histograms = np.array([[[0, 4, 0, 0], [1, 1, 1, 1]], [[0, 0, 0, 0], [0, 0, 0, 8]]])
    rates = rates_from_histograms(histograms, 1.25)
    np.testing.assert_allclose(rates, [[0.5, 0.625], [np.nan, 1.0]])
    assert rates_from_histograms(histograms, 9.0)[0, 0] == 1.0
    assert rates_from_histograms(histograms, 0.0)[0, 1] == 0.0
