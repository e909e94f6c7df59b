"""DANN: alternating steps of the model and of the discriminator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.dann import DANN
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.variants.dann import FedBRDANN
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree


def discriminator(h: torch.Tensor, d: Tree) -> torch.Tensor:
    for layer in ("first", "second"):
        h = torch.relu(h @ d[f"{layer}.weight"].T + d[f"{layer}.bias"])
    return h @ d["third.weight"].T + d["third.bias"]


@dataclass(frozen=True)
class ByClient(FedBRDANN):
    """The variant's order of steps, on labels that do not depend on places."""

    def domain(self, ctx):
        return ctx.info.id


@pytest.mark.parametrize(("kind", "weight"), [(DANN, 0.5), (DANN, 0.0), (ByClient, 0.5)])
def test_the_alternation(federation, simulate, kind: type[DANN], weight: float) -> None:
    """Two rounds of five clients with incomplete batches, written as a plain loop; with weight 0 the model never meets D."""
    method = kind(weight=weight, hidden=8)
    server = simulate(method, rounds=0).replicas[0].server.params
    ours = simulate(method, rounds=2, local_epochs=2)
    n = federation.sizes("train")
    split = build_model("mlp", federation.shape, federation.classes, 0)
    split.base.double(), split.head.double()

    def features(params: Tree, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(split.base, dict(params.base), (x.double(),))

    def stepped(params: Tree, names: tuple[str, ...], loss) -> Tree:
        wanted = params.only(names).map(lambda leaf: leaf.detach().requires_grad_())
        grads = torch.autograd.grad(loss(params | wanted), list(wanted.leaves()))
        return params | (wanted - 0.05 * wanted.refill(iter(grads))).map(torch.Tensor.detach)

    for t in range(2):
        uploads = []
        for i in range(federation.clients):
            params = server
            for rows in batches(federation, Phase(batch=10), ours.settings, 0, t, i, "clients/train"):
                turned = t > 0 and kind is ByClient
                of_model, of_own = (rows[5:], rows[:5]) if turned else (rows[:5], rows[5:])

                def model_loss(w: Tree, rows=of_model, i=i) -> torch.Tensor:
                    z = features(w, federation.x[rows])
                    hidden = F.cross_entropy(discriminator(z, w.discriminator), torch.full((len(rows),), i))
                    logits = torch.func.functional_call(split.head, dict(w.head), (z,))
                    return F.cross_entropy(logits, federation.y[rows]) - weight * hidden

                def own_loss(w: Tree, rows=of_own, i=i) -> torch.Tensor:
                    z = features(w, federation.x[rows])
                    return F.cross_entropy(discriminator(z, w.discriminator), torch.full((len(rows),), i))

                model_step = (("base", "head"), model_loss), of_model
                own_step = (("discriminator",), own_loss), of_own
                for (names, loss), used in (own_step, model_step) if turned else (model_step, own_step):
                    if len(used):
                        params = stepped(params, names, loss)
            uploads.append(params)
        server = uploads[0].map(
            lambda *leaves: sum(k * leaf for k, leaf in zip(n, leaves, strict=True)) / n.sum(), *uploads[1:]
        )
    assert_close(ours.replicas[0].server.params, server)


@dataclass(frozen=True)
class FirstBatch(Method):
    """FedAvg that stops after one batch."""

    def phases(self, clock):
        return [Phase(steps=1)]


def test_the_discriminators_loss_is_in_no_training_loss(simulate) -> None:
    """With weight 0 the model does not meet it, and neither does the loss that is recorded."""

    @dataclass(frozen=True)
    class Larger(DANN):
        def domain_loss(self, *given):
            return super().domain_loss(*given) + 5.0

    runs = [simulate(kind(weight=0.0, hidden=8), rounds=2).history(0) for kind in (DANN, Larger)]
    np.testing.assert_array_equal(runs[0]["train_loss"], runs[1]["train_loss"])
    assert (runs[1]["objective"][1:] > runs[0]["objective"][1:] + 1).any(
        0
    ).sum() > 1  # of clients with more than one batch


def test_weight_zero_is_fedavg_with_half_the_steps(federation, simulate) -> None:
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": len(rows) // 2, "rounds": 3, "momentum": 0.5}
    ours = simulate(DANN(weight=0.0), **settings).replicas[0].server.params
    assert_close(ours.without(["discriminator"]), simulate(FirstBatch(), **settings).replicas[0].server.params, 0)


def test_a_single_batch_is_a_model_step(simulate) -> None:
    """Weight decay and momentum do not move the discriminator of a client that takes no step with it, in any backend."""
    settings = {"batch_size": 40, "weight_decay": 0.1, "momentum": 0.5, "rounds": 2}
    start = simulate(DANN(), rounds=0).replicas[0].server.params
    for backend in ("loop", "batched"):
        ours = simulate(DANN(), backend=backend, **settings).replicas[0].server.params
        assert_close(ours.only(["discriminator"]), start.only(["discriminator"]))
        assert float((ours.base - start.base).squared_norm()) > 1e-6


def test_slot_labels_change_the_training(simulate) -> None:
    client, slot = (simulate(kind()).replicas[0].server.params for kind in (ByClient, FedBRDANN))
    assert float((client.discriminator - slot.discriminator).squared_norm()) > 1e-8


def test_with_slots_only_as_many_labels_as_places_are_ever_pushed_up(simulate) -> None:
    """Two clients a round: outputs 2, 3 and 4 are nobody's label, so that their biases only fall."""
    settings = {"participation": 0.4, "rounds": 4}
    first = simulate(FedBRDANN(), rounds=0).replicas[0].server.params.discriminator["third.bias"]
    last = simulate(FedBRDANN(), **settings).replicas[0].server.params.discriminator["third.bias"]
    assert bool((last[2:] < first[2:]).all()) and bool((last[:2] > first[:2]).any())


def test_its_shape_and_wrong_options(federation, simulate) -> None:
    shapes = simulate(DANN(), rounds=0).replicas[0].server.params.discriminator.map(lambda leaf: tuple(leaf.shape))
    sizes = [(256, 32), (256, 256), (federation.clients, 256)]
    assert [shapes[f"{layer}.weight"] for layer in ("first", "second", "third")] == sizes
    with pytest.raises(UserError, match="hidden of DANN must be"):
        DANN(hidden=0)


def test_a_fixed_number_of_steps_counts_both_kinds(simulate) -> None:
    """50 steps are 25 of the model and 25 of the discriminator; an odd number is rounded up to pairs."""
    assert DANN().phases(Clock(0, 2, batch_size=5, local_steps=5))[0].steps == 3
    simulate(DANN(), rounds=1, local_steps=5)


def test_the_variant_refuses_rounds_in_which_the_model_would_never_train(simulate) -> None:
    with pytest.raises(UserError, match=r"local_steps of dann/fedbr must be 0 \(passes\) or at least 2, not 1"):
        simulate(FedBRDANN(), rounds=2, local_steps=1)
    simulate(FedBRDANN(), rounds=1, local_steps=1)  # the first round's step is the model's
    released = {"rounds": 2, "local_steps": 2, "first_steps": 1}
    first, second = (simulate(FedBRDANN(), **released | {"rounds": r}).replicas[0].server.params for r in (1, 2))
    assert float((second.base - first.base).squared_norm()) > 1e-6


def test_a_round_of_one_step_is_a_step_of_the_model(simulate) -> None:
    start, one = (simulate(DANN(), rounds=rounds, local_steps=1).replicas[0].server.params for rounds in (0, 1))
    assert_close(one.discriminator, start.discriminator)
    assert float((one.base - start.base).squared_norm()) > 1e-6
