"""Crops and flips worked by hand, and against a plain rewrite; alike in every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.local import Local
from pflrepro.data.augment import PADDING, crop_and_flip
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation

MIDDLE = (PADDING + 0.5) / (2 * PADDING + 1)  # the crop without a shift


def test_without_shift_and_flip_an_image_stays() -> None:
    x = torch.arange(12.0).view(1, 1, 3, 4)
    assert torch.equal(crop_and_flip(x, torch.tensor([[MIDDLE, MIDDLE, 0.7]]), torch.tensor(-1.0)), x)
    assert torch.equal(crop_and_flip(x, torch.tensor([[MIDDLE, MIDDLE, 0.2]]), torch.tensor(-1.0)), x.flip(3))


def test_a_corner_shows_the_padding_and_the_last_number_stays_inside() -> None:
    x = torch.arange(1.0, 5.0).view(1, 1, 2, 2).repeat(2, 1, 1, 1)
    step = 1 / (2 * PADDING + 1)
    numbers = torch.tensor([[(PADDING - 1 + 0.5) * step, (PADDING + 0.5) * step, 0.9], [1.0, 1.0, 0.9]])
    moved = crop_and_flip(x, numbers, torch.tensor(-1.0))
    assert moved[0, 0].tolist() == [[-1, -1], [1, 2]]
    assert moved[1, 0].tolist() == [[-1, -1], [-1, -1]]


def test_against_a_plain_rewrite() -> None:
    draw = np.random.default_rng(0)
    x, numbers = torch.tensor(draw.random((3, 5, 2, 6, 7))), torch.tensor(draw.random((3, 5, 3)))
    black = torch.tensor([-1.0, 2.0], dtype=torch.float64).view(2, 1, 1)
    found = crop_and_flip(x, numbers, black)
    for k in range(3):
        for b in range(5):
            padded = torch.empty(2, 6 + 2 * PADDING, 7 + 2 * PADDING, dtype=torch.float64)
            padded[:] = black
            padded[:, PADDING:-PADDING, PADDING:-PADDING] = x[k, b]
            top, left = (int(u * (2 * PADDING + 1)) for u in numbers[k, b, :2])
            crop = padded[:, top : top + 6, left : left + 7]
            torch.testing.assert_close(
                found[k, b], crop.flip(2) if numbers[k, b, 2] < 0.5 else crop, rtol=0, atol=1e-15
            )


@pytest.mark.parametrize("local_steps", [0, 4])
def test_backends_see_the_same_images(local_steps: int) -> None:
    draw = np.random.default_rng(1)
    x, y = torch.tensor(draw.integers(0, 255, (40, 8, 8)), dtype=torch.uint8), torch.tensor(draw.integers(0, 3, 40))
    parts = [np.arange(0, 17), np.arange(17, 30)]
    federation = Federation(x, y, parts, [np.arange(30, 35), np.arange(35, 40)], classes=3, unit=(2 / 255, -1.0))
    results = {}
    for backend, augment in (("loop", "crop-flip"), ("batched", "crop-flip"), ("graph", "crop-flip"), ("loop", "none")):
        settings = Settings(
            2, batch_size=5, lr=0.1, drop_last=False, participation=0.5, augment=augment, local_steps=local_steps
        )
        simulation = Simulation(FedAvg(), federation, "mlp", settings, [0, 1], backend=backend, dtype="float64")
        while not simulation.finished:
            simulation.step()
        results[backend, augment] = simulation.replicas[1].server.params.base["1.weight"]
    first = results["loop", "crop-flip"]
    for key in (("batched", "crop-flip"), ("graph", "crop-flip")):
        torch.testing.assert_close(results[key], first, rtol=0, atol=1e-12)
    assert (first - results["loop", "none"]).abs().max() > 1e-3


def test_a_client_sees_the_same_images_whoever_trains_along() -> None:
    """A client smaller than a batch, beside one that fills it, and alone."""
    draw = np.random.default_rng(1)
    x, y = torch.tensor(draw.integers(0, 255, (40, 8, 8)), dtype=torch.uint8), torch.tensor(draw.integers(0, 3, 40))
    settings = Settings(1, batch_size=10, lr=0.1, drop_last=False, local_epochs=3, augment="crop-flip")
    found = []
    for parts in ([np.arange(0, 4), np.arange(4, 30)], [np.arange(0, 4)]):
        tests = [np.arange(30, 40)] * len(parts)
        federation = Federation(x, y, parts, tests, classes=3, unit=(2 / 255, -1.0))
        simulation = Simulation(Local(), federation, "mlp", settings, [0], backend="loop", dtype="float64")
        simulation.step()
        found.append(simulation.replicas[0].clients.params.base["1.weight"][0])
    assert found[0].equal(found[1])


@pytest.mark.parametrize(
    ("model", "shape", "kind"),
    [
        ("mlp", (3,), "samples"),
        ("mlp", (1, 4, 4, 4), "samples"),
        ("har-cnn", (3, 60), "signals"),
        ("ecg-resnet@b1", (1, 1, 60), "signals"),
        ("fasttext", (4,), "texts"),
    ],
)
def test_what_is_no_image_is_refused(model: str, shape: tuple[int, ...], kind: str) -> None:
    federation = Federation(torch.zeros(4, *shape), torch.tensor([0, 1, 0, 1]), [[0, 1]], [[2, 3]])
    with pytest.raises(UserError, match=rf"^augment=crop-flip is for images, not for {kind} of shape \[{shape[0]}"):
        Simulation(FedAvg(), federation, model, Settings(1, augment="crop-flip"), [0])
