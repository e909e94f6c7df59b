"""Figures of a partition: the counts that our recipe gives, beside a shipped reference. The papers print pictures, no counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pflrepro.errors import UserError
from pflrepro.papers.artefact import Artefact, Scale
from pflrepro.papers.verdicts import DIFFERS, EQUAL

if TYPE_CHECKING:
    import numpy as np

    from pflrepro.papers.comparing import Result


def recipe_counts(artefact: Artefact, classes: int) -> np.ndarray:
    """Samples a client and class by the artefact's recipe, int64 [clients, classes]; needs no data.

    The papers' pathological recipe depends on the class sizes only (7,000 a class for FMNIST), so labels of that histogram
    give its counts exactly.
    """
    import numpy as np
    import torch

    from pflrepro.data.partition import partition

    column = artefact.columns[0]
    if column.samples % classes:
        raise UserError(f"{column.samples} samples cannot be equally many in {classes} classes")
    labels = torch.arange(classes).repeat_interleave(column.samples // classes)
    return np.asarray(partition(column.partition, labels, column.clients, 1).counts(labels, classes), dtype=np.int64)


def partition_result(artefact: Artefact, scale: Scale) -> Result:
    """Reference counts (in `published`) beside ours, one line a client and class."""
    import pandas as pd

    from pflrepro.data.published import published_counts, published_summary
    from pflrepro.papers.comparing import FRAME_COLUMNS, Result

    column = artefact.columns[0]
    reference = published_counts(artefact.counts)
    ours = recipe_counts(artefact, reference.shape[1])
    origin = next(row["provenance"] for row in published_summary() if row["partition"] == artefact.counts)
    common = {
        "artefact": artefact.id,
        "algorithm": column.partition,
        "dataset": column.dataset,
        "model": "",
        "published_std": math.nan,
        "source": f"{artefact.counts}: {origin}",
        "spread": 0.0,
        "tolerance": 0.0,
        "n": 1,
        "scale": scale.name,
        "rounds": 0,
        "selection": artefact.selection,
        "reason": "",
    }
    lines = [
        common
        | {
            "row": f"client {client}",
            "column": f"class {label}",
            "published": float(reference[client, label]),
            "ours": float(count),
            "difference": float(count - reference[client, label]),
            "verdict": EQUAL if count == reference[client, label] else DIFFERS,
        }
        for client, row in enumerate(ours)
        for label, count in enumerate(row)
    ]
    return Result(artefact, scale, pd.DataFrame(lines, columns=list(FRAME_COLUMNS)))


def counts_of(result: Result) -> np.ndarray:
    """Our counts as a table, int64 [clients, classes]."""
    import numpy as np

    clients = result.artefact.columns[0].clients
    return np.asarray(result.frame["ours"], dtype=np.int64).reshape(clients, -1)
