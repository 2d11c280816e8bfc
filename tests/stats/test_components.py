"""Variance components against R's lme4, statsmodels, analyses of variance and direct optimisation.

The data sets are those of lme4's documentation: Dyestuff, Penicillin and Pastes from O. L. Davies and P. L.
Goldsmith, Statistical Methods in Research and Production (1972), Dyestuff2 from G. Box and G. Tiao, Bayesian
Inference in Statistical Analysis (1973).
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy import optimize, stats
from statsmodels.formula.api import mixedlm

from seedspread.analysis.components import NO_NOISE, GroupComponents, Split, compare_splits, split
from seedspread.analysis.words import NO_VARIANCE, NOT_REPEATED
from seedspread.stats.components import NOISE, SEED, TOGETHER, Dense, Sample, Spectral, design
from seedspread.stats.groups import Floats, Ints
from tests.stats.groups import paper_groups

DYESTUFF = (
    "1545 1440 1440 1520 1580 1540 1555 1490 1560 1495 1595 1550 1605 1510 1560 "
    "1445 1440 1595 1465 1545 1595 1630 1515 1635 1625 1520 1455 1450 1480 1445"
)
DYESTUFF2 = (
    "7.298 3.846 2.434 9.566 7.99 5.22 6.556 0.608 11.788 -0.892 0.11 10.386 13.434 5.51 8.166 "
    "2.212 4.852 7.092 9.288 4.98 0.282 9.014 4.458 9.446 7.198 1.722 4.782 8.106 0.758 3.758"
)
# 24 plates, 6 samples on each.
PENICILLIN = (
    "27 23 26 23 23 21 27 23 26 23 23 21 25 21 25 24 24 20 26 23 25 23 23 20 25 22 26 22 23 20 24 22 "
    "25 23 22 19 24 20 23 21 22 19 26 22 26 24 24 21 24 21 24 22 22 20 24 21 24 23 22 19 26 23 26 24 "
    "24 21 25 22 26 24 24 20 26 24 26 24 25 22 26 23 26 23 23 20 26 23 25 24 24 22 25 22 25 23 23 20 "
    "25 21 24 23 23 20 25 22 24 23 23 19 24 21 23 21 21 19 26 23 26 24 24 21 25 21 24 22 22 18 25 22 "
    "25 22 22 20 24 21 24 22 24 19 24 21 24 22 21 18"
)
# 10 batches, 3 casks of each, 2 measurements of each.
PASTES = (
    "62.8 62.6 60.1 62.3 62.7 63.1 60 61.4 57.5 56.9 61.1 58.9 58.7 57.5 63.9 63.1 65.4 63.7 57.1 "
    "56.4 56.9 58.6 64.7 64.5 55.1 55.1 54.7 54.2 58.8 57.5 63.4 64.9 59.3 58.1 60.5 60 62.5 62.6 61 "
    "58.7 56.9 57.7 59.2 59.4 65.2 66 64.8 64.1 54.8 54.8 64 64 57.7 56.8 58.3 59.3 59.2 59.2 58.9 "
    "56.6"
)


def numbers(text: str) -> Floats:
    return np.array(text.split(), dtype=float)


def sample(values: ArrayLike, cells: ArrayLike | None = None, **factors: ArrayLike) -> Sample:
    y = np.asarray(values, dtype=float)
    blocks = np.zeros(len(y), np.intp) if cells is None else np.asarray(cells, dtype=np.intp)
    return Sample("a", y, blocks, {name: np.asarray(codes, np.intp) for name, codes in factors.items()})


def batches(text: str = DYESTUFF) -> Sample:
    return sample(numbers(text), seed=np.repeat(np.arange(6), 5))


def penicillin(kept: Ints | slice = slice(None)) -> Sample:
    plate, column = np.divmod(np.arange(144), 6)
    return sample(numbers(PENICILLIN)[kept], plate=plate[kept], sample=column[kept])


UNBALANCED = np.setdiff1d(np.arange(144), np.arange(0, 144, 7))  # R's Penicillin[-seq(1, 144, by = 7), ]


def variances(found: Split) -> dict[str, float]:
    return {c.key: c.variance for c in found.group.components}


# lme4 1.1-31: as.data.frame(VarCorr(lmer(Yield ~ 1 + (1 | Batch), Dyestuff, control = lmerControl(optimizer =
# "bobyqa", optCtrl = list(rhoend = 1e-10)))))$vcov, and so on; its default stops earlier.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (batches(), {"seed": 1764.050, "noise": 2451.250}),
        (batches(DYESTUFF2), {"seed": 0.0, "noise": 13.80630963}),
        (penicillin(), {"plate": 0.7169083, "sample": 3.7309190, "noise": 0.3024154}),
        (penicillin(UNBALANCED), {"plate": 0.6585619, "sample": 3.7069514, "noise": 0.3311462}),
        (
            sample(numbers(PASTES), batch=np.arange(60) // 6, cask=np.arange(60) // 2),
            {"batch": 1.6573091, "cask": 8.4336666, "noise": 0.6780000},
        ),
        (
            # Dyestuff[-c(1, 2, 7, 30), ]
            sample(
                np.delete(numbers(DYESTUFF), [0, 1, 6, 29]),
                seed=np.delete(np.repeat(np.arange(6), 5), [0, 1, 6, 29]),
            ),
            {"seed": 1565.705982, "noise": 2539.587798},
        ),
    ],
)
def test_they_are_those_of_lme4(data: Sample, expected: dict[str, float]) -> None:
    assert variances(split(data, 0.95)) == pytest.approx(expected, rel=2e-6)


# In R, by optimize, optim and uniroot on the restricted likelihood written out with solve and determinant;
# lme4's own confint profiles the unrestricted likelihood: its sigma^2 of Dyestuff is 1461.53 to 4577.56 too.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (batches(), ((245.1478, 10214.361), (1461.542, 4577.561))),
        (batches(DYESTUFF2), ((0.0, 6.320314), (8.593719, 24.241037))),
        (penicillin(UNBALANCED), ((0.3614333, 1.3061796), (1.3147193, 17.662124), (0.2520846, 0.4470196))),
    ],
)
def test_intervals_are_the_profiles(data: Sample, expected: tuple[tuple[float, float], ...]) -> None:
    for component, ends in zip(split(data, 0.95).group.components, expected, strict=True):
        assert component.interval is not None
        assert (component.interval.low, component.interval.high) == pytest.approx(ends, rel=2e-5)


def test_balanced_and_unbalanced_designs_go_their_own_way_to_one_likelihood() -> None:
    """Eigenvalues where matrices commute, whole matrices elsewhere: the same numbers."""
    made = design(penicillin())
    assert made is not None
    assert isinstance(made.likelihood, Spectral)
    assert isinstance(getattr(design(penicillin(UNBALANCED)), "likelihood", None), Dense)
    plate, column = np.divmod(np.arange(144), 6)
    contrasts = np.linalg.qr(np.ones((144, 1)), mode="complete")[0][:, 1:]
    z = [contrasts.T @ (codes[:, None] == np.unique(codes)) for codes in (plate, column)]
    w = contrasts.T @ numbers(PENICILLIN) / made.scale
    dense = Dense(np.stack([*(x @ x.T for x in z), np.eye(143)]), w)
    theta = np.array([[0.3, 1.0, 0.2], [0.0, 0.5, 1.0], [2.0, 0.0, 0.1]])
    for one, other in zip(dense.at(theta), made.likelihood.at(theta), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore")  # statsmodels warns at the boundary
def test_seeds_that_lack_blocks_give_what_statsmodels_gives() -> None:
    rng = np.random.default_rng(3)
    seeds, blocks = np.divmod(np.delete(np.arange(30), [0, 4, 8, 17]), 3)
    values = rng.normal(0, 2, 10)[seeds] + blocks + rng.normal(0, 1, len(seeds))
    table = pd.DataFrame({"y": values, "seed": seeds, "block": blocks})
    fitted = mixedlm("y ~ C(block)", table, groups="seed").fit(reml=True, tol=1e-12)
    ours = variances(split(sample(values, blocks, seed=seeds), 0.95))
    assert ours["seed"] == pytest.approx(float(fitted.cov_re.iloc[0, 0]), rel=1e-4)
    assert ours["noise"] == pytest.approx(float(fitted.scale), rel=1e-4)


VALUES = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=24, max_size=24)


@settings(max_examples=30, deadline=None)
@given(VALUES, st.sampled_from([(12, 2), (8, 3), (6, 4)]), st.floats(0.001, 1000))
def test_balanced_designs_give_mean_squares(
    values: list[float], shape: tuple[int, int], factor: float
) -> None:
    """Where the analysis of variance has nothing negative, both agree; where it has, the seeds get zero."""
    k, b = shape
    y = np.array(values).reshape(k, b) + np.arange(b)
    centred = y - y.mean(axis=0)
    means = centred.mean(axis=1)
    between = b * (means**2).sum() / (k - 1)
    within = ((centred - means[:, None]) ** 2).sum() / ((k - 1) * (b - 1))
    if within < 1e-3:
        return
    seeds, blocks = np.divmod(np.arange(k * b), b)
    found = split(sample(factor * y.ravel(), blocks, seed=seeds), 0.95)
    seed, noise = found.group.components
    scale = factor**2 * (between + within)
    assert seed.unbiased == pytest.approx(factor**2 * (between - within) / b, rel=1e-7, abs=1e-9 * scale)
    assert seed.p == pytest.approx(float(stats.f.sf(between / within, k - 1, (k - 1) * (b - 1))), abs=1e-9)
    truncated = max((between - within) / b, 0)
    expected = within if truncated else (centred**2).sum() / ((k - 1) * b)
    assert seed.variance == pytest.approx(factor**2 * truncated, rel=1e-5, abs=1e-6 * scale)
    assert noise.variance == pytest.approx(factor**2 * expected, rel=1e-5)
    assert seed.interval is not None
    assert seed.interval.low <= seed.variance <= seed.interval.high


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(-12, 0), min_size=3, max_size=3),
    st.integers(0, 99),
    st.sampled_from([(5, 3, 1), (4, 3, 2)]),
)
def test_a_source_may_be_a_trillionth_of_another(
    logs: list[float], draw: int, sizes: tuple[int, int, int]
) -> None:
    """Crossed sources, balanced: components that are all above zero are those of the mean squares."""
    a, b = (codes.ravel() for codes in np.indices(sizes)[:2])
    rng, sds = np.random.default_rng(draw), np.sqrt(10.0 ** np.array(logs))
    first, second, noise = (
        sd * rng.normal(size=k) for sd, k in zip(sds, (sizes[0], sizes[1], len(a)), strict=True)
    )
    found = split(sample(first[a] + second[b] + noise, init=a, order=b), 0.95).group.components
    for c in found:
        assert c.interval is None or c.interval.low <= c.variance <= c.interval.high
    if all(c.variance > 0 for c in found):
        for c in found:
            assert c.unbiased is None or c.variance == pytest.approx(c.unbiased, rel=1e-3)


def test_ends_of_a_contrast_are_where_both_arms_together_drop_by_the_quantile() -> None:
    """By direct optimisation of the sum of the two likelihoods under the constraint."""
    rng = np.random.default_rng(8)
    seeds, blocks = np.divmod(np.arange(16), 2)
    data = [sample(sd * rng.normal(size=8)[seeds] + rng.normal(size=16), blocks, seed=seeds) for sd in (4, 2)]
    made = [design(d) for d in data]
    found = compare_splits("", split(data[0], 0.95), split(data[1], 0.95), 0.95)
    assert found is not None
    quantile = stats.chi2.ppf(0.95, 1)

    def joint(theta: Floats) -> float:
        total = 0.0
        for m, pair in zip(made, (theta[:2], theta[2:]), strict=True):
            assert m is not None
            total += float(m.likelihood.at(pair[None] / m.scale**2)[0][0])
        return total

    best = np.array([c.variances[i] for i in (0, 1) for c in found.components])

    def drop(ratio: float, difference: float) -> float:
        """Twice the fall where the first group's seeds have ratio * the second's + difference."""

        def fall(logs: Floats) -> float:
            noise, second, other = np.exp(logs)
            return -joint(np.array([ratio * second + difference, noise, second, other]))

        start = np.log([best[1], max(best[2], -difference * 1.01 / ratio), best[3]])
        low = optimize.minimize(fall, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
        return float(2 * (joint(best) + low.fun))

    contrast = found.components[0]
    assert drop(contrast.ratio_interval.low, 0) == pytest.approx(quantile, rel=5e-3)
    assert drop(contrast.ratio_interval.high, 0) == pytest.approx(quantile, rel=5e-3)
    assert stats.chi2.sf(drop(1, 0), 1) == pytest.approx(contrast.p, rel=5e-3)


def splits_of(setting: str) -> tuple[Split, Split]:
    clamp, subtract = (split(sample(g.values, g.blocks, seed=g.seeds), 0.95) for g in paper_groups(setting))
    return clamp, subtract


def test_the_papers_figures() -> None:
    """Between seeds .896 against about 0, same-seed noise .204 against .146; reversed on CIFAR-100."""
    clamp, subtract = (s.group for s in splits_of("cifar10"))
    assert [round(c.variance, 3) for c in clamp.components] == [0.896, 0.204]
    # lme4, accuracy ~ stability + (1 | seed): 0.8958953 and 0.2040000; 0 and 0.1338810
    assert [c.variance for c in subtract.components] == pytest.approx([0, 0.1338810], abs=1e-6)
    assert round(subtract.components[1].unbiased or 0, 3) == 0.146
    found = compare_splits("", *splits_of("cifar10"), 0.95)
    assert found is not None
    seeds, noise = found.components
    assert (seeds.p, noise.p) == pytest.approx((0.011, 0.543), abs=5e-4)
    assert (seeds.ratio, seeds.ratio_interval.high) == (np.inf, np.inf)
    assert seeds.ratio_interval.low > 1
    reversed_ = compare_splits("", *splits_of("cifar100"), 0.95)
    assert reversed_ is not None
    assert reversed_.components[0].variances == pytest.approx((0.0, 0.666), abs=5e-4)


def told(data: Sample) -> GroupComponents:
    return split(data, 0.95).group


def test_without_repeated_seeds_there_is_a_total_and_no_more() -> None:
    values = np.arange(6.0) ** 2
    found = told(sample(values, seed=np.arange(6)))
    assert found.components == ()
    assert found.note == NOT_REPEATED
    assert found.interval is not None
    exact = 5 * values.var(ddof=1) / stats.chi2.ppf([0.975, 0.025], 5)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(exact))


def test_repeated_runs_need_no_block() -> None:
    found = told(sample([1.0, 1.2, 3.0, 3.3, 5.0, 5.1], seed=[0, 0, 1, 1, 2, 2]))
    assert [c.key for c in found.components] == [SEED, NOISE]


def test_copies_have_no_noise_and_constants_no_variance() -> None:
    twins = told(sample([1.0, 2, 4, 1, 2, 4], [0, 0, 0, 1, 1, 1], seed=[0, 1, 2, 0, 1, 2]))
    assert [c.variance for c in twins.components] == pytest.approx([np.var([1, 2, 4], ddof=1), 0])
    flat = told(sample([3.0] * 6, seed=[0, 0, 1, 1, 2, 2]))
    assert (flat.total, flat.components) == (0.0, ())
    assert flat.note == NO_VARIANCE


def test_streams_that_vary_together_are_one() -> None:
    seeds, blocks = np.divmod(np.arange(12), 2)
    y = np.random.default_rng(0).normal(size=12)
    together = told(sample(y, blocks, init=seeds, order=seeds, probe=seeds))
    assert together.components == told(sample(y, blocks, seed=seeds)).components
    partly = told(sample(y, blocks, init=seeds, order=seeds, probe=seeds % 2))
    assert [c.key for c in partly.components] == ["init + order", "probe", NOISE]


def test_crossed_streams_in_two_blocks_show_what_they_do_together() -> None:
    """Balanced, so that all follows from mean squares."""
    rng = np.random.default_rng(4)
    first, second, block = np.array([(i, j, b) for i in range(5) for j in range(4) for b in range(2)]).T
    y = 3 * rng.normal(size=5)[first] + 2 * rng.normal(size=4)[second] + block + rng.normal(size=40)
    y += 2 * rng.normal(size=20)[4 * first + second]
    found = told(sample(y, block, init=first, order=second))
    cube = (y - np.array([0.0, y[block == 1].mean() - y[block == 0].mean()])[block]).reshape(5, 4, 2)
    cells = cube.mean(axis=2)
    rows, columns = cells.mean(axis=1) - cells.mean(), cells.mean(axis=0) - cells.mean()
    inner = 2 * ((cells - cells.mean() - rows[:, None] - columns) ** 2).sum() / 12
    noise = ((cube - cells[:, :, None]) ** 2).sum() / 19
    expected = {
        "init": (8 * (rows**2).sum() / 4 - inner) / 8,
        "order": (10 * (columns**2).sum() / 3 - inner) / 10,
        TOGETHER: (inner - noise) / 2,
        NOISE: noise,
    }
    assert {c.key: c.variance for c in found.components} == pytest.approx(expected, rel=1e-5)


def test_one_stream_at_a_time_has_its_noise_in_each() -> None:
    """Two studies, each driving one stream; each variance is then that of its own runs."""
    y = np.random.default_rng(2).normal(size=14) * np.repeat([1, 3], 7)
    driven = np.arange(1, 8)
    init, order = np.append(driven, np.zeros(7)), np.append(np.zeros(7), driven)
    found = told(sample(y, np.repeat([0, 1], 7), init=init, order=order))
    assert {c.key: c.variance for c in found.components} == pytest.approx(
        {"init": y[:7].var(ddof=1), "order": y[7:].var(ddof=1)}, rel=1e-5
    )
    assert "includes the same-seed noise" in found.note
    assert [c.p for c in found.components] == [None, None]


def test_runs_that_share_their_training_share_its_noise() -> None:
    """Twins, and runs that differ in the probe alone: where the likelihood, written out, is highest."""
    rng = np.random.default_rng(3)
    seeds, blocks = np.divmod(np.arange(18), 2)
    init = np.append(seeds + 1, np.zeros(8))
    probe = np.append(seeds + 1, np.arange(1, 9))
    effects = rng.normal(0, 0.5, 10)
    y = (effects + rng.normal(0, 2, 10))[seeds + 1] + rng.normal(size=18)
    y = np.append(y, effects[1:9])
    cells, shared_noise = np.append(blocks, np.full(8, 2)), np.append(np.zeros(18, bool), np.ones(8, bool))
    data = replace(sample(y, cells, init=init, probe=probe), shared_noise=shared_noise)
    found = told(data)
    assert [c.key for c in found.components] == ["init", "probe", NOISE]
    assert NO_NOISE in found.note

    x = np.stack([cells == k for k in range(3)], axis=1).astype(float)
    parts = [(codes[:, None] == codes[None, :]).astype(float) for codes in (init, probe)]
    parts.append(np.diag((~shared_noise).astype(float)))

    def lacking(roots: Floats) -> float:
        v = sum(root**2 * part for root, part in zip(roots, parts, strict=True))
        inside = x.T @ np.linalg.solve(v, x)
        left = y - x @ np.linalg.solve(inside, x.T @ np.linalg.solve(v, y))
        whole = np.linalg.slogdet(v)[1] + np.linalg.slogdet(inside)[1]
        return float(whole + left @ np.linalg.solve(v, left))

    best = optimize.minimize(
        lacking, [1.0, 1.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert [c.variance for c in found.components] == pytest.approx(best.x**2, rel=1e-4)
    twins = y[:18].reshape(9, 2)
    differences = twins[:, 0] - twins[:, 1]
    assert found.components[-1].unbiased == pytest.approx(differences.var(ddof=1) / 2)
    # If noise were taken to be in them, it would have to come out of the probe's variance.
    assert told(replace(data, shared_noise=None)).components[1].variance < found.components[1].variance


def test_the_probe_alone_is_its_own_runs() -> None:
    """Where no other run tells of a stream after training, its variance is that of its runs."""
    rng = np.random.default_rng(5)
    seeds, blocks = np.divmod(np.arange(14), 2)
    after, whole = rng.normal(0, 0.1, 6), rng.normal(0, 1, 14)
    y, cells = np.append(whole, after), np.append(blocks, np.full(6, 2))
    init, probe = np.append(seeds + 1, np.zeros(6)), np.append(np.zeros(14), np.arange(1, 7))
    shared_noise = np.append(np.zeros(14, bool), np.ones(6, bool))
    found = told(replace(sample(y, cells, init=init, probe=probe), shared_noise=shared_noise))
    split_up = {c.key: c.variance for c in found.components}
    assert split_up.pop("probe") == pytest.approx(after.var(ddof=1), rel=1e-5)
    alone = told(sample(whole, blocks, seed=seeds))
    assert [*split_up.values()] == pytest.approx([c.variance for c in alone.components], rel=1e-5)
