"""FedPer: the limits of its split, and what the first round shares with FedAvg."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from helpers.trees import assert_close, assert_same

from pflrepro.algorithms.fedper import FedPer
from pflrepro.data.federation import Federation


@dataclass(frozen=True)
class AllOfOneKind(FedPer):
    kind: str = "shared"

    def layout(self, setup):
        return {name: replace(part, kind=self.kind) for name, part in super().layout(setup).items()}


def test_all_layers_shared_is_fedavg_and_none_is_local(simulate) -> None:
    settings = {"rounds": 2, "participation": 0.6}
    for kind, name in (("shared", "fedavg"), ("personal", "local")):
        ours, reference = simulate(AllOfOneKind(kind), **settings).replicas[0], simulate(name, **settings).replicas[0]
        assert_same(ours.server, reference.server)
        assert_same(ours.clients, reference.clients)


def test_the_first_round_is_fedavgs_but_for_the_averaging_of_the_heads(federation, simulate) -> None:
    ours, fedavg = (simulate(name, rounds=1).replicas[0] for name in ("fedper", "fedavg"))
    assert_close(ours.server.params.base, fedavg.server.params.base, 1e-12)
    n = torch.as_tensor(federation.sizes("train")).double()
    assert_close(ours.clients.params.head.mix(n / n.sum()), fedavg.server.params.head, 1e-12)
    assert "head" not in ours.server.params


def test_one_client_is_fedavg(federation, simulate) -> None:
    rows = federation.rows
    alone = Federation(federation.x, federation.y, rows["train"][:1], rows["test"][:1], classes=federation.classes)
    ours, fedavg = (simulate(name, federation=alone, rounds=3) for name in ("fedper", "fedavg"))
    merged = ours.replicas[0].server.params | ours.replicas[0].clients.params[0]
    assert_same(merged, fedavg.replicas[0].server.params)
    assert ours.history(0)["correct"].tolist() == fedavg.history(0)["correct"].tolist()
