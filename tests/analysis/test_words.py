"""Sentences about results: what they say, and that they say no more than what is shown."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from seedspread import audit, compare, seed_budget
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.components import compare_splits, split
from seedspread.analysis.words import (
    asides,
    claim,
    copies_note,
    detail_lines,
    devices_note,
    ends,
    failure_rates,
    failure_signs,
    failures_lead,
    listed,
    look_title,
    looks_note,
    many_groups_sentence,
    means_sentence,
    next_steps,
    noise_sentence,
    opposed_runs,
    plural,
    repeated_notes,
    signed,
    title_of,
    title_of_many,
    two,
    unlike_sentence,
)
from seedspread.paper.values import published_table
from seedspread.stats.classic import mean_difference
from seedspread.stats.components import Sample
from seedspread.stats.failures import failures
from seedspread.stats.groups import Group, same_seed_runs, unequal_cells
from seedspread.stats.result import (
    Better,
    Doubt,
    Estimate,
    FailureModel,
    InterimLook,
    Interval,
    ManyGroups,
)
from seedspread.stats.seed_summaries import noise_from_accuracies, noise_from_predictions
from tests.analysis.made import NEW, OLD, runs
from tests.stats.groups import group_of, paper_groups

SOUND = [60.0, 61.2, 62.1, 60.7, 63.0, 61.9, 62.6, 60.3]
HIGHER: Better = "higher"
LOWER: Better = "lower"


def failed(x: Group, y: Group, chance: float | None = None) -> FailureModel:
    model = failures(x, y, "higher", chance, 0.95, 100.0)
    assert model is not None
    return model


RNG = np.random.default_rng(5)
WIDE, NARROW = 4 * RNG.normal(size=20), RNG.normal(size=20)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0941, "0.094"), (1.0, "1.0"), (6.84, "6.8"), (9.96, "10"), (49.6, "50"), (137.0, "140"), (0.0, "0"),
     (15132.0, "15,000"), (float("inf"), "∞"), (None, "-"), (4e-7, "4.0e-07")],
)  # fmt: skip
def test_ratios_have_two_digits(value: float | None, said: str) -> None:
    assert two(value) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1.5, 50.0, "1.5 to 50"), (1.02, 3.9, "1.02 to 3.9"), (0.3, 0.996, "0.30 to 0.996"),
     (1.0, 1.0, "1.0 to 1.0")],
)  # fmt: skip
def test_an_interval_shows_on_which_side_of_1_it_ends(low: float, high: float, said: str) -> None:
    assert ends(Interval(low, high, 0.95)) == said


def test_differences_have_a_sign() -> None:
    assert [signed(x) for x in (-0.031, 0.0, 2.5)] == ["−0.031", "0", "+2.5"]


@pytest.mark.parametrize(
    ("better", "shift", "said"),
    [
        (HIGHER, 9.0, "a is better: +9"),
        (LOWER, 9.0, "a is worse: +9"),
        (HIGHER, -9.0, "a is worse: −9"),
        (LOWER, -9.0, "a is better: −9"),
        (HIGHER, 0.0, "no clear difference: "),
    ],
)
def test_the_sentence_says_better_rightly(better: Better, shift: float, said: str) -> None:
    centered = NARROW - NARROW.mean()
    means = mean_difference(group_of(WIDE - WIDE.mean() + shift), group_of(centered, name="b"), 0.95)
    assert means_sentence("a", means, better).startswith(said)


def test_of_single_runs_neither_is_better() -> None:
    single = mean_difference(group_of([1.0]), group_of([2.0, 3.0], name="b"), 0.95)
    same = mean_difference(group_of(NARROW), group_of(NARROW, name="b"), 0.95)
    neither = means_sentence("a", same, HIGHER).partition(":")[0]
    assert means_sentence("a", single, HIGHER) == f"{neither}: −1.5"


def failing(**groups: Sequence[float | None]) -> Comparison:
    return audit(table_of(**groups), "y", "arm", "old").comparisons[0]


def test_failures_are_a_line_of_their_own_that_leads_only_if_rates_differ() -> None:
    """One crash per group changes no verdict; one group that mostly crashes comes first."""
    rng = np.random.default_rng(3)
    wide, narrow = list(6 * rng.normal(size=9)), list(rng.normal(size=9))
    without = failing(new=wide, old=narrow)
    c = failing(new=[*wide, None], old=[*narrow, None])
    assert (c.word, c.headline.p) == (without.word, without.headline.p)
    assert c.word == "YES"
    (said,) = [line for label, line in asides(c) if label == "Failures"]
    assert said.startswith(
        "1 of 10 seeds of new failed vs 1 of 10 of old (p = 1.000, rate +0.0 points (95% CI "
    )
    assert said.endswith("; the verdict is about the successful runs")
    assert not failures_lead(c)
    assert failures_lead(failing(new=[*wide[:5], *[None] * 6], old=[*narrow, None]))


def test_words_tell_failures_from_clusters() -> None:
    clamp, subtract = paper_groups("svhn-hard")
    found = failed(clamp, subtract)
    assert found.kind == "clusters"
    c = replace(failing(new=SOUND, old=SOUND), failures=found)
    assert not any("fail" in line for line in (failure_rates(c), *failure_signs(c)))


def test_failures_are_told_with_their_signs() -> None:
    c = failing(new=SOUND, old=SOUND)
    assert not failure_signs(c)
    x, y = group_of([10.2, 60, 61, 62]), group_of([60.0, 61, 62, 63], name="b")
    bad = replace(x, failed=np.array([0, 1, 0, 0], bool), crashed=np.array([6, 7]))
    assert failure_signs(replace(c, failures=failures(bad, y, "higher", 10.0, 0.95, 100.0))) == [
        "1 of 4 a runs are flagged as collapsed; 2 a seeds have a run without a value; 1 of 4 a runs score "
        "no better than 10, which takes no learning, or hardly better."
    ]
    one = failures(replace(group_of(SOUND, name="2"), crashed=np.array([9])), y, "higher", None, 0.95, 100.0)
    assert failure_signs(replace(c, failures=one, factor="depth")) == [
        "1 depth = 2 seed has a run without a value."
    ]


def test_a_negative_remainder_is_said_to_be_one() -> None:
    floor = noise_from_predictions("a", np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool))
    assert floor.remaining is not None
    assert floor.remaining < 0
    assert "below zero" in noise_sentence(floor)


def test_a_floor_that_is_a_bound() -> None:
    floor = noise_from_accuracies("a", np.array([80.0, 80, 80, 80.4, 79.6]), 10_000, 100.0)
    assert noise_sentence(floor, "depth = 2") == (
        "depth = 2's variance of 0.08 is no larger than what 10,000 test examples account for by chance "
        "(0.16)"
    )
    wide = noise_from_accuracies("a", np.array([70.0, 80, 90]), 10_000, 100.0)
    assert noise_sentence(wide) == "10,000 test examples account for at most 0.16 of a's variance of 100"


def test_unlike_cells_are_named() -> None:
    scales, like = np.array([0.15, 3.0, 120.0])[:, None], np.random.default_rng(11).normal(size=(2, 3, 8))
    x, y = group_of(*(scales * like[0]), name="clamp"), group_of(*(2 * scales * like[1]), name="2")
    sentence = unlike_sentence(unequal_cells(x, y), "depth")
    low, high = (c.var(ddof=1) for c in (x.cells[0], x.cells[2]))
    assert f"the variance of clamp goes from {low:.3g} (0) to {high:.3g} (2)" in sentence
    assert "; the variance of depth = 2 goes from" in sentence
    assert "--by" in sentence


def test_a_look_is_one_of_so_many() -> None:
    assert look_title(InterimLook((8, 12, 16), 2, 1.0)) == "interim look 2 of at most 3"


@cache
def published(setting: str = "cifar10") -> Comparison:
    table = published_table()
    table = table[table["setting"] == setting]
    return audit(table, "accuracy", "margin_type", "subtract", "stability").comparisons[0]


def table_of(**arms: Sequence[float | None]) -> pd.DataFrame:
    rows = [{"arm": arm, "seed": k, "y": y} for arm, values in arms.items() for k, y in enumerate(values)]
    return pd.DataFrame(rows)


def verdict_of(new: list[float], old: list[float]) -> str:
    return audit(table_of(new=new, old=old), "y", "arm", "old").comparisons[0].verdict


def test_a_verdict_has_the_answer_first_and_then_how_sure_it_is() -> None:
    c = published()
    assert c.verdict == (
        "YES: clamp spreads more across seeds; variance ×6.8 (95% CI 1.5 to 50), sd ×2.6, p = 0.018."
    )
    said = dict(asides(c))
    assert c.means is not None
    assert said["Means"] == means_sentence("clamp", c.means, c.better)
    assert said["Power"].startswith("7 seeds reliably detect only ratios above ")
    assert said["Caution"] == (
        "same-seed runs of clamp agree (r = 0.81): seeds are counted, not runs; pooling all runs would "
        "claim ×5.9, p = 0.003"
    )
    assert any("Raw variance ratio: 8.2." in line for line in detail_lines(c))
    assert replace(c, word="NO").verdict.startswith("NO: the spread differs by less than 2x, either way; ")


def test_a_ratio_is_that_of_the_group_over_its_baseline_everywhere() -> None:
    c = published("fashion-mnist")
    assert c.headline.ratio is not None
    assert c.headline.interval is not None
    assert c.headline.ratio < 1
    assert f"clamp may spread less across seeds; variance ×{two(c.headline.ratio)}" in c.verdict
    assert f"CI {two(c.headline.interval.low)} to {two(c.headline.interval.high)}" in c.verdict


def test_a_doubt_says_what_carries_the_answer() -> None:
    seed = Doubt("seed", "5", "clamp", 1.2)
    scale = Doubt("scale", "logit", ratio=1.2)
    yes = "clamp spreads more across seeds, but "
    for doubt, said in (
        (seed, "seed 5 of clamp alone accounts for it"),
        (scale, "not on the logit scale (variance ×1.2)"),
    ):
        assert claim(replace(published(), word="MAYBE", doubts=(doubt,))) == yes + said


def test_many_groups_are_one_sentence() -> None:
    sd = Estimate(0.0094, Interval(0.0082, 0.011, 0.95))
    many = ManyGroups(12, 0.789, "CAN'T TELL", 2.0, sd)
    fits = "one sd fits all 12 groups (p = 0.789): 0.00940 (95% CI 0.00820 to 0.0110)"
    assert many_groups_sentence(many) == f"{fits}; some may still differ by 2x"
    assert many_groups_sentence(replace(many, word="NO")) == f"{fits}; their variances differ by less than 2x"
    apart = replace(many, word="YES", p=0.001)
    assert many_groups_sentence(apart) == "the 12 groups do not share one sd, p = 0.001"


def test_one_comparison_of_several_says_how_many_it_is_adjusted_for() -> None:
    assert published().verdict.endswith("p = 0.018.")
    assert replace(published(), family=4).verdict.endswith("p = 0.018, adjusted for 4 comparisons.")


def test_groups_in_different_blocks_are_said_to_be_mixed() -> None:
    assert any("not run in the same blocks" in line for line in published("cifar10-low").warnings)


def test_a_device_without_a_name_is_said_to_be_unrecorded() -> None:
    (note,) = devices_note({"NVIDIA A100": 2, "": 2})
    assert "unlike devices (2 on NVIDIA A100, 2 on a device that was not recorded)" in note


def test_no_spread_is_a_sentence() -> None:
    assert "all values of old are equal" in verdict_of([1.0, 2, 3], [5.0, 5, 5])
    assert "neither group has any spread" in verdict_of([2.0, 2, 2], [5.0, 5, 5])
    assert "1 and 3 seeds cannot show" in verdict_of([1.0], [1.0, 2.0, 3.0])
    assert verdict_of([1.0, 2], [1.0, 5]).startswith("CAN'T TELL: 2 seeds per group cannot show")
    same = [1.0, 4.0, 2.0, 5.0, 3.0, 2.5]
    assert verdict_of(same, same) == (
        "CAN'T TELL: the two groups have identical values; in this sample: variance ×1.0, sd ×1.0."
    )


def test_probabilities_are_details_under_two_priors() -> None:
    c = published()
    h = c.headline
    assert h.shrunken is not None
    assert h.above_1 is not None
    assert "robability" not in c.verdict
    assert (
        "Probability that clamp has the larger variance: > 0.99; more than twice as large: 0.94."
        in detail_lines(c)
    )
    assert any("skeptical prior, N(0, 1) on the log ratio: 0.97 and 0.79" in line for line in detail_lines(c))
    assert 1 < h.shrunken.ratio < (h.ratio or 0)
    assert h.shrunken.above_1 < h.above_1


@pytest.mark.parametrize(
    ("by", "said"),
    [(("Dataset",), "datasets"), (("task",), "tasks"), (("data",), "datasets"), (("category",), "categories"),
     (("a", "b"), "settings")],
)  # fmt: skip
def test_levels_are_called_as_their_column(by: tuple[str, ...], said: str) -> None:
    assert plural(by) == said


def test_copies_are_called_copies() -> None:
    rows = table_of(new=list(RNG.normal(size=6)), old=list(RNG.normal(size=6)))
    twice = pd.concat([rows.assign(mode="x"), rows.assign(mode="y")])
    warnings = audit(twice, "y", "arm", "old", "mode").comparisons[0].warnings
    assert any("6 of 6 seeds of new have equal values in all blocks: copies" in w for w in warnings)
    assert copies_note(16, 16, "B", "A") == (
        "All 16 runs of B have the setting, seed and value of a run of A: they are copies, or repeat it to "
        "the last digit, and are no further evidence."
    )


def test_components_say_where_the_effect_sits() -> None:
    first, second = (
        split(Sample(g.name, g.values, g.blocks, {"seed": g.seeds}), 0.95) for g in paper_groups("cifar10")
    )
    found = compare_splits("", first, second, 0.95)
    assert found is not None
    assert found.sentence == (
        "clamp vs subtract: the difference lies between seeds (p = 0.011), not in same-seed noise "
        "(p = 0.543)."
    )
    seeds = np.array([0, 1, 2, 0, 1, 2])
    for values, blocks, said in (
        ([1.0, 2, 4, 1, 2, 4], [0, 0, 0, 1, 1, 1], "Runs of equal seeds are equal in all blocks: copies"),
        ([3.0] * 6, [0] * 6, "no variance to split"),
    ):
        sample = Sample("a", np.array(values), np.array(blocks), {"seed": seeds})
        assert said in split(sample, 0.95).group.sentence


def test_sets_are_asked_two_questions() -> None:
    found = compare(OLD, NEW, value="score", group="arm", baseline="a")
    assert found.answer.startswith("Did the spread change? MAYBE: 2 of 2: ")
    assert (
        "Do the sets agree? CAN'T TELL: b vs a, the ratio in B is 3.0 times that in A (95% CI "
        in found.answer
    )
    assert any("as if they were independent" in note for note in found.notes)
    flat = OLD.assign(score=OLD["score"].where(OLD["arm"] == "b", 0.8))
    untested = compare(flat, NEW, value="score", group="arm", baseline="a").agreements[0].verdict
    assert untested == "no ratio with an interval in A"
    more = compare(OLD, runs({"a": 1, "b": 2, "d": 1}), value="score", group="arm", baseline="a")
    assert "Only in B: arm = d." in more.notes
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_repeated_runs_are_named() -> None:
    (note,) = repeated_notes({(("2",), "a"): ("1",)}, "arm", ["margin"])
    assert note.startswith("margin = 2 has the runs of a that margin = 1 has: ")


def test_looks_are_counted() -> None:
    looks = InterimLook((8, 12, 16, 20), 3, 1.0)
    which = look_title(looks).capitalize()
    assert looks_note(looks).startswith(
        f"{which}, at 8, 12, 16 of at most 20 seeds per group: the headline's p"
    )


def test_opposed_runs_are_a_warning_of_the_audit() -> None:
    """A seed above the mean of one block lies below that of the other."""
    x = np.random.default_rng(8).normal(80, 1, 8)
    blocks = [x, 160.3 - x + np.random.default_rng(9).normal(0, 0.3, 8)]
    pairs = same_seed_runs(group_of(*blocks))
    assert pairs is not None
    assert re.match(r"Same-seed runs of a are opposed \(r = −0\.9\d, p < 0\.001\)", opposed_runs(pairs, "a"))
    table = pd.DataFrame(
        [
            {"group": g, "block": b, "seed": s, "score": v}
            for g, cells in (("new", blocks), ("old", [x, np.roll(x, 1)]))
            for b, values in enumerate(cells)
            for s, v in enumerate(values)
        ]
    )
    found = audit(table, value="score", group="group", baseline="old", block="block").comparisons[0].warnings
    assert [line for line in found if "are opposed" in line] == [opposed_runs(pairs, "new")]


def test_a_verdict_has_its_color_on_a_terminal_and_none_elsewhere() -> None:
    result = audit(table_of(new=list(WIDE), old=list(NARROW)), "y", "arm", "old")
    colored, plain = result.to_text(color="standard"), result.to_text()
    assert f"\x1b[1;32m  YES         \x1b[0m{claim(result.comparisons[0])}" in colored
    assert "\x1b" not in plain


def test_a_title_is_the_verdict_with_its_ratio() -> None:
    (c,) = audit(published_table().query("setting == 'cifar10'"), "accuracy", "margin_type", "subtract",
                 "stability").comparisons  # fmt: skip
    assert title_of(c) == "Yes: clamp spreads more, variance ×6.8 (1.5 to 50)"
    assert title_of(replace(c, word="MAYBE")).startswith("Maybe: clamp spreads more, ")
    assert title_of(replace(c, word="CAN'T TELL")).startswith("Can't tell: 7 seeds do not settle it, ")
    assert title_of(replace(c, word="NO")).startswith("No: the spread differs by less than 2x, ")
    unsettled = replace(c, word="CAN'T TELL")
    assert title_of_many([c, unsettled, unsettled]) == "Yes in 1 of 3 comparisons, can't tell in 2"
    (step,) = next_steps([c])
    assert step == "For a mean that is equally sure, clamp takes about 6.8 times as many seeds as subtract."
    (step,) = next_steps([unsettled])
    assert step.startswith("Add seeds: a variance ratio of 6.8 takes about ")
    assert step.endswith("per group to detect (power 0.8). More: seedspread seeds --ratio 6.8")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sd": 0.5, "difference": 0.5}, "17 seeds per group detect a difference of 0.5 with power 0.81,"),
        ({"ratio": 4.0}, "21 seeds per group detect a variance ratio of 4 (sd ×2) with power 0.81."),
        ({"sd": 0.5, "se": 0.1}, "25 seeds give a mean with a standard error of 0.1, if the sd is 0.5."),
    ],
)  # fmt: skip
def test_a_seed_budget_begins_with_its_answer(asked: dict[str, float], said: str) -> None:
    assert seed_budget(**asked).text.startswith(said)  # type: ignore[arg-type]
