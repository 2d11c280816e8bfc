"""Reading, refusing, splitting: on small files in the official formats and, where present, the real ones."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image
from pydantic import ValidationError

from seedspread.cff.config import PIPELINES, DataConfig, RandomCrop
from seedspread.cff.data.dataset import load
from seedspread.cff.datasets import (
    DATASETS,
    data_folder,
    official_fingerprint,
)
from seedspread.errors import DataError
from tests.cff.data.small import Small, cifar_content, idx_content, svhn_content

ALL = ["cifar10", "cifar100", "svhn", "fashion-mnist"]


def test_every_entry_is_whole() -> None:
    assert all(info.augment in PIPELINES for info in DATASETS.values())
    assert [len(DATASETS[name].classes) for name in ALL] == [10, 100, 10, 10]
    assert len(DATASETS["cifar100"].coarse_classes) == 20
    assert sum(file.images for file in DATASETS["cifar10"].train) == 50_000


@pytest.mark.parametrize("small", ALL, indirect=True)
def test_a_whole_dataset_is_read_and_split(small: Small) -> None:
    dataset = load(DataConfig(name=small.info.name), small.data_dir)
    train = sum(file.images for file in small.info.train if "labels" not in file.name)
    assert len(dataset.train) + len(dataset.validation) == train
    assert len(dataset.test) == 40
    for part in (dataset.train, dataset.validation, dataset.test):
        assert part.images.shape == (len(part), 3, 32, 32)
        assert part.images.dtype == torch.uint8
        assert part.labels.dtype == torch.int64
    assert dataset.fingerprint == official_fingerprint(small.info)
    assert not dataset.missing
    assert dataset.title == small.info.title


def test_cifar_pixels_and_labels_stand_where_they_should(small: Small) -> None:
    content = (small.folder / "data_batch_2.bin").read_bytes()
    dataset = load(DataConfig(name="cifar10"), small.data_dir)
    every = torch.cat([dataset.train.ids, dataset.validation.ids]).tolist()
    assert sorted(every) == list(range(200))
    images = torch.cat([dataset.train.images, dataset.validation.images])
    labels = torch.cat([dataset.train.labels, dataset.validation.labels])
    at = every.index(40 + 7)  # the eighth image of the second file
    record = np.frombuffer(content, np.uint8).reshape(40, 3073)[7]
    assert labels[at] == record[0] == 7
    assert images[at, 2, 5, 9] == record[1 + 2 * 1024 + 5 * 32 + 9]


@pytest.mark.parametrize("small", ["cifar100"], indirect=True)
def test_cifar100_has_fine_and_coarse_labels(small: Small) -> None:
    rows = np.frombuffer((small.folder / "test.bin").read_bytes(), np.uint8).reshape(-1, 3074)
    fine = load(DataConfig(name="cifar100"), small.data_dir)
    coarse = load(DataConfig(name="cifar100", labels="coarse"), small.data_dir)
    assert fine.test.labels.tolist() == rows[:, 1].tolist()
    assert coarse.test.labels.tolist() == rows[:, 0].tolist()
    assert (len(fine.classes), len(coarse.classes)) == (100, 20)


@pytest.mark.parametrize("small", ["svhn"], indirect=True)
def test_svhns_digit_ten_is_zero(small: Small) -> None:
    test = load(DataConfig(name="svhn"), small.data_dir).test
    assert test.labels.tolist() == [(i % 10 + 1) % 10 for i in range(40)]


@pytest.mark.parametrize("small", ["svhn"], indirect=True)
def test_svhns_pixels_stand_where_they_should(small: Small) -> None:
    stored = scipy.io.loadmat(small.folder / "test_32x32.mat")["X"]
    images = load(DataConfig(name="svhn"), small.data_dir).test.images
    assert images[7, 2, 5, 9] == stored[5, 9, 2, 7]
    assert images[30, 0, 31, 1] == stored[31, 1, 0, 30]


@pytest.mark.parametrize("small", ["fashion-mnist"], indirect=True)
def test_fashion_mnist_is_three_equal_channels_and_may_be_packed_or_not(small: Small) -> None:
    packed = load(DataConfig(name="fashion-mnist"), small.data_dir)
    assert torch.equal(packed.test.images[:, 0], packed.test.images[:, 1])
    assert torch.equal(packed.test.images[:, 0], packed.test.images[:, 2])
    for path in list(small.folder.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert load(DataConfig(name="fashion-mnist"), small.data_dir).fingerprint == packed.fingerprint


def test_coarse_labels_are_refused_where_there_are_none(small: Small) -> None:
    with pytest.raises(DataError, match="cifar10 has no coarse labels"):
        load(DataConfig(name="cifar10", labels="coarse"), small.data_dir)


def test_a_dataset_that_is_nowhere_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar10 is not in .*seedspread data fetch cifar10"):
        load(DataConfig(name="cifar10"), tmp_path)


def test_a_partial_dataset_is_refused_unless_allowed(small: Small) -> None:
    whole = load(DataConfig(name="cifar10"), small.data_dir)
    (small.folder / "data_batch_3.bin").unlink()
    cut = small.folder / "data_batch_5.bin"
    cut.write_bytes(cut.read_bytes()[: 30 * 3073])
    with pytest.raises(
        DataError, match=r"is partial .*data_batch_5.bin has 30 of 40 images; absent: data_batch_3.bin"
    ):
        load(DataConfig(name="cifar10"), small.data_dir)
    partial = load(DataConfig(name="cifar10", allow_partial=True), small.data_dir)
    assert len(partial.train) + len(partial.validation) == 150
    assert partial.fingerprint.startswith("partial-")
    assert whole.fingerprint.startswith("official-")
    assert "partial" in partial.title
    assert max(partial.train.ids.max(), partial.validation.ids.max()) == 4 * 40 + 29  # ids stay official


def test_partial_datasets_of_other_content_have_other_fingerprints(small: Small) -> None:
    config = DataConfig(name="cifar10", allow_partial=True)
    prints = set()
    for images in (10, 20, 30):
        (small.folder / "test_batch.bin").write_bytes(cifar_content(images, 1, seed=5))
        prints.add(load(config, small.data_dir).fingerprint)
    assert len(prints) == 3


def damage(small: Small, name: str, content: bytes, message: str) -> None:
    (small.folder / name).write_bytes(content)
    for allow_partial in (False, True):
        with pytest.raises(DataError, match=message) as caught:
            load(DataConfig(name=small.info.name, allow_partial=allow_partial), small.data_dir)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_cut_inside_an_image_is_named(small: Small) -> None:
    whole = (small.folder / "data_batch_4.bin").read_bytes()
    damage(small, "data_batch_4.bin", whole[:-100], "is damaged: it ends in the middle of an image")


def test_an_empty_file_is_named(small: Small) -> None:
    damage(small, "data_batch_4.bin", b"", "is damaged")


def test_one_changed_byte_is_noticed(small: Small) -> None:
    whole = bytearray((small.folder / "test_batch.bin").read_bytes())
    whole[5000] ^= 1
    damage(small, "test_batch.bin", bytes(whole), "differs from the official")


def test_a_label_that_no_class_has_is_refused(small: Small) -> None:
    whole = bytearray((small.folder / "test_batch.bin").read_bytes())
    whole[3073] = 10
    damage(small, "test_batch.bin", bytes(whole), "a label is 10; there are only 10 classes")


def test_swapped_files_are_told_as_such(small: Small) -> None:
    other = (small.folder / "test_batch.bin").read_bytes()
    damage(small, "data_batch_1.bin", other, "holds the content of test_batch.bin")


@pytest.mark.parametrize("small", ["svhn"], indirect=True)
def test_svhn_files_that_are_off_are_named(small: Small) -> None:
    damage(small, "train_32x32.mat", b"not a mat file at all", "not a readable MATLAB file")
    damage(small, "train_32x32.mat", svhn_content(50, 0)[:-2000], "is damaged")
    damage(small, "train_32x32.mat", svhn_content(50, 0, labels=40), "50 images but 40 labels")
    for bad in (0.0, 1.5, 11.0):
        damage(small, "train_32x32.mat", svhn_content(50, 0, first_label=bad), "is damaged: a label is")
    damage(small, "train_32x32.mat", svhn_content(0, 0), "is damaged")


def test_one_file_in_two_places_is_refused(small: Small) -> None:
    same = cifar_content(20, 1, seed=9)
    (small.folder / "data_batch_1.bin").write_bytes(same)
    damage(small, "test_batch.bin", same, "have the same content")


def test_a_file_of_no_sensible_size_is_refused(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seedspread.cff.datasets.MAX_BYTES", 1000)
    with pytest.raises(DataError, match="holds more than 1,000 bytes"):
        load(DataConfig(name="cifar10"), small.data_dir)


def test_subsets_are_drawn_and_not_the_first_ones(small: Small) -> None:
    chosen = load(DataConfig(name="cifar10", limit_per_class=10), small.data_dir)
    assert max(chosen.train.ids) > 100
    other = load(DataConfig(name="cifar10", limit_per_class=10, split_seed=1), small.data_dir)
    assert set(chosen.train.ids.tolist()) != set(other.train.ids.tolist())


def test_the_papers_normalisation() -> None:
    """Section 5.1."""
    for name in ("cifar10", "cifar100"):
        assert DATASETS[name].mean == (0.491, 0.482, 0.447)
        assert DATASETS[name].std == (0.202, 0.199, 0.201)
    assert DATASETS["svhn"].mean == (0.438, 0.444, 0.473)
    assert DATASETS["svhn"].std == (0.198, 0.201, 0.197)
    assert DATASETS["fashion-mnist"].mean == DATASETS["fashion-mnist"].std == (0.5, 0.5, 0.5)


def test_the_datasets_are_the_published_list(real_data: Path) -> None:
    published = real_data / "README.md"
    if not published.is_file():
        pytest.skip(f"no list of checksums in {real_data}")
    text = published.read_text()
    infos = [DATASETS[name] for name in ALL]
    ours = {f.md5 for s in infos for f in s.files} | {d.md5 for s in infos for d in s.downloads}
    assert set(re.findall(r"\b[0-9a-f]{32}\b", text)) == ours
    for info in infos:
        for download in info.downloads:
            address, file = download.url.split("://")[1].rsplit("/", 1)
            assert file in text
            assert address.split("/")[0] in text


def test_cifar10_names_are_the_files(real_data: Path) -> None:
    names = real_data / DATASETS["cifar10"].folder / "batches.meta.txt"
    if not names.is_file():
        pytest.skip(f"no {names}")
    assert tuple(names.read_text().split()) == DATASETS["cifar10"].classes


@pytest.mark.parametrize("small", ["fashion-mnist"], indirect=True)
def test_fashion_mnist_files_that_are_off_are_named(small: Small) -> None:
    images, labels = idx_content(60, 0)
    damage(
        small, "train-labels-idx1-ubyte.gz", gzip.compress(idx_content(59, 0)[1]), "59 labels for 60 images"
    )
    damage(small, "train-labels-idx1-ubyte.gz", gzip.compress(idx_content(50, 0)[0]), "begins with 0x803")
    (small.folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    damage(small, "train-images-idx3-ubyte.gz", gzip.compress(images[:-5]), "its header promises")
    damage(small, "train-images-idx3-ubyte.gz", gzip.compress(images)[:-50], "cannot be read")
    damage(small, "train-images-idx3-ubyte.gz", b"plain text", "cannot be read")


def test_the_split_is_stratified_disjoint_and_its_own_seeds(small: Small) -> None:
    dataset = load(DataConfig(name="cifar10"), small.data_dir)
    assert torch.bincount(dataset.validation.labels).tolist() == [2] * 10  # 10 % of 20 per class
    assert torch.bincount(dataset.train.labels).tolist() == [18] * 10
    assert not set(dataset.train.ids.tolist()) & set(dataset.validation.ids.tolist())
    again = load(DataConfig(name="cifar10"), small.data_dir)
    other = load(DataConfig(name="cifar10", split_seed=1), small.data_dir)
    assert torch.equal(dataset.validation.ids, again.validation.ids)
    assert not torch.equal(dataset.validation.ids, other.validation.ids)


def test_limits_per_class(small: Small) -> None:
    dataset = load(DataConfig(name="cifar10", limit_per_class=10, test_limit_per_class=3), small.data_dir)
    assert torch.bincount(dataset.train.labels).tolist() == [9] * 10
    assert torch.bincount(dataset.validation.labels).tolist() == [1] * 10
    assert torch.bincount(dataset.test.labels).tolist() == [3] * 10


def test_the_embedded_sample_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDSPREAD_DATA", str(tmp_path))
    dataset = load(DataConfig())
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (2700, 300, 1000)
    for part, each in ((dataset.train, 270), (dataset.validation, 30), (dataset.test, 100)):
        assert torch.bincount(part.labels).tolist() == [each] * 10
    assert dataset.fingerprint == official_fingerprint(DATASETS["fashion-mnist-sample"])
    files = Path(DATASETS["fashion-mnist-sample"].elsewhere[0]).iterdir()
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDSPREAD_DATA", str(tmp_path / "from-environment"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == tmp_path / "from-environment"
    monkeypatch.delenv("SEEDSPREAD_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder().parts[-2:] == ("seedspread", "data")


def test_a_config_finds_its_pipeline() -> None:
    assert DataConfig(name="svhn").pipeline == PIPELINES["svhn-easy"]
    assert DataConfig(name="svhn", augment="svhn-hard").pipeline == PIPELINES["svhn-hard"]
    listed = DataConfig.model_validate({"augment": [{"op": "random_crop", "padding": 2}]})
    assert listed.pipeline == (RandomCrop(padding=2),)
    assert DataConfig.model_validate_json(listed.model_dump_json()) == listed


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"name": "cifar"}, "'cifar10'"),
        ({"augment": "cifr"}, "'cifar'"),
        ({"augment": [{"op": "blur"}]}, "blur"),
        ({"augment": [{"op": "random_erasing", "scale": [0.3, 0.1]}]}, "smaller first"),
        ({"limit_per_clas": 3}, "limit_per_clas"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"augment": [{"op": "color_jitter", "brightness": float("inf")}]}, "brightness"),
    ],
)
def test_a_wrong_config_is_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        DataConfig.model_validate(wrong)


# The real files.


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn"])
def test_real_files_are_read(name: str, real_data: Path) -> None:
    if not (real_data / DATASETS[name].folder).is_dir():
        pytest.skip(f"{name} is not in {real_data}")
    dataset = load(DataConfig(name=name, allow_partial=True), real_data)
    share = len(dataset.validation) / (len(dataset.train) + len(dataset.validation))
    assert share == pytest.approx(0.1, abs=0.005)
    if name != "cifar100":
        assert set(dataset.test.labels.tolist()) == set(range(10))
    # Photographs: neighbouring pixels are alike, which they are not if the bytes are read in a wrong order.
    pixels = dataset.train.images[:500].float()
    for axis in (2, 3):
        beside = pixels.diff(dim=axis).abs().mean()
        assert beside < 0.35 * pixels.std()


def test_real_cifar100_names_are_the_files(real_data: Path) -> None:
    folder = real_data / DATASETS["cifar100"].folder
    if not (folder / "fine_label_names.txt").is_file():
        pytest.skip(f"no label names in {folder}")
    assert tuple((folder / "fine_label_names.txt").read_text().split()) == DATASETS["cifar100"].classes
    assert (
        tuple((folder / "coarse_label_names.txt").read_text().split()) == DATASETS["cifar100"].coarse_classes
    )


def test_whole_fashion_mnist_where_debian_installs_it() -> None:
    place = Path(DATASETS["fashion-mnist"].elsewhere[0])
    if not place.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    dataset = load(DataConfig(name="fashion-mnist"), Path("/nonexistent"))
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (54_000, 6_000, 10_000)
    assert torch.bincount(dataset.test.labels).tolist() == [1000] * 10
    unpacked = gzip.decompress((place / "t10k-images-idx3-ubyte.gz").read_bytes())
    raw = np.frombuffer(unpacked[16 : 16 + 784], np.uint8)
    resized = np.array(Image.fromarray(raw.reshape(28, 28)).resize((32, 32), Image.Resampling.BILINEAR))
    assert (dataset.test.images[0, 0].numpy() == resized).all()
    assert dataset.classes[int(dataset.test.labels[0])] == "Ankle boot"  # the test part begins with a boot


def test_svhns_published_class_counts_add_up() -> None:
    counts = [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659]
    assert sum(counts) == DATASETS["svhn"].train[0].images
