"""Amazon Review: counted terms of reviews in a tar archive."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pflrepro.data.datasets import load_arrays
from pflrepro.data.readers.reviews import DOMAINS, all_reviews, labelled_reviews, term_matrix
from pflrepro.data.sets.text import AMAZON, AMAZON_LABELLED, AMAZON_MATRIX
from pflrepro.errors import CorruptFile, MissingData

# Read before the fixture that hides the user's data root from tests.
DATA_ROOT = os.environ.get("PFLREPRO_DATA")
SMALL = replace(AMAZON, shape=(3,))


def members() -> dict[str, bytes]:
    """Term frequencies over all reviews: good 12, a_book 8, bad 4, zz 4."""
    found = {}
    for domain in DOMAINS:
        found[f"processed_acl/{domain}/positive.review"] = b"good:2 a_book:1 #label#:positive\n"
        found[f"processed_acl/{domain}/negative.review"] = b"bad:3 good:1 a_book:5 #label#:negative\n"
        found[f"processed_acl/{domain}/unlabeled.review"] = b"zz:1 good:7 #label#:positive\n\n"
    return found


def archive(folder: Path, content: dict[str, bytes]) -> dict[str, Path]:
    path = folder / "processed_acl.tar.gz"
    with tarfile.open(path, "w:gz") as stream:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            stream.addfile(member, io.BytesIO(data))
    return {"archive": path}


def test_counts_of_the_terms_in_most_reviews(tmp_path: Path) -> None:
    arrays = all_reviews(SMALL, archive(tmp_path, members()))
    assert arrays.x.dtype == np.uint8 and arrays.shape == (3,)
    assert arrays.x.tolist() == [[2, 1, 0], [1, 5, 3], [7, 0, 0]] * 4  # good, a_book, bad; zz is as frequent as bad
    assert arrays.y.tolist() == [1, 0, 1] * 4
    assert arrays.group.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert arrays.classes.tolist() == ["negative", "positive"]


def test_only_the_labelled_reviews(tmp_path: Path) -> None:
    content = {name: data for name, data in members().items() if "unlabeled" not in name}
    arrays = labelled_reviews(replace(AMAZON_LABELLED, shape=(2,)), archive(tmp_path, content))
    assert arrays.x.tolist() == [[1, 2], [5, 1]] * 4  # equally frequent terms in alphabetical order: a_book, good
    with pytest.raises(CorruptFile, match=r"no member processed_acl/books/unlabeled\.review"):
        all_reviews(SMALL, {"archive": tmp_path / "processed_acl.tar.gz"})


def test_large_counts_fit(tmp_path: Path) -> None:
    content = members() | {"processed_acl/dvd/positive.review": b"good:300 a:b:2 #label#:positive\n"}
    arrays = all_reviews(SMALL, archive(tmp_path, content))
    assert arrays.x.dtype == np.uint16 and arrays.x.max() == 300


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "it has no reviews"),
        (b"good:2 a_book:1\n", "line 1 is no list of counted terms that ends with a label"),
        (b"good:2 #label#:neutral\n", "line 1"),
        (b"good:2 #label#:positive\ngood:-1 #label#:positive\n", "line 2"),
        (b"good:x #label#:positive\n", "line 1"),
        (b"good #label#:positive\n", "line 1"),
        (b":3 #label#:positive\n", "line 1"),
        (b"good:1 #label#:posi", "line 1"),
        (b"\xff\xfe:1 #label#:positive\n", "corrupt"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, line: bytes, words: str) -> None:
    with pytest.raises(CorruptFile) as caught:
        all_reviews(SMALL, archive(tmp_path, members() | {"processed_acl/kitchen/positive.review": line}))
    assert words in str(caught.value) and "processed_acl/kitchen/positive.review" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_few_terms_and_a_truncated_archive(tmp_path: Path) -> None:
    paths = archive(tmp_path, members())
    with pytest.raises(CorruptFile, match="has 4 different terms, expected at least 5,000"):
        all_reviews(AMAZON, paths)
    paths["archive"].write_bytes(paths["archive"].read_bytes()[:-40])
    with pytest.raises(CorruptFile, match="corrupt"):
        all_reviews(SMALL, paths)


def matrix(folder: Path, **other: np.ndarray | list) -> dict[str, Path]:
    """Five reviews of four terms, as the file of the papers' platform has them: terms x reviews, in coordinates."""
    parts: dict[str, np.ndarray | list] = {
        "xx_data": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        "xx_col": [0, 0, 4, 2, 2],
        "xx_row": [0, 2, 1, 3, 0],
        "xx_shape": [4, 5],
        "yy": np.array([[1], [-1], [1], [-1], [-1]]),
        "offset": [[0], [1], [2], [4], [5]],
    }
    np.savez(folder / "amazon.npz", **{key: np.asarray(value) for key, value in (parts | other).items()})
    return {"matrix": folder / "amazon.npz"}


def test_the_first_columns_of_the_term_matrix(tmp_path: Path) -> None:
    spec = replace(AMAZON_MATRIX, shape=(3,))
    arrays = term_matrix(spec, matrix(tmp_path))
    assert arrays.x.dtype == np.uint8
    assert arrays.x.tolist() == [[1, 0, 2], [0, 0, 0], [5, 0, 0], [0, 0, 0], [0, 3, 0]]
    assert arrays.y.tolist() == [1, 0, 1, 0, 0] and arrays.group.tolist() == [0, 1, 2, 2, 3]
    weighted = term_matrix(spec, matrix(tmp_path, xx_data=[0.5, 2, 3, 4, 5]))
    assert weighted.x.dtype == np.float32 and weighted.x[0].tolist() == [0.5, 0, 2]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"yy": [1, 0, 1, -1, -1]}, "its labels others than -1 and 1"),
        ({"xx_data": ["1"] * 5}, "its values are no numbers"),
        ({"xx_shape": [4, 6]}, "whole numbers that fit 5 labels"),
        ({"xx_shape": [2, 5]}, "fewer than 3 terms"),
        ({"xx_col": [0, 0, 5, 2, 2]}, "values outside of 5 reviews and 4 terms"),
        ({"xx_row": [0, 2, -1, 3, 0]}, "values outside"),
        ({"xx_row": [0.0, 2.0, 1.0, 3.0, 0.0]}, "not whole numbers"),
        ({"xx_data": [1.0, 2.0]}, "it has 2 values at 5 and 5 places"),
        ({"offset": [0, 1, 2, 5]}, "[0, 1, 2, 5] do not divide 5 reviews into 4 domains"),
        ({"offset": [0, 2, 2, 4, 5]}, "do not divide"),
        ({"yy": np.array([object()] * 5)}, "corrupt"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path: Path, other: dict, words: str) -> None:
    with pytest.raises(CorruptFile) as caught:
        term_matrix(replace(AMAZON_MATRIX, shape=(3,)), matrix(tmp_path, **other))
    assert words in str(caught.value) and "amazon.npz" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real reviews: set PFLREPRO_DATA")
@pytest.mark.parametrize(
    ("name", "domains"),
    [
        ("amazon", [6465, 5586, 7681, 7945]),
        ("amazon-matrix", [6465, 5586, 7681, 7945]),
        ("amazon-labelled", [2000, 2000, 2000, 2000]),
    ],
)
def test_the_real_reviews_have_the_known_sizes(name: str, domains: list[int]) -> None:
    try:
        arrays = load_arrays(name, DATA_ROOT)
    except MissingData as error:
        pytest.skip(str(error))
    assert np.bincount(arrays.group).tolist() == domains
