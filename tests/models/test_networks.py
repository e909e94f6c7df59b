"""The networks by name: shapes, refusals, seeded weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from pflrepro.errors import UserError
from pflrepro.models import MODELS, build_model, canonical, find, splits
from pflrepro.models.initialise import seeded
from pflrepro.models.split import parameters_of

BEHIND_RELU = {"mlp", "cnn4", "cnn-digits", "cnn-digits-bn", "mlp3", "vgg11", "har-cnn"}


@pytest.mark.parametrize("name", MODELS)
def test_a_network_maps_a_batch_to_features_and_logits(
    name: str, smallest: Callable[[str], tuple], samples: Callable[..., torch.Tensor]
) -> None:
    network = build_model(name, smallest(name), 7, 0)
    z = network.base(samples(name, 3).float())
    assert z.shape == (3, network.features)
    assert network.head(z).shape == (3, 7)
    if name in BEHIND_RELU or "resnet" in name:
        assert (z >= 0).all(), "the features stand behind a ReLU"


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_written_in_place(name: str, smallest: Callable[[str], tuple]) -> None:
    """In-place layers fail under a transformed gradient."""
    network = build_model(name, smallest(name), 2, 0)
    assert not any(getattr(m, "inplace", False) for part in (network.base, network.head) for m in part.modules())


def test_the_mlp_takes_any_shape() -> None:
    network = build_model("mlp", (6,), 2, 0)
    assert network.base(torch.zeros(4, 6)).shape == (4, 32)
    assert build_model("mlp", (3, 5, 7), 2, 0).base(torch.zeros(4, 3, 5, 7)).shape == (4, 32)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("cnn4", (8, 8), "cnn4 takes images [H, W] or [C, H, W] of 16x16 and more, not samples of shape [8, 8]; "),
        ("cnn4", (8, 8), "models that take these: mlp, cnn-digits, cnn-digits-bn, mlp3, domainbed-cnn, "),
        ("cnn-digits", (4, 8), "of 8x8 and more, not samples of shape [4, 8]; models that take these: mlp, "),
        ("cnn4", (784,), "not samples of shape [784]; models that take these: mlp, mlp3, ecg-resnet, "),
        ("resnet18@b2", (3, 28, 28), "resnet18 takes images [H, W] or [C, H, W] of 32x32 and more"),
        ("fasttext", (28, 28), "fasttext takes texts of [L] token ids, not samples of shape [28, 28]"),
        ("har-cnn", (9, 2, 128), "takes signals [L], [C, L] or [C, 1, L] with C < L and L >= 28, not"),
        ("ecg-resnet", (28, 28), "ecg-resnet takes signals"),
        (
            "mlp",
            (),
            "each sample is a single number (shape []), which no network takes; x[:, None] gives each the shape [1]",
        ),
        ("cnn9", (28, 28), "unknown model 'cnn9' (a network of your own: module:function); valid: cnn4, "),
        ("cnn4@pool", (28, 28), "unknown split of cnn4 'pool'; valid: "),
        ("cnn4@", (28, 28), "unknown split of cnn4 ''; valid: "),
        ("cnn4@logits", (28, 28), "unknown split of cnn4 'logits'; valid: "),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name: str, shape: tuple, message: str) -> None:
    with pytest.raises(UserError) as caught:
        build_model(name, shape, 10, 0)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if entry.takes.kind in ("image", "signal")])
def test_one_less_than_the_least_size_is_refused(name: str, smallest: Callable[[str], tuple]) -> None:
    entry, shape = MODELS[name], smallest(name)
    less = tuple(side - 1 if side == entry.takes.least else side for side in shape)
    with pytest.raises(UserError, match="not samples of shape"):
        build_model(name, less, 2, 0)


@pytest.mark.parametrize("name", ["cnn4", "fedpac-cnn4", "fedpac-cnn5", "vgg11", "cnn-digits", "har-cnn"])
def test_without_padding_a_smaller_sample_leaves_nothing(name: str, smallest: Callable[[str], tuple]) -> None:
    entry, shape = MODELS[name], smallest(name)
    less = tuple(side - 1 if side == entry.takes.least else side for side in shape)
    plan = entry.plan(shape, 2)
    with pytest.raises(RuntimeError):
        torch.nn.Sequential(*[m for row in plan.values() for m in row])(torch.zeros(1, *less))


@pytest.mark.parametrize("shape", [(40,), (2, 40), (2, 1, 40)])
def test_signals_may_come_in_three_forms(shape: tuple) -> None:
    """The engine gives a stored [C, L] a channel dimension, as if it were an image."""
    x = torch.arange(3.0 * torch.Size(shape).numel()).view(3, *((1, *shape) if len(shape) == 2 else shape))
    for name in ("ecg-resnet", "har-cnn"):
        network = build_model(name, shape, 2, 0)
        plain = build_model(name, (shape[0] if len(shape) > 1 else 1, 1, 40), 2, 0)
        z = network.base(x)
        torch.testing.assert_close(z, plain.base(x.view(3, -1, 1, 40)), rtol=0, atol=0)


def test_names_and_their_splits() -> None:
    assert splits("cnn4") == splits("cnn4@conv2") == ("conv1", "conv2", "fc1")
    assert find("har-cnn")[1] == "conv2" and find("har-cnn@fc1")[1] == "fc1"
    assert canonical("cnn4@fc1") == canonical("cnn4") == "cnn4" and canonical("cnn4@conv1") == "cnn4@conv1"
    assert all(entry.split in entry.splits for entry in MODELS.values())


def test_listing_the_models_loads_no_framework() -> None:
    code = (
        "import sys; from pflrepro.models import MODELS, splits; assert all(e.inputs for e in MODELS.values()); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_weights_depend_on_the_seed_alone_and_leave_the_global_stream_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = parameters_of(build_model("mlp", (8, 8), 4, 1).base)
    assert torch.equal(torch.rand(2), expected)
    torch.manual_seed(99)
    again, other = (parameters_of(build_model("mlp", (8, 8), 4, seed).base) for seed in (1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first.leaves(), again.leaves(), strict=True))
    assert all(not torch.equal(a, b) for a, b in zip(first.leaves(), other.leaves(), strict=True))


# sum_k cos(k) w_k over all parameters in order, seed 0: whoever changes these numbers changes every stored run
PINNED = {
    ("mlp", (8, 8)): -2.4045276332,
    ("cnn4", (16, 16)): 2.4224112089,
    ("cnn-digits", (8, 8)): -2.0589357090,
    ("cnn-digits-bn", (8, 8)): -6.9706845906,
}


@pytest.mark.parametrize(("name", "shape"), PINNED)
def test_initial_numbers_that_stored_runs_started_from(name: str, shape: tuple) -> None:
    network = build_model(name, shape, 10, 0)
    w = torch.cat([p.detach().double().flatten() for part in (network.base, network.head) for p in part.parameters()])
    found = float((w * torch.cos(torch.arange(len(w), dtype=torch.float64))).sum())
    assert found == pytest.approx(PINNED[name, shape], abs=1e-5)


def test_streams_are_keyed_by_purpose() -> None:
    draws = {purpose: seeded(0, purpose, lambda: torch.rand(3)) for purpose in ("a", "b")}
    assert not torch.equal(draws["a"], draws["b"])
    assert torch.equal(draws["a"], seeded(0, "a", lambda: torch.rand(3)))


def test_an_error_while_building_puts_the_global_stream_back() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        seeded(0, "x", lambda: 1 / 0)
    assert torch.equal(torch.random.get_rng_state(), before)


# ---- He's initial weights ------------------------------------------------------------------------------------------------------------
def test_he_start_draws_by_the_inputs_of_a_unit() -> None:
    """conv2 of cnn4 reads 32 x 5 x 5 numbers, fc1 1024: variances 2/800 and 2/1024, biases 0; PyTorch's own are 1/3 of 1/inputs."""
    he, own = (build_model(name, (28, 28), 10, 0) for name in ("cnn4+he", "cnn4"))

    def variances(network) -> list[float]:
        weights = [p.detach() for p in network.base.parameters() if p.ndim > 1]
        return [round(float(w.var() * w[0].numel()), 1) for w in weights]

    assert variances(he)[1:] == [2.0, 2.0] and variances(own)[1:] == [0.3, 0.3]
    assert all(not p.any() for part in (he.base, he.head) for p in part.parameters() if p.ndim == 1)


def test_he_start_is_the_seeds_and_does_not_depend_on_the_split() -> None:
    a, b, other = (
        build_model(f"cnn4+he{split}", (28, 28), 10, seed) for split, seed in (("", 3), ("@conv2", 3), ("", 4))
    )
    all_of = [[*network.base.parameters(), *network.head.parameters()] for network in (a, b, other)]
    assert all(torch.equal(x, y) for x, y in zip(all_of[0], all_of[1], strict=True))
    assert not torch.equal(all_of[0][0], all_of[2][0])


def test_he_start_leaves_norm_layers_alone() -> None:
    norm = next(m for m in build_model("cnn-digits-bn+he", (8, 8), 10, 0).base.modules() if hasattr(m, "running_mean"))
    assert bool((norm.weight == 1).all()) and not norm.bias.any()


def test_the_names_of_starts() -> None:
    assert canonical("cnn4+he@fc1") == "cnn4+he" and canonical("cnn4+he@conv2") == "cnn4+he@conv2"
    assert splits("cnn4+he") == splits("cnn4")
    with pytest.raises(UserError, match="unknown start of cnn4 'xavier'; valid: he"):
        find("cnn4+xavier")
