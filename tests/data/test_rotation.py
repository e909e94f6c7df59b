"""Rotations: PIL's pixels, an angle a picture, whatever the layout, the type and the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from pflrepro.data import rotation
from pflrepro.data.rotation import ANGLES, rotate

PICTURES = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8))
SEVERAL = torch.tensor([*ANGLES, -15.0, 33.3], dtype=torch.float64)


def by_pil(pictures: Tensor, degrees: list[float]) -> np.ndarray:
    """uint8 [n, 3, H, W], each as PIL turns a coloured picture."""
    turned = [
        np.asarray(Image.fromarray(picture.transpose(1, 2, 0)).rotate(angle)).transpose(2, 0, 1)
        for picture, angle in zip(np.ascontiguousarray(pictures), degrees, strict=True)
    ]
    return np.stack(turned)


@pytest.mark.parametrize("degrees", [*ANGLES, 180, 33.3, -15])
@pytest.mark.parametrize("size", [(32, 32), (28, 28), (5, 8)])
def test_pictures_turn_as_pil_turns_them(degrees: float, size: tuple[int, int]) -> None:
    pictures = PICTURES[:, :, : size[0], : size[1]]
    expected = by_pil(pictures, [degrees] * len(pictures))
    np.testing.assert_array_equal(rotate(pictures, degrees), expected)
    np.testing.assert_array_equal(rotate(pictures[:, 0], degrees), expected[:, 0])


def test_each_picture_has_its_angle() -> None:
    turned = rotate(PICTURES, SEVERAL)
    np.testing.assert_array_equal(turned, by_pil(PICTURES, SEVERAL.tolist()))
    assert turned.dtype == torch.uint8
    np.testing.assert_array_equal(rotate(PICTURES[:, 1], SEVERAL), turned[:, 1])


@given(st.integers(1, 9), st.integers(1, 9), st.floats(-720, 720), st.integers(0, 2**32 - 1))
def test_any_size_and_angle(height: int, width: int, degrees: float, seed: int) -> None:
    pictures = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (2, 3, height, width), dtype=np.uint8))
    np.testing.assert_array_equal(rotate(pictures, degrees), by_pil(pictures, [degrees] * 2))


def test_a_quarter_turn_by_hand_and_the_original_stays() -> None:
    picture = torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)
    assert rotate(picture, 90).tolist() == [[[2, 4], [1, 3]]]
    assert picture.tolist() == [[[1, 2], [3, 4]]] and rotate(picture, 0).data_ptr() != picture.data_ptr()


def test_numbers_of_any_type_and_no_pictures() -> None:
    numbers = PICTURES.double() / 255 - 2
    expected = torch.where(rotate(torch.ones_like(PICTURES), 45) > 0, rotate(PICTURES, 45).double() / 255 - 2, 0.0)
    assert torch.equal(rotate(numbers, 45), expected)
    assert rotate(PICTURES[:0], 45).shape == (0, 3, 32, 32)
    assert torch.equal(rotate(PICTURES.transpose(2, 3), 90), rotate(PICTURES.transpose(2, 3).contiguous(), 90))


def test_the_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, sizes = rotate(PICTURES, SEVERAL), []
    real = Tensor.gather

    def watched(self: Tensor, dim: int, index: Tensor) -> Tensor:
        sizes.append(len(index))
        assert index.stride(1) == 0, "the numbers of the pixels are one copy for all channels"
        return real(self, dim, index)

    monkeypatch.setattr(Tensor, "gather", watched)
    monkeypatch.setattr(rotation, "CHUNK", 5 * 32 * 32)
    assert torch.equal(rotate(PICTURES, SEVERAL), whole)
    assert sizes == [5, 5, 2]


@pytest.mark.gpu
def test_a_gpu_turns_alike() -> None:
    turned = rotate(PICTURES.cuda(), SEVERAL.cuda())
    assert turned.is_cuda and torch.equal(turned.cpu(), rotate(PICTURES, SEVERAL))
    assert torch.equal(rotate(PICTURES.cuda(), 33.3).cpu(), rotate(PICTURES, 33.3))
