"""Caches may be lost, damaged or unwritable: what they held is worked out anew, and said."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from pflrepro.remembered import read_cache, remembered, write_cache


def asked(place: Path, value) -> list:
    """What is remembered of `a`, and whether it had to be worked out."""
    made = []
    found = remembered(place, "a", lambda: made.append(value) or value, lambda found: isinstance(found, float))
    return [found, bool(made)]


def test_a_value_is_worked_out_once(tmp_path: Path, caplog) -> None:
    place = tmp_path / "of" / "mine.json"
    assert asked(place, 0.1) == [0.1, True] and asked(place, 0.2) == [0.1, False]
    write_cache(place, read_cache(place) | {"b": [1, {"c": None}]})
    assert read_cache(place) == {"a": 0.1, "b": [1, {"c": None}]}
    assert caplog.text == ""


def test_a_flipped_digit_is_noticed(tmp_path: Path, caplog) -> None:
    place = tmp_path / "cache.json"
    asked(place, 0.125)
    place.write_text(place.read_text().replace("0.125", "0.175"))
    os.utime(place, (1, 1))  # clocks of files may be coarse
    assert asked(place, 0.125) == [0.125, True] and asked(place, 1.0) == [0.125, False]
    assert caplog.text.count("its content is not what was written") == 1


@pytest.mark.parametrize(
    "content", ["", "[]", "{", "[" * 100_000, "\udcff", '{"a": ' + "9" * 5000 + "}", '{"a": NaN', "null"]
)
def test_a_damaged_file_is_said_and_made_anew(content: str, tmp_path: Path, caplog) -> None:
    place = tmp_path / "cache.json"
    place.write_bytes(content.encode(errors="surrogateescape"))
    assert asked(place, 0.5) == [0.5, True] and asked(place, 0.6) == [0.5, False]
    (told,) = caplog.messages
    assert str(place) in told and "worked out anew" in told and "\n" not in told


def test_a_file_without_a_sum_is_of_before(tmp_path: Path, caplog) -> None:
    place = tmp_path / "cache.json"
    place.write_text(json.dumps({"a": 0.5, "b": 1}))
    assert asked(place, 0.6) == [0.5, False] and caplog.text == ""
    write_cache(place, read_cache(place))
    assert json.loads(place.read_text()).keys() == {"sha256", "content"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path, caplog) -> None:
    os.mkfifo(tmp_path / "cache.json")
    with caplog.at_level(logging.WARNING):
        assert asked(tmp_path / "cache.json", 0.5) == [0.5, True]
    assert "it is no file" in caplog.text
