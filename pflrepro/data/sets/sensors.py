"""Signals of people: smartphones (UCI-HAR) and electrocardiograms (MIT-BIH)."""

from __future__ import annotations

import csv
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from pflrepro.data.sets.types import RAW, DatasetSpec, SourceFile, preset

if TYPE_CHECKING:
    import numpy as np

SMOOTH = 0.05  # g a step: gravity, total less body acceleration, moves by 0.0003 on average, read in the other arrangement by 0.62


def _gravity_moves(x: np.ndarray) -> float:
    """The mean change from step to step of the last three channels less the first three."""
    gravity = x[:, 6:9, 0].astype(float) - x[:, :3, 0]
    return float(abs(gravity[..., 1:] - gravity[..., :-1]).mean())


def _in_order(x: np.ndarray) -> str | None:
    return None if _gravity_moves(x) < SMOOTH else "time and channels are interleaved: that is har-interleaved"


def _interleaved(x: np.ndarray) -> str | None:
    return None if _gravity_moves(x) >= SMOOTH else "time and channels are not interleaved: that is har"


HAR = DatasetSpec(
    name="har",
    title="UCI-HAR, raw smartphone signals of 6 activities by 30 people",
    shape=(9, 1, 128),
    samples=10_299,
    train_samples=7_352,
    class_names=("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying"),
    origin="https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
    licence="CC BY 4.0",
    citation="D. Anguita, A. Ghio, L. Oneto, X. Parra, J. L. Reyes-Ortiz: A Public Domain Dataset for Human Activity Recognition "
    "Using Smartphones, ESANN 2013",
    # lr 0.01, batch 10: [GPFL]; partition "group", one client a person.
    preset=preset("har-cnn", 40, lr=0.01, partition="group", clients=30),
    to_unit=RAW,  # [LIB]: no normalisation
    # No fingerprint: the complete copy at hand is sorted by person and rounded to 1e-6, the archive is neither.
    odd=_in_order,
    mirrors=("https://archive.ics.uci.edu/ml/machine-learning-databases/00240/",),
    files=(SourceFile("archive", "UCI HAR Dataset.zip", 60_999_314),),  # no checksum is published
    reader="har:windows",
    groups="user",
)

HAR_INTERLEAVED = replace(
    HAR,
    name="har-interleaved",
    title="UCI-HAR as PFLlib arranges it: time and channels interleaved",
    reader="har:interleaved_windows",
    odd=_interleaved,
)

_PHYSIONET = "https://physionet.org/files/mitdb/1.0.0/"


def _mitbih_files() -> tuple[SourceFile, ...]:
    """Header, signals and annotations of the 46 records with lead MLII, with PhysioNet's published SHA-256 sums."""
    with (files("pflrepro.data.sets") / "mitbih_files.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(
            SourceFile(row["name"], row["name"], int(row["size"]), row["sha256"]) for row in csv.DictReader(stream)
        )


MITBIH = DatasetSpec(
    name="mitbih",
    title="MIT-BIH arrhythmia, heartbeats of 12 classes in 46 electrocardiograms",
    shape=(256,),
    samples=105_002,
    train_samples=None,
    class_names=(
        *("normal", "left bundle branch block", "right bundle branch block", "atrial premature"),
        *("aberrated atrial premature", "nodal premature", "ventricular premature"),
        *(
            "fusion of ventricular and normal",
            "nodal escape",
            "ventricular escape",
            "paced",
            "fusion of paced and normal",
        ),
    ),
    origin="https://physionet.org/content/mitdb/1.0.0/ (records 102 and 104 have no lead MLII)",
    licence="Open Data Commons Attribution License 1.0",
    citation="G. B. Moody, R. G. Mark: The impact of the MIT-BIH Arrhythmia Database, IEEE Engineering in Medicine and Biology "
    "Magazine 20(3), 2001; A. L. Goldberger et al.: PhysioBank, PhysioToolkit, and PhysioNet, Circulation 101(23), 2000",
    # lr 0.005, batch 64: [GRP 4.1]; 200 rounds, the split of each class by itself: [?]; "group": one client a record. Averaged
    # statistics [inferred]: the paper tests a global model.
    preset=preset(
        *("ecg-resnet", 40),
        lr=0.005,
        batch_size=64,
        rounds=200,
        partition="group+stratified",
        clients=46,
        momentum=0.9,
        local_epochs=5,
        test_share=0.2,
        statistics="averaged",
    ),
    to_unit=RAW,  # the reader standardises each window
    # of the official files, every one of which had its published SHA-256 sum
    fingerprint="c37b9e0cc361ff56be3fd92876cbc2194b175eefde49077ede3a6b4742dde2e0",
    mirrors=(_PHYSIONET,),
    files=_mitbih_files(),
    reader="ecg:beats",
    groups="patient",
)
