"""Images of another shape: Fashion-MNIST as it is, 28 x 28 grey, beside its 32 x 32 form in color."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from seedspread.cff.config import DataConfig, ModelConfig, RunConfig
from seedspread.cff.data import augment as pixels
from seedspread.cff.data.dataset import load
from seedspread.cff.datasets import DATASETS
from seedspread.cff.diagnosis import diagnose
from seedspread.cff.identity import run_key
from seedspread.cff.model import ViT
from seedspread.cff.presets import check, read_config, to_toml
from seedspread.cff.runner import CffRunner
from seedspread.cff.training.run import train
from seedspread.errors import DataError
from seedspread.report.load import load_store
from seedspread.report.page import Report
from seedspread.runs.store import Store
from seedspread.runs.studies import save_study
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError, StudySpec
from tests.cff.training.tiny import TINY, tiny

GREY = {"data__name": "fashion-mnist-sample-28", "model__image_size": 28, "model__channels": 1}


def test_as_it_is_it_is_the_files_own_bytes() -> None:
    info = DATASETS["fashion-mnist-sample-28"]
    content = gzip.decompress((Path(info.elsewhere[0]) / "t10k-images-idx3-ubyte.gz").read_bytes())
    stored = np.frombuffer(content, np.uint8, offset=16).reshape(-1, 1, 28, 28)
    dataset = load(DataConfig(name=info.name))
    assert (dataset.test.images.numpy() == stored).all()
    enlarged = load(DataConfig(name="fashion-mnist-sample"))
    assert enlarged.test.images.shape[1:] == (3, 32, 32)
    assert torch.equal(enlarged.test.labels, dataset.test.labels)
    assert enlarged.fingerprint != dataset.fingerprint


@pytest.mark.parametrize("patch", [4, 7])
def test_it_is_trained_and_diagnosed(tmp_path: Path, patch: int) -> None:
    config = tiny(**GREY, model__patch_size=patch)
    assert config.model.tokens == (28 // patch) ** 2
    result = train(config, tmp_path / "run")
    assert result.dataset.endswith("28 x 28 grey")
    assert len(diagnose(tmp_path / "run").rates) == config.model.depth
    again = train(config, tmp_path / "again")
    assert again == result


def test_both_forms_are_reported_beside_each_other(tmp_path: Path) -> None:
    for name, changes in (("enlarged", {}), ("as it is", GREY)):
        values = {part: dict(fields) for part, fields in TINY.items()}
        for field, value in changes.items():
            part, inner = field.split("__")
            values.setdefault(part, {})[inner] = value
        values["model"]["patch_size"] = 4
        (tmp_path / "preset.toml").write_text(to_toml(check(values)))
        path = tmp_path / f"{name}.toml"
        path.write_text(
            f'title = "{name}"\nrunner = "cff"\npreset = "{tmp_path / "preset.toml"}"\nseeds = [1, 2]\n'
            '[factors]\nmargin_type = ["clamp", "subtract"]\n'
            '[audit]\ngroup = "margin_type"\nbaseline = "subtract"\n'
        )
        plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
        for run in plan.runs:
            train(CffRunner().seeded(run.parameters, run.seed), plan.store.folder(run.key))
        for recorded in plan.recorded():
            save_study(Store(tmp_path / "store"), recorded)
    report = Report(load_store(tmp_path / "store"))
    assert not report.data.problems
    assert {s.study: len(s.runs) for s in report.data.settings} == {"enlarged": 4, "as it is": 4}
    assert "28 x 28 grey" in report.page()


def test_a_model_for_other_images_is_refused_in_one_line(tmp_path: Path) -> None:
    words = "has images of 1 x 28 x 28, the model is for 3 x 32 x 32; set model.image_size = 28"
    wrong = check({"data": {"name": "fashion-mnist-28"}})
    with pytest.raises(DataError, match=words):
        DATASETS["fashion-mnist-28"].check_shape(wrong.model.image_shape)
    with pytest.raises(DataError, match=words):
        train(wrong, tmp_path / "run")
    path = tmp_path / "study.toml"
    path.write_text(
        'title = "x"\nrunner = "cff"\npreset = "quickstart"\nseeds = [1]\n'
        '[factors]\nname = ["fashion-mnist-28"]\n'
    )
    with pytest.raises(StudyError, match=words):
        StudySpec.from_file(path)
    DATASETS["fashion-mnist-28"].check_shape(read_config("mini/fashion-mnist-28").model.image_shape)


def test_by_default_a_model_is_made_for_the_default_dataset() -> None:
    config = RunConfig()
    DATASETS[config.data.name].check_shape(config.model.image_shape)
    assert ViT().image_shape == config.model.image_shape


def test_a_model_from_its_config() -> None:
    config = ModelConfig(image_size=28, channels=1, patch_size=7, dim=12, depth=2, heads=3)
    model = ViT.from_config(config, num_classes=5)
    assert model(torch.zeros(3, *config.image_shape)).shape == (3, 5)
    assert model.layers[0][0].position.shape == (1, config.tokens, 12)  # type: ignore[index]


def test_the_shape_is_part_of_a_run_where_it_is_not_the_first_one() -> None:
    grey = RunConfig(model=ModelConfig(channels=1))
    assert run_key(grey) != run_key(RunConfig())


@pytest.mark.parametrize("adjust", ["brightness", "contrast", "saturation", "hue"])
def test_grey_images_are_adjusted_as_pillow_does_it(adjust: str) -> None:
    """Saturation and hue, which grey has none of, leave it as it is."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (6, 1, 28, 28), dtype=np.uint8)
    factors = torch.tensor([0.0, 0.3, 0.8, 1.0, 1.3, 1.9])
    adjusted = getattr(pixels, adjust)(torch.from_numpy(grey), factors).numpy()
    enhance = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast}.get(adjust)
    for image, factor, actual in zip(grey, factors.tolist(), adjusted, strict=True):
        expected = (
            image[0] if enhance is None else np.asarray(enhance(Image.fromarray(image[0])).enhance(factor))
        )
        assert np.abs(actual[0].astype(int) - expected.astype(int)).max() <= 1
