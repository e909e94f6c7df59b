"""AG News: csv files, tokens, vocabulary."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.data.datasets import load_arrays
from pflrepro.data.readers import news
from pflrepro.data.readers.news import articles, tokens, untitled_articles
from pflrepro.data.sets.text import AGNEWS, AGNEWS_PART
from pflrepro.errors import CorruptFile, MissingData

# Read before the fixture that hides the user's data root from tests.
DATA_ROOT = os.environ.get("PFLREPRO_DATA")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "You can now install TorchText using pip!",
            ["you", "can", "now", "install", "torchtext", "using", "pip", "!"],
        ),
        ("a.b,c(d)e?f", ["a", ".", "b", ",", "c", "(", "d", ")", "e", "?", "f"]),
        ("one;two:three", ["one", "two", "three"]),
        ('say "Hi" it\'s', ["say", "hi", "it", "'", "s"]),
        ("up<BR />down", ["up", "down"]),
        ('up<b"r />down', ["up", "down"]),
        ("a second\\team - of  #36;10\tm", ["a", "second\\team", "-", "of", "#36", "10", "m"]),
        ("", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(st.text())
def test_tokens_have_no_blanks_and_are_stable(text: str) -> None:
    found = tokens(text)
    assert all(token and not any(sign.isspace() or sign in '";:' for sign in token) for token in found)
    assert tokens(" ".join(found)) == found or "<br" in text.lower()


def write(folder: Path, train: str, test: str) -> dict[str, Path]:
    paths = {"train": folder / "train.csv", "test": folder / "test.csv"}
    for name, text in (("train", train), ("test", test)):
        paths[name].write_text(text, encoding="utf-8")
    return paths


TRAIN = '"3","The cat","sat. The ""mat"""\n"1","A","the, cat"\n'
TEST = '"4","dog","cat"\n'


def test_texts_become_ids_by_falling_frequency(tmp_path: Path) -> None:
    """the 3, cat 3, then once each: , . a dog mat sat; equal frequencies in alphabetical order, 0 is padding."""
    arrays = articles(AGNEWS, write(tmp_path, TRAIN, TEST))
    ids = {"cat": 1, "the": 2, ",": 3, ".": 4, "a": 5, "dog": 6, "mat": 7, "sat": 8}
    assert arrays.x.shape == (3, 200) and arrays.x.dtype == np.int32 and arrays.shape == AGNEWS.shape
    for row, words in zip(
        arrays.x, (["the", "cat", "sat", ".", "the", "mat"], ["a", "the", ",", "cat"], ["dog", "cat"]), strict=True
    ):
        assert row[: len(words)].tolist() == [ids[word] for word in words] and not row[len(words) :].any()
    assert arrays.y.tolist() == [2, 0, 3] and arrays.split.tolist() == [0, 0, 1]
    assert arrays.classes.tolist() == ["World", "Sports", "Business", "Sci/Tech"]


def test_long_texts_are_cut_but_count_for_the_vocabulary(tmp_path: Path) -> None:
    long = " ".join(["word"] * 199 + ["last", "beyond"])
    arrays = articles(AGNEWS, write(tmp_path, f'"1","{long}",""\n', '"2","beyond","beyond"\n'))
    assert arrays.x[0].tolist() == [1] * 199 + [3]  # word 199, beyond 3, last 1
    assert arrays.x[1, :3].tolist() == [2, 2, 0]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("", "it has no rows"),
        ('"0","a","b"\n', "line 1 is no class from 1 to 4, title and description"),
        ('"4","a","b"\n"5","a","b"\n', "line 2 is no class"),
        ('"4","a"\n', "line 1"),
        ('"4","a","b","c"\n', "line 1"),
        ('"four","a","b"\n', "line 1"),
        ('"4","a","b', "corrupt"),
        ('"4","a" x,"b"\n', "corrupt"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, test: str, words: str) -> None:
    with pytest.raises(CorruptFile) as caught:
        articles(AGNEWS, write(tmp_path, TRAIN, test))
    assert words in str(caught.value) and "test.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    paths = write(tmp_path, TRAIN, TEST)
    paths["train"].write_bytes(b'"1","\xff\xfe","b"\n')
    with pytest.raises(CorruptFile, match=r"train\.csv is corrupt"):
        articles(AGNEWS, paths)


def test_training_rows_without_titles(tmp_path: Path) -> None:
    """Descriptions alone in the training file, titles and descriptions in the test file: the 2, then cat dog sat once each."""
    arrays = untitled_articles(AGNEWS_PART, write(tmp_path, '"3","The cat"\n"1","sat, the"\n', '"4","dog","cats"\n'))
    ids = {"the": 1, ",": 2, "cat": 3, "cats": 4, "dog": 5, "sat": 6}
    for row, words in zip(arrays.x, (["the", "cat"], ["sat", ",", "the"], ["dog", "cats"]), strict=True):
        assert row[: len(words)].tolist() == [ids[word] for word in words] and not row[len(words) :].any()
    assert arrays.y.tolist() == [2, 0, 3] and arrays.split.tolist() == [0, 0, 1]
    for train, test, words in (
        (TRAIN, TEST, r"train\.csv is corrupt: line 1 is no class from 1 to 4, description"),
        ('"3","The cat"\n', '"3","The cat"\n', r"test\.csv is corrupt: line 1 is no class from 1 to 4, title and desc"),
    ):
        with pytest.raises(CorruptFile, match=words):
            untitled_articles(AGNEWS_PART, write(tmp_path, train, test))


def test_more_tokens_than_the_papers_networks_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "VOCABULARY", 9)
    assert articles(AGNEWS, write(tmp_path, TRAIN, TEST)).x.max() == 8
    with pytest.raises(CorruptFile, match="give a vocabulary of 10 tokens, <unk> among them; expected at most 9"):
        articles(AGNEWS, write(tmp_path, TRAIN, '"4","dog","cats"\n'))


def test_the_complete_files_have_exactly_the_papers_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete is what has the official numbers of rows, here two and one."""
    monkeypatch.setattr(news, "VOCABULARY", 10)
    paths = write(tmp_path, TRAIN, TEST)
    complete = replace(AGNEWS, train_samples=2, samples=3)
    with pytest.raises(CorruptFile, match=r"train\.csv and .*test\.csv give a vocabulary of 9 tokens.*exactly 10"):
        articles(complete, paths)
    for other in (replace(complete, samples=4), replace(complete, train_samples=1)):
        assert len(articles(other, paths)) == 3
    assert len(articles(replace(complete, reduced="two of many"), paths)) == 3, "a part is never the complete files"
    monkeypatch.setattr(news, "VOCABULARY", 9)
    assert len(articles(complete, paths)) == 3


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real articles: set PFLREPRO_DATA")
def test_the_part_has_its_known_counts() -> None:
    try:
        arrays = load_arrays("agnews-part", DATA_ROOT)
    except MissingData as error:
        pytest.skip(str(error))
    train, test = (np.bincount(arrays.y[arrays.split == part]).tolist() for part in (0, 1))
    assert train == [3033, 2958, 2954, 3027] and test == [1900] * 4
    assert np.unique(arrays.x).tolist() == list(range(38_756)), "its own vocabulary, every id in use"


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real articles: set PFLREPRO_DATA")
def test_the_vocabulary_is_the_papers() -> None:
    try:
        arrays = load_arrays("agnews", DATA_ROOT)
    except MissingData as error:
        pytest.skip(str(error))
    assert np.bincount(arrays.y).tolist() == [31_900] * 4
    assert len(np.unique(arrays.x)) <= news.VOCABULARY and int(arrays.x.max()) == news.VOCABULARY - 1
