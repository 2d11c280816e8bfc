"""The monitor on anything that saturates: rates against plain counting, over time, in every form."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pytorch_metric_learning import losses as metric_losses
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from seedspread import ClampMonitor, SupConLoss, seed_budget
from seedspread.cff.advice import PAPER_RATIO, advise
from seedspread.cff.monitor import _MOST_WINDOWS, NotWatchableError
from seedspread.errors import SeedspreadError
from seedspread.paper.check import paper_ratios

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e\n[red]$x_{$\x00"
SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3e38])


def counted(name: str, *fed: Any) -> dict[str, Any]:
    """The only row of a monitor that was fed once or several times in one window."""
    monitor = ClampMonitor()
    for values in fed:
        monitor.watch_clamp(name, *values)
    (row,) = monitor.to_frame().astype(object).to_dict("records")
    return {str(key): None if pd.isna(value) else value for key, value in row.items()}


@given(masks=st.lists(arrays(bool, SHAPES), min_size=1, max_size=4))
def test_the_rate_of_masks_is_that_of_a_loop_over_all_their_elements(masks: list[np.ndarray]) -> None:
    elements = [bool(element) for mask in masks for element in mask.ravel()]
    expected = sum(elements) / len(elements) if elements else math.nan
    for form in (np.asarray, torch.tensor, np.ndarray.tolist):
        monitor = ClampMonitor()
        for mask in masks:
            monitor.record("x", form(mask))
        assert monitor.rates("x") == pytest.approx([expected], nan_ok=True)


@given(
    batches=st.lists(arrays(np.float32, SHAPES, elements=NUMBERS.map(np.float32)), min_size=1, max_size=3),
    low=st.none() | st.sampled_from([-0.5, 0.0, -math.inf]),
    high=st.none() | st.sampled_from([0.5, 1.0, math.inf]),
)
def test_values_out_of_bounds_are_those_of_a_loop(
    batches: list[np.ndarray], low: float | None, high: float | None
) -> None:
    if low is None and high is None:
        high = 1.0
    elements = [float(element) for batch in batches for element in batch.ravel()]
    below = [x for x in elements if low is not None and x < low]
    above = [x for x in elements if high is not None and x > high]
    nan = [x for x in elements if math.isnan(x)]
    numbers = len(elements) - len(nan)
    for form in (np.asarray, torch.tensor):
        row = counted("x", *((form(batch), low, high) for batch in batches))
        assert (row["values"], row["nan"]) == (len(elements), len(nan))
        assert row["below"] == (None if low is None else len(below))
        assert row["above"] == (None if high is None else len(above))
        assert row["saturated"] == len(below) + len(above)
        assert row["rate"] == ((len(below) + len(above)) / numbers if numbers else None)


@settings(deadline=None)
@given(
    values=st.lists(st.sampled_from([0.7, 0.8, 0.80078125, 1.0, 1.2, 1.203125, 1.3]), min_size=1, max_size=9)
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_what_is_counted_is_what_torch_clamps_and_whose_gradient_it_cuts(
    dtype: torch.dtype, values: list[float]
) -> None:
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    clamped = x.clamp(0.8, 1.2)
    clamped.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    monitor = ClampMonitor()
    monitor.watch_clamp("ratio", x, 0.8, 1.2)
    monitor.record("changed", clamped != x)
    monitor.watch_clamp("clamped", clamped, 0.8, 1.2)
    cut = int((x.grad == 0).sum()) / len(values)
    assert monitor.rates("ratio") == monitor.rates("changed") == [cut]
    assert monitor.rates("clamped") == [0.0]


def test_whole_numbers_and_single_ones_are_counted_too() -> None:
    monitor = ClampMonitor()
    for mask in (True, np.bool_(False), torch.tensor(True), [], [[True], [False]]):
        monitor.record("mask", mask)
    assert monitor.rates("mask") == [3 / 5]
    assert counted("int", (np.array([1, 5, 9], np.uint8), 2), (torch.tensor([1, 5]), 2, 6))["saturated"] == 2
    assert counted("list", ([0.1, 2], 0, 1.5))["above"] == 1


class _NoWaiting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what reads a tensor on the host, for which a GPU would be waited for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert "_local_scalar_dense" not in str(func)
        assert "_to_copy" not in str(func)
        return func(*args, **(kwargs or {}))


def test_no_call_waits_for_the_device_and_sums_are_right_in_every_mode() -> None:
    monitor = ClampMonitor()
    values = torch.tensor([0.0, 1.0, 2.0, math.nan], requires_grad=True)
    with _NoWaiting():  # type: ignore[no-untyped-call]
        for _ in range(_MOST_WINDOWS + 2):
            monitor.record("mask", values > 0)
            monitor.watch_clamp("values", values, high=1.5)
            monitor.step()
    with torch.inference_mode():
        monitor.record("mask", torch.tensor([True]))
    monitor.record("mask", torch.tensor([False]))
    assert monitor.rates("mask")[-1] == 0.5
    assert monitor.rates("values")[0] == pytest.approx(1 / 3)


def test_arrays_are_counted_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import numpy as np; from seedspread import ClampMonitor; "
        "m = ClampMonitor(); "
        "m.record('a', np.array([True, False])); m.watch_clamp('b', [0.5, 2.0], 0, 1); "
        "print(m.rates('a'), m.rates('b')); m.watch(object())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[0.5] [0.5]"
    assert "builtins.object cannot be watched" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("feed", "error", "words"),
    [
        (lambda m: m.record("x", torch.ones(3)), TypeError, r"'x': mask must be boolean.*watch_clamp"),
        (lambda m: m.record("x", [1, 0]), TypeError, "mask must be boolean"),
        (lambda m: m.record("x", "yes"), TypeError, "mask must be boolean"),
        (lambda m: m.record("x", [[True], []]), TypeError, "nested lists of one shape"),
        (lambda m: m.record("x", torch.ones(3, dtype=torch.bool, device="meta")), ValueError, "meta device"),
        (lambda m: m.record("", [True]), TypeError, "name must be a text"),
        (lambda m: m.record(0, [True]), TypeError, "name must be a text"),
        (lambda m: m.watch_clamp("x", [1.0]), ValueError, "give low, high or both"),
        (lambda m: m.watch_clamp("x", [1.0], 2, 1), ValueError, "low must not exceed high; got 2.0 and 1.0"),
        (lambda m: m.watch_clamp("x", [1.0], math.nan), ValueError, "low must be a number; got nan"),
        (lambda m: m.watch_clamp("x", [1.0], high=torch.ones(1)), TypeError, r"got Tensor.*record\(name, "),
        (lambda m: m.watch_clamp("x", [True], 0, 1), TypeError, r"real numbers; got bool; give a mask"),
        (
            lambda m: m.watch_clamp("x", torch.ones(2) * 1j, 0, 1),
            TypeError,
            "real numbers; got torch.complex64",
        ),
        (lambda m: m.watch_clamp("x", ["a"], 0, 1), TypeError, "real numbers"),
        (lambda m: m.watch_clamp("x", torch.ones(2, device="meta"), 0, 1), ValueError, "meta device"),
        (lambda m: ClampMonitor(every=0), ValueError, "every must be at least 1"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_one_line_and_leaves_no_trace(
    feed: Any, error: type[Exception], words: str
) -> None:
    monitor = ClampMonitor()
    with pytest.raises(error, match=words) as caught:
        feed(monitor)
    assert "\n" not in str(caught.value)
    assert monitor.names == []


@pytest.mark.parametrize(
    "loss",
    [
        metric_losses.ArcFaceLoss(num_classes=3, embedding_size=4),
        metric_losses.CosFaceLoss(num_classes=3, embedding_size=4),
        metric_losses.TripletMarginLoss(),
        metric_losses.SupConLoss(),
        nn.CrossEntropyLoss(),
        SupConLoss,
        lambda features, labels: features.sum(),
    ],
)
def test_a_loss_that_does_not_tell_what_it_cuts_is_refused_in_one_line(loss: Any) -> None:
    with pytest.raises(
        NotWatchableError, match=r"cannot be watched: .*SupConLoss.*record.*watch_clamp"
    ) as caught:
        ClampMonitor().watch(loss)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, SeedspreadError)
    named = loss.__qualname__ if isinstance(loss, type) else type(loss).__qualname__
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_time_passes_in_steps_and_epochs() -> None:
    monitor = ClampMonitor(every=2)
    for step in range(5):
        monitor.record("a", [step % 2 == 0, False])
        monitor.step()
    monitor.end_epoch()
    monitor.step()  # nothing was fed: no window
    monitor.record("b", [True])
    assert monitor.names == ["a", "b"]
    assert monitor.rates("a") == pytest.approx([0.25, 0.25, 0.5, math.nan], nan_ok=True)
    frame = monitor.to_frame()
    assert frame["step"].tolist() == [2, 4, 5, 6]
    assert frame["window"].tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"'aa' was never fed; names seen: 'a', 'b'.*'a'"):
        monitor.rates("aa")


@settings(deadline=None, max_examples=20)
@given(steps=st.integers(1, 5000), every=st.integers(1, 4))
def test_many_steps_are_kept_in_few_windows_and_nothing_is_lost(steps: int, every: int) -> None:
    monitor = ClampMonitor(every)
    for step in range(steps):
        monitor.record("x", step % 3 == 0)
        monitor.step()
    frame = monitor.to_frame()
    assert len(frame) <= _MOST_WINDOWS + 1
    assert frame["values"].sum() == steps
    assert frame["saturated"].sum() == len(range(0, steps, 3))
    ends = frame["step"].tolist()
    assert ends == sorted(set(ends))
    assert ends[-1] == steps
    assert frame["values"].tolist() == np.diff([0, *ends]).tolist()


def test_pairs_of_a_loss_stand_in_the_same_table() -> None:
    monitor = ClampMonitor()
    loss = monitor.watch(SupConLoss(margin=0.4))
    for _ in range(3):
        loss(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]))
        monitor.record("other", [True, False])
        monitor.step()
    frame = monitor.to_frame()
    pairs = frame[frame["name"] == "layer 0"]
    assert pairs["rate_is"].unique().tolist() == ["clamp activation rate"]
    assert pairs["values"].tolist() == pairs["saturated"].tolist() == [4, 4, 4]
    assert monitor.rates() == monitor.rates("layer 0") == [1.0] * 3
    assert monitor.layers == [0]
    with pytest.raises(ValueError, match=r"'layer 0' was counted as .* use a monitor for each run"):
        monitor.record("layer 0", [True])


def test_nothing_recorded_is_said() -> None:
    monitor = ClampMonitor()
    assert "Nothing was recorded" in str(monitor)
    assert monitor.to_frame().empty
    with pytest.raises(SeedspreadError, match="Nothing was recorded"):
        monitor.plot()


def test_the_table_has_a_row_for_each_name() -> None:
    monitor = ClampMonitor()
    for top in (2.0, 0.5, 0.5):
        monitor.watch_clamp("ratio", [0.0, top, -1.0, math.nan], -0.5, 1)
        monitor.step()
    monitor.record("mask", [False])
    lines = str(monitor).split("\n")
    assert lines[0] == "Saturation over 4 windows of time"
    assert lines[-2].split() == [
        "ratio",
        "out",
        "of",
        "bounds",
        "12",
        "66.67%",
        "33.33%",
        "66.67%",
        "3",
        "1",
        "3",
    ]
    assert lines[-1].split() == ["mask", "cut", "1", "0.00%", "0.00%", "0.00%", "-", "-", "-"]


def test_hostile_names_are_text_in_table_and_figure(tmp_path: Path) -> None:
    monitor = ClampMonitor()
    for _ in range(3):
        monitor.record(HOSTILE, [True, False])
        monitor.step()
    text = str(monitor)
    assert not set("\x1b\u202e\x00") & set(text)
    assert "[red]$x_{$" in text
    assert not set("\x1b\u202e\x00\n") & set(str(monitor.advice()))
    figure = monitor.plot(tmp_path / "made" / "rates.svg")
    drawn = (tmp_path / "made" / "rates.svg").read_text()
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
    assert not set("\x1b\u202e\x00") & set(drawn)
    assert figure.axes[0].lines[0].get_ydata().tolist() == [50.0] * 3  # type: ignore[union-attr]
    figure.savefig(tmp_path / "again.png")  # no name is taken for mathematics
    with pytest.raises(SeedspreadError, match=r"rates.txt .*\.pdf, \.svg, \.png"):
        monitor.plot(tmp_path / "rates.txt")


def test_there_is_advice_only_where_there_is_evidence() -> None:
    monitor = ClampMonitor()
    monitor.record("ratio", [True])
    advice = monitor.advice()
    assert advice.verdict == "not enough to say"
    assert "There is no evidence on 'ratio'" in str(advice)
    assert "rule of thumb" not in str(advice)
    pair = torch.zeros(2, dtype=torch.long)
    monitor.update(torch.ones(2, 3), pair, 0.4)
    both = monitor.advice()
    assert both.verdict == "try both"
    assert "There is no evidence on 'ratio'" in str(both)


def test_the_advice_quotes_the_paper_and_how_many_seeds_a_comparison_takes() -> None:
    text = str(advise(0.607, clamp=True))
    found, _ = paper_ratios()["cifar10"]
    assert f"{found.ratio:.1f}" == f"{PAPER_RATIO:.1f}"
    for ratio in (PAPER_RATIO, 3.0):
        (seeds, _) = seed_budget(ratio=ratio).values["seeds"]
        assert re.search(rf"\b{seeds}\b.* detect .*\b{ratio:g}\b", text)
    assert "rule of thumb is to switch to subtraction above 50%" in text


@pytest.mark.soak
def test_the_arcface_example_runs(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "arcface_monitor.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), "rates.svg"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("cosine", "angle to the own class", "gradient norm"):
        assert name in done.stdout
        assert name in (tmp_path / "rates.svg").read_text()
    assert "no evidence" in done.stdout
