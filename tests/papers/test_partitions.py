"""GPFL Figure 2(a): the recipe's counts, the reference beside them, one line in the score card."""

import numpy as np
import pytest

from pflrepro import papers
from pflrepro.data.published import published_counts
from pflrepro.papers import partitions, verdicts


def test_figure2a_equals_the_reference_cell_by_cell():
    result = papers.result("gpfl/figure2a", "paper")
    assert len(result.frame) == 100
    assert result.verdict == f"100 {verdicts.EQUAL}"
    counts = partitions.counts_of(result)
    np.testing.assert_array_equal(counts, published_counts("fmnist_pat2_n10"))
    # Two classes a client, all 7,000 images of each class dealt, in unequal shares.
    np.testing.assert_array_equal((counts > 0).sum(1), 2)
    np.testing.assert_array_equal(counts.sum(0), 7_000)
    assert counts[0, 0] == 1_411
    assert "official file not published" in result.frame["source"].iloc[0]


def test_a_differing_count_is_told(monkeypatch):
    wrong = published_counts("fmnist_pat2_n10")
    wrong[0, 0] += 5
    monkeypatch.setattr("pflrepro.data.published.published_counts", lambda name: wrong)
    result = papers.result("gpfl/figure2a", "paper")
    assert result.verdicts[verdicts.DIFFERS] == 1
    (line,) = papers.score("gpfl/figure2a", store=object()).to_dict("records")
    assert (line["row"], line["difference"], line["verdict"]) == ("all clients", -5.0, verdicts.DIFFERS)
    assert line["reason"] == "1 of 100 counts differ"


def test_in_the_score_card_a_figure_is_one_line():
    (line,) = papers.score("gpfl/figure2a", store=object()).to_dict("records")
    assert (line["ours"], line["difference"], line["verdict"]) == (70_000.0, 0.0, verdicts.EQUAL)


@pytest.mark.parametrize("scale", ["smoke", "fast", "paper"])
def test_nothing_is_trained_for_it(scale):
    assert papers.plan("gpfl/figure2a", scale, store=object()) == []
