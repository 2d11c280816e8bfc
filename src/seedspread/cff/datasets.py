"""The datasets: official files, addresses, checksums, classes, shapes, and which files are present.

Needs no torch.
"""

import gzip
import hashlib
import os
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Literal

import platformdirs

from seedspread.errors import DataError, one_of, reason

_CIFAR_MEAN, _CIFAR_STD = (0.491, 0.482, 0.447), (0.202, 0.199, 0.201)


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset: checksum and size of its official content, unpacked.

    `images` is how many images it holds or, for a file of labels, describes.
    """

    name: str
    md5: str
    size: int
    images: int


@dataclass(frozen=True)
class Download:
    url: str
    md5: str
    megabytes: float


@dataclass(frozen=True)
class DatasetInfo:
    """Everything known about a dataset without its files.

    Attributes:
        title: its name in reports.
        folder: its folder inside the data folder.
        train: the training files; for formats with labels apart, images then labels.
        test: the test files, likewise.
        classes: class names, in the order of the labels.
        mean: per channel, for normalization; likewise `std`.
        augment: the name of its own pipeline.
        reader: the format of its files (`READERS` in `data/dataset.py`).
        stored_size: pixels along an image's side in its files; `image_size` as runs see it.
        elsewhere: other folders in which its files may be found.
        coarse_classes: names of the coarser labels, where there are such.
        superclasses: what each class is a kind of, in the order of the labels, where that is known.
    """

    name: str
    title: str
    folder: str
    train: tuple[DataFile, ...]
    test: tuple[DataFile, ...]
    downloads: tuple[Download, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: str
    reader: Literal["cifar", "svhn", "idx"]
    stored_size: int = 32
    image_size: int = 32
    channels: int = 3
    elsewhere: tuple[str, ...] = ()
    coarse_classes: tuple[str, ...] = ()
    superclasses: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self.train + self.test

    @property
    def train_size(self) -> int:
        return _images(self.train)

    @property
    def test_size(self) -> int:
        return _images(self.test)

    def check_shape(self, model: tuple[int, int, int]) -> None:
        """Raise `DataError` unless a model for images of `(C, H, W)` is one for these."""
        shape = self.channels, self.image_size, self.image_size
        if model != shape:
            raise DataError(
                f"{self.name} has images of {' x '.join(map(str, shape))}, the model is for "
                f"{' x '.join(map(str, model))}; set model.image_size = {self.image_size} and "
                f"model.channels = {self.channels}"
            )


def _images(files: tuple[DataFile, ...]) -> int:
    return sum(file.images for file in files if "labels" not in file.name)


_KRIZHEVSKY = "https://www.cs.toronto.edu/~kriz/"
_NETZER = "http://ufldl.stanford.edu/housenumbers/"
_ZALANDO = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"

_CIFAR10_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
_CIFAR10_VEHICLES = ("airplane", "automobile", "ship", "truck")
_CIFAR100_CLASSES = tuple(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
    can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
    lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
    pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
    seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
    telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman
    worm""".split()
)
_CIFAR100_COARSE = tuple(
    """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
    household_furniture insects large_carnivores large_man-made_outdoor_things
    large_natural_outdoor_scenes large_omnivores_and_herbivores medium_mammals non-insect_invertebrates
    people reptiles small_mammals trees vehicles_1 vehicles_2""".split()
)
# Of each fine class, in order; as the dataset's own files pair them.
_CIFAR100_COARSE_OF = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip
_FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def _cifar10_batch(name: str, md5: str) -> DataFile:
    return DataFile(name, md5, 30_730_000, 10_000)


CIFAR10 = DatasetInfo(
    name="cifar10",
    title="CIFAR-10",
    folder="cifar-10-batches-bin",
    train=(
        _cifar10_batch("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25"),
        _cifar10_batch("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692"),
        _cifar10_batch("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421"),
        _cifar10_batch("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb"),
        _cifar10_batch("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d"),
    ),
    test=(_cifar10_batch("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d"),),
    downloads=(Download(_KRIZHEVSKY + "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170.1),),
    classes=_CIFAR10_CLASSES,
    mean=_CIFAR_MEAN,
    std=_CIFAR_STD,
    augment="cifar",
    reader="cifar",
    superclasses=tuple("vehicle" if name in _CIFAR10_VEHICLES else "animal" for name in _CIFAR10_CLASSES),
)

CIFAR100 = DatasetInfo(
    name="cifar100",
    title="CIFAR-100",
    folder="cifar-100-binary",
    train=(DataFile("train.bin", "6172c7755cfe09b2fe270c85cebc1b15", 153_700_000, 50_000),),
    test=(DataFile("test.bin", "4499cfba6c016c1be1438163640a0898", 30_740_000, 10_000),),
    downloads=(Download(_KRIZHEVSKY + "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168.5),),
    classes=_CIFAR100_CLASSES,
    mean=_CIFAR_MEAN,  # the paper uses CIFAR-10's
    std=_CIFAR_STD,
    augment="cifar",
    reader="cifar",
    coarse_classes=_CIFAR100_COARSE,
    superclasses=tuple(_CIFAR100_COARSE[coarse] for coarse in _CIFAR100_COARSE_OF),
)

SVHN = DatasetInfo(
    name="svhn",
    title="SVHN",
    folder="svhn",
    train=(DataFile("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794, 73_257),),
    test=(DataFile("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384, 26_032),),
    downloads=(
        Download(_NETZER + "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182.0),
        Download(_NETZER + "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64.3),
    ),
    classes=tuple("0123456789"),
    mean=(0.438, 0.444, 0.473),
    std=(0.198, 0.201, 0.197),
    augment="svhn-easy",
    reader="svhn",
)

FASHION_MNIST = DatasetInfo(
    name="fashion-mnist",
    title="Fashion-MNIST",
    folder="fashion-mnist",
    train=(
        DataFile("train-images-idx3-ubyte", "f4a8712d7a061bf5bd6d2ca38dc4d50a", 47_040_016, 60_000),
        DataFile("train-labels-idx1-ubyte", "9018921c3c673c538a1fc5bad174d6f9", 60_008, 60_000),
    ),
    test=(
        DataFile("t10k-images-idx3-ubyte", "8181f5470baa50b63fa0f6fddb340f0a", 7_840_016, 10_000),
        DataFile("t10k-labels-idx1-ubyte", "15d484375f8d13e6eb1aabb0c3f46965", 10_008, 10_000),
    ),
    downloads=(
        Download(_ZALANDO + "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26.4),
        Download(_ZALANDO + "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 0.03),
        Download(_ZALANDO + "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4.4),
        Download(_ZALANDO + "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 0.005),
    ),
    classes=_FASHION_CLASSES,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    augment="fashion-mnist",
    reader="idx",
    stored_size=28,
    elsewhere=("/usr/share/datasets/fashion-mnist",),  # Debian's package dataset-fashion-mnist
)

# Cut from Fashion-MNIST by tools/make_sample.py: the first 300 training and 100 test images of every class.
FASHION_SAMPLE = replace(
    FASHION_MNIST,
    name="fashion-mnist-sample",
    title="Fashion-MNIST, embedded sample of 3,000 + 1,000 images",
    folder="fashion-mnist-sample",
    train=(
        DataFile("train-images-idx3-ubyte", "b8ec442bdb1d60df0b7867fab59457b2", 2_352_016, 3_000),
        DataFile("train-labels-idx1-ubyte", "d69dbca8a65b0708aa07ff60dd759d96", 3_008, 3_000),
    ),
    test=(
        DataFile("t10k-images-idx3-ubyte", "c5442ce2f064c32bf3ec2983a505322f", 784_016, 1_000),
        DataFile("t10k-labels-idx1-ubyte", "a00963b89d54a5ab6dc42b2b2c57c0e7", 1_008, 1_000),
    ),
    downloads=(),
    elsewhere=(str(Path(__file__).parent / "data" / "sample"),),
)


def _unscaled(info: DatasetInfo, name: str) -> DatasetInfo:
    """Return the same dataset with grey images as they are stored, neither enlarged nor tripled."""
    return replace(
        info,
        name=name,
        title=f"{info.title}, {info.stored_size} x {info.stored_size} grey",
        mean=info.mean[:1],
        std=info.std[:1],
        image_size=info.stored_size,
        channels=1,
    )


_ALL = (
    CIFAR10,
    CIFAR100,
    SVHN,
    FASHION_MNIST,
    FASHION_SAMPLE,
    _unscaled(FASHION_MNIST, "fashion-mnist-28"),
    _unscaled(FASHION_SAMPLE, "fashion-mnist-sample-28"),
)
DATASETS = {info.name: info for info in _ALL}
# What a run is trained on, and a model made for, if nothing else is asked for.
DEFAULT = FASHION_SAMPLE


def dataset_info(name: str) -> DatasetInfo:
    """Return a dataset by name; a `DataError` lists the known names."""
    try:
        one_of("dataset", name, DATASETS)
    except ValueError as error:
        raise DataError(str(error)) from error
    return DATASETS[name]


# No official file is larger when unpacked; more than this is not one of them.
MAX_BYTES = 400 * 2**20


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: the one asked for, else SEEDSPREAD_DATA, else the user's cache folder."""
    chosen = data_dir or os.environ.get("SEEDSPREAD_DATA")
    if chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError as error:
            raise DataError(f"data folder {str(chosen)!r}: {error}") from error
    return platformdirs.user_cache_path("seedspread") / "data"


def fetch_command(name: str, data_dir: Path | None) -> str:
    """Return the command that downloads a dataset into the folder that was asked for."""
    into = ["--data-dir", str(data_dir)] if data_dir else []
    return shlex.join(["seedspread", "data", "fetch", name, *into])


def find_file(info: DatasetInfo, file: DataFile, folder: Path) -> Path | None:
    """Return the path of a file, packed or not, in the data folder or `elsewhere`; None if absent."""
    for place in (folder / info.folder, *map(Path, info.elsewhere)):
        for name in (file.name, file.name + ".gz"):
            try:
                if (place / name).is_file():
                    return place / name
            except OSError as error:
                raise DataError(f"cannot look into {place}: {reason(error)}") from error
    return None


def read_unpacked(path: Path) -> bytes:
    """Return the content of a file, unpacked if it ends in .gz."""
    opened = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opened(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): delete it and fetch the dataset anew") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} holds more than {MAX_BYTES:,} bytes: not an official file; delete it")
    return bytes(content)


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class LocalFile:
    """A file of a dataset as it is on this machine."""

    expected: DataFile  # what it should be
    path: Path | None  # where it is, None if it is nowhere
    content: bytes  # its unpacked content; empty if there is none
    md5: str  # of that content

    @property
    def is_official(self) -> bool:
        return self.md5 == self.expected.md5


def read_file(info: DatasetInfo, file: DataFile, folder: Path) -> LocalFile:
    path = find_file(info, file, folder)
    if path is None:
        return LocalFile(file, None, b"", "")
    content = read_unpacked(path)
    return LocalFile(file, path, content, md5(content))


def check_not_swapped(files: list[LocalFile], info: DatasetInfo, command: str) -> None:
    """Raise `DataError` if a file has another's content, official or as it is here."""
    present = [file for file in files if file.path is not None]
    for file in present:
        for official in info.files:
            if file.md5 == official.md5 and official is not file.expected:
                raise DataError(
                    f"{file.path} holds the content of {official.name}: the files were swapped; "
                    f"rename them, or fetch them anew with: {command}"
                )
    for file, other in combinations(present, 2):
        if file.md5 == other.md5:
            raise DataError(f"{other.path} and {file.path} have the same content: one of them is wrong")


@cache
def official_fingerprint(info: DatasetInfo) -> str:
    """Identify the whole official content by its checksums, which are known without the files."""
    text = "\n".join([info.name, *(file.md5 for file in info.files)])
    return f"official-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def partial_fingerprint(info: DatasetInfo, *content: bytes) -> str:
    """Identify content that is not the whole official one, from the images and labels themselves."""
    digest = hashlib.sha256(info.name.encode())
    for piece in content:
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return f"partial-{digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class Presence:
    """A dataset's files, by name only; their content has not been looked at."""

    name: str  # the dataset
    title: str  # its name in reports
    folder: str  # where its files are, or would be put
    found: int  # how many of its files are there
    short: int  # how many of those are smaller than the official ones
    packed: int  # how many are packed, so that their size says nothing
    expected: int  # how many it has
    bytes: int  # what they take on disk


def presence(info: DatasetInfo, data_dir: Path | None = None) -> Presence:
    """Look for a dataset's files."""
    folder = data_folder(data_dir)
    path_of = {file: path for file in info.files if (path := find_file(info, file, folder))}
    paths = list(path_of.values())
    short = [f for f, path in path_of.items() if path.suffix != ".gz" and path.stat().st_size < f.size]
    return Presence(
        name=info.name,
        title=info.title,
        folder=str(paths[0].parent if paths else folder / info.folder),
        found=len(paths),
        short=len(short),
        packed=sum(path.suffix == ".gz" for path in paths),
        expected=len(info.files),
        bytes=sum(path.stat().st_size for path in paths),
    )


def expected_positive_pairs(
    class_counts: Sequence[float], batch_size: float, *, views: int = 1, balanced: bool = False
) -> float:
    """The expected number of ordered positive pairs in a batch drawn without replacement.

    Two different images of a batch are of one class with probability sum_c n_c (n_c - 1) / (n (n - 1)).
    With v views of each image every such pair counts v^2 times, and an image's own views are
    v (v - 1) pairs more. Halve it for unordered pairs.

    Args:
        class_counts: images per class in the data that batches are drawn from.
        batch_size: images per batch.
        views: views per image.
        balanced: batches that hold every class in exact proportion instead of random ones.
    """
    total = sum(class_counts)
    if min(class_counts, default=-1) < 0 or total == 0:
        raise ValueError(f"class_counts must be counts >= 0 of some images; got {class_counts!r}")
    if not 1 <= batch_size <= total:
        raise ValueError(f"batch_size must be from 1 to {total} (the images); got {batch_size!r}")
    if views < 1:
        raise ValueError(f"views must be at least 1; got {views!r}")
    if balanced:
        shares = [batch_size * count / total for count in class_counts]
        images = sum(share * max(share - 1, 0.0) for share in shares)
    elif total == 1:
        images = 0.0
    else:
        same = sum(count * (count - 1) for count in class_counts) / (total * (total - 1))
        images = batch_size * (batch_size - 1) * same
    return views**2 * images + batch_size * views * (views - 1)
