"""Corruptions: by hand where they can be, against PIL and scipy elsewhere, and their statistics."""

from __future__ import annotations

import colorsys
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pflrepro.data import frost
from pflrepro.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt, defocus_kernel, plasma
from pflrepro.errors import CorruptFile, MissingData, UserError

PICTURES = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
FROST = [np.random.default_rng(k).integers(100, 256, (3, 60, 70), dtype=np.uint8) for k in range(5)]
GREY = np.full((3, 32, 32), 128, np.uint8)


def made(kind: str, severity: int, picture: np.ndarray = GREY, seed: int = 0) -> np.ndarray:
    return corrupt(picture, kind, severity, np.random.default_rng(seed), FROST)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_every_corruption_is_drawn_from_its_generator_and_grows(kind: str) -> None:
    changes = []
    for severity in SEVERITIES:
        pictures = [made(kind, severity, picture, k) for k, picture in enumerate(PICTURES)]
        assert all(picture.shape == (3, 32, 32) and picture.dtype == np.uint8 for picture in pictures)
        np.testing.assert_array_equal(pictures[1], made(kind, severity, PICTURES[1], 1))
        changes.append(np.abs(np.array(pictures, float) - PICTURES).mean())
    assert changes[0] > 0.5 and changes[-1] > changes[0]


def test_noises_have_their_standard_deviations() -> None:
    picture = np.full((3, 200, 200), 128, np.uint8)
    for severity, sigma in zip(SEVERITIES, (0.04, 0.06, 0.08, 0.09, 0.10), strict=True):
        assert made("gaussian-noise", severity, picture).std() / 255 == pytest.approx(sigma, rel=0.02)
    for severity, photons in zip(SEVERITIES, (500, 250, 100, 75, 50), strict=True):
        expected = np.sqrt(128 / 255 / photons)
        assert made("shot-noise", severity, picture).std() / 255 == pytest.approx(expected, rel=0.02)
    for severity, share in zip(SEVERITIES, (0.01, 0.02, 0.03, 0.05, 0.07), strict=True):
        noisy = made("impulse-noise", severity, picture)
        assert (noisy == 255).mean() == pytest.approx(share / 2, abs=0.002)
        assert (noisy == 0).mean() == pytest.approx(share / 2, abs=0.002)
        assert set(np.unique(noisy)) == {0, 128, 255}


def test_contrast_and_brightness_by_hand() -> None:
    picture = np.zeros((3, 32, 32), np.uint8)
    picture[0, :, 16:] = 200  # mean of the red channel 100
    low = made("contrast", 3, picture)
    assert low[0, 0, 0] == 60 and low[0, 0, 31] == 140 and low[1].max() == 0
    bright = made("brightness", 2, picture)
    assert bright[:, 0, 0].tolist() == [25, 25, 25], "black becomes grey: 0.1 of 255, truncated"
    assert bright[:, 0, 31].tolist() == [225, 0, 0], "the hue stays"
    assert made("brightness", 5, GREY)[0, 0, 0] == int((128 / 255 + 0.3) * 255)


@pytest.mark.parametrize("kind", ["motion-blur", "defocus-blur"])
def test_a_blur_keeps_an_even_picture_and_the_mean(kind: str) -> None:
    for severity in SEVERITIES:
        assert np.abs(made(kind, severity).astype(int) - 128).max() <= 1
        dot = np.zeros((3, 32, 32), np.uint8)
        dot[:, 16, 16] = 250
        spread = made(kind, severity, dot)
        assert 0 < spread.max() < 250 and spread[0].sum() == pytest.approx(250, abs=20)


def test_motion_goes_one_way_from_each_pixel() -> None:
    dot = np.zeros((3, 32, 32), np.uint8)
    dot[:, 16, 16] = 250
    for seed in range(5):
        columns = np.flatnonzero(made("motion-blur", 5, dot, seed)[0].sum(0))
        assert columns.max() == 16 and columns.min() < 14, "the output looks ahead, so a dot is smeared backwards"


def test_the_defocus_kernel_against_scipy() -> None:
    from scipy.ndimage import correlate

    for radius, smoothing in ((0.3, 0.4), (1.0, 0.2), (1.5, 0.1)):
        kernel = defocus_kernel(radius, smoothing)
        assert kernel.sum() == pytest.approx(1) and np.allclose(kernel, kernel.T) and np.allclose(kernel, kernel[::-1])
        bell = np.exp(-np.array([1, 0, 1]) / (2 * smoothing**2))
        bell = np.outer(bell, bell) / bell.sum() ** 2
        grid = np.hypot(*np.mgrid[-3:4, -3:4]) <= radius
        np.testing.assert_allclose(kernel, correlate(grid / grid.sum(), bell, mode="constant"), atol=1e-12)


def test_clouds_are_a_torus_between_zero_and_one() -> None:
    clouds = np.array([plasma(32, 2.0, np.random.default_rng(k)) for k in range(100)])
    assert clouds.min() == 0 and clouds.max() == 1
    steps = np.abs(np.diff(clouds, axis=2)).mean()
    around = np.abs(clouds[:, :, 0] - clouds[:, :, -1]).mean()
    assert around == pytest.approx(steps, rel=0.15), "the edges meet as neighbours do"


def test_the_noise_of_a_cloud_falls_with_the_square_of_its_decay() -> None:
    asked = []

    class Recorder:
        def uniform(self, low: float, high: float, shape: tuple[int, int]) -> np.ndarray:
            asked.append((low, high, shape))
            return np.full(shape, high)

    cloud = plasma(4, 2.0, Recorder())
    assert asked == [(-100, 100, (1, 1))] * 3 + [(-50, 50, (2, 2))] * 3
    # noise w * w: centre 10000; edges (0 + 0 + 10000 + 10000) / 4 + 10000; then 2500 on top of each mean of four
    finer = (0 + 10000 + 15000 + 15000) / 4 + 2500
    raw = {(0, 0): 0, (2, 2): 10000, (2, 0): 15000, (0, 2): 15000, (1, 1): finer, (3, 3): finer}
    raw |= {(1, 0): (0 + 15000 + 2 * finer) / 4 + 2500, (1, 2): (15000 + 10000 + 2 * finer) / 4 + 2500}
    for place, value in raw.items():
        assert cloud[place] == pytest.approx(value / 15000)


def test_clouds_are_as_rough_as_those_of_the_generator() -> None:
    # mean step between neighbours, over 400 clouds of the CIFAR-C generator's own function
    for decay, step in ((3.0, 0.0202), (2.0, 0.0244), (1.75, 0.0288)):
        clouds = np.array([plasma(32, decay, np.random.default_rng(k)) for k in range(100)])
        assert np.abs(np.diff(clouds, axis=1)).mean() == pytest.approx(step, rel=0.06)


def test_brightness_is_a_step_in_hsv() -> None:
    for red, green, blue in PICTURES[0, :, 0, :8].T.tolist():
        picture = np.tile(np.array([red, green, blue], np.uint8)[:, None, None], (1, 32, 32))
        hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
        expected = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.15, 1))
        found = corrupt(picture, "brightness", 3, np.random.default_rng(0))[:, 0, 0]
        np.testing.assert_allclose(found, 255 * np.array(expected), atol=1)


def test_fog_leaves_black_and_dims_the_brightest() -> None:
    assert made("fog", 5, np.zeros((3, 32, 32), np.uint8)).max() == 0
    foggy = made("fog", 1, np.full((3, 32, 32), 200, np.uint8))
    bright = 200 / 255
    assert foggy.min() >= int(255 * bright * bright / (bright + 0.2)) and foggy.max() <= 200
    assert (foggy[0] == foggy[1]).all() and foggy.std() > 1


def test_frost_is_a_part_of_a_photograph_on_top() -> None:
    plain = [np.full((3, 40, 40), 40 * k, np.uint8) for k in range(1, 7)]
    seen = {int(corrupt(GREY, "frost", 5, np.random.default_rng(seed), plain)[0, 0, 0]) for seed in range(100)}
    expected = {int((0.75 * (128 / 255) + 0.45 * (40 * k) / 255) * 255) for k in range(1, 6)}
    assert seen == expected, "never the sixth"


def test_jpeg_is_what_pil_decodes() -> None:
    stream = io.BytesIO()
    Image.fromarray(PICTURES[0].transpose(1, 2, 0)).save(stream, "JPEG", quality=58)
    expected = np.asarray(Image.open(stream)).transpose(2, 0, 1)
    np.testing.assert_array_equal(made("jpeg", 3, PICTURES[0]), expected)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UserError, match="unknown corruption 'snow'; valid: "):
        made("snow", 1)
    with pytest.raises(UserError, match="severity must be a whole number >= 1 and <= 5, not 6"):
        made("fog", 6)
    with pytest.raises(UserError, match="needs photographs"):
        corrupt(GREY, "frost", 1, np.random.default_rng(0))


def test_photographs_are_found_checked_and_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frost.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingData, match=r"frost1\.png.*frost.original") as caught:
        frost.frost_photographs(tmp_path)
    assert "\n" not in str(caught.value)
    folder = tmp_path / "frost" / "original"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (323, 485, 3), dtype=np.uint8)
    for name in frost.PHOTOGRAPHS:
        Image.fromarray(pixels).save(folder / name, "PNG")
    with pytest.raises(CorruptFile, match=r"frost1\.png is not the photograph"):
        frost.frost_photographs(tmp_path)
    content = (folder / "frost1.png").read_bytes()
    monkeypatch.setattr(frost, "PHOTOGRAPHS", dict.fromkeys(frost.PHOTOGRAPHS, hashlib.sha256(content).hexdigest()))
    photographs = frost.frost_photographs(tmp_path)
    assert len(photographs) == 5 and photographs[0].shape == (3, 65, 97)
    np.testing.assert_array_equal(photographs[0][:, 1, 2], pixels[7, 12])
