"""`components` from tables and stores: columns, streams, refusals, forms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedspread import components
from seedspread.analysis.components import NO_NOISE, ComponentsResult
from seedspread.paper.values import published_table
from seedspread.tables.question import TableError


def paper() -> ComponentsResult:
    table = published_table()
    return components(
        table, "accuracy", "margin_type", "stability", by="setting", baseline="subtract", test_size=10_000
    )


def test_the_published_table_in_one_call() -> None:
    found = paper()
    assert [s.stratum for s in found.strata][:3] == [("cifar10",), ("cifar10-low",), ("cifar100",)]
    first, low, third = found.strata[:3]
    seeds, noise = first.comparisons[0].components
    assert seeds.key == "seed"
    assert seeds.variances == pytest.approx((0.896, 0.0), abs=5e-4)
    assert seeds.p < 0.05 < noise.p
    assert third.comparisons[0].components[0].variances == pytest.approx((0.0, 0.666), abs=5e-4)
    # One block only: a total, and nothing to compare.
    assert low.comparisons == ()
    assert low.groups[1].components == ()
    # a (1 - a) / N at the mean accuracy of all subtract runs, 78.53 %: above the variance within cells.
    subtract = first.groups[1]
    assert subtract.test_set_noise is not None
    assert subtract.test_set_noise.explained == pytest.approx(0.7851 * 0.2149, abs=2e-3)
    assert subtract.test_set_noise.explained > subtract.total


def test_the_same_bytes_in_every_form() -> None:
    one, two = paper(), paper()
    assert one.to_json() == two.to_json()
    fields = json.loads(one.to_json())
    contrast = fields["strata"][0]["comparisons"][0]["components"][0]
    assert (contrast["key"], contrast["ratio"], contrast["ratio_interval"]["high"]) == ("seed", None, None)
    assert "clamp: between seeds" in one.to_text()
    assert "| clamp: between seeds | 0.896 |" in one.to_markdown()
    assert "clamp: between seeds & 0.896 &" in one.to_latex()
    rows = one.to_frame()
    assert len(rows) == sum(len(group.components) for stratum in one.strata for group in stratum.groups)
    assert rows["component"][0] == "seed"
    assert rows["variance"][0] == one.strata[0].groups[0].components[0].variance


def crossed() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = [(i, j) for i in range(6) for j in range(5)]
    a, b = rng.normal(0, 3, 6), rng.normal(0, 2, 5)
    return pd.DataFrame({"init": i, "order": j, "loss": a[i] + b[j] + rng.normal()} for i, j in rows)


def test_streams_are_crossed_random_factors() -> None:
    """Balanced and without repeats: the analysis of variance of two crossed factors."""
    table = crossed()
    (group,) = components(table, "loss", source=["init", "order"]).strata[0].groups
    assert group.group == "all runs"
    cube = table["loss"].to_numpy().reshape(6, 5)
    rows, columns = cube.mean(axis=1) - cube.mean(), cube.mean(axis=0) - cube.mean()
    noise = ((cube - cube.mean() - rows[:, None] - columns) ** 2).sum() / 20
    expected = {
        "init": (5 * (rows**2).sum() / 5 - noise) / 5,
        "order": (6 * (columns**2).sum() / 4 - noise) / 6,
        "noise": noise,
    }
    assert {c.key: c.variance for c in group.components} == pytest.approx(expected, rel=1e-6)
    assert "do only together counts as noise" in group.note


def stored(driven: dict[str, list[float]], whole: list[float] | None = None) -> pd.DataFrame:
    """A store's table: studies that drive one stream each, beside one that drives all."""
    rows = [
        {"score": value, "seed": k, "seeds.run": 0, f"seeds.{stream}": k}
        for stream, values in driven.items()
        for k, value in enumerate(values, 1)
    ]
    rows += [{"score": v, "seed": k, "seeds.run": k} for k, v in enumerate(whole or [], 1)]
    return pd.DataFrame(rows)


def test_runs_of_a_store_know_which_streams_were_driven(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    init, order = rng.normal(0, 5, 8), rng.normal(0, 1, 8)
    (group,) = components(stored({"init": list(init), "order": list(order)}), "score").strata[0].groups
    assert {c.key: c.variance for c in group.components} == pytest.approx(
        {"init": init.var(ddof=1), "order": order.var(ddof=1)}, rel=1e-5
    )
    stored({"init": list(init), "order": list(order)}).to_csv(tmp_path / "runs.csv", index=False)
    (read,) = components(tmp_path / "runs.csv", "score").strata[0].groups  # whose cells are empty texts
    assert [c.variance for c in read.components] == pytest.approx([c.variance for c in group.components])
    # Where all streams have one seed there is one component, whatever they are called.
    (group,) = components(stored({}, list(init)), "score").strata[0].groups
    assert group.components == ()
    assert group.total == pytest.approx(init.var(ddof=1))


def test_a_store_with_every_stream_alone_and_together_tells_its_noise() -> None:
    """The whole seed's effect is the sum of its streams', so that what is left over is noise."""
    rng = np.random.default_rng(0)
    streams = ("init", "order", "augment", "probe")
    effects = {name: rng.normal(0, sd, 11) for name, sd in zip(streams, (4, 2, 1, 3), strict=True)}

    def run(**seeds: int) -> float:
        return sum(float(effects[name][seeds.get(name, 0)]) for name in streams) + 0.05 * rng.normal()

    alone = {name: [run(**{name: k}) for k in range(1, 11)] for name in streams}
    together = [run(**dict.fromkeys(streams, k)) for k in range(1, 11)]
    (group,) = components(stored(alone, together), "score").strata[0].groups
    found = {c.key: c.variance for c in group.components}
    assert 0.05**2 / 3 < found.pop("noise") < 0.05**2 * 3
    assert found == pytest.approx({n: effects[n][1:].var(ddof=1) for n in streams}, rel=0.05)
    assert "assuming that the sources add up" in group.note


def test_runs_that_vary_the_probe_alone_have_no_noise() -> None:
    """Alone they have a total, which is all the probe's; beside others they add what they have."""
    rng = np.random.default_rng(7)
    init, probe = list(rng.normal(0, 3, 8)), list(rng.normal(0, 1, 8))
    (group,) = components(stored({"probe": probe}), "score").strata[0].groups
    assert group.total == pytest.approx(np.var(probe, ddof=1))
    assert NO_NOISE in group.note
    (group,) = components(stored({"init": init, "probe": probe}), "score").strata[0].groups
    assert {c.key: c.variance for c in group.components} == pytest.approx(
        {"init": np.var(init, ddof=1), "probe": np.var(probe, ddof=1)}, rel=1e-5
    )


@pytest.mark.parametrize("stream", ["order", "probe"])
def test_a_stream_that_makes_no_difference_has_no_variance(stream: str) -> None:
    rng = np.random.default_rng(7)
    init, same = list(rng.normal(0, 3, 8)), [1.0, 1.0, 1.0]
    (group,) = components(stored({"init": init, stream: same}), "score").strata[0].groups
    assert group.total == pytest.approx(np.var(init, ddof=1))
    assert (group.runs, group.seeds) == (11, 11)
    assert f"runs that vary {stream} alone hardly differ" in group.note
    augment = list(rng.normal(0, 1, 8))
    (group,) = components(stored({"init": init, "augment": augment, stream: same}), "score").strata[0].groups
    assert {c.key: c.variance for c in group.components} == pytest.approx(
        {"init": np.var(init, ddof=1), "augment": np.var(augment, ddof=1), stream: 0.0}, rel=1e-5
    )
    assert f"runs that vary {stream} alone hardly differ" in group.sentence
    # Beside whole seeds, in which it cannot be told from what the others do together.
    (group,) = components(stored({"init": init, stream: same}, [*augment, 0.5]), "score").strata[0].groups
    assert all(np.isfinite(c.variance) for c in group.components)
    (group,) = components(stored({"init": init, stream: augment}, same), "score").strata[0].groups
    assert all(np.isfinite(c.variance) for c in group.components)


def test_runs_of_several_encoders_have_their_noise() -> None:
    """A probe seed that is set, or that recurs on a second encoder, is not the only thing that differs."""
    rng = np.random.default_rng(8)
    seeds = np.repeat(np.arange(1, 9), 2)
    fixed = pd.DataFrame({"seed": seeds, "seeds.run": seeds, "seeds.probe": 0, "b": ["x", "y"] * 8})
    fixed["score"] = rng.normal(0, 2, 9)[seeds] + rng.normal(0, 1, 16)
    (group,) = components(fixed, "score", block="b").strata[0].groups
    assert [c.key for c in group.components] == ["init + order + augment", "noise"]
    assert NO_NOISE not in group.note
    alone = stored({"init": list(rng.normal(0, 3, 8)), "probe": list(rng.normal(0, 0.3, 8))})
    shifted = alone.assign(score=alone["score"] + rng.normal(0, 0.5, 16))
    both = pd.concat([alone.assign(b="x"), shifted.assign(b="y")], ignore_index=True)
    (group,) = components(both, "score", block="b").strata[0].groups
    assert group.components[0].key == "init"
    assert group.components[0].share > 0.5


def test_a_store_that_has_only_begun_is_split_as_far_as_it_goes() -> None:
    (group,) = components(stored({"probe": [3.0, 3.1, 3.2]}, [4.0]), "score").strata[0].groups
    assert group.total == pytest.approx(0.01)
    rng = np.random.default_rng(9)
    tiny = stored(
        {"init": list(rng.normal(size=6)), "order": list(rng.normal(size=6)), "probe": [0.1 + 0.2, 0.3, 0.3]}
    )
    (group,) = components(tiny, "score").strata[0].groups
    assert {c.key: c.variance for c in group.components}["probe"] == 0


def test_missing_runs_are_left_out_and_said() -> None:
    table = crossed()
    table.loc[3, "loss"] = np.nan
    found = components(table, "loss", source=["init", "order"])
    assert found.rows == 29
    assert any(note.startswith("1 run ") for note in found.notes)


def test_refusals_are_one_line() -> None:
    table = crossed()
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "has no column 'seed'; name it with seed=..."),
        ({"source": ["innit"]}, "'init'"),
        ({"seed": "init", "group": "arm"}, "'arm'"),
        ({"seed": "init", "level": 2.0}, "got 2"),
        ({"seed": "init", "test_size": 1}, "test_size must be at least 2"),
    )
    for options, said in wrong:
        with pytest.raises(TableError) as caught:
            components(table, "loss", **options)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(TableError, match="'score'"):
        components(table, "score", seed="init")
    many = pd.DataFrame({"seed": np.arange(2000) % 50, "score": np.arange(2000.0)})
    with pytest.raises(TableError, match="for 1,500 at most: split them with by="):
        components(many, "score")
    table["seed"] = ""
    with pytest.raises(TableError, match="has no seed; fill it in"):
        components(table, "loss")


def test_three_arms_are_compared_pair_by_pair_or_with_a_baseline() -> None:
    rng = np.random.default_rng(9)
    table = pd.DataFrame(
        {"arm": arm, "seed": s, "block": b, "y": rng.normal()}
        for arm in "xyz"
        for s in range(5)
        for b in "pq"
    )
    pairs = components(table, "y", "arm", "block").strata[0].comparisons
    assert [(c.group, c.baseline) for c in pairs] == [("y", "x"), ("z", "x"), ("z", "y")]
    pairs = components(table, "y", "arm", "block", baseline="x").strata[0].comparisons
    assert [(c.group, c.baseline) for c in pairs] == [("y", "x"), ("z", "x")]


def test_more_pairs_than_anyone_reads_are_refused() -> None:
    table = pd.DataFrame(
        {"g": np.repeat(np.arange(100), 2), "seed": np.tile([1, 2], 100), "v": np.arange(200.0)}
    )
    with pytest.raises(TableError, match=r"g has 100 levels, 4,950 comparisons .* baseline='0'"):
        components(table, "v", "g")
