"""The gradient attack: PSNR by hand, the optimiser against PyTorch's, what the server sees, a sample recovered."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import pflrepro
from pflrepro.errors import UserError
from pflrepro.metrics import lbfgs, leakage
from pflrepro.metrics.leakage import Attack, Observation, exact, observe, platform_psnr, psnr, recover
from pflrepro.trees import Tree


# ---- PSNR ----------------------------------------------------------------------------------------------------------------------
def test_psnr_by_hand() -> None:
    a = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    b = torch.tensor([[0.1, 0.9], [0.5, 0.5]])
    assert float(psnr(a, b, start=1)[0]) == pytest.approx(20.0, abs=1e-5)  # MSE 0.01
    assert float(psnr(a, b, start=1)[1]) == math.inf
    assert float(psnr(a, b)) == pytest.approx(10 * math.log10(1 / 0.005), abs=1e-5)
    assert float(psnr(2 * a, 2 * b, data_range=2.0)) == pytest.approx(float(psnr(a, b)), abs=1e-5)
    # The platform: M = 0.005 / 3, 20 log10(1 / sqrt(M)).
    assert float(platform_psnr(a, b)) == pytest.approx(20 * math.log10(1 / math.sqrt(0.005 / 3)), abs=1e-5)
    assert math.isnan(float(psnr(a, b * math.nan)))
    assert float(platform_psnr(a.numpy(), b.numpy())) == float(platform_psnr(a, b))
    with pytest.raises(UserError, match="data range must be a number > 0"):
        psnr(a, b, 0)
    for call in (psnr, platform_psnr):
        with pytest.raises(UserError, match=r"samples of one shape, not \[2, 2\] and \[1, 2\]"):
            call(a, b[:1])


def test_images_without_information_give_what_the_notes_say() -> None:
    """Images around 0 in [-1, 1] with spread 0.5 against 0.5 everywhere: 6 to 8 dB."""
    draw = torch.Generator().manual_seed(0)
    images = (0.5 * torch.randn(4, 3, 32, 32, generator=draw)).clamp(-1, 1)
    assert 6 < float(platform_psnr(images, torch.full_like(images, 0.5))) < 8.5


# ---- L-BFGS --------------------------------------------------------------------------------------------------------------------
def valley(x):
    return ((1 - x[:-1]) ** 2 + 2 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def steep(x):
    return (x**4).sum() + torch.cos(3 * x).sum()


@pytest.mark.parametrize("function", [valley, steep])
@pytest.mark.parametrize(("lr", "steps", "inner"), [(1.0, 1, 7), (0.2, 4, 5), (0.5, 40, 6)])
def test_every_row_goes_the_way_of_pytorchs_lbfgs(function, lr: float, steps: int, inner: int) -> None:
    start = torch.linspace(-1.2, 1.4, 12, dtype=torch.float64).view(4, 3)
    start[3] = 1.0  # the valley's minimum: no gradient from the start

    def gradients(points, rows):
        assert len(points) == len(rows)
        pairs = [torch.func.grad_and_value(function)(point) for point in points]
        return torch.stack([value for _, value in pairs]), torch.stack([g for g, _ in pairs])

    found, values = lbfgs.minimise(gradients, start, "lbfgs", lr, steps, inner)
    for row in range(4):
        x = start[row].clone().requires_grad_()
        optimiser = torch.optim.LBFGS([x], lr=lr, max_iter=inner)

        def closure(x=x, optimiser=optimiser):
            optimiser.zero_grad()
            value = function(x)
            value.backward()
            return value

        for _ in range(steps):
            optimiser.step(closure)
        expected = float(function(x.detach()))
        if not math.isfinite(expected):
            assert values[row].isnan()
            continue
        torch.testing.assert_close(found[row], x.detach(), rtol=1e-7, atol=1e-9)
        assert float(values[row]) == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_a_diverged_row_is_nan_and_leaves_the_others_alone() -> None:
    def gradients(points, rows):
        factor = torch.tensor([1.0, math.nan])[rows]
        return factor * (points**2).sum(1), factor[:, None] * 2 * points

    for optimiser in ("lbfgs", "adam"):
        _, values = lbfgs.minimise(gradients, torch.ones(2, 3), optimiser, 0.2, 60)
        assert values[1].isnan() and float(values[0]) < 1e-2


# ---- a sample recovered --------------------------------------------------------------------------------------------------------
def tiny(samples: int = 1, victims: int = 2, dtype=torch.float64) -> Observation:
    """A network of two dense layers with tanh for 4x4 images and 3 outputs; no update yet."""
    draw = torch.Generator().manual_seed(3)

    def random(*shape):
        return torch.randn(victims, *shape, generator=draw, dtype=dtype) * 0.5

    params = Tree(base=Tree(w=random(8, 16), b=random(8)), head=Tree(w=random(3, 8), b=random(3)))

    def network(p, x):
        return F.linear(torch.tanh(F.linear(x.flatten(1), p.base.w, p.base.b)), p.head.w, p.head.b)

    x = torch.rand(victims, samples, 1, 4, 4, generator=draw, dtype=dtype)
    return Observation(network, params, params, x, (3,), list(range(victims)), [0] * victims)


@pytest.mark.parametrize("attack", [Attack(), Attack(optimiser="adam", lr=0.1, steps=1500)])
def test_a_single_sample_is_recovered(attack: Attack) -> None:
    seen = tiny()
    seen = exact(seen, torch.tensor([[[3.0, -1.0, 0.5]], [[0.0, 2.0, -2.0]]], dtype=torch.float64), attack)
    found = recover(seen, attack)
    assert found.x.shape == seen.x.shape
    assert float(found.loss.max()) < 1e-4
    assert float(psnr(seen.x, found.x)) > 30


def test_the_best_of_several_restarts_is_kept_and_victims_do_not_mix() -> None:
    seen = tiny(samples=2, victims=3)
    attack = Attack(steps=5, restarts=3)
    seen = exact(seen, torch.ones(3, 2, 3, dtype=torch.float64), attack)
    found = recover(seen, attack)
    assert found.every.shape == (3, 3, 2, 1, 4, 4) and found.losses.shape == (3, 3)
    torch.testing.assert_close(found.loss, found.losses.min(1).values)
    best = found.losses.argmin(1)
    torch.testing.assert_close(found.x[1], found.every[1, best[1]])
    alone = recover(seen.part(slice(1, 2)), attack)
    torch.testing.assert_close(alone.losses[0], found.losses[1], rtol=1e-6, atol=1e-10)
    short = seen.first(2, samples=1)
    assert short.x.shape == (2, 1, 1, 4, 4) and short.client == [0, 1] and len(short.delta.head.b) == 2


def test_the_objective_and_its_gradient_are_as_written() -> None:
    """`exact` against autograd, for both objectives."""
    seen = tiny(samples=2, victims=1)
    y = torch.tensor([[[1.0, 2.0, -1.0], [0.0, 0.5, 0.0]]], dtype=torch.float64)
    for objective in ("mse", "cross_entropy"):
        p = seen.params[0].map(lambda leaf: leaf.clone().requires_grad_())
        out = seen.network(p, seen.x[0])
        value = F.mse_loss(out, y[0]) if objective == "mse" else F.cross_entropy(out, y[0].softmax(1))
        expected = torch.autograd.grad(value, list(p.leaves()))
        found = exact(seen, y, Attack(objective=objective)).delta[0]
        for a, b in zip(found.leaves(), expected, strict=True):
            torch.testing.assert_close(a, b)


# ---- what the server sees ------------------------------------------------------------------------------------------------------
def run(name: str, rounds: int = 1, **changes):
    asked = {"clients": 3, "rounds": 4, "model": "cnn-digits", "dtype": "float64", "partition": "dirichlet:1"} | changes
    return pflrepro.simulate(
        pflrepro.Experiment.for_dataset(name, "digits", **asked), rounds=rounds, workers=1, backend="loop"
    )


def test_one_local_step_uploads_its_gradient() -> None:
    """A batch as large as the client's part: delta = rate * the gradient at the received parameters, x the batch itself."""
    simulation = run("fedavg", batch_size=100_000, drop_last=False, clients=2)
    before = simulation.state()
    seen = observe(simulation, at="received", batches=1)
    sizes = simulation.federation.sizes("train")
    widest = int(sizes.argmax())
    assert seen.client == [widest] and seen.x.shape[1] == sizes.max()
    params = simulation.replicas[0].server.params
    leaves = params.map(lambda leaf: leaf.clone().requires_grad_())
    _, y = simulation.federation.batch(torch.as_tensor(simulation.federation.rows["train"][widest]), torch.float64)
    x, _ = simulation.federation.batch(torch.as_tensor(simulation.federation.rows["train"][widest]), torch.float64)
    value = F.cross_entropy(seen.network(leaves, x), y)
    for a, b in zip(torch.autograd.grad(value, list(leaves.leaves())), seen.delta[0].leaves(), strict=True):
        torch.testing.assert_close(b, simulation.settings.lr * a)
    for name, value in simulation.state().items():
        np.testing.assert_array_equal(value, before[name])


def test_targets_of_gpfl() -> None:
    simulation = run("gpfl")
    method, fe, sfe, sm = (
        simulation.method,
        *(observe(simulation, target) for target in ("extractor", "pseudo-extractor", "pseudo-model")),
    )
    k, classes = simulation.task.features, simulation.task.classes
    assert [each.outputs for each in (fe, sfe, sm)] == [(k,), (k,), (classes,)]
    assert set(sfe.delta) == {"base", "valve"} and set(sm.delta) == {"base", "valve", "embeddings"}
    assert fe.x.shape[:2] == (6, 10) and fe.client == [0, 0, 1, 1, 2, 2] and fe.batch == [0, 1] * 3
    p, x = sm.params[3], sm.x[3]
    z = fe.network(fe.params[3], x)
    guided = method.valve(z, *method.gates(p, p.condition.g))
    torch.testing.assert_close(sfe.network(sfe.params[3], x), guided)
    cosine = F.cosine_similarity(guided[:, None], p.embeddings.weight[None], dim=-1)
    torch.testing.assert_close(sm.network(p, x), cosine)
    found = recover(sm, Attack(steps=1, inner=2))
    assert found.x.shape == sm.x.shape and math.isfinite(found.psnr())
    with pytest.raises(
        UserError, match="the server sees no head of GPFL's clients; targets it can attack: extractor, pseudo"
    ):
        observe(simulation, "model")


def test_personal_heads_never_reach_the_server() -> None:
    simulation = run("fedper")
    with pytest.raises(UserError, match="sees no head of FedPer's clients; targets it can attack: extractor"):
        observe(simulation, "model")
    assert set(observe(simulation, "extractor").params) == {"base"}
    with pytest.raises(UserError, match="unknown target of the attack 'head'"):
        observe(simulation, "head")
    with pytest.raises(UserError, match="place of the gradient"):
        observe(simulation, "extractor", at="sent")
    with pytest.raises(UserError, match="batches must be a whole number >= 1"):
        observe(simulation, "extractor", batches=0)


def test_what_cannot_be_attacked() -> None:
    with pytest.raises(UserError, match="not defined for a network with batch-norm statistics"):
        observe(run("fedavg", model="cnn-digits-bn", drop_last=True))
    with pytest.raises(UserError, match="the server sees no base of"):
        observe(run("local"), "extractor")


def test_psnr_of_clients_skips_what_diverged() -> None:
    seen = tiny(victims=3)
    seen = Observation(seen.network, seen.params, seen.delta, seen.x * 0, (3,), [0, 0, 2], [0, 1, 0])
    x = torch.full_like(seen.x, 0.1)
    x[1] = math.nan
    x[2] = 0.01
    found = leakage.Recovered(x, torch.zeros(3), x[:, None], torch.zeros(3, 1), seen, Attack())
    assert found.psnr() == pytest.approx((20 + 40) / 2 + 10 * math.log10(3))
    assert math.isnan(leakage.Recovered(x * math.nan, None, None, None, seen, Attack()).psnr())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "l1"}, "unknown objective of the attack 'l1'"),
        ({"optimiser": "sgd"}, "unknown optimiser of the attack"),
        ({"low": 1.0}, "low must be below its high"),
        ({"restarts": 0}, "attack's restarts must be"),
        ({"lr": 0}, "attack's rate"),
        ({"high": math.inf}, "attack's high must be a number, not inf"),
        ({"low": math.nan}, "attack's low must be a number, not nan"),
        ({"seed": "a"}, "attack's seed must be a whole number, not 'a'"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Attack(**options)


def test_no_more_dummies_at_a_time_than_the_memory_holds(monkeypatch) -> None:
    """Five dummies' memory for three victims of three restarts: launches of 5 and 4, and the same numbers."""
    seen = replace(tiny(samples=2, victims=3), activations=11)
    attack = Attack(steps=3, inner=4, restarts=3)
    whole = recover(seen, attack)
    # 2 samples of 16 numbers and 3 outputs, 208 vectors; 10 x (8 * 17 + 3 * 9) parameters; 12 x 2 x 11 activations
    assert leakage.bytes_each(seen, attack) == 8 * (208 * 38 + 10 * 163 + 12 * 22)
    assert leakage.bytes_each(seen, Attack(optimiser="adam")) == 8 * (8 * 38 + 10 * 163 + 12 * 22)
    launches = []
    attacked = leakage._attacked

    def watched(seen, attack, rows, start):
        launches.append(rows.tolist())
        return attacked(seen, attack, rows, start)

    monkeypatch.setattr(leakage, "_attacked", watched)
    monkeypatch.setattr(leakage, "MEMORY", 5 * leakage.bytes_each(seen, attack) + 1)
    parts = recover(seen, attack)
    assert launches == [[0, 0, 0, 1, 1], [1, 2, 2, 2]]
    torch.testing.assert_close(parts.every, whole.every, rtol=1e-6, atol=1e-10)
    monkeypatch.setattr(leakage, "MEMORY", 1)
    recover(seen.first(1), attack)
    assert launches[2:] == [[0], [0], [0]]


@pytest.mark.parametrize("optimiser", ["lbfgs", "adam"])
def test_a_diverged_attack_recovers_nothing(optimiser: str) -> None:
    """No number of the start passes for a recovery: NaN samples, losses and PSNR, of the victim that diverged alone."""
    attack = Attack(optimiser=optimiser, steps=3, inner=4, restarts=2, lr=0.1)
    seen = exact(tiny(victims=2), torch.ones(2, 1, 3, dtype=torch.float64), attack)
    whole = recover(seen, attack)
    broken = replace(seen, delta=seen.delta.map(lambda leaf: torch.cat([leaf[:1] * math.nan, leaf[1:]])))
    found = recover(broken, attack)
    assert found.losses[0].isnan().all() and found.loss[0].isnan() and found.rows[0].isnan()
    assert found.every[0].isnan().all() and found.x[0].isnan().all()
    torch.testing.assert_close(found.x[1], whole.x[1])
    assert found.psnr() == pytest.approx(float(whole.rows[1]))
    assert math.isnan(recover(broken.first(1), attack).psnr())


def test_a_seed_may_be_numpy_s() -> None:
    one, other = (recover(tiny(), Attack(steps=0, seed=seed)) for seed in (np.int64(3), 3))
    torch.testing.assert_close(one.x, other.x, rtol=0, atol=0)


def test_too_large_a_rate_diverges_and_says_so() -> None:
    attack = Attack(steps=20, lr=50.0)
    seen = tiny()
    y = torch.tensor([[[3.0, -1.0, 0.5]], [[0.0, 2.0, -2.0]]], dtype=torch.float64)
    found = recover(exact(seen, y, attack), attack)
    assert found.losses.isnan().all() and found.rows.isnan().all() and math.isnan(found.psnr())


@pytest.mark.parametrize("good", [0, 1, 2])
def test_a_restart_that_diverged_is_never_chosen(good: int, monkeypatch) -> None:
    """One that stopped at its start, one with an infinite loss and one with a broken sample, against a poor one that is finite."""

    def attacked(seen, attack, rows, start):
        samples = torch.full((3, *seen.x.shape[1:]), 0.25, dtype=seen.x.dtype)
        losses = torch.tensor([math.nan, math.inf, 1e-9], dtype=seen.x.dtype).roll(good + 1)
        samples[losses == 1e-9, 0, 0, 1, 2] = math.nan
        losses[good], samples[good] = 1e9, 0.75
        return samples, losses

    monkeypatch.setattr(leakage, "_attacked", attacked)
    found = recover(tiny(victims=1), Attack(restarts=3))
    assert float(found.loss[0]) == 1e9 and (found.x == 0.75).all()
    bad = [restart for restart in range(3) if restart != good]
    assert found.losses[0, bad].isnan().all() and found.every[0, bad].isnan().all()


@pytest.mark.parametrize(("victims", "samples"), [(0, None), (1, 0)])
def test_without_rows_or_samples_there_is_nothing_to_recover(victims: int, samples: int | None) -> None:
    with pytest.raises(UserError, match=r"nothing to recover: the observation's samples have the shape \["):
        recover(tiny().first(victims, samples), Attack(steps=0))
