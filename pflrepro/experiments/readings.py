"""What was measured on the models of a run: small arrays, kept beside it, so that no measurement is made twice.

A reading belongs to a run, the round of a moment, and what was asked; it outlives the state that it was taken from.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files

log = logging.getLogger("pflrepro.readings")
FOLDER, _META = "readings", "meta"


@dataclass(frozen=True)
class Question:
    """What is measured: a name, the round after which, options in JSON's types, and the revision of the measurement's code."""

    name: str
    round: int
    options: tuple[tuple[str, Any], ...] = ()
    revision: int = 1

    @property
    def text(self) -> str:
        """Canonical JSON: equal questions, and only these, have equal texts."""
        return files.canonical_json(
            {"name": self.name, "round": self.round, "options": dict(self.options), "revision": self.revision}
        )

    @property
    def file(self) -> str:
        return f"{self.name}-{self.round}-{hashlib.sha256(self.text.encode()).hexdigest()[:8]}.npz"


def kept(folder: Path, question: Question) -> dict[str, np.ndarray] | None:
    """The answer that lies in a run's folder, or None; a damaged one is reported and left to be made again."""
    path = folder / FOLDER / question.file
    if not path.exists():
        return None
    try:
        return unpacked(files.read_npz(path), question)
    except CorruptFile as error:
        log.warning("a reading of run %s is damaged and taken again: %s", folder.name, error)
        return None


def unpacked(arrays: Mapping[str, np.ndarray], question: Question) -> dict[str, np.ndarray]:
    """The answer without its record; `CorruptFile` if it answers another question."""
    found = dict(arrays)
    meta = found.pop(_META, None)
    if meta is None or meta.tobytes().decode("utf-8", "replace") != question.text:
        raise CorruptFile(f"{question.file} answers another question")
    return found


def packed(question: Question, answer: Mapping[str, np.ndarray]) -> bytes:
    """An answer with its question as one npz."""
    return files.npz_bytes({_META: np.frombuffer(question.text.encode(), np.uint8), **answer}, compress=True)


def keep(folder: Path, question: Question, answer: Mapping[str, np.ndarray]) -> None:
    """Write an answer into a run's folder."""
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    files.write(place / question.file, packed(question, answer))


def taken(folder: Path, question: Question, take: Callable[[], Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The kept answer, or what `take` gives, which is then kept; where the folder cannot be written to, that is told."""
    found = kept(folder, question)
    if found is not None:
        return found
    answer = {name: np.asarray(value) for name, value in take().items()}
    if folder.is_dir():
        try:
            keep(folder, question, answer)
        except (OSError, UserError) as error:
            log.warning("the reading %s of run %s is not kept: %s", question.name, folder.name, error)
    return answer


def questions(folder: Path) -> list[Question]:
    """What is answered in a run's folder; damaged answers are left out."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.npz")):
        with suppress(CorruptFile):
            found.append(question_of(files.read_npz(path)))
    return found


def question_of(arrays: Mapping[str, np.ndarray]) -> Question:
    """The question of a packed answer; `CorruptFile` if it has none."""
    try:
        asked = json.loads(arrays[_META].tobytes())
        return Question(asked["name"], asked["round"], tuple(asked["options"].items()), asked["revision"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(f"a reading does not say what was asked: {error!r}") from None
