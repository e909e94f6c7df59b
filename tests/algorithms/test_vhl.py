"""VHL: the virtual set, the wider head, the four terms of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close, assert_same

from pflrepro.algorithms import build_method
from pflrepro.algorithms.mixup import Mixup
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.variants.vhl import FedBRVHL
from pflrepro.algorithms.vhl import VHL, augmented
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.simulation import Simulation
from pflrepro.simulation.source import DataSource
from pflrepro.trees import Tree

SMALL = {"virtual_samples": 24, "virtual_batch": 7}
OFF = {"virtual_weight": 0.0, "align_weight": 0.0, "cluster_weight": 0.0}


# ---- the virtual set -----------------------------------------------------------------------------------------------------------
def test_the_virtual_set_has_as_many_of_each_class(federation) -> None:
    first, again, other = (
        VHL(virtual_samples=20).supply(DataSource(federation, seed, torch.float64, 5), 0).virtual for seed in (0, 0, 1)
    )
    assert first.x.shape == (20, 1, 8, 8) and first.x.dtype == torch.float64
    assert first.y.tolist() == [k % 6 for k in range(20)]
    assert float(first.x.min()) >= -2 and float(first.x.max()) <= 2  # (pixel - 0.5) / 0.25
    assert_same(first, again)
    assert not torch.equal(first.x, other.x)
    assert VHL().supply(DataSource(federation, 0, torch.float64, 5), 1) is None


def test_in_the_variant_all_clients_take_the_same_virtual_batch_at_a_step(simulate) -> None:
    for kind, different in ((FedBRVHL, 1), (VHL, 5)):

        class Drawn(kind):
            seen: ClassVar[list] = []

            def counts(self, batch: Tree) -> torch.Tensor | float:
                self.seen.append(tuple(batch.virtual.tolist()))
                return super().counts(batch)

        simulate(Drawn(**SMALL), rounds=1, local_epochs=1, batch_size=30, fit_batch=True)
        assert len(Drawn.seen) == 5, "one step each of five clients"
        assert len(set(Drawn.seen)) == different


def test_images_are_cropped_and_flipped() -> None:
    image = torch.arange(1.0, 13).view(1, 1, 3, 4)
    made = augmented(image.expand(300, 1, 3, 4), np.random.default_rng(0), padding=1)
    padded = F.pad(image[0], [1] * 4)
    possible = [
        version
        for top in range(3)
        for left in range(3)
        for crop in [padded[:, top : top + 3, left : left + 4]]
        for version in (crop, crop.flip(-1))
    ]
    found = [next(k for k, crop in enumerate(possible) if torch.equal(crop, one)) for one in made]
    assert set(found) == set(range(18))
    assert torch.equal(augmented(image, np.random.default_rng(0), 0).sort().values, image.sort().values)


def test_samples_that_are_no_images_are_refused(simulate) -> None:
    data = Federation(torch.randn(20, 7), torch.arange(20) % 3, [np.arange(20)], [np.arange(5)])
    with pytest.raises(UserError, match=r"virtual images \[C, H, W\].*\[7\]"):
        simulate("vhl", federation=data, options=SMALL)


# ---- the head ------------------------------------------------------------------------------------------------------------------
def test_extra_classes_are_rows_below_the_run_s_own_head(federation, simulate) -> None:
    wide, plain = (simulate(name, rounds=0).replicas[0].server.params for name in ("vhl", "fedavg"))
    assert_same(wide.base, plain.base)
    assert wide.head.weight.shape == (12, 32) and wide.head.bias.shape == (12,)
    assert_same(wide.head[:6], plain.head)
    assert float(wide.head.weight[6:].std()) > 0.01


def test_only_true_classes_are_answered(federation, simulate) -> None:
    done = simulate("vhl", rounds=3, options=SMALL)
    params = done.replicas[0].server.params
    base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    base.load_state_dict(dict(params.base))
    for i, rows in enumerate(federation.rows["test"]):
        with torch.no_grad():
            logits = base(federation.x[rows].double()) @ params.head.weight.T + params.head.bias
        answers = logits[:, :6].argmax(1)
        assert int((answers == federation.y[rows]).sum()) == done.history(0)["correct"][-1, i]
        expected = F.cross_entropy(logits[:, :6], federation.y[rows], reduction="sum")
        assert done.history(0)["loss"][-1, i] == pytest.approx(float(expected), abs=1e-10)


def test_a_head_of_several_layers_is_refused() -> None:
    class Setup:
        classes, features = 3, 4
        parts = {"head": Part("shared", Tree({"0.weight": torch.ones(4, 4), "2.weight": torch.ones(3, 4)}))}  # noqa: RUF012

    with pytest.raises(UserError, match="vhl/fedbr takes any"):
        VHL().layout(Setup())
    assert FedBRVHL().layout(Setup()) == Setup.parts


# ---- the loss ------------------------------------------------------------------------------------------------------------------
def test_supcon_in_numbers() -> None:
    """Four samples on the axes and one that does not count, by hand: log-sum-exp over the others less the mean over the positives."""
    u = torch.tensor([[1.0, 0], [0, 1], [1, 0], [-1, 0], [0, 1]], dtype=torch.float64)
    labels, mask = torch.tensor([0, 1, 0, 0, 1]), torch.tensor([1.0, 1, 1, 1, 0], dtype=torch.float64)
    e = np.exp  # similarities at temperature 0.5 are 2, 0 and -2
    first = np.log(1 + e(2) + e(-2)) - (2 - 2) / 2  # against 0, 2, -2; positives are the latter two
    fourth = np.log(2 * e(-2) + 1) + 2  # against -2, 0, -2; positives -2 twice
    expected = (first + 0 + first + fourth) / 4  # the second has no positive; the third sees what the first does
    found = VHL(supcon_temperature=0.5).supcon(u, labels, mask)
    assert float(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", [VHL, FedBRVHL])
def test_the_alignment_in_numbers(kind: type[VHL]) -> None:
    """Two real samples of class 0 at 0 and 90 degrees, a virtual one at 0 and one of class 1 at 180, temperature 0.5.

    All four are anchors; in the variant only the real ones have a positive.
    """
    u, v = torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64), torch.tensor([[1.0, 0], [-1, 0]], dtype=torch.float64)
    e = np.exp
    first, second, third = np.log(1 + e(2) + e(-2)), np.log(3), np.log(e(2) + 1 + e(-2))
    means = (first - (0 + 2) / 2) + (second - 0) + (third - (2 + 0) / 2) if kind is VHL else first + second
    batch = Tree(y=torch.tensor([0, 0]), mask=torch.ones(2, dtype=torch.float64))
    found = kind(supcon_temperature=0.5).align(
        Tree(), Tree(z=3 * u, logits=3 * u), v, torch.tensor([0, 1]), batch, None
    )
    assert float(found) == pytest.approx(means / 4, abs=1e-12)


class Seen:
    """Keeps what a loss was called with."""

    seen: list = []  # noqa: RUF012

    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        self.seen.append((params.map(torch.detach), batch, ctx, float(value.detach())))
        return value, out


class Spy(Seen, VHL):
    pass


class FedBRSpy(Seen, FedBRVHL):
    pass


def contrast(anchor: torch.Tensor, others: list[torch.Tensor], same: list[bool], tau: float) -> float:
    """The supervised contrastive loss of one anchor, as a sum over its positives."""
    scores = [float(F.cosine_similarity(anchor, other, dim=0)) / tau for other in others]
    total = np.log(np.sum(np.exp(np.array(scores) - max(scores)))) + max(scores)
    positives = [total - score for score, positive in zip(scores, same, strict=True) if positive]
    return float(np.mean(positives)) if positives else 0.0


def align(u: torch.Tensor, v: torch.Tensor, real: torch.Tensor, virtual: torch.Tensor, kinds_apart: bool) -> float:
    """L_align at temperature 0.5, sample by sample."""
    both, labels, kinds = torch.cat([u, v]), torch.cat([real, virtual]), [0] * len(u) + [1] * len(v)
    total = 0.0
    for a in range(len(both)):
        others = [k for k in range(len(both)) if k != a]
        same = [bool(labels[k] == labels[a]) and (kinds[k] == kinds[a] or not kinds_apart) for k in others]
        total += contrast(both[a], [both[k] for k in others], same, 0.5) / len(both)
    return total


@pytest.mark.parametrize("kind", [Spy, FedBRSpy])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_four_terms(federation, simulate, kind: type[VHL], mixed: bool) -> None:
    weights = {"virtual_weight": 0.7, "align_weight": 0.3, "cluster_weight": 0.2, "supcon_temperature": 0.5}
    variant, Seen.seen = kind is FedBRSpy, []
    method = dataclass(frozen=True)(type("Mixed", (Mixup, kind), {})) if mixed else kind
    simulate(method(**weights, **SMALL), rounds=1)
    for params, batch, ctx, value in Seen.seen[:4] + Seen.seen[-2:]:
        held, head = ctx.common.supplied.virtual, params.head
        rows = (batch.virtual * 24).long()
        x, y = held.x[rows], held.y[rows]
        base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
        base.load_state_dict(dict(params.base))
        with torch.no_grad():
            z = [base(samples) for samples in (batch.x, x, batch.get("unmixed", batch.x))]
            logits = [F.linear(features, head.weight, head.bias) for features in z]
        u, v, whole = logits if variant else z
        kinds = (
            [(1.0, batch.y)] if not mixed else [(float(batch.share), batch.y), (1 - float(batch.share), batch.partner)]
        )
        expected = sum(
            share
            * (
                float(F.cross_entropy(logits[0], labels))
                + 0.3 * align(u, v, labels, y, kinds_apart=False) * (not variant)
            )
            for share, labels in kinds
        )
        if variant:
            expected += 0.3 * align(whole, v, batch.y, y, kinds_apart=True)
        expected += 0.7 * float(F.cross_entropy(logits[1], y + (0 if variant else 6)))
        for a in range(7):
            others = [k for k in range(7) if k != a]
            expected += 0.2 * contrast(v[a], [v[k] for k in others], [bool(y[k] == y[a]) for k in others], 0.5) / 7
        assert value == pytest.approx(expected, abs=1e-9)


def test_virtual_features_do_not_learn_from_the_alignment(federation, simulate) -> None:
    """The gradient of one step is that of L_align with the virtual features as numbers."""
    rows = federation.rows["train"][0][:5]
    alone = Federation(federation.x, federation.y, [rows], [rows], classes=federation.classes)
    Seen.seen = []
    method = Spy(**SMALL | OFF | {"align_weight": 1.0})
    after = simulate(method, rounds=1, federation=alone).replicas[0].server.params
    params, batch, ctx, _ = Seen.seen[0]
    held = ctx.common.supplied.virtual
    chosen = (batch.virtual * 24).long()
    base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    base.load_state_dict(dict(params.base))
    u, v = base(batch.x), base(held.x[chosen]).detach()
    near = method.align(params, Tree(z=u), F.normalize(v, dim=1), held.y[chosen], batch, ctx)
    (F.cross_entropy(F.linear(u, params.head.weight, params.head.bias), batch.y) + near).backward()
    for name, value in base.named_parameters():
        torch.testing.assert_close(after.base[name], value.detach() - 0.05 * value.grad, rtol=0, atol=1e-12)


def test_both_contrasts_count_in_the_first_epochs_only(simulate) -> None:
    """Of three local epochs the first alone, each of the two; five are more than there are."""
    limited = VHL(**SMALL, align_epochs=1)
    assert [limited.counts(Tree(epoch=torch.tensor(float(k)))).item() for k in range(3)] == [1, 0, 0]

    def trained(**options) -> Tree:
        return simulate("vhl", options=SMALL | options, rounds=1, local_epochs=3).replicas[0].server.params

    assert_same(trained(), trained(align_epochs=0))
    for off in ("align_weight", "cluster_weight"):
        one, all_of_them, none = (
            trained(**{off: 0.0}, align_epochs=1),
            trained(**{off: 0.0}),
            trained(align_weight=0.0, cluster_weight=0.0),
        )
        assert float((one - all_of_them).squared_norm()) > 1e-9 and float((one - none).squared_norm()) > 1e-9


# ---- identities, runs ----------------------------------------------------------------------------------------------------------
def test_without_weights_it_is_fedavg(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    ours = simulate("vhl/fedbr", options=SMALL | OFF, **settings)
    plain = simulate("fedavg", **settings)
    assert_same(ours.replicas[0].server.params, plain.replicas[0].server.params)
    assert ours.history(0)["correct"].tolist() == plain.history(0)["correct"].tolist()


def test_without_weights_further_classes_are_only_pushed_down(simulate) -> None:
    before, after = (simulate("vhl", rounds=r, options=SMALL | OFF).replicas[0].server.params.head for r in (0, 4))
    assert bool((after.bias[6:] < before.bias[6:]).all())


@pytest.mark.parametrize("model", ["mlp", "cnn-digits", "cnn-digits-bn"])
def test_backends_agree(simulate, model: str) -> None:
    settings = {"model": model, "drop_last": model.endswith("bn"), "seeds": [0, 1], "participation": 0.6}
    settings["options"] = SMALL
    one, others = (simulate("vhl", backend=backend, **settings) for backend in ("loop", "batched"))
    for a, b in zip(one.replicas, others.replicas, strict=True):
        assert_close(a.server.params, b.server.params, 1e-11)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_a_resumed_run_draws_the_same_images(simulate, backend: str) -> None:
    whole, stopped = (simulate("vhl", rounds=rounds, backend=backend, options=SMALL) for rounds in (3, 2))
    resumed = Simulation(
        VHL(**SMALL), whole.federation, "mlp", whole.settings, [0], backend=backend, workers=1, dtype="float64"
    )
    resumed.restore(stopped.state())
    resumed.step()
    assert resumed.finished
    assert_same(resumed.replicas[0].server, whole.replicas[0].server)


@pytest.mark.parametrize(
    "options",
    [
        {"align_epochs": -1},
        {"virtual_samples": 0},
        {"virtual_batch": 0},
        {"virtual_weight": -1.0},
        {"align_weight": -1.0},
        {"cluster_weight": -1.0},
        {"supcon_temperature": 0.0},
    ],
)
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of vhl must be"):
        build_method("vhl", options)
