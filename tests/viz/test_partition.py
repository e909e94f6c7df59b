"""Pictures of partitions: panels, bars, what stands in place of missing data, the files."""

import numpy as np
import pandas as pd
import pytest

from pflrepro import papers, viz
from pflrepro.errors import MissingData
from pflrepro.papers import partitions
from pflrepro.viz import partition, tables
from pflrepro.viz.captions import caption


@pytest.fixture(scope="module")
def figure6(tmp_path_factory):
    return papers.result("dbe/figure6", "smoke", data_root=tmp_path_factory.mktemp("none"))


def test_a_panel_a_partition(figure6):
    figure = partition.partition_bubbles(figure6)
    panels = {panel.get_title(loc="left").split("\n")[0]: panel for panel in figure.axes}
    assert list(panels) == [panel.column.label for panel in figure6.panels]
    for drawn in figure6.panels:
        dots = panels[drawn.column.label].collections
        assert sum(len(part.get_offsets()) for part in dots) == (
            0 if drawn.counts is None else (drawn.counts > 0).sum()
        )
    (reason,) = panels["HAR, one client a user"].texts
    assert "pflrepro data get har" in reason.get_text().replace("\n", " ")
    assert "12 partitions, partition seed 1" in figure.get_suptitle()


def test_bars_are_the_shares_in_percent():
    result = papers.result("grp-fed/figure1b", "smoke")
    figure = partition.bars(result)
    shares = partitions.shares(result.panels[0])
    assert [panel.get_title(loc="left") for panel in figure.axes] == list(shares.columns)
    for panel, column in zip(figure.axes, shares.columns, strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in panel.patches], shares[column])
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == [str(name) for name in shares.index]
    assert "stand-in data, not comparable with the paper" in figure.get_suptitle()


def test_nothing_is_drawn_without_any_data(tmp_path):
    result = papers.result("grp-fed/figure1b", "paper", data_root=tmp_path)
    with pytest.raises(MissingData, match="grp-fed/figure1b at scale paper: data set mitbih not downloaded"):
        viz.pictures(result)
    assert "not run" in viz.styled(result).to_html()


def test_the_table_of_a_notebook_shades_verdicts(figure6):
    html = tables.styled(figure6).to_html()
    assert html.count("2,000 of 2,000") == 2
    assert tables.SHADES["equal to the reference"] in html
    assert caption(figure6) in html


def test_files_of_partitions(figure6, tmp_path):
    written = viz.write(figure6, tmp_path, {})
    assert [path.name for path in written] == ["figure6.csv", "figure6.md"]
    counts = pd.read_csv(written[0])
    assert list(counts.columns) == ["partition", "client", "class", "samples", "reference"]
    assert (counts["samples"] == counts["reference"]).all()
    assert counts["samples"].sum() == sum(panel.counts.sum() for panel in figure6.drawn)
    text = written[1].read_text()
    for part in (
        "| FMNIST, practical | pfllib-dirichlet:0.1 | 20 | 10 | 70,000 | 82 to 8,551 |",
        "| 10,000 of 10,000 | equal to the reference |",
        "data set har not downloaded (pflrepro data get har)",
        "reference fmnist_dir0.1_n20: sample-exact match with the official published partition",
        "## Claimed orderings",
        "| TINY, practical, beta 0.01 > TINY, practical, beta 0.1 |",
        "**data fingerprints:** none: class sizes only",
        "pflrepro reproduce dbe/figure6 --scale smoke",
    ):
        assert part in text, part


def test_a_stand_in_is_written_under_a_name_of_its_own(tmp_path):
    result = papers.result("grp-fed/figure1b", "smoke")
    names = [path.name for path in viz.write(result, tmp_path)]
    assert names[:2] == ["figure1b-smoke.pdf", "figure1b-smoke.png"]
    assert "figure1b-smoke-bubbles.png" in names
    text = (tmp_path / "grp-fed" / "figure1b-smoke.md").read_text()
    assert "Percent of the samples; in brackets the total variation to all" in text
    assert "**data fingerprints:** digits " in text
