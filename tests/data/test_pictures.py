"""Folders of pictures: Tiny-ImageNet's archive and PACS, with pictures that the tests draw."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_sources import has_form
from PIL import Image

from pflrepro.data.datasets import DATASETS
from pflrepro.data.readers.pictures import decode_picture, mnistm_68k, pacs, tiny_imagenet, tiny_imagenet_110k
from pflrepro.errors import CorruptFile

TINY = replace(DATASETS["tiny-imagenet"], class_count=2)
PACS = DATASETS["pacs"]
IDS = ("n01443537", "n01629819")


def picture(colour: object, size: tuple[int, int] = (64, 64), kind: str = "JPEG", mode: str = "RGB") -> bytes:
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, kind)
    return stream.getvalue()


def tiny_files() -> dict[str, bytes]:
    top = "tiny-imagenet-200"
    files = {f"{top}/wnids.txt": "\n".join(reversed(IDS)).encode()}
    for k, name in enumerate(IDS):
        for number in (10, 2, 1):
            files[f"{top}/train/{name}/images/{name}_{number}.JPEG"] = picture((100 * k + number * 8, 0, 0))
        files[f"{top}/train/{name}/{name}_boxes.txt"] = b"no picture"
    files[f"{top}/val/images/val_0.JPEG"] = picture(77, mode="L")
    files[f"{top}/val/images/val_1.JPEG"] = picture((0, 200, 0))
    files[f"{top}/val/val_annotations.txt"] = (
        f"val_1.JPEG\t{IDS[0]}\t0\t0\t1\t1\nval_0.JPEG\t{IDS[1]}\t0\t0\t1\t1\n".encode()
    )
    return files


def zipped(folder: Path, files: dict[str, bytes]) -> dict[str, Path]:
    with zipfile.ZipFile(folder / "files.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return {"archive": folder / "files.zip", "pictures": folder / "files.zip"}


def unzipped(folder: Path, files: dict[str, bytes]) -> dict[str, Path]:
    for name, content in files.items():
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_bytes(content)
    return {"archive": folder / "files", "pictures": folder / "files"}


@pytest.mark.parametrize("stored", [zipped, unzipped])
def test_tiny_imagenet_is_in_the_order_of_ids_and_names(tmp_path: Path, stored) -> None:
    arrays = tiny_imagenet(TINY, stored(tmp_path, tiny_files()))
    assert arrays.x.shape == (6, 3, 64, 64) and arrays.x.dtype == np.uint8
    assert arrays.y.tolist() == [0, 0, 0, 1, 1, 1] and arrays.classes.tolist() == list(IDS)
    red = arrays.x[:, 0].mean((1, 2))  # names sort as text: 1, 10, 2
    np.testing.assert_allclose(red, [8, 80, 16, 108, 180, 116], atol=3)
    assert arrays.x[:, 1:].max() <= 6 and has_form(TINY, arrays)


def test_the_validation_part_follows_its_list(tmp_path: Path) -> None:
    arrays = tiny_imagenet_110k(TINY, zipped(tmp_path, tiny_files()))
    assert arrays.y.tolist() == [0, 0, 0, 1, 1, 1, 0, 1] and arrays.split.tolist() == [0] * 6 + [1] * 2
    np.testing.assert_allclose(arrays.x[6].mean((1, 2)), [0, 200, 0], atol=3)
    np.testing.assert_allclose(arrays.x[7], 77, atol=2)  # a grey picture has three equal channels


TRAIN = f"tiny-imagenet-200/train/{IDS[0]}/images/{IDS[0]}_1.JPEG"
LIST = "tiny-imagenet-200/val/val_annotations.txt"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({TRAIN: picture((1, 2, 3))[:-300]}, r"n01443537_1\.JPEG\) is corrupt: .*[Tt]runcated"),
        ({TRAIN: b"no picture"}, "cannot identify"),
        ({TRAIN: picture(0, (64, 63))}, "64x63 pixels"),
        ({TRAIN: picture(0, kind="GIF")}, "cannot identify"),
        ({TRAIN.replace(IDS[0], "n00000001"): picture(0)}, "pictures of 3 classes, expected 2"),
        ({LIST: b"val_0.JPEG\tn09999999\t0\n"}, "no picture with a known class"),
        ({LIST: b"val_0.JPEG\n"}, "no picture with a known class"),
        ({LIST: f"val_9.JPEG\t{IDS[0]}".encode()}, r"no member .*val_9\.JPEG"),
        ({LIST: f"../../../etc/passwd\t{IDS[0]}".encode()}, "no member .*passwd"),
        ({"other/" + LIST: b""}, "2 validation lists, expected 1"),
    ],
)
def test_odd_tiny_imagenets_are_refused(tmp_path: Path, change: dict[str, bytes], words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        tiny_imagenet_110k(TINY, zipped(tmp_path, tiny_files() | change))
    assert "\n" not in str(caught.value)


def pacs_files(prefix: str = "kfold/") -> dict[str, bytes]:
    files = {prefix + "README": b""}
    for d, domain in enumerate(("sketch", "photo", "cartoon", "art_painting")):
        for c, name in enumerate(("dog", "person")):
            files[f"{prefix}{domain}/{name}/pic_001.jpg"] = picture((60 * d, 90 * c, 0), (227, 227))
    files[prefix + "photo/dog/pic_000.png"] = picture((255, 255, 255), (227, 227), "PNG")
    return files


@pytest.mark.parametrize("stored", [zipped, unzipped])
@pytest.mark.parametrize("prefix", ["kfold/", ""])
def test_pacs_has_its_domains_as_groups(tmp_path: Path, stored, prefix: str) -> None:
    arrays = pacs(PACS, stored(tmp_path, pacs_files(prefix)))
    assert arrays.x.shape == (9, 3, 32, 32)
    assert arrays.group.tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert arrays.y.tolist() == [0, 6, 0, 6, 0, 0, 6, 0, 6]
    np.testing.assert_allclose(arrays.x[:, 0].mean((1, 2)), [180, 180, 120, 120, 255, 60, 60, 0, 0], atol=3)
    assert has_form(PACS, arrays)


@pytest.mark.parametrize(
    ("drop", "change", "words"),
    [
        ("sketch", {}, "pictures of 3 domains, expected 4"),
        ("", {"kfold/photo/cat/a.jpg": b""}, "unknown class: cat"),
        ("", {"kfold/photo/dog/a.jpg": picture(0, (5000, 1))}, "5000x1 pixels"),
        ("", {"kfold/photo/dog/a.jpg": b"\xff\xd8\xff"}, "corrupt"),
        ("kfold", {}, "pictures of 0 domains"),
    ],
)
def test_odd_pacs_archives_are_refused(tmp_path: Path, drop: str, change: dict[str, bytes], words: str) -> None:
    files = {name: content for name, content in pacs_files().items() if not drop or drop not in name}
    with pytest.raises(CorruptFile, match=words):
        pacs(PACS, zipped(tmp_path, files | change))


MNISTM = DATASETS["mnistm-68k"]


def mnistm_files(prefix: str = "mnist_m/") -> dict[str, bytes]:
    """Two training pictures and a test picture, whose lists are not in the order of the names."""
    files = {f"{prefix}mnist_m_train/00000002.png": picture((9, 9, 9), (32, 32), "PNG")}  # in no list
    for part, listed in (("train", {"00000001": 7, "00000000": 2}), ("test", {"00000000": 9})):
        files[f"{prefix}mnist_m_{part}_labels.txt"] = "".join(f"{k}.png {v}\n" for k, v in listed.items()).encode()
        for name, digit in listed.items():
            files[f"{prefix}mnist_m_{part}/{name}.png"] = picture((20 * digit, 1, 2), (32, 32), "PNG")
    return files


@pytest.mark.parametrize("stored", [zipped, unzipped])
@pytest.mark.parametrize("prefix", ["mnist_m/", ""])
def test_mnistm_follows_its_lists(tmp_path: Path, stored, prefix: str) -> None:
    arrays = mnistm_68k(MNISTM, stored(tmp_path, mnistm_files(prefix)))
    assert arrays.x.shape == (3, 3, 32, 32) and arrays.x.dtype == np.uint8
    assert arrays.y.tolist() == [7, 2, 9] and arrays.split.tolist() == [0, 0, 1]
    for pixels, digit in zip(arrays.x, arrays.y.tolist(), strict=True):
        assert [np.unique(channel).tolist() for channel in pixels] == [[20 * digit], [1], [2]]
    assert has_form(MNISTM, arrays)


LABELS = "mnist_m/mnist_m_test_labels.txt"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {LABELS: b"00000000.png 10\n"},
            r"test_labels\.txt\) is corrupt: '00000000.png 10' is no picture with its digit",
        ),
        ({LABELS: b"00000000.png\n"}, "is no picture with its digit"),
        ({LABELS: b"../mnist_m_train/00000000.png 2\n"}, "is no picture with its digit"),
        ({LABELS: b"00000003.png 2\n"}, r"no member .*mnist_m_test/00000003\.png"),
        ({LABELS: b""}, "no pictures where they are expected"),
        ({"copy/" + LABELS: b"00000000.png 9\n"}, "2 parts mnist_m_test with a list of labels, expected 1"),
        ({"mnist_m/mnist_m_test/00000000.png": picture(0, (28, 28), "PNG")}, "28x28 pixels large"),
        ({"mnist_m/mnist_m_test/00000000.png": b"\x89PNG"}, "is corrupt"),
    ],
)
def test_odd_folders_of_mnistm_are_refused(tmp_path: Path, change: dict[str, bytes], words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        mnistm_68k(MNISTM, zipped(tmp_path, mnistm_files() | change))
    assert "\n" not in str(caught.value)


def test_every_cut_of_a_picture_is_an_error_or_a_picture() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG")
    whole = stream.getvalue()
    for length in range(0, len(whole) - 2, 61):
        with pytest.raises(CorruptFile, match="a picture is corrupt"):
            decode_picture(whole[:length], (64, 64), "a picture", exact=True)
    assert decode_picture(whole, (64, 64), "a picture", exact=True).shape == (64, 64, 3)
