"""The Multi-Domain Sentiment Dataset in its processed form: counts of words and pairs of words, one review a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix

from pflrepro.data.arrays import Arrays, read_members
from pflrepro.data.readers.archives import tar_members
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

DOMAINS = ("books", "dvd", "electronics", "kitchen")
SENTIMENTS = {"#label#:negative": 0, "#label#:positive": 1}
_LIMIT = 100_000_000  # bytes of one file of reviews

Review = tuple[dict[str, int], int]  # how often each term occurs, and the sentiment


def all_reviews(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """Counts [27677, 5000] of the labelled and the so-called unlabelled reviews, which have labels too; group = domain 0..3."""
    return _reviews(spec, paths["archive"], ("positive", "negative", "unlabeled"))


def labelled_reviews(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """Counts [8000, 5000] of the 1,000 positive and 1,000 negative reviews of each domain; group = domain 0..3."""
    return _reviews(spec, paths["archive"], ("positive", "negative"))


def term_matrix(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """[27677, 5000] from the npz file that PFLlib takes [LIB]: the first columns of its sparse term matrix; group = domain 0..3.

    Keys: xx_data, xx_col (review), xx_row (term), xx_shape (terms, reviews), yy (-1 or 1), offset (first review of each domain,
    and the end). Values are kept: uint8 where they are such whole numbers, else float32.
    """
    found = read_members(paths["matrix"], ("xx_data", "xx_col", "xx_row", "xx_shape", "yy", "offset"))
    parts = {key: np.asarray(array).reshape(-1) for key, array in found.items()}
    wrong = _matrix_fault(parts, spec.shape[0])
    if wrong:
        raise CorruptFile(f"{paths['matrix']} is corrupt: {wrong}")
    values, places = parts["xx_data"], (parts["xx_col"], parts["xx_row"])
    matrix = coo_matrix((values, places), shape=tuple(parts["xx_shape"][::-1])).tocsr()[:, : spec.shape[0]]
    whole = not matrix.nnz or (matrix.min() >= 0 and matrix.max() <= 255 and bool((matrix.data % 1 == 0).all()))
    return Arrays(
        name=spec.name,
        x=matrix.astype(np.uint8 if whole else np.float32).toarray(),
        y=(parts["yy"] > 0).astype(np.int64),
        group=np.repeat(np.arange(len(DOMAINS)), np.diff(parts["offset"].astype(np.int64))),
        classes=np.array(spec.class_names),
    )


def _matrix_fault(parts: Mapping[str, np.ndarray], columns: int) -> str | None:
    """Why these are not the parts of a sparse term matrix with labels and domains, in words; None if they are."""
    data, review, term, shape, sentiment, offset = parts.values()
    if data.dtype.kind not in "iuf" or sentiment.dtype.kind not in "iuf" or not np.isin(sentiment, (-1, 1)).all():
        return "its values are no numbers, or its labels others than -1 and 1"
    rows = len(sentiment)
    if any(array.dtype.kind not in "iu" for array in (review, term, shape, offset)) or shape.tolist()[1:] != [rows]:
        return f"its shape and places are not whole numbers that fit {rows:,} labels"
    if not len(data) == len(review) == len(term):
        return f"it has {len(data):,} values at {len(review):,} and {len(term):,} places"
    if shape[0] < columns or not all(
        (at >= 0).all() and (at < end).all() for at, end in ((review, rows), (term, shape[0]))
    ):
        return f"it has values outside of {rows:,} reviews and {shape[0]:,} terms, or fewer than {columns:,} terms"
    bounds = offset.tolist()
    if len(bounds) != len(DOMAINS) + 1 or bounds[0] != 0 or bounds[-1] != rows or sorted(set(bounds)) != bounds:
        return f"{bounds[:6]} do not divide {rows:,} reviews into {len(DOMAINS)} domains"
    return None


def _reviews(spec: DatasetSpec, archive: Path, kinds: Sequence[str]) -> Arrays:
    """Rows domain by domain, file by file, in the files' order; columns are the terms that occur in the most reviews.

    The papers take the first 5,000 columns of a term matrix made elsewhere, whose terms are ordered by frequency; equal ones are
    in alphabetical order here. Values are counts, uint8 where all fit. [LIB; ordering: ?]
    """
    members = {(domain, kind): f"processed_acl/{domain}/{kind}.review" for domain in DOMAINS for kind in kinds}
    content = tar_members(archive, members.values(), _LIMIT)
    reviews: list[Review] = []
    groups: list[int] = []
    for (domain, _), name in members.items():
        found = _parse(content.pop(name), f"{archive} ({name})")
        reviews += found
        groups += [DOMAINS.index(domain)] * len(found)
    return Arrays(
        name=spec.name,
        x=_count_matrix([counts for counts, _ in reviews], spec.shape[0], archive),
        y=np.array([label for _, label in reviews], dtype=np.int64),
        group=np.array(groups, dtype=np.int64),
        classes=np.array(spec.class_names),
    )


def _parse(content: bytes, source: str) -> list[Review]:
    """Lines `term:count ... #label#:positive`."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{source} is corrupt: {error}") from None
    reviews = []
    for number, line in enumerate(lines, start=1):
        *terms, label = line.split() or [""]
        if not label:
            continue
        pairs = [term.rpartition(":") for term in terms]
        if label not in SENTIMENTS or not all(
            term and count.isdecimal() and len(count) < 6 for term, _, count in pairs
        ):
            raise CorruptFile(f"{source} is corrupt: line {number} is no list of counted terms that ends with a label")
        reviews.append(({term: int(count) for term, _, count in pairs}, SENTIMENTS[label]))
    if not reviews:
        raise CorruptFile(f"{source} is corrupt: it has no reviews")
    return reviews


def _count_matrix(reviews: Sequence[dict[str, int]], columns: int, archive: Path) -> np.ndarray:
    """Counts [reviews, columns] of the terms that the most reviews have."""
    frequency = Counter(term for counts in reviews for term in counts)
    if len(frequency) < columns:
        raise CorruptFile(f"{archive} has {len(frequency):,} different terms, expected at least {columns:,}")
    place = {term: column for column, term in enumerate(sorted(frequency, key=lambda t: (-frequency[t], t))[:columns])}
    cells = [
        (row, place[term], count)
        for row, counts in enumerate(reviews)
        for term, count in counts.items()
        if term in place
    ]
    rows, positions, values = np.array(cells, dtype=np.int64).T
    matrix = np.zeros((len(reviews), columns), dtype=np.min_scalar_type(int(values.max())))
    matrix[rows, positions] = values
    return matrix
