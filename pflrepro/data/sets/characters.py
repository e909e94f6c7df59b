"""Handwritten characters by writer: EMNIST "by class" from NIST's own files, and FEMNIST as LEAF prepares it.

pFedFDA uses the second (LEAF's FEMNIST, non-iid, all data [FDA-code]); the first has the same 62 classes and the
same collection of writers, in NIST's own size, cut and black ground.
"""

from __future__ import annotations

import string

from pflrepro.data.sets.types import PIXELS, DatasetSpec, SourceFile, pfedfda

_CHARACTERS = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
# rate, batch, rounds: [FDA C.2; code]; an incomplete last batch is dropped [FDA-code].
# The number of writers is lost in the text: 1,000 [inferred]; the first ones in file order [FDA-code].
_PFEDFDA = pfedfda(
    "fedpac-cnn4", batch_size=16, participation=0.03, clients=1000, partition="group:2+first-of=all", min_size=2
)

EMNIST = DatasetSpec(
    name="emnist",
    title='EMNIST "by class": handwritten characters with their writers',
    shape=(28, 28),
    samples=814_255,
    train_samples=697_932,
    class_names=_CHARACTERS,
    origin="https://www.nist.gov/itl/products-and-services/emnist-dataset",
    licence="public domain (a work of the US government)",
    citation="G. Cohen, S. Afshar, J. Tapson, A. van Schaik: EMNIST: an extension of MNIST to handwritten letters, "
    "arXiv:1702.05373, 2017",
    preset=_PFEDFDA,
    to_unit=PIXELS,
    mirrors=(
        "https://biometrics.nist.gov/cs_links/EMNIST/",
        "https://s3-us-west-2.amazonaws.com/fsdl-public-assets/",
    ),
    reader="matlab:emnist_by_class",
    # The sum is the one that MLDatasets.jl and the text recogniser course publish; NIST publishes none.
    files=(
        SourceFile(
            "archive",
            "matlab.zip",
            sha256="e1fa805cdeae699a52da0b77c2db17f6feb77eed125f9b45c022e7990444df95",
        ),
    ),
    groups="writer",
)

FEMNIST = DatasetSpec(
    name="femnist",
    title="FEMNIST of the LEAF benchmark: handwritten characters by writer, on white ground",
    shape=(28, 28),
    samples=None,
    train_samples=None,
    class_names=_CHARACTERS,
    origin="https://github.com/TalwalkarLab/leaf (from NIST Special Database 19)",
    licence="BSD 2-Clause (LEAF); the characters are a work of the US government",
    citation="S. Caldas et al.: LEAF: A Benchmark for Federated Settings, arXiv:1812.01097, 2018",
    preset=_PFEDFDA,
    to_unit=PIXELS,
    reader="leaf:femnist",
    files=(SourceFile("writers", "all_data/"),),
    groups="writer",
    by_hand="run LEAF's data/femnist/preprocess.sh -s niid --sf 1.0 -k 0 -t sample and take its folder data/all_data",
)
