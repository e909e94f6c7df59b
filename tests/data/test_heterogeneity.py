"""Total variation by hand, and partitions of every kind that show themselves."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.data.federation import Federation
from pflrepro.data.heterogeneity import heterogeneity, selected_clients, total_variation
from pflrepro.data.partition import PARTITIONS, Partition, partition
from pflrepro.data.partitions.parse import PFedFDADirichlet
from pflrepro.errors import UserError

LABELS = torch.arange(7).repeat_interleave(60)
# One specification a kind, and the number of clients; options go behind a kind.
KINDS = {
    "iid": ("iid", 6),
    "dirichlet": ("dirichlet:0.5", 4),
    "pathological": ("pathological:2", 7),
    "pfllib-dirichlet": ("pfllib-dirichlet:0.5", 4),
    "pfllib-pathological": ("pfllib-pathological:1", 7),
    "pfedfda-dirichlet": ("pfedfda-dirichlet:1", 3),
    "fixed-size": ("fixed-size:0.5,20", 5),
    "lda": ("lda:0.5", 5),
    "lda-flat": ("lda-flat:0.5", 5),
    "long-tail": ("long-tail:0.7,0.5", 4),
    "counts": ("counts:{counts}", None),
    "group": ("group", None),
    "group-classes": ("group-classes:2", None),
    "group-dirichlet": ("group-dirichlet:1", 4),
    "file": ("file:{file}", None),
    "+of": ("dirichlet:0.5+of=6", 4),
    "+first-of": ("iid+first-of=6", 4),
    "+last-of": ("iid+last-of=6", 4),
    "+train-share": ("iid+train-share=0.5", 4),
    "+train-samples": ("iid+train-samples=10", 4),
    "+validation": ("iid+validation=0.2", 4),
    "+stratified": ("group+stratified", None),
}


def test_total_variation_by_hand() -> None:
    counts = [[6, 4], [0, 10], [12, 8], [0, 0]]
    # Pooled 18/40, 22/40.
    np.testing.assert_allclose(total_variation(counts), [0.15, 0.45, 0.15, np.nan])
    assert heterogeneity(counts) == pytest.approx(0.25), "a client without samples does not count"
    assert np.isnan(heterogeneity([[0, 0]]))


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6))
def test_total_variation_is_a_distance_between_0_and_1_that_ignores_the_order_of_classes(rows: list) -> None:
    counts = np.array(rows)
    distances = total_variation(counts)
    assert (np.isnan(distances) == (counts.sum(1) == 0)).all()
    known = distances[~np.isnan(distances)]
    assert ((known >= 0) & (known <= 1)).all()
    np.testing.assert_allclose(total_variation(counts[:, ::-1]), distances, atol=1e-12)
    np.testing.assert_allclose(total_variation(np.concatenate([counts, counts])), [*distances, *distances], atol=1e-12)


@pytest.mark.parametrize(("number", "expected"), [(1, [3]), (2, [3, 4]), (3, [3, 2, 4]), (9, [3, 0, 2, 1, 4])])
def test_selected_clients_by_hand(number, expected) -> None:
    # Pooled 0.6, 0.4; distances 0.1, 0.4, 0.3, 0, 0.6.
    counts = np.array([[5, 5], [10, 0], [9, 1], [6, 4], [0, 10], [0, 0]])
    assert selected_clients(counts, number) == expected, "the empty client is never chosen"


def test_a_federation_ignores_clients_without_samples() -> None:
    y = torch.tensor([0, 0, 1, 1])
    federation = Federation(torch.zeros(4, 1), y, [[0, 1], [2, 3], []], [[], [], []])
    assert federation.heterogeneity() == 0.5


@pytest.fixture
def made(tmp_path):
    """kind -> its partition of `LABELS`, of three groups."""

    def make(kind: str) -> Partition:
        spec, clients = KINDS[kind]
        table = tmp_path / "counts.csv"
        table.write_text("client,label,count\n0,0,5\n1,6,7\n")
        file = tmp_path / "rows.npz"
        partition("iid", LABELS, 3).save(file, len(LABELS))
        groups = torch.arange(len(LABELS)) % (2 if kind == "group-dirichlet" else 3)
        spec = spec.format(counts=table, file=file)
        return partition(spec, LABELS, clients, groups=groups, min_size=None if kind in ("file", "counts") else 1)

    return make


def test_every_kind_is_here() -> None:
    assert set(KINDS) == set(PARTITIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_shows_sizes_class_counts_and_heterogeneity(made, kind: str) -> None:
    parts = made(kind)
    counts = parts.counts()
    assert counts.sum() == sum(parts.sizes())
    html = parts._repr_html_()
    first = counts[0].numpy()
    classes = ", ".join(f"{label}: {first[label]}" for label in np.flatnonzero(first))
    for text in (f"{counts.sum():,}", f"mean {heterogeneity(counts):.3f}", "training", classes):
        assert text in html, text
    assert f"{parts.clients} clients" in repr(parts)
    drawn = parts.plot()
    try:
        dots = drawn.collections[0]
        assert dots.get_offsets().tolist() == [list(place) for place in zip(*np.nonzero(counts.numpy()), strict=True)]
        held = counts.numpy()[counts.numpy() > 0]
        np.testing.assert_allclose(dots.get_sizes() / dots.get_sizes().max(), held / held.max())
    finally:
        plt.close(drawn.figure)


@pytest.mark.parametrize("kind", KINDS)
def test_a_federation_of_every_kind_shows_itself(made, kind: str) -> None:
    parts = made(kind)
    federation = Federation(torch.zeros(len(LABELS), 1), LABELS, parts.train, parts.test, name="toy & co")
    html = federation._repr_html_()
    assert "<caption>toy &amp; co</caption>" in html
    assert f"mean {federation.heterogeneity():.3f}" in html
    assert federation.heterogeneity() == pytest.approx(heterogeneity(parts.counts()))
    figure, ax = plt.subplots()
    assert federation.plot(ax) is ax
    assert len(ax.collections[0].get_offsets()) == (parts.counts() > 0).sum()
    assert ax.get_title().startswith("toy & co: the largest is ")
    plt.close(figure)


def test_a_validation_part_is_shown_and_counted() -> None:
    federation = Federation(torch.zeros(10, 1), torch.arange(10) % 2, [[0, 1, 2, 3, 4, 5]], [[6, 7]]).hold_out(0.5)
    html = federation._repr_html_()
    assert "8 (3 training, 3 validation, 2 test)" in html
    assert "0: 4, 1: 4" in html


def test_many_clients_and_classes_are_shortened() -> None:
    labels = torch.arange(4_000) % 40
    html = partition("iid", labels, 120)._repr_html_()
    assert "and 20 more clients" in html
    assert "more</td>" in html
    assert html.count("<tr>") == 5 + 1 + 100
    assert "<details>" in html


def test_rows_without_labels_show_their_sizes_only() -> None:
    parts = Partition([torch.arange(3)], [torch.arange(3, 5)])
    assert repr(parts) == "Partition(given rows: 1 clients, 5 samples (5..5 a client))"
    assert parts._repr_html_() == f"<code>{parts!r}</code>"
    assert parts.counts(torch.tensor([0, 0, 1, 1, 1])).tolist() == [[2, 3]]
    with pytest.raises(UserError, match="does not know its labels"):
        parts.plot()


def test_each_kind_says_how_often_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.arange(3).repeat_interleave(50)
    monkeypatch.setattr(PFedFDADirichlet, "draws", 20)
    with pytest.raises(UserError, match=r"none of 20 draws gave every client min_size = 75 samples"):
        partition("pfedfda-dirichlet:1e-9", labels, 2, min_size=75)
    with pytest.raises(UserError, match=r"none of 1,000 draws"):
        partition("dirichlet:1e-9", labels, 2, min_size=75)
