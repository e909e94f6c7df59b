"""The embedded digits: no download."""

from __future__ import annotations

from pflrepro.data.sets.types import Affine, DatasetSpec, preset

DIGITS = DatasetSpec(
    name="digits",
    title="Optical recognition of handwritten digits (8x8, bundled with scikit-learn)",
    shape=(8, 8),
    samples=1797,
    train_samples=None,
    class_names=tuple("0123456789"),
    origin="UCI Machine Learning Repository, test part, as bundled with scikit-learn",
    licence="CC BY 4.0",
    citation="E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998",
    # Chosen by trial, no paper uses this set: 40 samples a client are almost never met with 20 clients and alpha 0.1.
    preset=preset("cnn-digits", 10, lr=0.1, rounds=50),
    to_unit=Affine(1 / 8, -1.0),
    fingerprint="f4f3dda052a7b50103aa2c677c5bcc2e3bc1871258ae3915f05a9f32f8e983c3",
)
