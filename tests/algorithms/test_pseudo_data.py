"""What FedBR's pseudo-data are made of."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.trees import assert_same

from pflrepro.algorithms.fedbr import FedBR
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.simulation.source import DataSource
from pflrepro.trees import Tree


@pytest.fixture
def marked() -> DataSource:
    """Clients 0, 1, 3 hold samples of value 0, 100, 300 + label; client 2 holds none; proxy samples have values 1000, 1001, ..."""
    labels = torch.tensor([0, 1, 2, 0, 0, 1, 2, 2])
    clients = [[0, 1], [2, 3, 4], [], [5, 6, 7]]
    owner = torch.tensor([0, 0, 1, 1, 1, 3, 3, 3])
    proxy = Federation(torch.arange(1000.0, 1004)[:, None], [0] * 4, [np.arange(4)], [[]])
    x = (100 * owner + labels).float()[:, None]
    return DataSource(Federation(x, labels, clients, [[]] * 4, classes=5, proxy=proxy), 0, torch.float64, 50)


def test_an_rsm_sample_is_the_mean_of_one_client(marked) -> None:
    pseudo = FedBR(pseudo_mean=3).supply(marked, 0).pseudo
    assert pseudo.shape == (50, 1)  # the batch size
    clients = (pseudo[:, 0] / 100).floor()
    assert set(clients.tolist()) == {0.0, 1.0, 3.0}
    rest = 3 * (pseudo[:, 0] - 100 * clients)  # the sum of three labels
    torch.testing.assert_close(rest, rest.round(), rtol=0, atol=1e-9)
    assert float(rest.max()) <= 6 and len(set(rest.round().tolist())) > 3
    assert FedBR(pseudo_samples=7).supply(marked, 0).pseudo.shape == (7, 1)


def test_a_balanced_mean_has_all_classes_equally_often(marked) -> None:
    """Six samples of three present classes: labels add up to 2 (0 + 1 + 2) = 6."""
    pseudo = FedBR(pseudo_mean=6, pseudo_balanced=True).supply(marked, 0).pseudo
    total = (6 * pseudo[:, 0]).round() % 100
    assert set(total.tolist()) == {6.0}
    assert len(set(pseudo[:, 0].tolist())) > 5  # of clients at random
    few = FedBR(pseudo_mean=2, pseudo_balanced=True).supply(marked, 0).pseudo
    assert set(((2 * few[:, 0]).round() % 100).tolist()) == {1.0, 2.0, 3.0}  # two different classes


@pytest.mark.parametrize("pseudo", ["proxy", "mixture"])
def test_proxy_means(marked, pseudo: str) -> None:
    means = FedBR(pseudo=pseudo, pseudo_mean=1).supply(marked, 0).pseudo
    assert set(means[:, 0].tolist()) == {1000.0, 1001.0, 1002.0, 1003.0}


def test_refresh(marked) -> None:
    once, each = FedBR(pseudo_refresh="once"), FedBR(pseudo_refresh="round")
    assert once.supply(marked, 1) is None
    assert not torch.equal(each.supply(marked, 1).pseudo, each.supply(marked, 0).pseudo)
    assert torch.equal(each.supply(marked, 1).pseudo, each.supply(marked, 1).pseudo)
    assert torch.equal(each.supply(marked, 0).pseudo, once.supply(marked, 0).pseudo)


def test_without_proxy_data_the_error_says_which_setting_gives_them(federation, simulate) -> None:
    with pytest.raises(UserError, match=r"proxy=DATASET"):
        simulate("fedbr", options={"pseudo": "mixture"})


def test_proxy_samples_of_another_shape_are_refused(federation, simulate) -> None:
    proxy = Federation(torch.zeros(4, 3, 8, 8), [0] * 4, [np.arange(4)], [[]])
    rows = federation.rows
    data = Federation(federation.x, federation.y, rows["train"], rows["test"], classes=6, proxy=proxy)
    with pytest.raises(UserError, match=r"\[1, 8, 8\], not \[3, 8, 8\]"):
        simulate("fedbr", options={"pseudo": "proxy"}, federation=data)


def test_a_mixture_by_hand() -> None:
    """Two pseudo-samples, three classes; four rows, of which one is padding; two samples mixed into each."""
    method, task = FedBR(pseudo="mixture", mixed_samples=2), SimpleNamespace(classes=3)
    pseudo = torch.tensor([[300.0], [600.0]], dtype=torch.float64)
    ctx = SimpleNamespace(task=task, common=Tree(supplied=Tree(pseudo=pseudo)))
    x = torch.tensor([[1.0], [10.0], [100.0], [1e9]], dtype=torch.float64)
    mixed = torch.tensor([[0.0, 0.99], [0.34, 1.0]], dtype=torch.float64)  # rows 0 and 2, 1 and 2 of three
    batch = Tree(x=x, y=torch.tensor([0, 1, 1, 2]), mask=torch.tensor([1.0, 1, 1, 0]), mixed=mixed)
    values, labels = method.pseudo_batch(batch, ctx)
    expected = torch.tensor([[401.0], [710.0]], dtype=torch.float64) / 3
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-12)
    third = 1 / 3
    expected = torch.tensor([[1 + third, 1 + third, third], [third, 2 + third, third]], dtype=torch.float64) / 3
    torch.testing.assert_close(labels, expected, rtol=0, atol=1e-12)
    soft = batch | Tree(partner=torch.tensor([2, 2, 0, 0]), share=torch.tensor(0.75, dtype=torch.float64))
    own = torch.tensor([[0.75, 0, 0.25], [0, 0.75, 0.25], [0.25, 0.75, 0]], dtype=torch.float64)
    expected = (third + torch.stack([own[0] + own[2], own[1] + own[2]])) / 3
    torch.testing.assert_close(method.pseudo_batch(soft, ctx)[1], expected, rtol=0, atol=1e-12)


def test_a_mixture_with_no_samples_is_the_proxy(with_proxy, simulate) -> None:
    """K = 0 of figure 6c, with all its draws."""
    none, proxy = (
        simulate("fedbr", options=options, federation=with_proxy, participation=0.6)
        for options in ({"pseudo": "mixture", "mixed_samples": 0}, {"pseudo": "proxy"})
    )
    assert_same(none.replicas[0].server, proxy.replicas[0].server)
    assert none.history(0)["loss"].tolist() == proxy.history(0)["loss"].tolist()
