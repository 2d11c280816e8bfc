"""The datasets: their official files, addresses and checksums, their classes and images' shapes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from seedspread.errors import DataError, one_of

_CIFAR_MEAN, _CIFAR_STD = (0.491, 0.482, 0.447), (0.202, 0.199, 0.201)


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset, unpacked.

    Attributes:
        name: its name in the dataset's folder.
        md5: of the official content.
        size: of the official content, in bytes.
        images: how many images it has, or belong to it (a file of labels).
    """

    name: str
    md5: str
    size: int
    images: int


@dataclass(frozen=True)
class Download:
    """An official address, and what comes from it."""

    url: str
    md5: str
    megabytes: float


@dataclass(frozen=True)
class DatasetInfo:
    """All that is known of a dataset without looking at it.

    Attributes:
        name: the dataset's name here.
        title: its name in reports.
        folder: its folder inside the data folder.
        train: the training files; for formats with labels apart, images then labels.
        test: the test files, likewise.
        downloads: where they come from.
        classes: class names, in the order of the labels.
        mean: per channel, for normalisation.
        std: per channel, for normalisation.
        augment: the name of its own pipeline.
        reader: which format its files have (`formats.READERS`).
        stored_size: pixels along an image's side, in its files.
        image_size: likewise, as runs see it.
        channels: colour channels, as runs see them.
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
    stored_size: int
    image_size: int
    channels: int
    elsewhere: tuple[str, ...] = ()
    coarse_classes: tuple[str, ...] = ()
    superclasses: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Training and test files."""
        return self.train + self.test

    @property
    def train_size(self) -> int:
        """Images in the official training part."""
        return _images(self.train)

    @property
    def test_size(self) -> int:
        """Images in the official test part."""
        return _images(self.test)

    def check_shape(self, model: tuple[int, int, int]) -> None:
        """Raises `DataError` unless a model for images of `(C, H, W)` is one for these."""
        shape = self.channels, self.image_size, self.image_size
        if model != shape:
            raise DataError(
                f"{self.name} has images of {' x '.join(map(str, shape))}, the model is for "
                f"{' x '.join(map(str, model))}; set model.image_size = {self.image_size} and "
                f"model.channels = {self.channels}"
            )


def _images(files: tuple[DataFile, ...]) -> int:
    """A file of labels holds none."""
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
    stored_size=32,
    image_size=32,
    channels=3,
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
    stored_size=32,
    image_size=32,
    channels=3,
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
    stored_size=32,
    image_size=32,
    channels=3,
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
    image_size=32,
    channels=3,
    elsewhere=("/usr/share/datasets/fashion-mnist",),  # Debian's package dataset-fashion-mnist
)

# Cut from Fashion-MNIST by tools/make_sample.py: the first 300 training and 100 test images of every class.
FASHION_SAMPLE = DatasetInfo(
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
    classes=_FASHION_CLASSES,
    mean=FASHION_MNIST.mean,
    std=FASHION_MNIST.std,
    augment="fashion-mnist",
    reader="idx",
    stored_size=28,
    image_size=32,
    channels=3,
    elsewhere=(str(Path(__file__).parent / "data" / "sample"),),
)


def _as_it_is(info: DatasetInfo, name: str) -> DatasetInfo:
    """The same grey images, neither enlarged nor tripled."""
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
    _as_it_is(FASHION_MNIST, "fashion-mnist-28"),
    _as_it_is(FASHION_SAMPLE, "fashion-mnist-sample-28"),
)
DATASETS = {info.name: info for info in _ALL}
# What a run is trained on, and a model made for, if nothing else is asked for.
DEFAULT = FASHION_SAMPLE


def dataset_info(name: str) -> DatasetInfo:
    """The dataset of that name; a `DataError` lists the names there are."""
    try:
        one_of("dataset", name, DATASETS)
    except ValueError as error:
        raise DataError(str(error)) from error
    return DATASETS[name]
