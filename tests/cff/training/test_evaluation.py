"""From probes and features to a result."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from seedspread.cff.data.dataset import load
from seedspread.cff.training.evaluation import Diagnostics, summarize

from .tiny import tiny

CONFIG = tiny()
DEPTH = CONFIG.model.depth
DATASET = load(CONFIG.data)
LABELS = DATASET.test.labels
RIGHT = torch.nn.functional.one_hot(LABELS).float()
CONSTANT = RIGHT[:1].expand_as(RIGHT)


@pytest.mark.parametrize(
    ("logits", "similar", "collapsed"),
    [(RIGHT, False, False), (CONSTANT, False, True), (RIGHT, True, True)],
    ids=["it learned", "it guesses", "all features are alike"],
)
def test_a_run_that_guesses_or_whose_features_are_alike_has_collapsed(
    logits: Tensor, similar: bool, collapsed: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(1, len(LABELS), 16, generator=generator)
    if similar:
        features = 1 + 1e-3 * features
    probes = {"0.logits": logits[None], "0.accuracy": torch.ones(1), "0.epoch": torch.zeros(1)}
    history: Any = SimpleNamespace(last=lambda name: [1.0] * DEPTH)
    diagnostics = Diagnostics(torch.zeros(DEPTH, 2000), [0.5] * DEPTH, [1.0] * DEPTH, [0.5] * DEPTH)
    encoder: Any = SimpleNamespace(of=lambda split: features, model=SimpleNamespace(views=2))
    result, kept = summarize(CONFIG, DATASET, "key", history, diagnostics, probes, encoder)
    assert result.collapsed is collapsed
    assert (result.feature_similarity > 0.999) is similar
    assert result.test_accuracy == (1 if logits is RIGHT else result.majority_share)
    assert kept["logits"].shape == (1, *logits.shape)
