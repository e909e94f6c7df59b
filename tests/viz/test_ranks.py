"""The critical-difference picture: every method at its rank, the bars over the groups, what was left out in the caption."""

from __future__ import annotations

import math

import numpy as np

from pflrepro.metrics.ranks import average_ranks
from pflrepro.viz.ranks import critical_difference

NAMES = ("FedAvg", "Ditto", "FedPer", "GPFL", "Local")


def drawn(panel, label):
    return [line.get_xydata() for line in panel.lines if line.get_label() == label]


def test_methods_stand_at_their_mean_ranks_and_bars_over_their_groups() -> None:
    ranks = average_ranks([[1, 2, 3, 4, 5], [1, 3, 2, 5, 4]] * 10, NAMES)
    figure = critical_difference(ranks, "A table")
    (panel,) = figure.axes
    for name, mean in zip(NAMES, ranks.mean, strict=True):
        (line,) = drawn(panel, name)
        assert line[0].tolist() == [mean, 0.0]
    bars = drawn(panel, "group")
    where = dict(zip(ranks.methods, ranks.mean, strict=True))
    assert len(bars) == len(ranks.groups) > 0
    for bar, group in zip(bars, ranks.groups, strict=True):
        ends = [where[name] for name in group]
        assert bar[0, 0] <= min(ends) and bar[1, 0] >= max(ends)
    (length,) = drawn(panel, "critical difference")
    assert length[1, 0] - length[0, 0] == ranks.critical_difference
    texts = [text.get_text().strip() for text in panel.texts]
    assert "Local  1.50" in texts and "5.00  FedAvg" in texts
    assert figure.get_suptitle().startswith("A table\nmean ranks over 20 data sets; Friedman p = ")


def test_the_caption_tells_what_is_missing_and_what_is_not_significant() -> None:
    scores = np.array([[0.9, 0.8, 0.7], [0.6, 0.8, 0.7], [math.nan, 0.8, 0.7]])
    ranks = average_ranks(scores, NAMES[:3], ["mnist", "fmnist", "cifar10"], missing="drop-rows")
    figure = critical_difference(ranks)
    told = figure.get_suptitle().replace("\n", " ")
    assert "no significant difference at 0.05" in told
    assert told.endswith("left out for missing cells: cifar10")
    assert any("longer than the axis" in text.get_text() for text in figure.axes[0].texts)


def test_many_ranks_are_numbered_by_fives() -> None:
    """Every rank has its tick; the numbers of 36 would run into each other."""
    (few,), (many,) = (
        critical_difference(
            average_ranks(np.random.default_rng(0).normal(size=(6, k)), [f"m{i}" for i in range(k)])
        ).axes
        for k in (15, 36)
    )
    numbers = [[text.get_text() for text in panel.texts if text.get_text().isdigit()] for panel in (few, many)]
    assert numbers[0] == [str(rank) for rank in range(1, 16)]
    assert numbers[1] == ["1", "5", "10", "15", "20", "25", "30", "35"]


def test_the_caption_names_the_blocks() -> None:
    ranks = average_ranks([[1, 2, 3], [1, 3, 2]], NAMES[:3], blocks="seeds (A)")
    assert critical_difference(ranks).get_suptitle().startswith("mean ranks over 2 seeds (A); Friedman")


def test_names_lie_inside_the_picture() -> None:
    ranks = average_ranks(np.random.default_rng(0).normal(size=(6, 12)), [f"FedAvg+DBE {i}" for i in range(12)])
    figure = critical_difference(ranks)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, text.get_text()
