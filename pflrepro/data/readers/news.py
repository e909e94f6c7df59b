"""AG News: two csv files of articles -> token ids."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

LENGTH = 200  # tokens of a text; longer ones are cut, shorter ones padded with 0 at the end [LIB-era]
VOCABULARY = 98_635  # entries with <unk> = 0, as the papers' networks have them [GPFL-code, DBE-code]
_TITLED, _UNTITLED = ("title", "description"), ("description",)  # a row's fields behind its class
_UNKNOWN = 0  # also the padding
# torchtext's "basic_english" puts these apart and turns those into blanks, after it has left out double quotes.
_SPACED, _BLANK = "'.,()!?", ";:"
_TABLE = str.maketrans({**{sign: f" {sign} " for sign in _SPACED}, **dict.fromkeys(_BLANK, " ")})


def tokens(text: str) -> list[str]:
    """The text's words and signs in lower case, as torchtext's "basic_english" splits it.

    Example:
        >>> tokens("Don't!<br />Sure.")
        ['don', "'", 't', '!', 'sure', '.']
    """
    return text.lower().replace('"', "").replace("<br />", " ").translate(_TABLE).split()


def articles(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """int32 [127600, 200] token ids; training rows first. A text is its title, a blank, its description.

    Vocabulary [LIB-era]: <unk> = 0, then all tokens of both files by falling frequency, equal ones in alphabetical order. That of
    the complete files, known by their numbers of rows, has exactly `VOCABULARY` entries; fewer rows may have fewer, never more.
    Raises `CorruptFile`.
    """
    return _articles(spec, paths, {"train": _TITLED, "test": _TITLED})


def untitled_articles(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """As `articles`, but the rows of the training file are class, description."""
    return _articles(spec, paths, {"train": _UNTITLED, "test": _TITLED})


def _articles(spec: DatasetSpec, paths: Mapping[str, Path], fields: Mapping[str, tuple[str, ...]]) -> Arrays:
    parts = [_rows(paths[role], spec.classes, fields[role]) for role in ("train", "test")]
    texts = [tokens(text) for part in parts for text, _ in part]
    vocabulary = _vocabulary(texts)
    sizes = [spec.train_samples, spec.samples - spec.train_samples]
    complete = not spec.reduced and [len(part) for part in parts] == sizes
    entries = len(vocabulary) + 1
    if entries > VOCABULARY or (complete and entries != VOCABULARY):
        raise CorruptFile(
            f"{paths['train']} and {paths['test']} give a vocabulary of {entries:,} tokens, <unk> among them; expected "
            f"{'exactly' if complete else 'at most'} {VOCABULARY:,}"
        )
    x = np.full((len(texts), LENGTH), _UNKNOWN, dtype=np.int32)
    for row, words in enumerate(texts):
        ids = [vocabulary[word] for word in words[:LENGTH]]
        x[row, : len(ids)] = ids
    return Arrays(
        name=spec.name,
        x=x,
        y=np.array([label for part in parts for _, label in part], dtype=np.int64),
        split=np.repeat(np.array([0, 1], dtype=np.uint8), [len(part) for part in parts]),
        classes=np.array(spec.class_names),
    )


def _vocabulary(texts: list[list[str]]) -> dict[str, int]:
    """Token -> id, from 1."""
    frequency = Counter(word for words in texts for word in words)
    ordered = sorted(frequency, key=lambda word: (-frequency[word], word))
    return {word: number for number, word in enumerate(ordered, start=1)}


def _rows(path: Path, classes: int, fields: tuple[str, ...]) -> list[tuple[str, int]]:
    """(text, label) of every row class, `fields`; classes count from 1."""
    found = []
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            rows = csv.reader(stream, strict=True)
            for row in rows:
                if len(row) != 1 + len(fields) or not row[0].isdecimal() or not 1 <= int(row[0][:9]) <= classes:
                    raise CorruptFile(
                        f"{path} is corrupt: line {rows.line_num} is no class from 1 to {classes}, {' and '.join(fields)}"
                    )
                found.append((" ".join(row[1:]), int(row[0]) - 1))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFile(f"{path} is corrupt: {error}") from None
    if not found:
        raise CorruptFile(f"{path} is corrupt: it has no rows")
    return found
