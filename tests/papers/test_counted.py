"""What follows from the code alone is counted once a version of the code."""

from __future__ import annotations

import pytest

from pflrepro.papers import counted as module
from pflrepro.papers.counted import counted


@pytest.fixture(autouse=True)
def _own_file(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(module, "file", lambda: tmp_path / "cache" / "counted.json")


def test_a_value_is_counted_once_and_kept_apart_from_others() -> None:
    values = iter([[1, 2], "two"])
    assert counted("a", lambda: next(values)) == [1, 2]
    assert counted("b", lambda: next(values)) == "two"
    assert (counted("a", lambda: next(values)), counted("b", lambda: next(values))) == ([1, 2], "two")


def test_another_version_of_the_code_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted("a", lambda: 1) == 1
    monkeypatch.setattr(module, "code_version", lambda: "edited")
    assert counted("a", lambda: 2) == 2
    assert counted("a", lambda: 3) == 2


def test_a_damaged_file_is_done_without() -> None:
    counted("a", lambda: 1)
    module.file().write_text('{"a": [1, 2, 3], "b": 5}')
    assert (counted("a", lambda: 4), counted("b", lambda: 6)) == (4, 6)


def test_two_places_of_the_package_do_not_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.undo()
    here = module.file()
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    assert module.file() != here
