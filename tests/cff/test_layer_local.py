"""Anyone's layers and losses: from Python, by dotted name, with keys, exact resume and one-line errors."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from seedspread import LayerLocal, LocalCrossEntropy, RunConfig, Store, load_run, train
from seedspread.cff.identity import canonical, run_key
from seedspread.cff.losses import GoodnessLoss, LayerError
from seedspread.cff.model import build_model, resolved
from seedspread.cff.presets import ConfigError, check
from seedspread.cff.runner import CffRunner
from seedspread.errors import SeedspreadError
from seedspread.runners.contract import RunnerError
from seedspread.runs.files import RecordError
from seedspread.runs.folder import RunFolderError

from . import user_layers
from .training.crashing import CrashAt, CrashError
from .training.tiny import EVERY_BATCH, files, tiny

HERE = f"{__package__}.user_layers"
OWN: dict[str, Any] = {
    "data__name": f"{HERE}:images",
    "data__limit_per_class": None,
    "data__test_limit_per_class": None,
    "model__image_size": 8,
    "model__channels": 1,
    "training__learning_rate": 0.02,
}


def own(**changes: Any) -> RunConfig:
    return tiny(**(OWN | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"model__architecture": f"{HERE}:Net", "objective__loss": f"{HERE}:Squares", "probe__layers": "all"},
        {"model__architecture": "convnet", "objective__loss": "goodness"},
        {"model__architecture": "mlp", "training__rule": "end_to_end", "objective__loss": "goodness"},
        {"model__architecture": f"{HERE}:Largest", "training__rule": "cross_entropy"},
    ],
    ids=["own", "convnet", "end-to-end", "cross-entropy"],
)
def test_layers_of_ones_own_resume_exactly_and_can_be_loaded(changes: dict[str, Any], tmp_path: Path) -> None:
    config = own(**EVERY_BATCH, **changes)
    result = train(config, tmp_path / "whole")
    for batches in (1, 4, 3, 8, 4):
        with contextlib.suppress(CrashError):
            train(config, tmp_path / "broken", resume=True, callback=CrashAt(batches))
    train(config, tmp_path / "broken", resume=True)
    assert files(tmp_path / "broken") == files(tmp_path / "whole")

    run = load_run(tmp_path / "whole")
    depth = len(run.model.layers)
    assert [layer.layer for layer in result.layers] == list(range(depth))
    assert run.config.model.depth == depth
    pixels = torch.as_tensor(user_layers.images().train[0][:9])
    torch.testing.assert_close(run.model(run.preprocess(pixels)), run.logits(pixels))
    assert run.features(pixels, 0).shape == (9, run.model.widths[0])
    assert result.margin_type == "none"


def test_layers_from_python_are_a_run_like_any_other(tmp_path: Path) -> None:
    def made() -> LayerLocal:
        torch.manual_seed(0)
        return LayerLocal(
            user_layers.Net((1, 8, 8), 8),
            losses=LocalCrossEntropy(),
            optimizers=[{"learning_rate": 0.01}, {"optimizer": "sgd", "learning_rate": 0.1}],
        )

    data, config = user_layers.images(), own(**EVERY_BATCH)
    net = made()
    before = net.layers[1][1].weight.detach().clone()  # type: ignore[index]
    result = net.fit(data, epochs=6, seed=3, out=tmp_path / "store" / "whole", config=config)
    assert result.test_accuracy > 0.6  # of three classes
    assert not torch.equal(net.layers[1][1].weight, before)  # type: ignore[index]
    with contextlib.suppress(CrashError):
        checked = made()._config(data, 6, 3, config)
        train(checked, tmp_path / "store" / "broken", data=data, model=made(), callback=CrashAt(9))
    again = made()
    again.fit(data, epochs=6, seed=3, out=tmp_path / "store" / "broken", resume=True, config=config)
    assert files(tmp_path / "store" / "broken") == files(tmp_path / "store" / "whole")
    pixels = torch.as_tensor(data.train[0][:9])
    run = load_run(tmp_path / "store" / "whole", model=made())
    assert torch.equal(
        run.logits(pixels), load_run(tmp_path / "store" / "broken", model=again).logits(pixels)
    )
    torch.testing.assert_close(net(run.preprocess(pixels)), run.logits(pixels))
    with pytest.raises(SeedspreadError, match="given from Python"):
        load_run(tmp_path / "store" / "whole")
    other = LayerLocal(user_layers.Net((1, 8, 8), 8), losses=LocalCrossEntropy())
    with pytest.raises(RunFolderError):  # other weights are another run
        other.fit(data, epochs=6, seed=3, out=tmp_path / "store" / "whole", resume=True, config=config)


def test_what_is_given_identifies_a_run() -> None:
    def digest(**more: Any) -> str:
        torch.manual_seed(more.pop("seed", 0))
        return LayerLocal(user_layers.Net((1, 8, 8), 8), **more).digest()

    kinds = [
        digest(),
        digest(seed=1),
        digest(losses=LocalCrossEntropy()),
        digest(losses=GoodnessLoss()),
        digest(losses=GoodnessLoss(1.0)),
        digest(optimizers={"learning_rate": 0.1}),
        digest(pool=lambda output: output.flatten(1)),
    ]
    assert digest() == kinds[0]
    assert len({*kinds}) == len(kinds)


def test_code_of_packages_counts_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(code: object) -> None:
        raise AssertionError(f"the source of {code} was read")

    monkeypatch.setattr("seedspread.cff.user_code.source_of", refuse)
    net = LayerLocal([nn.Linear(3, 3)], losses=GoodnessLoss())  # another version of these is the same run
    assert net.digest() != LayerLocal(net.layers, losses=LocalCrossEntropy()).digest()
    with pytest.raises(AssertionError, match="Argmax"):
        LayerLocal([user_layers.Argmax()]).digest()


def test_code_is_part_of_the_key_and_its_comments_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "from torch import nn\n\ndef layers(image_shape):\n    return nn.ModuleList([nn.Flatten()])\n"
    versions = {"first_of_three": code, "like_the_first": code.replace("nn\n\n", "nn  # torch's\n\n\n")}
    versions["another_one"] = code.replace("[nn.Flatten()]", "[nn.Flatten(1)]")
    keys = {}
    for module, text in versions.items():
        (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        described = resolved(tiny(model__architecture=f"{module}:layers"))
        assert described.model.depth == 1
        keys[module] = canonical(described)["code"][f"{module}:layers"]
    assert keys["first_of_three"] == keys["like_the_first"] != keys["another_one"]
    assert "code" not in canonical(tiny())
    assert run_key(tiny(model__architecture="vit")) == run_key(tiny())


STUDY = """
runner = "cff"
preset = "quickstart"
seeds = 2
settings = { "data.name" = "user_layers:images", image_size = 8, channels = 1, "training.epochs" = 1 }

[factors]
model = ["user_layers:Net", "mlp"]
"""


def test_workers_of_a_study_find_code_beside_its_file(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    shutil.copy(Path(__file__).parent / "user_layers.py", beside)
    (beside / "study.toml").write_text(STUDY)
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-m", "seedspread", "run", str(beside / "study.toml"), "--workers", "2"]
    done = subprocess.run(command, cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    layers = Store(tmp_path / "elsewhere" / "store").layers()
    assert layers.groupby("architecture")["layer"].nunique().to_dict() == {"mlp": 3, "user_layers:Net": 2}
    found = [
        json.loads(path.read_text()) for path in (tmp_path / "elsewhere" / "store").glob("*/result.json")
    ]
    assert len({one["key"] for one in found}) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Net", "there is no module 'nowhere'"),
        (f"{HERE}:Nett", "has no name 'Nett'.*'Net'"),
        (f"{HERE}:", "must name a module and a name of it"),
        (f"{HERE}:NOT_LAYERS", "gives int; it must give an nn.ModuleList"),
        (f"{HERE}:a_sequential", "gives Sequential; it must give an nn.ModuleList"),
        (f"{HERE}:breaks", "cannot be called: KeyError: 'weights'"),
        (f"{HERE}:no_layers", "there are no layers; give one at least"),
        (f"{HERE}:one_too_many", "takes depth = 3 and gives 4 layers"),
        (f"{HERE}:of_five_axes", r"layer 0 gives \(2, 1, 3, 32, 32\).*a pool must give"),
        (f"{HERE}:of_integers", r"layer 0 gives torch.int64; a loss needs floating point"),
        (f"{HERE}:two_outputs", r"layer 0 cannot take .*: it gives tuple, not one tensor"),
        (f"{HERE}:too_wide", r"layer 1 cannot take \(2, 3072\): RuntimeError"),
    ],
)
def test_layers_that_cannot_be_trained_are_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises(SeedspreadError, match=message) as caught:
        resolved(tiny(model__architecture=name))
    assert "\n" not in str(caught.value)
    with pytest.raises(SeedspreadError, match=message):  # before anything is run
        CffRunner().parameters("quickstart", {"model.architecture": name, "model.depth": 3})


def test_losses_that_cannot_be_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match=r"layer 0: PerImage must return a scalar; got shape \(32,\)"):
        train(own(objective__loss=f"{HERE}:PerImage"), tmp_path / "a")
    with pytest.raises(RunnerError, match="gives ArrayDataset; it must give a LocalLoss"):
        train(own(objective__loss=f"{HERE}:images"), tmp_path / "b")
    with pytest.raises(RunnerError, match="Net cannot be called: TypeError"):
        train(own(data__name=f"{HERE}:Net"), tmp_path / "c")
    with pytest.raises(ConfigError, match="'convnet'"):
        tiny(model__architecture="convnt")
    with pytest.raises(LayerError, match="there are 1 for 2 layers"):
        LayerLocal([nn.Flatten(), nn.Flatten()], losses=[GoodnessLoss()])
    with pytest.raises(LayerError, match="must prepare it alike"):
        LayerLocal([nn.Flatten(), nn.Flatten()], losses=[GoodnessLoss(), LocalCrossEntropy()])
    with pytest.raises(LayerError, match="layer 0: Broken failed: KeyError: 'weights'"):
        train(own(objective__loss=f"{HERE}:Broken"), tmp_path / "d")
    wrong: list[Any] = [nn.CrossEntropyLoss(), GoodnessLoss, "supcon"]
    for given in wrong:
        with pytest.raises(LayerError, match="losses: give a LocalLoss"):
            LayerLocal([nn.Flatten()], losses=given)
    with pytest.raises(LayerError, match="optimizers: speed is none of optimizer"):
        LayerLocal([nn.Flatten()], optimizers={"speed": 1})
    with pytest.raises(LayerError, match="optimizers: give a dict"):
        LayerLocal([nn.Flatten()], optimizers=wrong[-1])
    with pytest.raises(ConfigError, match=r"training.learning_rate: .* greater than 0; got -1"):
        LayerLocal([nn.Flatten()], optimizers={"learning_rate": -1})
    with pytest.raises(LayerError, match="given from Python"):
        build_model(tiny(model__architecture="given").model, 10)


def test_layers_without_anything_to_train_are_refused_before_a_step(tmp_path: Path) -> None:
    config, number = own(model__architecture=f"{HERE}:nothing_to_train"), cast(Any, 3)
    with pytest.raises(LayerError, match="layer 1: its loss depends on nothing that the layer trains"):
        train(config, tmp_path / "a")
    with pytest.raises(LayerError, match=r"blocks must be an nn.ModuleList or a list of modules; got 3"):
        LayerLocal(number)
    with pytest.raises(LayerError, match="data must be an ArrayDataset or a dataset's name; got int"):
        LayerLocal([nn.Flatten()]).fit(number, epochs=1)


def test_functions_and_classes_stand_for_their_names() -> None:
    def with_model(maker: object) -> RunConfig:
        return RunConfig.model_validate({"model": {"architecture": maker}})

    for maker in (user_layers.Net, user_layers.breaks):
        assert with_model(maker).model.architecture == f"{HERE}:{maker.__name__}"
    with pytest.raises(ValueError, match="must be a name, or a class or function of a module"):
        with_model(lambda image_shape: image_shape)


def test_a_run_whose_code_has_changed_is_loaded_with_its_layers_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "from torch import nn\nclass Net(nn.ModuleList):\n    def __init__(self, image_shape):\n"
    code += "        super().__init__([nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())])\n"
    (tmp_path / "code_that_changes.py").write_text(code)
    train(own(model__architecture="code_that_changes:Net"), "run")
    del sys.modules["code_that_changes"]
    (tmp_path / "code_that_changes.py").write_text(code.replace("nn.ReLU", "nn.Tanh"))
    with pytest.raises(RecordError, match="code_that_changes:Net has changed since the run; restore"):
        load_run("run")
    former = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())
    assert load_run("run", model=LayerLocal([former])).model.widths == [8]


def test_the_kernels_are_for_the_papers_model_and_say_so() -> None:
    given = LayerLocal([nn.Sequential(nn.Flatten(), nn.Linear(64, 8))])
    for asked in ("fast", "native"):
        with pytest.raises(ConfigError, match=f"implementation = '{asked}' is for model = 'vit'"):
            given.fit(user_layers.images(), epochs=1, config=check({"runtime": {"implementation": asked}}))
    assert tiny(model__architecture="convnet").runtime.implementation == "plain"
    with pytest.raises(ConfigError, match="is for model = 'vit' with loss = 'supcon'; got 'mlp'"):
        check({"model": {"architecture": "mlp"}, "runtime": {"implementation": "fast"}})


def test_pools_and_widths() -> None:
    net = LayerLocal([nn.Conv2d(3, 5, 3), nn.Flatten(2), nn.Flatten()], image_shape=(3, 4, 4), num_classes=2)
    assert net.widths == [5, 4, 20]
    images = torch.randn(6, 3, 4, 4)
    first, second, third = net.features(images)
    output = net.layers[0](images)
    torch.testing.assert_close(first, output.mean(dim=(2, 3)))
    torch.testing.assert_close(second, output.flatten(2).mean(dim=1))
    assert torch.equal(third, output.flatten(1))
    assert net(images).shape == (6, 2)
    with pytest.raises(ValueError, match=r"\(B, 3, 4, 4\)"):
        net.features(images[:, :1])
