"""Average ranks of an artefact's methods (Demšar, JMLR 2006): over its columns, or over the seeds of a single column.

* Columns, where a complete block of three methods and three columns or more was run: the ranks of a table, as papers speak of them.
  Columns of one data set (two partitions of it) are less independent than the test supposes, so its p is rather too small.
* Seeds, where only one column was run, with five seeds or more: the seeds share the data, so they are blocks for one question only:
  whether the order of the methods on these very data would come again with another start. It says nothing of other data sets, for which
  Demšar's ranks are made, and the caption names the column.

Methods and columns outside the largest complete block are left out and named. Stand-ins are never ranked.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

from pflrepro.papers.artefact import Artefact
from pflrepro.papers.finished import Trials

if TYPE_CHECKING:
    from pflrepro.metrics.ranks import Ranks

LEAST = 3  # methods, and columns
LEAST_SEEDS = 5


def rank(artefact: Artefact, trials: dict[tuple[str, str], Trials]) -> Ranks | None:
    """The ranks of what was run (by algorithm and column key), labelled as the artefact prints it; None: too little for any."""
    labels = {row.algorithm: row.label for row in artefact.rows}
    columns = [column for column in artefact.columns if any(key == column.key for _, key in trials)]
    names = {column.key: column.label for column in columns}
    means = {(labels[method], names[key]): float(cell.values.mean()) for (method, key), cell in trials.items()}
    found = _ranks(means, LEAST, "columns")
    if found is not None or len(columns) != 1:
        return found
    seeds = {
        (labels[method], f"seed {seed}"): float(value)
        for (method, _), cell in trials.items()
        for seed, value in zip(cell.seeds, cell.values, strict=True)
    }
    return _ranks(seeds, LEAST_SEEDS, f"seeds ({columns[0].label})")


def _ranks(numbers: dict[tuple[str, str], float], least: int, blocks: str) -> Ranks | None:
    """The ranks of the largest complete block of three methods and `least` blocks or more."""
    import numpy as np

    from pflrepro.metrics.ranks import average_ranks, largest_block, table_of

    table, methods, names = table_of(numbers)
    rows, columns = largest_block(~np.isnan(table), (least, LEAST))
    if not rows.any():
        return None
    kept, others = list(compress(names, rows)), list(compress(names, ~rows))
    ranked = average_ranks(table[np.ix_(rows, columns)], list(compress(methods, columns)), kept, blocks=blocks)
    return replace(ranked, dropped_methods=tuple(compress(methods, ~columns)), dropped_datasets=tuple(others))
