"""What is refused before anything is built: samples that a method or a setting cannot treat."""

from __future__ import annotations

import pytest
import torch

from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS
from pflrepro.algorithms.registry import build_method
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models.text import VOCABULARY
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.cost import cost_of, numbers_received

TEXTS = Federation(torch.arange(1, 49).view(12, 4), torch.arange(12) % 2, [range(5), range(5, 9)], [[9], [10, 11]])


def start(method: str, model: str, federation: Federation = TEXTS) -> Simulation:
    return Simulation(
        build_method(method), federation, model, Settings(1, batch_size=2), [0], backend="loop", workers=1
    )


@pytest.mark.parametrize("model", ["fasttext", "fasttext@embedding"])
@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("fedavg+mixup", "Mixup"),
        ("fedmix", "FedMix"),
        ("fedavg+fedbr", "FedBR"),
        ("fedcm+mixup+fedbr", "FedBR and Mixup"),
    ],
)
def test_token_numbers_are_not_mixed(method: str, names: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pflrepro.simulation.simulation.build_model", None)  # said before a network is built
    with pytest.raises(UserError) as caught:
        start(method, model)
    assert str(caught.value) == (
        f"{names} cannot be used with {model}: the mean of two token numbers is the number of an unrelated word"
    )


@pytest.mark.parametrize(
    ("x", "unit", "found"),
    [
        (torch.tensor([[-1, 3]]), (1.0, 0.0), r"-1\.\.3, unit"),
        (torch.tensor([[0, VOCABULARY]]), (1.0, 0.0), rf"0\.\.{VOCABULARY}, unit"),
        (torch.tensor([[0.5, 3.0]]), (1.0, 0.0), r"0\.5\.\.3\.0, with fractions, unit"),
        (torch.tensor([[1, 3]], dtype=torch.uint16), (2.0, -1.0), r"1\.\.3, unit \(2\.0, -1\.0\)"),
    ],
)
def test_what_is_no_word_is_refused(x: torch.Tensor, unit: tuple[float, float], found: str) -> None:
    texts = Federation(x.expand(4, 2), [0, 1, 0, 1], [[0, 1]], [[2, 3]], unit=unit)
    with pytest.raises(UserError, match=rf"^fasttext takes whole token numbers in 0\.\.98634 as they are, not {found}"):
        start("fedavg", "fasttext", texts)
    with pytest.raises(UserError, match=r"fasttext takes texts of \[L\] token ids, not samples of shape \[1, 2\]"):
        start("fedavg", "fasttext", Federation(x.expand(4, 1, 2), texts.y, [[0, 1]], [[2, 3]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint16, torch.uint8])
def test_words_of_any_number_type_are_taken(dtype: torch.dtype) -> None:
    start("fedavg", "fasttext", Federation(TEXTS.x.to(dtype), TEXTS.y, TEXTS.rows["train"], TEXTS.rows["test"])).step()


def test_the_cost_of_a_network_for_texts_is_counted_on_texts() -> None:
    assert cost_of(build_method("fedavg"), "fasttext", (8,), clients=2).model == 98_635 * 32 + 33 * 32 + 33 * 10
    assert numbers_received(build_method("fedavg"), "fasttext", (8,)) == 98_635 * 32 + 33 * 32 + 33 * 10


def test_mixing_numbers_and_texts_without_mixing_are_fine() -> None:
    simulation = start("fedavg", "fasttext")
    simulation.step()
    assert simulation.round == 1
    vectors = Federation(TEXTS.x.float(), TEXTS.y, TEXTS.rows["train"], TEXTS.rows["test"])
    mixed = start("fedavg+mixup", "mlp", vectors)
    mixed.step()
    assert mixed.round == 1


def test_who_mixes() -> None:
    """Mixup and FedMix mix samples, FedBR hands out means of them; VHL draws images and refuses all else itself."""
    names = [*ALGORITHMS, *(f"fedavg+{plugin}" for plugin in PLUGINS)]
    assert [name for name in names if build_method(name).mixes_samples] == ["fedmix", "fedavg+mixup", "fedavg+fedbr"]
    method = build_method("vhl", {"virtual_samples": 4})
    with pytest.raises(UserError, match=r"it has none for samples of shape \[4\]"):
        Simulation(method, TEXTS, "fasttext", Settings(1, batch_size=2), [0], backend="loop", workers=1).step()
