"""The data sets this project knows: what each is, where it comes from, how it is checked, what it is trained with by default.

Checksums. For each source file: `sha256` of the .gz as published by torchvision (its prototype data sets), and `md5`,
the sum its own authors or torchvision's stable loader give. `fingerprint` is ours: SHA-256 of the decoded arrays (see
`Arrays.fingerprint`); the arrays it was computed from rebuild idx files with the published MD5 sums of the decompressed originals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pflrepro.data.root import cache_path, data_root
from pflrepro.errors import CorruptFile, MissingData, unknown

if TYPE_CHECKING:
    from pflrepro.data.arrays import Arrays


class Affine(NamedTuple):
    """A stored value v is trained on as `scale * v + offset`, roughly in [-1, 1]."""

    scale: float
    offset: float


@dataclass(frozen=True)
class Preset:
    """What an experiment on a data set uses where the user says nothing.

    lr: rate of plain SGD; batch_size: samples a step; min_size: smallest total (training + test) samples of a client of a
    label-skewed partition; rounds: communication rounds; drop_last: whether an incomplete last batch is left out.
    """

    model: str
    lr: float
    batch_size: int
    min_size: int
    rounds: int
    drop_last: bool


@dataclass(frozen=True)
class SourceFile:
    """One original file: its role for the reader, its name on every mirror, its size in bytes and its checksums (hex)."""

    role: str
    name: str
    size: int
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """One data set.

    shape: of one stored sample; samples: pooled rows; train_samples: how many of them are the official training rows (first);
    class_names: one name a class; mirrors: base addresses, tried in order; reader: a key of `readers.READERS`, or "" for a set
    that comes with an installed package; fingerprint: of the decoded arrays; to_unit: the normalisation.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    samples: int
    train_samples: int | None
    class_names: tuple[str, ...]
    origin: str
    licence: str
    citation: str
    preset: Preset
    to_unit: Affine
    fingerprint: str | None = None
    files: tuple[SourceFile, ...] = ()
    mirrors: tuple[str, ...] = ()
    reader: str = ""

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def embedded(self) -> bool:
        """True for a set that needs no download."""
        return not self.files


# pixel/255, then (v - 0.5)/0.5: range [-1, 1]  [GPFL-code, DBE-code]
_PIXELS = Affine(2 / 255, -1.0)
# lr 0.005, batch 10, 2,000 rounds, last batch dropped: [GPFL] and its code; min_size 40 = batch/(1 - 0.75): [LIB-era].
_PAPERS = Preset(model="cnn4", lr=0.005, batch_size=10, min_size=40, rounds=2000, drop_last=True)


def _idx_files(*rows: tuple[int, str, str]) -> tuple[SourceFile, ...]:
    names = {
        "train_images": "train-images-idx3-ubyte.gz",
        "train_labels": "train-labels-idx1-ubyte.gz",
        "test_images": "t10k-images-idx3-ubyte.gz",
        "test_labels": "t10k-labels-idx1-ubyte.gz",
    }
    return tuple(SourceFile(role, name, *row) for (role, name), row in zip(names.items(), rows, strict=True))


_DIGITS = DatasetSpec(
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
    preset=Preset(model="cnn-digits", lr=0.1, batch_size=10, min_size=10, rounds=50, drop_last=True),
    to_unit=Affine(1 / 8, -1.0),
    fingerprint="f4f3dda052a7b50103aa2c677c5bcc2e3bc1871258ae3915f05a9f32f8e983c3",
)

_MNIST = DatasetSpec(
    name="mnist",
    title="MNIST handwritten digits",
    shape=(28, 28),
    samples=70_000,
    train_samples=60_000,
    class_names=tuple("0123456789"),
    origin="http://yann.lecun.com/exdb/mnist/ (through the mirrors of PyTorch and CVDF)",
    licence="none stated by the origin; commonly redistributed as CC BY-SA 3.0",
    citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-Based Learning Applied to Document Recognition, "
    "Proceedings of the IEEE 86(11), 1998",
    preset=_PAPERS,
    to_unit=_PIXELS,
    fingerprint="59ab76b6c741fcaa2382602399d12aee8eaf4e386a368e9c49df925aa9ebe8be",
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    reader="idx",
    files=_idx_files(
        (
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        ),
        (
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "d53e105ee54ea40749a09fcbcd1e9432",
        ),
        (
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "9fb629c4189551a2d022fa330f9573f3",
        ),
        (
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
)

_FMNIST = DatasetSpec(
    name="fmnist",
    title="Fashion-MNIST articles of clothing",
    shape=(28, 28),
    samples=70_000,
    train_samples=60_000,
    class_names=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    origin="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    citation="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms, "
    "arXiv:1708.07747, 2017",
    preset=_PAPERS,
    to_unit=_PIXELS,
    fingerprint="3c89fb94a7e194ffdd4890f237eed8ff4dfa2f25c454f37942cdf9f5af57296a",
    mirrors=(
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    reader="idx",
    files=_idx_files(
        (
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        ),
        (
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "25c81989df183df01b3e8a0aad5dffbe",
        ),
        (
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "bef4ecab320f06d8554ea6380940ec79",
        ),
        (
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
)

DATASETS: dict[str, DatasetSpec] = {spec.name: spec for spec in (_DIGITS, _MNIST, _FMNIST)}


def find(name: str, datasets: Mapping[str, DatasetSpec] | None = None) -> DatasetSpec:
    """The spec of data set `name`; raises `UserError` that lists the valid names, the nearest first."""
    known = DATASETS if datasets is None else datasets
    if name not in known:
        raise unknown("data set", name, known)
    return known[name]


def load_arrays(
    name: str, root: str | Path | None = None, *, strict: bool = True, datasets: Mapping[str, DatasetSpec] | None = None
) -> Arrays:
    """The arrays of data set `name`, from its array cache in the data root (or from the installed package that bundles it).

    With `strict`, arrays other than the published ones (by their fingerprint) are refused; without, only their form is checked.
    Raises `MissingData` (how to get it, what works offline), `CorruptFile`, or `UserError` for an unknown name.
    """
    from pflrepro.data.arrays import read_arrays
    from pflrepro.data.readers import bundled_digits

    spec = find(name, datasets)
    if spec.embedded:
        arrays, place = bundled_digits(name), "the installed scikit-learn"
    else:
        path = cache_path(name, root)
        try:
            arrays, place = read_arrays(path, name), str(path)
        except FileNotFoundError:
            raise missing(spec, root) from None
        except CorruptFile as error:
            raise CorruptFile(f"{error}; make it anew with: pflrepro data get {name}") from None
    reason = mismatch(spec, arrays, strict=strict)
    if reason:
        raise CorruptFile(f"{place} does not hold {name}: {reason}; make it anew with: pflrepro data get {name}")
    return arrays


def mismatch(spec: DatasetSpec, arrays: Arrays, *, strict: bool = True) -> str | None:
    """Why `arrays` are not what `spec` promises, in words; None if they are."""
    if arrays.shape != spec.shape:
        return f"samples have shape {arrays.shape}, expected {spec.shape}"
    if int(arrays.y.max()) >= spec.classes:
        return f"it has a label {int(arrays.y.max())}, expected 0..{spec.classes - 1}"
    if strict and len(arrays) != spec.samples:
        return f"it has {len(arrays):,} samples, expected {spec.samples:,}"
    if strict and spec.fingerprint and arrays.fingerprint() != spec.fingerprint:
        return f"its content has SHA-256 {arrays.fingerprint()[:12]}..., expected {spec.fingerprint[:12]}..."
    return None


def missing(spec: DatasetSpec, root: str | Path | None = None) -> MissingData:
    """The error for a data set that is not in the data root: how to get it, and what works without a download."""
    offline = ", ".join(sorted(other.name for other in DATASETS.values() if other.embedded))
    return MissingData(
        f"data set {spec.name!r} is not in {data_root(root)}: get it with `pflrepro data get {spec.name}`, or name a folder that "
        f"has it with --data-root or $PFLREPRO_DATA; without a download: {offline}"
    )
