"""Make the embedded sample of Fashion-MNIST: the first images of every class.

Usage: python tools/make_sample.py FOLDER, with the four official files (.gz) in FOLDER. It writes into
src/seedspread/cff/data/sample and prints the files' entries for src/seedspread/cff/datasets.py.
"""

import gzip
import hashlib
import struct
import sys
from pathlib import Path

import numpy as np

PER_CLASS = {"train": 300, "t10k": 100}
TARGET = Path(__file__).parents[1] / "src" / "seedspread" / "cff" / "data" / "sample"


def main(folder: Path) -> None:
    """Write the four files of the sample, the same bytes every time."""
    for part, per_class in PER_CLASS.items():
        images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
        pixels = np.frombuffer(images, np.uint8).reshape(-1, 28 * 28)
        classes = np.frombuffer(labels, np.uint8)
        first = [np.flatnonzero(classes == label)[:per_class] for label in range(10)]
        chosen = np.sort(np.concatenate(first))
        n = len(chosen)
        _write(
            f"{part}-images-idx3-ubyte", struct.pack(">4I", 0x803, n, 28, 28) + pixels[chosen].tobytes(), n
        )
        _write(f"{part}-labels-idx1-ubyte", struct.pack(">2I", 0x801, n) + classes[chosen].tobytes(), n)


def _write(name: str, content: bytes, images: int) -> None:
    (TARGET / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
    print(f'DataFile("{name}", "{checksum}", {len(content)}, {images}),')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
