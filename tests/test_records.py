"""The records of the benchmarks and the page that is made from them."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.scripts import FOLDER, load


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch):
    return load("records", monkeypatch)


def test_the_page_is_that_of_the_records(records) -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == records.page()


def test_a_record_says_what_made_it_but_not_where(records, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "speed.py"), "fedavg", "--data-root", str(tmp_path), "--out", "x"])
    monkeypatch.setattr(records, "LOAD", 0.25)
    rows = [{"method": "fedavg", "seconds": [3.0, 1.0, 2.0]}, {"method": "gpfl", "seconds": [1234.5], "more": 1}]
    records.write(tmp_path / "speed_cpu.json", "Speed", "How fast.", rows, clients=20)
    record = json.loads((tmp_path / "speed_cpu.json").read_text())
    assert (
        record["command"] == "python benchmarks/speed.py fedavg --data-root DIR"
        and record["machine"]["load before"] == 0.25
    )
    assert str(tmp_path) not in json.dumps(record) and set(record["machine"]) >= {
        "processor",
        "cores",
        "threads",
        "torch",
    }
    page = records.page(tmp_path)
    assert "| fedavg | 2 (1 to 3) |  |" in page and "| gpfl | 1,234 | 1 |" in page
    assert "## Speed" in page and "Case: clients 20." in page and "![" not in page
    (tmp_path / "speed_cpu.png").write_bytes(b"")
    assert "![Speed](speed_cpu.png)" in records.page(tmp_path)
