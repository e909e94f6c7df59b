"""Average ranks of an artefact: which block is ranked, and when there is none."""

import numpy as np
import pytest

from pflrepro.papers.artefact import Artefact, Column, Row, Scale
from pflrepro.papers.finished import Trials
from pflrepro.papers.ranking import rank

METHODS, COLUMNS = "abcd", "vwxyz"
ARTEFACT = Artefact(
    "p/t",
    "p",
    "T",
    "table",
    "p/t.ipynb",
    tuple(Row(name.upper(), name) for name in METHODS),
    tuple(Column(name, f"column {name}", "digits", "mlp", "iid") for name in COLUMNS),
    (Scale("fast", "", 1, 1),),
)


def cell(*values):
    return Trials(tuple(range(len(values))), np.array(values, float), (), ())


def test_columns_are_ranked_by_the_means_over_seeds():
    numbers = {"a": (90, 80, 70), "b": (80, 70, 71), "c": (10, 20, 30)}
    cells = {
        (m, c): cell(value - 1, value + 1) for m, row in numbers.items() for c, value in zip("vwx", row, strict=True)
    }
    found = rank(ARTEFACT, cells)
    assert dict(zip(found.methods, found.mean.tolist(), strict=True)) == pytest.approx({"A": 4 / 3, "B": 5 / 3, "C": 3})
    assert found.datasets == ("column v", "column w", "column x")
    assert (found.blocks, found.dropped_methods, found.dropped_datasets) == ("columns", (), ())


def test_what_is_outside_the_complete_block_is_named():
    cells = {(method, column): cell(50) for method in "abc" for column in "vwxy"}
    cells |= {("d", "v"): cell(90), ("a", "z"): cell(40)}
    found = rank(ARTEFACT, cells)
    assert (found.methods, len(found.datasets)) == (("A", "B", "C"), 4)
    assert (found.dropped_methods, found.dropped_datasets) == (("D",), ("column z",))


@pytest.mark.parametrize(
    ("methods", "columns", "seeds"),
    [("ab", "vwxyz", 5), ("abcd", "vw", 9), ("abc", "v", 4), ("ab", "v", 5), ("", "", 1)],
)
def test_too_little_is_not_ranked(methods, columns, seeds):
    assert rank(ARTEFACT, {(m, c): cell(*range(seeds)) for m in methods for c in columns}) is None


def test_a_single_column_is_ranked_over_its_seeds_and_says_so():
    numbers = {"a": [3, 3, 3, 3, 1], "b": [2, 2, 2, 2, 2], "c": [1, 1, 1, 1, 3]}
    found = rank(ARTEFACT, {(name, "w"): cell(*values) for name, values in numbers.items()})
    assert dict(zip(found.methods, found.mean.tolist(), strict=True)) == pytest.approx({"A": 1.4, "B": 2.0, "C": 2.6})
    assert found.datasets == tuple(f"seed {seed}" for seed in range(5))
    assert found.blocks == "seeds (column w)"
