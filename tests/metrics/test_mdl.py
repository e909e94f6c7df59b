"""The codelength of probes: numbers by hand, and the stacked training against one probe after another."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pflrepro.algorithms import build_method
from pflrepro.conformance import federation
from pflrepro.errors import UserError
from pflrepro.metrics import mdl
from pflrepro.metrics.mdl import Curve, Probe, curve_sizes, curves, online_codelength, summarise
from pflrepro.metrics.probe_training import initial
from pflrepro.metrics.representations import collect_layers
from pflrepro.randomness import generator
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation

SMALL = Probe(hidden=(7, 5), lr=0.01, steps=25, batch=16, sizes=4, smallest=6, seeds=2)


def labelled(samples: int, features: int = 6, classes: int = 3, seed: int = 0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(samples, features, generator=draw, dtype=torch.float64).to(dtype)
    return x, (x[:, 0] * classes).long().clamp(max=classes - 1)


def one_probe(x, y, pool: int, size: int, k: int, place: int, classes: int, probe: Probe, seed: int) -> float:
    """A probe as anybody would write it: a module, an optimiser, a loop. Whitening and subset drawn here again."""
    x = (x - x[:pool].mean()) / x[:pool].std(correction=0)
    draw = generator(seed, f"probe/{k}/subset/{probe.draws}", size, place)
    subset = draw.choice(pool, size, replace=probe.draws == "with")
    layers: list[nn.Module] = []
    for a, b in zip((x.shape[1], *probe.hidden), (*probe.hidden, classes), strict=True):
        layers += [nn.Linear(a, b), nn.ReLU()]
    network = nn.Sequential(*layers[:-1]).to(x.dtype)
    start = initial(k, x.shape[1], classes, probe, seed)
    network.load_state_dict({f"{2 * int(name[0])}{name[1:]}": value for name, value in start.items()})
    optimiser = torch.optim.Adam(network.parameters(), lr=probe.lr)
    steps = 0
    order = generator(seed, f"probe/{k}/order", size, place)
    while steps < probe.steps:
        if probe.draws == "with":
            at = (steps * probe.batch + np.arange(probe.batch)) % size
            batches = [subset[at]]
        elif size <= probe.batch:
            batches = [subset]
        else:
            rows = order.permutation(subset)
            batches = [rows[a : a + probe.batch] for a in range(0, size, probe.batch)]
        for rows in batches[: probe.steps - steps]:
            optimiser.zero_grad()
            F.cross_entropy(network(x[rows]), y[rows]).backward()
            optimiser.step()
            steps += 1
    with torch.no_grad():
        return float(F.cross_entropy(network(x[pool:]), y[pool:]))


@pytest.mark.parametrize("draws", ["without", "with"])
@pytest.mark.parametrize("memory", [1, 20_000, 2**30])
def test_it_agrees_with_one_probe_after_another(draws: str, memory: int, monkeypatch) -> None:
    monkeypatch.setattr(mdl, "CPU_MEMORY", memory)
    monkeypatch.setattr(mdl, "usable_cores", lambda: 1)
    probe = Probe(**{**vars(SMALL), "draws": draws})
    sets = [labelled(60), labelled(33, seed=1)]
    found = curves(sets, 4, probe, seed=3)
    for place, (x, y) in enumerate(sets):
        pool = len(x) - math.ceil(0.1 * len(x))
        assert found[place].sizes.tolist() == curve_sizes(pool, probe).tolist()
        for column, size in enumerate(found[place].sizes):
            for k in range(probe.seeds):
                expected = one_probe(x, y, pool, int(size), k, place, 4, probe, 3)
                assert found[place].losses[k, column] == pytest.approx(expected, rel=1e-9)


def test_threads_change_nothing_and_are_put_back(monkeypatch) -> None:
    sets = [labelled(40, seed=s) for s in range(3)]
    monkeypatch.setattr(mdl, "CPU_MEMORY", 1)
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(mdl, "usable_cores", lambda cores=cores: cores)
        found.append(curves(sets, 3, SMALL))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a.losses, b.losses)
    assert torch.get_num_threads() == 1


def test_float32_features_are_probed_in_float32_and_feature_maps_flattened() -> None:
    x, y = labelled(40, features=8, dtype=torch.float32)
    (flat,), (maps,) = (curves([(z, y)], 3, SMALL) for z in (x, x.view(40, 2, 2, 2)))
    np.testing.assert_array_equal(flat.losses, maps.losses)
    (double,) = curves([(x.double(), y)], 3, SMALL)
    np.testing.assert_allclose(flat.losses, double.losses, rtol=1e-3)


def test_a_trained_probe_beats_chance_and_an_untrained_one_does_not() -> None:
    x, y = labelled(120)
    (long,) = curves([(x, y)], 3, Probe(hidden=(16,), lr=0.02, steps=150, batch=32, sizes=2, seeds=2))
    (none,) = curves([(x, y)], 3, Probe(hidden=(16,), steps=0, sizes=2, seeds=2))
    assert long.losses[:, -1].max() < 0.5 < none.losses.min()


# ---- the curve -----------------------------------------------------------------------------------------------------------------
def test_codelength_by_hand() -> None:
    # Sizes 10, 20, 40; losses of two seeds with means 2, 1, 0.5: 10 * 2 + 10 * 1 + 20 * 0.5.
    curve = Curve(np.array([10, 20, 40]), np.array([[3.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), 45)
    assert curve.codelength() == 40.0
    assert curve.codelength("bits") == pytest.approx(40.0 / math.log(2))
    with pytest.raises(UserError, match="unit of a codelength 'bit'; valid: bits, nats"):
        curve.codelength("bit")


@given(st.integers(10, 100_000), st.integers(1, 12))
def test_sizes_go_from_the_smallest_to_the_pool(pool: int, points: int) -> None:
    sizes = curve_sizes(pool, Probe(sizes=points))
    assert sizes[-1] == pool
    assert (np.diff(sizes) > 0).all() and len(sizes) <= points
    assert points == 1 or sizes[0] == 10
    # A loss that does not change costs itself for every sample of the pool.
    assert online_codelength(sizes, np.full(len(sizes), 0.25)) == pytest.approx(0.25 * pool)


@given(st.integers(1, 500), st.sampled_from([1, 6, 10]), st.sampled_from([0.1, 0.25, 0.5]))
def test_the_least_number_of_samples(samples: int, smallest: int, share: float) -> None:
    probe = Probe(smallest=smallest, validation=share)
    enough = samples - probe.validating(samples) >= smallest and probe.validating(samples) >= 1
    assert (samples >= probe.least) == enough


def test_summaries_of_clients() -> None:
    one = Curve(np.array([10]), np.array([[1.0]]), 12)
    two = Curve(np.array([10]), np.array([[4.0]]), 36)
    found = [summarise([one, None, two], how) for how in ("mean", "sum", "weighted")]
    assert found == [25.0, 50.0, pytest.approx((12 * 10 + 36 * 40) / 48)]
    assert math.isnan(summarise([None]))
    with pytest.raises(UserError, match="summary of codelengths 'median'; valid: "):
        summarise([one], "median")


def test_features_of_a_simulation_and_a_client_without_test_samples() -> None:
    settings = Settings(1, batch_size=5, lr=0.05, drop_last=False)
    simulation = Simulation(build_method("fedavg+dbe"), federation(), "mlp", settings, [0], backend="loop", workers=1)
    simulation.step()
    found = collect_layers(simulation, ["fc1", "logits"])
    assert found["fc1"].z.shape == (simulation.federation.sizes("test").sum(), simulation.task.features)
    probe = Probe(hidden=(4,), steps=3, sizes=2, smallest=2, seeds=1)
    measured = curves(found["logits"].sets(), simulation.task.classes, probe)
    enough = simulation.federation.sizes("test") >= probe.least
    assert [curve is not None for curve in measured] == enough.tolist() and not enough[-1]
    assert summarise(measured) == pytest.approx(
        np.mean([curve.codelength() for curve in measured if curve is not None])
    )


# ---- bad input -----------------------------------------------------------------------------------------------------------------
def test_too_few_samples_give_no_curve() -> None:
    assert Probe().least == 12  # two to validate on, ten in the pool
    assert SMALL.least == 7
    found = curves([labelled(6), labelled(7), (torch.empty(0, 6), torch.empty(0))], 3, SMALL)
    assert [curve is None for curve in found] == [True, False, True]
    assert found[1].sizes.tolist() == [6] and found[1].samples == 7
    assert curves([], 3, SMALL) == []


def test_one_class_and_constant_features_have_a_codelength() -> None:
    x, y = labelled(50)
    quick = Probe(hidden=(8,), lr=0.05, steps=60, sizes=2, seeds=1)
    single, constant = curves([(x, torch.ones_like(y)), (torch.ones_like(x), y)], 3, quick)
    assert 0 <= single.losses[0, -1] < 0.01
    share = np.bincount(y[:45], minlength=3) / 45
    expected = -np.log(share[y[45:]]).mean()
    assert constant.losses[0, -1] == pytest.approx(expected, abs=0.1)


def test_what_cannot_be_probed_is_one_clear_error() -> None:
    x, y = labelled(30)
    broken = x.clone()
    broken[3, 1] = math.nan
    broken[7] = math.inf
    with pytest.raises(UserError, match="set 1's features: 2 of 30 samples have a NaN or infinite number"):
        curves([(x, y), (broken, y)], 3, SMALL)
    with pytest.raises(UserError, match=r"set 0 has labels 0\.\.2; with 2 classes they are 0\.\.1"):
        curves([(x, y)], 2, SMALL)
    with pytest.raises(UserError, match="features of 30 samples and labels of shape"):
        curves([(x, y[:-1])], 3, SMALL)
    with pytest.raises(UserError, match="must be floating-point numbers"):
        curves([(y.view(-1, 1), y)], 3, SMALL)
    with pytest.raises(UserError, match="features must have one length, not 6, 5"):
        curves([(x, y), (x[:, :5], y)], 3, SMALL)
    with pytest.raises(UserError, match="features must have one number at least, not 0"):
        curves([(x[:, :0], y)], 3, SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "probe's steps must be a whole number >= 0"),
        ({"hidden": (0,)}, "probe's hidden width"),
        ({"hidden": 5}, "probe's hidden widths must be a list of whole numbers, not 5"),
        ({"hidden": "64"}, "probe's hidden widths must be a list"),
        ({"lr": 0.0}, "probe's learning rate"),
        ({"validation": 1}, "validation share must be a number > 0 and < 1"),
        ({"draws": "once"}, "unknown way to draw the probe's samples 'once'"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Probe(**options)


def test_half_precision_is_probed_in_float32() -> None:
    x, y = labelled(30)
    x = (100 * x).round() * 8  # exact in float16; their squares are not
    (half,), (single,) = (curves([(x.to(dtype), y)], 3, SMALL) for dtype in (torch.float16, torch.float32))
    assert np.isfinite(half.losses).all()
    np.testing.assert_array_equal(half.losses, single.losses)


def test_classes_are_counted() -> None:
    with pytest.raises(UserError, match=r"classes must be a whole number >= 1, not 2\.5"):
        curves([labelled(30)], 2.5, SMALL)


def test_labels_must_be_whole_and_pools_large_enough() -> None:
    x, y = labelled(30)
    with pytest.raises(UserError, match="set 0's labels must be whole numbers: 30 of 30 are not"):
        curves([(x, y.double() + 0.5)], 3, SMALL)
    with pytest.raises(UserError, match=r"samples in the pool must be a whole number >= 10, not \[100, 200\]"):
        curve_sizes([100, 200])
    for pool in (0, 5, 10.5):
        with pytest.raises(UserError, match=f"samples in the pool must be a whole number >= 10, not {pool}"):
            curve_sizes(pool)
    assert curve_sizes(np.int64(787)).tolist() == curve_sizes(787).tolist()


@pytest.mark.parametrize("losses", [[1.0], [[1.0, 2.0]], []])
def test_a_codelength_needs_a_loss_a_size(losses) -> None:
    with pytest.raises(UserError, match="one loss a size"):
        online_codelength([10, 20], losses)


def test_features_are_copied_once() -> None:
    class Made(TorchDispatchMode):
        """Bytes of floating-point tensors that came to be, without views of others."""

        made = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            given = {each.untyped_storage().data_ptr() for each in tree_leaves((args, kwargs)) if torch.is_tensor(each)}
            for each in tree_leaves(result):
                if (
                    torch.is_tensor(each)
                    and each.is_floating_point()
                    and each.untyped_storage().data_ptr() not in given
                ):
                    self.made += each.nbytes
            return result

    sets = [labelled(40, features=500, seed=seed) for seed in range(3)]
    with Made() as watch:
        flat, _, pools = mdl._flatten(sets, 3, SMALL)
    assert len(pools) == 3 and flat.shape == (120, 500)
    assert flat.nbytes <= watch.made < 2.1 * flat.nbytes  # the table, and |x|, which isfinite makes set by set


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, -700.1])
def test_constants_that_do_not_round_exactly_are_constants(value: float, dtype: torch.dtype) -> None:
    """512 times 0.1 have a mean that is not 0.1 in binary, and a standard deviation that is not 0."""
    x, (_, y) = torch.full((60, 512), value, dtype=dtype), labelled(60)
    assert x[:54].std(correction=0) > 0
    quick = Probe(hidden=(8,), lr=0.01, steps=20, sizes=2, seeds=1)
    found, zeros = (curves([(each, y)], 3, quick)[0] for each in (x, torch.zeros_like(x)))
    np.testing.assert_array_equal(found.losses, zeros.losses)


def test_features_far_from_zero_are_still_told_apart() -> None:
    x, y = labelled(60)
    quick = Probe(hidden=(8,), lr=0.02, steps=20, sizes=2, seeds=1)
    near, far = (curves([(each, y)], 3, quick)[0] for each in (x, x + 1000))
    np.testing.assert_allclose(far.losses, near.losses, rtol=1e-6)


def test_initial_weights_do_not_follow_pytorch_s_default_number_type() -> None:
    initial.cache_clear()
    before = initial(0, 6, 3, SMALL, 0)
    initial.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        after = initial(0, 6, 3, SMALL, 0)
    finally:
        torch.set_default_dtype(torch.float32)
        initial.cache_clear()
    for one, other in zip(before.leaves(), after.leaves(), strict=True):
        assert one.dtype == other.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_hidden_widths_may_be_a_list() -> None:
    listed = Probe(**{**vars(SMALL), "hidden": list(SMALL.hidden)})
    assert listed == SMALL and hash(listed) == hash(SMALL)
    one, other = (curves([labelled(30)], 3, probe)[0] for probe in (listed, SMALL))
    np.testing.assert_array_equal(one.losses, other.losses)


@pytest.mark.parametrize("sizes", [[20, 10], [10, 10], [0, 10], [-5, 10], [10, math.nan], [10, math.inf]])
def test_a_codelength_s_sizes_ascend(sizes) -> None:
    with pytest.raises(UserError, match="sizes must be positive and ascend, not"):
        online_codelength(sizes, [1.0, 2.0])
