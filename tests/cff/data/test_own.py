"""One's own images: read as they are, identified by their content, refused in one line."""

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from seedspread.cff.config import DataConfig
from seedspread.cff.data.dataset import load
from seedspread.cff.data.own import ArrayDataset, own_fingerprint, read_own
from seedspread.errors import DataError

from .own_images import IMAGES, LABELS, folder_of


def test_images_of_every_layout_are_the_same_dataset() -> None:
    rows = ArrayDataset(IMAGES, LABELS)
    assert rows.train[0].shape == (60, 3, 12, 8)
    columns = ArrayDataset(IMAGES.transpose(0, 3, 1, 2), torch.from_numpy(LABELS))
    assert rows.fingerprint == columns.fingerprint
    assert ArrayDataset(IMAGES[..., 0], LABELS).train[0].shape == (60, 1, 12, 8)


def test_labels_may_be_texts_or_any_numbers() -> None:
    words = np.array(["ash", "elm", "oak"])[LABELS]
    named, plain = ArrayDataset(IMAGES, words), ArrayDataset(IMAGES, LABELS, classes=["ash", "elm", "oak"])
    assert named.classes == plain.classes == ("ash", "elm", "oak")
    assert named.fingerprint == plain.fingerprint == ArrayDataset(IMAGES, 10 * LABELS + 5).fingerprint


def test_a_fingerprint_tells_images_labels_and_parts_apart() -> None:
    changed = IMAGES.copy()
    changed[7, 3, 3, 0] ^= 1
    kinds = [
        ArrayDataset(IMAGES, LABELS),
        ArrayDataset(changed, LABELS),
        ArrayDataset(IMAGES, (LABELS + 1) % 3),
        ArrayDataset(IMAGES[:30], LABELS[:30], IMAGES[30:], LABELS[30:]),
        ArrayDataset(IMAGES[:, ::-1].transpose(0, 2, 1, 3), LABELS),
    ]
    assert len({one.fingerprint for one in kinds}) == len(kinds)


def test_a_saved_file_has_the_same_identity_wherever_it_lies(tmp_path: Path) -> None:
    data = ArrayDataset(IMAGES[:40], LABELS[:40], IMAGES[40:], LABELS[40:], classes=["a", "b", "c"])
    for name in ("one.npz", "other.npz"):
        data.save(tmp_path / name)
        read = read_own(str(tmp_path / name))
        assert own_fingerprint(str(tmp_path / name)) == read.fingerprint == data.fingerprint
        assert read.classes == ("a", "b", "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.npz", "other.npz"]
    with pytest.raises(DataError, match=r"must end in \.npz"):
        data.save(tmp_path / "one.npy")


def test_a_fifth_of_each_class_is_held_out_by_the_seed_of_the_split(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    ArrayDataset(IMAGES, LABELS).save(path)
    dataset = load(DataConfig(name=str(path)))
    assert torch.bincount(dataset.test.labels).tolist() == [4, 4, 4]
    assert torch.bincount(dataset.validation.labels).tolist() == [2, 2, 2]
    parts = (dataset.train.ids, dataset.validation.ids, dataset.test.ids)
    assert sorted(torch.cat(parts).tolist()) == list(range(60))
    for part in (dataset.train, dataset.validation, dataset.test):
        assert np.array_equal(part.images.numpy(), IMAGES.transpose(0, 3, 1, 2)[part.ids])
        assert np.array_equal(part.labels.numpy(), LABELS[part.ids])
    assert not torch.equal(load(DataConfig(name=str(path), split_seed=1)).test.ids, dataset.test.ids)
    half = load(DataConfig(name=str(path), test_fraction=0.5))
    assert torch.bincount(half.test.labels).tolist() == [10, 10, 10]


def test_mean_and_std_are_those_of_the_training_images() -> None:
    images = IMAGES.copy()
    images[..., 2] = 7  # a channel without spread
    dataset = load(DataConfig(name="arrays"), data=ArrayDataset(images, LABELS))
    pixels = dataset.train.images.double() / 255
    assert dataset.info.mean == pytest.approx(pixels.mean(dim=(0, 2, 3)).tolist())
    expected = pixels.std(dim=(0, 2, 3), unbiased=False).tolist()
    assert dataset.info.std == pytest.approx([*expected[:2], 1.0])


def test_a_folder_is_read_as_pillow_reads_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "leaves")
    read = read_own(str(folder))
    assert read.classes == ("0", "1", "2")
    assert np.array_equal(read.train[1], np.sort(LABELS))
    assert np.array_equal(read.train[0], IMAGES[np.argsort(LABELS, kind="stable")].transpose(0, 3, 1, 2))
    split = folder_of(tmp_path / "split", parts=("train", "test"))
    assert read_own(str(split)).test is not None


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "vehicles")
    (folder / "0").rename(folder / "train")
    assert read_own(str(folder)).classes == ("1", "2", "train")


def test_a_folder_is_identified_by_names_and_content(tmp_path: Path) -> None:
    one, other = folder_of(tmp_path / "one"), folder_of(tmp_path / "other")
    (one / "notes.txt").write_text("no image")
    (one / "0" / ".hidden.png").write_text("nor this")
    (one / "0" / "link.png").symlink_to(one / "1" / "01.png")
    (one / "4").symlink_to(one / "1")
    assert own_fingerprint(str(one)) == own_fingerprint(str(other))
    (other / "0" / "00.png").rename(other / "0" / "99.png")
    renamed = own_fingerprint(str(other))
    assert renamed != own_fingerprint(str(one))
    Image.new("RGB", (8, 12)).save(other / "0" / "99.png")
    assert own_fingerprint(str(other)) != renamed


def test_resizing_takes_the_shorter_side_and_the_middle(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "leaves")
    wide = Image.fromarray(np.random.default_rng(1).integers(0, 256, (20, 50, 3), dtype=np.uint8))
    wide.save(folder / "0" / "00.png")
    read = read_own(str(folder), resize=10)
    expected = wide.resize((25, 10), Image.Resampling.BILINEAR).crop((8, 0, 18, 10))
    assert np.array_equal(read.train[0][0].transpose(1, 2, 0), np.asarray(expected))
    with pytest.raises(DataError, match=r"has 20 x 50 pixels, .*01\.png has 12 x 8; data\.resize = 20 makes"):
        read_own(str(folder))


def test_gray_images_have_one_channel_unless_there_are_others(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "leaves", mode="L")
    assert read_own(str(folder)).train[0].shape == (60, 1, 12, 8)
    Image.new("RGBA", (8, 12), (1, 2, 3, 4)).save(folder / "0" / "00.png")
    read = read_own(str(folder)).train[0]
    assert read.shape == (60, 3, 12, 8)
    assert read[0, :, 0, 0].tolist() == [1, 2, 3]
    assert np.array_equal(read[1, 0], read[1, 2])


ARGUMENTS: dict[str, Any] = {"images": IMAGES, "labels": LABELS}
ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({"images": IMAGES / 255}, r"images must be uint8; got float64; \(255 \* images\)"),
    ({"images": np.full(IMAGES.shape, np.nan)}, "must be uint8; got float64"),
    ({"images": IMAGES[0]}, r"labels of 12 images must be as many .* got int64 of shape \(60,\)"),
    ({"images": IMAGES[0, 0]}, r"must be \(N, C, H, W\), \(N, H, W, C\) or \(N, H, W\); got \(8, 3\)"),
    ({"images": IMAGES[:0], "labels": LABELS[:0]}, r"got \(0, 12, 8, 3\)"),
    ({"labels": LABELS[:50]}, r"labels of 60 images .* got int64 of shape \(50,\)"),
    ({"labels": LABELS + 0.5}, "whole numbers or texts; got float64"),
    ({"labels": 0 * LABELS}, "all images are of one class"),
    (
        {"classes": ["a", "b", "c", "d"]},
        "class 'd' has 0 images; training, validation and test need one each",
    ),
    ({"classes": ["a", "b"]}, "the label 2, which is none of the 2 classes"),
    ({"labels": np.where(LABELS == 1, -1, LABELS), "classes": list("abc")}, "the label -1"),
    ({"test_images": IMAGES}, "test_images and test_labels go together"),
    ({"test_images": IMAGES, "test_labels": LABELS + 1}, "test_images have the label 3, which is none of"),
    ({"test_images": IMAGES[:, :6], "test_labels": LABELS}, r"test_images have shape \(3, 6, 8\)"),
]


@pytest.mark.parametrize(("changes", "message"), ARRAYS)
def test_arrays_that_cannot_be_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        ArrayDataset(**(ARGUMENTS | changes))
    assert "\n" not in str(refused.value)


def pickled(path: Path) -> None:
    np.savez(path, images=IMAGES, labels=LABELS.astype(object))


def cut_off(path: Path) -> None:
    np.savez(path, images=IMAGES, labels=LABELS)
    path.write_bytes(path.read_bytes()[:2000])


def garbled(path: Path) -> None:
    np.savez_compressed(path, images=IMAGES, labels=LABELS)
    content = bytearray(path.read_bytes())
    content[300:400] = bytes(100)
    path.write_bytes(content)


def enormous(path: Path) -> None:
    """A header that promises 16 TB."""
    np.savez(path, images=IMAGES, labels=LABELS)
    header = {"descr": "|u1", "fortran_order": False, "shape": (16_000_000_000_000,)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr("test_images.npy", buffer.getvalue())


FILES: list[tuple[Callable[[Path], object], str]] = [
    (pickled, "no .npz file of plain arrays: .*allow_pickle"),
    (cut_off, "no .npz file of plain arrays: "),
    (garbled, "no .npz file of plain arrays: "),
    (enormous, "no .npz file of plain arrays: "),
    (lambda path: path.write_bytes(b"no zip"), "no .npz file of plain arrays: "),
    (lambda path: np.savez(path, images=IMAGES), "must have arrays images and labels; .* it has .'images'."),
    (lambda path: path.mkdir(), "there is no such .npz file or folder of images"),
    (lambda path: None, "there is no such .npz file or folder of images"),
]


@pytest.mark.parametrize(("make", "message"), FILES)
def test_files_that_cannot_be_read_are_refused_in_one_line(
    make: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    make(tmp_path / "mine.npz")
    with pytest.raises(DataError, match=message) as refused:
        read_own(str(tmp_path / "mine.npz"))
    assert "mine.npz" in str(refused.value)
    assert "\n" not in str(refused.value)


def deep(folder: Path) -> None:
    pixels = np.zeros((12, 8), np.uint16)
    Image.fromarray(pixels).save(folder / "0" / "00.png")


def emptied(folder: Path) -> None:
    for file in (folder / "1").iterdir():
        file.unlink()


def bare(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path)


FOLDERS: list[tuple[Callable[[Path], object], str]] = [
    (emptied, "class '1' has no image; images end in .bmp"),
    (bare, "there is no folder of images per class"),
    (lambda folder: (folder / "0" / "00.png").write_bytes(b"PNG"), r"0/00\.png is no image that can be used"),
    (
        lambda folder: (folder / "0" / "00.png").write_bytes((folder / "0" / "00.png").read_bytes()[:200]),
        r"0/00\.png is no image that can be used: .*truncated",
    ),
    (lambda folder: (folder / "0" / "00.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n"), "is no image"),
    (deep, "more than 8 bits per channel"),
]


@pytest.mark.parametrize(("spoil", "message"), FOLDERS)
def test_folders_that_cannot_be_read_are_refused_in_one_line(
    spoil: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "leaves")
    spoil(folder)
    with pytest.raises(DataError, match=message) as refused:
        read_own(str(folder))
    assert "\n" not in str(refused.value)


def test_the_parts_of_a_folder_have_the_same_classes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "leaves", parts=("train", "test"))
    (folder / "test" / "2").rename(folder / "test" / "3")
    with pytest.raises(DataError, match="class '2' is not under both train/ and test/"):
        read_own(str(folder))


CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"name": "leaves"}, "or give a path, such as ./leaves or leaves.npz"),
    ({"name": "a.npz", "resize": 8}, "resize is for a folder of images"),
    ({"resize": 8}, "resize is for a folder of images"),
    (
        {"test_fraction": 0.5},
        "test_fraction is for images of one's own; fashion-mnist-sample has a test part",
    ),
    ({"name": "./leaves", "labels": "coarse"}, "labels = 'coarse' is for cifar100"),
]


@pytest.mark.parametrize(("fields", "message"), CONFIGS)
def test_fields_are_for_the_data_that_they_fit(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataConfig(**fields)


def test_nothing_is_held_out_where_there_is_a_test_part() -> None:
    data = ArrayDataset(IMAGES, LABELS, IMAGES, LABELS)
    with pytest.raises(DataError, match=r"has a test part: leave data\.test_fraction out"):
        load(DataConfig(name="arrays", test_fraction=0.3), data=data)
    with pytest.raises(DataError, match="given from Python"):
        load(DataConfig(name="arrays"))


def test_texts_of_pandas_are_texts_and_other_objects_are_refused() -> None:
    words = np.array(["ash", "elm", "oak"], dtype=object)[LABELS]
    assert ArrayDataset(IMAGES, words).classes == ("ash", "elm", "oak")
    for wrong in ([None, *words[1:]], [[1], [2, 3]]):
        with pytest.raises(DataError, match="labels must be whole numbers or texts; got object"):
            ArrayDataset(IMAGES, wrong)


def test_arrays_take_the_place_of_what_a_config_names() -> None:
    loaded = load(DataConfig(), data=ArrayDataset(IMAGES, LABELS))
    assert loaded.train.images.shape[1:] == (3, 12, 8)
    assert loaded.title == f"own images {loaded.fingerprint[4:12]}"


def test_a_part_of_another_name_is_not_passed_over(tmp_path: Path) -> None:
    folder_of(tmp_path, ("train", "val"))
    with pytest.raises(DataError, match="val/ is neither train/ nor test/"):
        read_own(str(tmp_path))
