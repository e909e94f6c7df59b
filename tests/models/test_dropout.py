"""Dropout from keys: its numbers against plain Python, its shares, and that rows and clients do not depend on each other."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import vmap

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.data.federation import Federation
from pflrepro.models import transformer
from pflrepro.models.dropout import BITS, Dropout, DropPath, hashed, site_of
from pflrepro.models.split import FunctionalModule
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.trees import Tree

KEY = torch.tensor([0.25, 0.7])


def spread(bits: int) -> int:
    """MurmurHash3's finaliser on unsigned numbers of 32 bits."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B % 2**32
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35 % 2**32
    return bits ^ (bits >> 16)


@pytest.mark.parametrize("site", [0, 7, site_of("3.attention.dropout")])
def test_the_hash_in_plain_python(site: int) -> None:
    first, second = (int(float(number) * 2**BITS) for number in KEY)
    expected = [spread((spread(place ^ spread(first ^ site)) + spread(second)) % 2**32) >> 8 for place in range(12)]
    assert hashed(KEY, site, (3, 4)).flatten().tolist() == expected


def test_numbers_are_uniform_and_unrelated() -> None:
    """Shares of 16 bins within five standard errors, and no correlation with a neighbour, another layer or the next key."""
    shape, next_key = (64, 1024), torch.tensor([0.25, 0.7 + 2.0**-BITS])
    numbers = hashed(KEY, 1, shape).double() / 2**BITS
    bins = torch.histc(numbers, 16, 0, 1) / numbers.numel()
    assert (bins - 1 / 16).abs().max() < 5 * (1 / 16 / numbers.numel()) ** 0.5
    others = [numbers.roll(1), hashed(KEY, 2, shape), hashed(next_key, 1, shape), hashed(KEY.flip(0), 1, shape)]
    for other in others:
        together = torch.corrcoef(torch.stack([numbers.flatten(), other.flatten().double()]))
        assert abs(float(together[0, 1])) < 5 / numbers.numel() ** 0.5


@pytest.mark.gpu
def test_a_gpu_draws_alike() -> None:
    assert torch.equal(hashed(KEY.cuda(), 5, (7, 300)).cpu(), hashed(KEY, 5, (7, 300)))


def test_a_row_does_not_depend_on_how_many_there_are() -> None:
    assert torch.equal(hashed(KEY, 3, (2, 5, 4)), hashed(KEY, 3, (6, 5, 4))[:2])


def test_shares_and_scale() -> None:
    x = torch.ones(400, 50, dtype=torch.float64)
    module = FunctionalModule(nn.Sequential(Dropout(0.2)))
    out, _ = module(Tree(), Tree(), x, True, KEY)
    assert set(out.unique().tolist()) == {0.0, 1.25} and float((out == 0).double().mean()) == pytest.approx(
        0.2, abs=0.02
    )
    rows, _ = FunctionalModule(nn.Sequential(DropPath(0.2)))(Tree(), Tree(), x, True, KEY)
    assert torch.equal(rows, rows[:, :1].expand_as(rows)) and 0.1 < float((rows[:, 0] == 0).double().mean()) < 0.3
    assert torch.equal(module(Tree(), Tree(), x, False, KEY)[0], x)


def test_layers_and_keys_have_masks_of_their_own() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Dropout(0.5), Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.one(x), self.two(x)])

    function, x, keys = FunctionalModule(Two()), torch.ones(20, 20), torch.stack([KEY, KEY.flip(0)])
    assert function.draws and not FunctionalModule(nn.Linear(2, 2)).draws
    alone = [function(Tree(), Tree(), x, True, key)[0] for key in keys]
    assert not torch.equal(alone[0][:20], alone[0][20:]) and not torch.equal(*alone)
    together = vmap(lambda key: function(Tree(), Tree(), x, True, key)[0])(keys)
    assert torch.equal(together, torch.stack(alone))


def test_without_a_key_pytorch_draws() -> None:
    module, x = Dropout(0.5), torch.ones(30, 30)
    torch.manual_seed(0)
    first = module(x)
    torch.manual_seed(0)
    assert torch.equal(module(x), first) and not torch.equal(module(x), first)


def test_training_drops_and_seeds_and_rounds_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transformer with dropout leaves its twin without in the first step; another seed or round draws other keys."""
    with_dropout, again = _trained("cct-7-3x1"), _trained("cct-7-3x1")
    for name in ("ATTENTION_DROPOUT", "PATH_DROPOUT"):
        monkeypatch.setattr(transformer, name, 0.0)
    without = _trained("cct-7-3x1")
    moved, plain, repeated = (one.replicas[0].server.params.base for one in (with_dropout, without, again))
    assert all(torch.equal(moved[path], repeated[path]) for path in moved)
    assert moved.keys() == plain.keys() and not torch.equal(moved["0.weight"], plain["0.weight"])
    keys = {tuple(numbers) for t in (0, 1) for seed in (0, 1) for numbers in _keys(with_dropout, t, seed)}
    assert len(keys) == 2 * 2 * 3  # rounds x seeds x batches of the two clients


def test_auto_tries_each_backend_with_keys() -> None:
    """Without them the batched backend refuses the transformer's random numbers, and a run by default would end before it began."""
    tried = _trained("cct-7-3x1", backend="auto")
    seconds = tried.facts["predicted_seconds_a_round"]
    assert seconds.keys() == {"loop", "batched"} and tried.round == 1


def _trained(model: str, backend: str = "loop") -> Simulation:
    """A round of two clients with 4 and 2 tiny images."""
    x = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    rows = [torch.arange(4).numpy(), torch.arange(4, 6).numpy()]
    data = Federation(x, torch.arange(8) % 2, rows, [torch.arange(6, 8).numpy()] * 2, classes=2)
    one = Simulation(FedAvg(), data, model, Settings(1, batch_size=2), [0], backend=backend, workers=1)
    one.step()
    return one


def _keys(simulation: Simulation, t: int, seed: int) -> list[list[float]]:
    from pflrepro.simulation.schedule import NETWORK, table

    (phase,) = simulation.dispatcher.program(simulation.backend).phases(simulation.dispatcher.clock(t))
    batches = table(simulation.federation, phase, simulation.settings, t, [(seed, 0), (seed, 1)])
    return [row.tolist() for i in (0, 1) for row in batches.draws[NETWORK][i, : batches.steps[i]]]
