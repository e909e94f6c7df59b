"""The benchmark of a round's parts, on a handful of samples."""

from __future__ import annotations

import pytest
from helpers.scripts import load


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    return load("round_parts", monkeypatch)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("aten::convolution_backward", "convolution"),
        ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::addmm", "products"),
        ("aten::copy_", "copies"),
        ("aten::sub_", "element by element"),
        ("cudaLaunchKernel", "other"),
    ],
)
def test_an_operation_has_its_kind(script, operation: str, kind: str) -> None:
    assert script.kind_of(operation) == kind


def test_the_parts_add_up_to_a_round_and_can_be_drawn(script, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(script, "CLIENTS", 2)
    found = script.parts("fedavg", 10, 5, 1)
    assert list(found) == [*script.KINDS, "other", "aggregation", "tests", "checkpoint"]
    assert all(seconds >= 0 for seconds in found.values()) and found["convolution"] > 0 and found["tests"] > 0
    script.draw({"fedavg": found}, tmp_path / "parts.png")
    assert (tmp_path / "parts.png").stat().st_size > 1000
