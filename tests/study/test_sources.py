"""Sources of randomness in anyone's code, each with its own seed, and seeds that are run several times."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedspread import Study, components
from seedspread.runners.own_code import Randomness
from seedspread.study.spec import StudyError
from tests.runners.programs import plan_of

AUDIT = {"group": "opt", "baseline": "sgd", "value": "accuracy"}
FACTORS = {"opt": ["sgd", "adam"]}


def train(seed_init: int, seed_order: int, opt: str) -> dict[str, float]:
    """With an sd of 4 or 1 from init, 1 from order, and 0.3 from what no seed drives."""
    init, order, anything = map(np.random.default_rng, (seed_init, seed_order, None))
    scale = 4.0 if opt == "adam" else 1.0
    return {"accuracy": 80 + scale * init.normal() + order.normal() + 0.3 * anything.normal()}


def study(name: str, **more: Any) -> Study:
    settings = {"factors": FACTORS, "seeds": 10, "sources": ["init", "order"], "audit": AUDIT, "name": name}
    return Study(train, **{**settings, **more})


@pytest.mark.soak
def test_the_variance_is_split_by_source_and_what_no_seed_drives(tmp_path: Path) -> None:
    store = tmp_path / "store"
    together = study("both", repeat=2).run(store, progress=False)
    assert "10 shared seeds, 40 runs" in str(together.audit())
    for source in ("init", "order"):
        study(source, vary=[source]).run(store, progress=False)
    table = together.table
    assert table.groupby(["opt", "seed"])["accuracy"].nunique().eq(2).all()
    found = components(str(store), value="accuracy", group="opt", baseline="sgd")
    arm = next(arm for arm in found.strata[0].groups if arm.group == "adam")
    adam = {one.key: one for one in arm.components}
    assert set(adam) == {"init", "order", "together", "noise"}
    for key, truth in {"init": 16.0, "order": 1.0, "noise": 0.09}.items():
        interval = adam[key].interval
        assert interval is not None
        assert interval.low < truth < interval.high


def test_a_source_is_driven_alone_and_the_seeds_of_sources_are_far_apart() -> None:
    both, order = Randomness(("init", "order")), Randomness(("init", "order"), ("order",))
    seen = {number for seed in range(1000) for number in both.seeds(seed).values()}
    assert len(seen) == 2000
    assert all(0 <= number < 2**31 for number in seen)
    assert order.seeds(7)["order"] == both.seeds(7)["order"]
    assert order.seeds(7)["init"] == order.seeds(8)["init"]
    assert order.run_seed(7) == 0


def test_a_program_has_them_in_its_command_and_its_environment(tmp_path: Path) -> None:
    body = """
print(json.dumps({"accuracy": 0.5, "init": int(os.environ["SEEDSPREAD_SEED_INIT"]), "plain": seed,
                  "order": int(os.environ["SEEDSPREAD_SEED_ORDER"]), "given": int(sys.argv[4])}))
"""
    plan = plan_of(tmp_path, body, seeds=2)
    path = tmp_path / "study.toml"
    text = path.read_text().replace('"{x}"]', '"{x}", "{seed.order}"]')
    path.write_text(f'sources = ["init", "order"]\nvary = ["order"]\n{text}')
    runs = Study(path).run(tmp_path / "store", progress=False)
    table = runs.table
    assert (table["order"] == table["given"]).all()
    assert (table["order"].nunique(), table["init"].nunique(), set(table["plain"])) == (2, 1, {0})
    assert not set(plan.distinct) & set(runs.plan.distinct)


def test_the_first_of_the_repeats_is_the_run_without_them(tmp_path: Path) -> None:
    once, thrice = study("once"), study("thrice", repeat=3)
    keys = set(once.plan(tmp_path).distinct)
    assert keys < set(thrice.plan(tmp_path).distinct)
    assert len(thrice.plan(tmp_path).distinct) == 3 * len(keys)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"vary": ["probe"]}, "no source is called 'probe'; sources are init, order"),
        ({"sources": ["init", "init"]}, "must be different names"),
        ({"sources": ["init", "order", "augment"]}, "takes no 'seed_augment'"),
        ({"repeat": 0}, "repeat"),
    ],
)
def test_mistakes_are_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        study("wrong", **more)


def test_the_papers_training_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'runner = "cff"\npreset = "mini/cifar10"\nseeds = 3\nrepeat = 2\n[factors]\nmargin_type = ["clamp"]\n'
    )
    with pytest.raises(StudyError, match="for a program or a function"):
        Study(path)
