"""Folders of pictures, in a zip archive or unpacked: Tiny-ImageNet, PACS, MNIST-M as its authors released it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from pflrepro.data.arrays import Arrays
from pflrepro.data.readers.archives import FileTree, file_tree
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

_LIMIT = 5_000_000  # bytes of one picture file
_MOST_SIDE = 4096
_TINY = re.compile(r"(?:^|/)train/(n\d{8})/images/([^/]+\.JPEG)$")
_PACS = re.compile(r"(?:^|/)(art_painting|cartoon|photo|sketch)/([a-z]+)/([^/]+\.(?:jpg|png))$")


def tiny_imagenet(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [100000, 3, 64, 64] RGB: the folder `train` only, classes in the order of their WordNet ids, files in the order of
    their names; `classes` are the ids [DBE: "100K images with 200 labels"; LIB].
    """
    return _tiny(spec, paths["archive"], validation=False)


def tiny_imagenet_110k(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """As `tiny_imagenet`, and behind it the 10,000 pictures of the folder `val` in the order of its list of labels [FDA]."""
    return _tiny(spec, paths["archive"], validation=True)


def _tiny(spec: DatasetSpec, path: Path, *, validation: bool) -> Arrays:
    with file_tree(path) as tree:
        train = sorted(_matches(tree, _TINY), key=lambda match: (match[1], match[2]))
        ids = sorted({match[1] for match in train})
        _same_number(path, "classes", len(ids), spec.classes)
        label = {name: number for number, name in enumerate(ids)}
        files = [(match.string, label[match[1]]) for match in train]
        if validation:
            files += _validation(tree, path, label)
        x = _pictures(tree, path, [name for name, _ in files], spec.shape, exact=True)
    split = np.repeat(np.array([0, 1], np.uint8), [len(train), len(files) - len(train)])
    return Arrays(name=spec.name, x=x, y=np.array([y for _, y in files]), split=split, classes=np.array(ids))


def _validation(tree: FileTree, path: Path, label: Mapping[str, int]) -> list[tuple[str, int]]:
    """File and label of each line of val_annotations.txt: `name TAB WordNet id TAB ...`."""
    lists = [name for name in tree.names() if re.search(r"(?:^|/)val/val_annotations\.txt$", name)]
    _same_number(path, "validation lists", len(lists), 1)
    folder = lists[0].rpartition("/")[0]
    files = []
    for line in tree.read(lists[0], _LIMIT).decode("latin1").splitlines():
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in label:
            raise CorruptFile(f"{path} ({lists[0]}) is corrupt: {line[:60]!r} names no picture with a known class")
        files.append((f"{folder}/images/{fields[0]}", label[fields[1]]))
    return files


def pacs(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [9991, 3, 32, 32] RGB with `group` = domain: 0 art painting, 1 cartoon, 2 photo, 3 sketch.

    Pictures are resized to 32x32, bilinear with antialiasing [BR-code, which resizes through PIL]; rows lie domain by domain,
    class by class, in the order of the file names.
    """
    path = paths["pictures"]
    with file_tree(path) as tree:
        found = sorted(_matches(tree, _PACS), key=lambda match: match.groups())
        domains = sorted({match[1] for match in found})
        _same_number(path, "domains", len(domains), 4)
        unknown = sorted({match[2] for match in found} - set(spec.class_names))
        if unknown:
            raise CorruptFile(f"{path} has a folder of an unknown class: {unknown[0]}")
        x = _pictures(tree, path, [match.string for match in found], spec.shape, exact=False)
    return Arrays(
        name=spec.name,
        x=x,
        y=np.array([spec.class_names.index(match[2]) for match in found], dtype=np.int64),
        group=np.array([domains.index(match[1]) for match in found], dtype=np.int64),
        classes=np.array(spec.class_names),
    )


def mnistm_68k(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [68002, 3, 32, 32] RGB: the folder mnist_m_train, then mnist_m_test, each in the order of its list of labels."""
    path = paths["pictures"]
    with file_tree(path) as tree:
        parts = [_listed(tree, path, f"mnist_m_{part}", spec) for part in ("train", "test")]
    return Arrays.of_parts(spec.name, parts, spec.class_names)


def _listed(tree: FileTree, path: Path, part: str, spec: DatasetSpec) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and labels of one part: each line of `<part>_labels.txt` is a file of the folder `<part>` and its digit."""
    lists = _matches(tree, re.compile(rf"(?:^|/){part}_labels\.txt$"))
    _same_number(path, f"parts {part} with a list of labels", len(lists), 1)
    top, names, digits = lists[0].string.removesuffix("_labels.txt"), [], []
    for line in tree.read(lists[0].string, _LIMIT).decode("latin1").splitlines():
        found = re.fullmatch(r"([^/\s]+\.png) (\d)", line)
        if not found:
            raise CorruptFile(f"{path} ({lists[0].string}) is corrupt: {line[:60]!r} is no picture with its digit")
        names.append(f"{top}/{found[1]}")
        digits.append(int(found[2]))
    return _pictures(tree, path, names, spec.shape, exact=True), np.array(digits, dtype=np.int64)


def _matches(tree: FileTree, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [match for match in map(pattern.search, tree.names()) if match]


def _same_number(path: Path, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise CorruptFile(f"{path} has pictures of {found} {what}, expected {expected}")


def _pictures(tree: FileTree, path: Path, names: Sequence[str], shape: Sequence[int], *, exact: bool) -> np.ndarray:
    """The named pictures as uint8 [n, 3, height, width]; of another size: refused if `exact`, else resized."""
    if not names:
        raise CorruptFile(f"{path} has no pictures where they are expected")
    channels, height, width = shape
    pictures = np.empty((len(names), channels, height, width), dtype=np.uint8)
    for number, name in enumerate(names):
        pixels = decode_picture(tree.read(name, _LIMIT), (width, height), f"{path} ({name})", exact=exact)
        pictures[number] = pixels.transpose(2, 0, 1)
    return pictures


def decode_picture(content: bytes, size: tuple[int, int], source: str, *, exact: bool) -> np.ndarray:
    """A JPEG or PNG file's RGB pixels, uint8 [height, width, 3]; grey pictures have three equal channels."""
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as picture:
            # The size stands in the header: a picture that would fill the memory is refused before it is decoded.
            if max(picture.size) > _MOST_SIDE or (exact and picture.size != size):
                raise CorruptFile(f"{source} is corrupt: it is {picture.size[0]}x{picture.size[1]} pixels large")
            rgb = picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise CorruptFile(f"{source} is corrupt: {' '.join(str(error).split())[:200]}") from None
    if rgb.size != size:
        rgb = rgb.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(rgb)
