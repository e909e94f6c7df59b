"""Pinned numbers of every row of the table of methods; `python tests/helpers/golden.py` records those that are new.

Stored runs are found again by the engine's and the method's revision. Whoever changes what a run computes raises one of the two: then
the numbers are new ones and are recorded here, and the old ones go.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.algorithms.registry import revision
from pflrepro.conformance import Subject
from pflrepro.simulation import ENGINE_REVISION

PATH = Path(__file__).with_name("golden.json")


def key(subject: Subject) -> str:
    """The row with the revisions that its numbers belong to."""
    return f"{subject}, revisions {ENGINE_REVISION} and {revision(subject.source)}"


def numbers(subject: Subject) -> dict[str, Any]:
    """Of the first seed after the last round: correct predictions a client, its mean training loss, and a sum over all parameters."""
    trace = subject.trace()
    state, history = trace.states[0][-1], trace.histories[0]
    names = [name for name in sorted(state) if "params/" in name]
    weights = np.concatenate([np.ravel(state[name]).astype(np.float64) for name in names])
    return {
        "correct": history["correct"][-1].tolist(),
        "train_loss": round(float(np.nansum(history["train_loss"][-1])), 8),
        "parameters": round(float(weights @ np.cos(np.arange(len(weights)))), 8),
    }


def recorded() -> dict[str, dict[str, Any]]:
    """Row -> numbers, as recorded."""
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def record(subjects: list[Subject]) -> list[str]:
    """Record the rows that are new, drop those that are gone; the new ones. What is there stays as it is."""
    before = recorded()
    kept = {key(subject): before[key(subject)] for subject in subjects if key(subject) in before}
    new = {key(subject): numbers(subject) for subject in subjects if key(subject) not in before}
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted((kept | new).items())]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return sorted(new)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from helpers.subjects import ROWS

    print("\n".join(record(ROWS)))
