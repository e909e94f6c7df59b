"""CIFAR-10 and CIFAR-100.

`md5` is the authors' own sum (their page, and torchvision's stable loaders), `sha256` that of torchvision's prototype data sets.
"""

from __future__ import annotations

from dataclasses import replace

from pflrepro.data.sets.types import PAPERS_CNN, PIXELS, DatasetSpec, SourceFile

_MIRRORS = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
_CITATION = "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, technical report, University of Toronto, 2009"
_LICENCE = "none stated by the origin, which asks to cite the technical report"

CIFAR10 = DatasetSpec(
    name="cifar10",
    title="CIFAR-10 photographs of ten kinds of objects",
    shape=(3, 32, 32),
    samples=60_000,
    train_samples=50_000,
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    origin="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence=_LICENCE,
    citation=_CITATION,
    preset=PAPERS_CNN,
    to_unit=PIXELS,
    mirrors=_MIRRORS,
    reader="cifar:cifar10",
    files=(
        SourceFile(
            "archive",
            "cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            "c58f30108f718f92721af3b95e74349a",
        ),
    ),
)

CIFAR10_HALF = replace(
    CIFAR10,
    name="cifar10-half",
    title="CIFAR-10-half: the first half of the training and of the test images of CIFAR-10, less 32",
    reduced="29,968 of 60,000 images: official training positions 0..24,999 and test positions 0..4,999, less 18 and 14",
    samples=29_968,
    train_samples=24_982,
    # of a copy put together from several others that agree wherever they have the same image [inferred]
    fingerprint="77ec12ffdedb6f5247e186d2eed8808ec13a2b2a3c44d065b20ce9d9baf5d27f",
    files=(),
    mirrors=(),
    reader="cifar:half",
    made_of=("cifar10",),
)

_FINE = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle "
    "caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish "
    "forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle "
    "mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine "
    "possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar "
    "sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale "
    "willow_tree wolf woman worm"
)

CIFAR100 = DatasetSpec(
    name="cifar100",
    title="CIFAR-100 photographs, fine labels",
    shape=(3, 32, 32),
    samples=60_000,
    train_samples=50_000,
    class_names=tuple(_FINE.split()),
    origin="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence=_LICENCE,
    citation=_CITATION,
    preset=PAPERS_CNN,
    to_unit=PIXELS,
    # Of a complete copy in the official order, not of the archive itself [inferred]: its counts, the means and deviations of its
    # channels and its first pictures are the published ones.
    fingerprint="675edae6058b394484cab7bc76fde3f37137e2e3e0b4e51fb61604bcb00c6167",
    mirrors=_MIRRORS,
    reader="cifar:cifar100",
    files=(
        SourceFile(
            "archive",
            "cifar-100-python.tar.gz",
            169_001_437,
            "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            "eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
)
