"""The datasets (`datasets.toml` has the entries), and which of their files are present. Needs no torch."""

import gzip
import hashlib
import os
import shlex
import tomllib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import TypeAdapter

from seedspread.errors import DataError, one_of, reason


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset: checksum and size of its official content, unpacked.

    `images` is the number of images that it contains or, for a file of labels, describes.
    """

    name: str
    md5: str
    size: int
    images: int


@dataclass(frozen=True)
class Download:
    """A file to download; our SHA-256 sums are those that TensorFlow Datasets publishes."""

    url: str
    md5: str
    sha256: str
    megabytes: float


@dataclass(frozen=True)
class DatasetInfo:
    """The description of a dataset, which needs none of its files.

    Attributes:
        title: its name in reports.
        folder: its folder inside the data folder.
        train: the training files; for formats with separate labels, images then labels.
        test: the test files, likewise.
        classes: class names, in the order of the labels.
        mean: mean of each channel, for normalization; likewise `std`.
        augment: name of the dataset's own pipeline.
        reader: the format of its files (`READERS` in `data/dataset.py`).
        stored_size: pixels along an image's side in its files; `image_size` is the side in runs, with a
            `width` of its own if images are not square.
        elsewhere: other folders that may contain its files; relative ones are in `seedspread/cff`.
        coarse_classes: names of the coarser labels, if there are any.
        superclasses: the superclass of each class, in the order of the labels, if known.
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
    reader: Literal["cifar", "svhn", "idx", "own"]
    stored_size: int = 32
    image_size: int = 32
    width: int | None = None
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
        """Raise `DataError` if a model for `(C, H, W)` images does not fit these; unknown shapes fit all."""
        shape = self.channels, self.image_size, self.width or self.image_size
        size = self.image_size if shape[1] == shape[2] else "'{1}x{2}'".format(*shape)
        if self.channels and model != shape:
            raise DataError(
                f"{self.name} has images of {' x '.join(map(str, shape))}, the model is for "
                f"{' x '.join(map(str, model))}; set model.image_size = {size} and "
                f"model.channels = {self.channels}"
            )


def _images(files: tuple[DataFile, ...]) -> int:
    return sum(file.images for file in files if "labels" not in file.name)


_HERE = Path(__file__).parent


def read_datasets(toml: str) -> dict[str, DatasetInfo]:
    """Return datasets by name; an entry that is `like` another inherits the fields that it leaves out."""
    entries = tomllib.loads(toml)
    for name, entry in entries.items():
        whole = entries.get(entry.pop("like", ""), {}) | entry
        elsewhere = [str(_HERE / place) for place in whole.get("elsewhere", ())]
        entries[name] = whole | {"name": name, "elsewhere": elsewhere}
    return TypeAdapter(dict[str, DatasetInfo]).validate_python(entries)


DATASETS = read_datasets((_HERE / "datasets.toml").read_text(encoding="utf-8"))
# The default dataset of a run, whose shape is the default of a model.
DEFAULT = DATASETS["fashion-mnist-sample"]


# The name of images that are passed from Python.
ARRAYS = "arrays"


def is_own(name: str) -> bool:
    """Return whether a name stands for the user's own images: a path, arrays, or a function of user code."""
    return name not in DATASETS and ("/" in name or is_npz(name) or is_dotted(name))


def is_dotted(name: str) -> bool:
    """Return whether a name refers to user code, `package.module:Name`."""
    return ":" in name and "/" not in name


def is_npz(name: str) -> bool:
    return name == ARRAYS or name.endswith(".npz")


def dataset_info(name: str) -> DatasetInfo:
    """Return a dataset by name; a `DataError` lists the known names.

    The user's own images are not read here: they get a title, no shape, and nominal numbers of images.
    """
    if is_own(name):
        title = name if is_dotted(name) else Path(name).stem or name
        train, test = DataFile("", "", 0, 4), DataFile("", "", 0, 1)
        return DatasetInfo(title, title, name, (train,), (test,), (), ("",), (), (), "", "own", channels=0)
    try:
        one_of("dataset", name, DATASETS)
    except ValueError as error:
        raise DataError(str(error)) from error
    return DATASETS[name]


# No official file is larger when unpacked.
MAX_BYTES = 400 * 2**20


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the data folder: `data_dir`, else SEEDSPREAD_DATA, else one in the user's cache folder."""
    chosen = data_dir or os.environ.get("SEEDSPREAD_DATA")
    if chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError as error:
            raise DataError(f"data folder {str(chosen)!r}: {error}") from error
    return platformdirs.user_cache_path("seedspread") / "data"


def fetch_command(name: str, data_dir: Path | None) -> str:
    """Return the command that downloads a dataset into `data_dir`, or into the default folder."""
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
    expected: DataFile  # the official file
    path: Path | None  # None if it is absent
    content: bytes  # its unpacked content; empty if it is absent
    md5: str  # checksum of `content`

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
    """Raise `DataError` if a file has another's official content, or the same content as another."""
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
    """Identify partial content by the images and labels themselves."""
    digest = hashlib.sha256(info.name.encode())
    for piece in content:
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return f"partial-{digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class Presence:
    """A dataset's files, judged by name and size; their content is not read."""

    name: str  # the dataset
    title: str  # its name in reports
    folder: str  # folder that contains its files, or would
    found: int  # number of its files that are present
    short: int  # number of those that are smaller than the official ones
    packed: int  # number of those that are compressed, so that their size is no evidence
    expected: int  # number of files of the whole dataset
    bytes: int  # size on disk of the files that are present


def presence(info: DatasetInfo, data_dir: Path | None = None) -> Presence:
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
    """Return the expected number of ordered positive pairs in a batch drawn without replacement.

    Two different images of a batch are of one class with probability sum_c n_c (n_c - 1) / (n (n - 1)).
    With v views of each image every such pair counts v^2 times, and each image adds the v (v - 1) pairs
    of its own views. Halve the number for unordered pairs.

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
