"""The photographs of frost that CIFAR-C blends into pictures."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image

from pflrepro.data.root import data_root
from pflrepro.errors import CorruptFile, MissingData

# As the packages imagecorruptions 1.1.2 and imagecorruptions-imaug 1.1.5 carry them; the sixth is never drawn.
PHOTOGRAPHS = {
    "frost1.png": "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755",
    "frost2.png": "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137",
    "frost3.png": "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504",
    "frost4.jpg": "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e",
    "frost5.jpg": "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2",
}


def needed_by(shift: str) -> bool:
    """Whether a shift of `pflrepro.data.shifts` blends in these photographs."""
    return shift.startswith(("corrupt-half:", "corrupt-all:frost,"))


def find_photographs(root: str | Path | None = None) -> list[Path]:
    """The five files in `<root>/frost/original`, else those of an installed `imagecorruptions`, which is not imported.

    Raises `MissingData` as `find_folder` does, or `CorruptFile` for other files.
    """
    folder = find_folder(root)
    for name, expected in PHOTOGRAPHS.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise CorruptFile(f"{folder / name} is not the photograph that CIFAR-C uses: wrong checksum (SHA-256)")
    return [folder / name for name in PHOTOGRAPHS]


def frost_photographs(root: str | Path | None = None) -> list[np.ndarray]:
    """Five photographs at a fifth of their size, uint8 [3, height, width] each; errors as in `find_photographs`.

    OpenCV's bilinear reduction to a fifth meets the centre of every fifth pixel, and takes just that one.
    """
    return [_photograph(path) for path in find_photographs(root)]


def find_folder(root: str | Path | None = None) -> Path:
    """Where all five lie, unread; `MissingData` with what helps if they are nowhere."""
    own = data_root(root) / "frost" / "original"
    candidates = [own]
    package = importlib.util.find_spec("imagecorruptions")
    if package is not None and package.origin is not None:
        candidates.append(Path(package.origin).parent / "frost")
    for folder in candidates:
        if all((folder / name).is_file() for name in PHOTOGRAPHS):
            return folder
    raise MissingData(
        "the corruption frost needs its photographs: run `pip install --no-deps imagecorruptions-imaug`, or place "
        f"{', '.join(PHOTOGRAPHS)} of the CIFAR-C generator in {own}"
    )


def _photograph(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    height, width = (round(side / 5) for side in pixels.shape[:2])
    return np.ascontiguousarray(pixels[2::5, 2::5][:height, :width].transpose(2, 0, 1))
