"""The data sets this project knows: each is described in a module of `pflrepro.data.sets` and looked up here.

Checksums of source files are those that an official source or torchvision publishes, and None where nobody does. `fingerprint`
is ours: SHA-256 of the decoded arrays (see `Arrays.fingerprint`), where complete arrays in the official order were at hand and
compared with what is published of them; None elsewhere, and then the checksums of the source files are all that is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.data.own import is_own, own_arrays, own_spec
from pflrepro.data.root import cache_path, data_root
from pflrepro.data.sets.characters import EMNIST, FEMNIST
from pflrepro.data.sets.cifar import CIFAR10, CIFAR10_HALF, CIFAR100
from pflrepro.data.sets.derived import DERIVED
from pflrepro.data.sets.digits import DIGITS
from pflrepro.data.sets.mnist import FMNIST, MNIST
from pflrepro.data.sets.numbers import MNISTM, MNISTM_68K, SVHN, SYNTHDIGITS, USPS
from pflrepro.data.sets.pictures import PACS, TINY_IMAGENET, TINY_IMAGENET_110K
from pflrepro.data.sets.sensors import HAR, HAR_INTERLEAVED, MITBIH
from pflrepro.data.sets.text import AGNEWS, AGNEWS_PART, AMAZON, AMAZON_LABELLED, AMAZON_MATRIX
from pflrepro.data.sets.types import Affine, DatasetSpec, Preset, SourceFile
from pflrepro.errors import CorruptFile, MissingData, UserError, unknown

if TYPE_CHECKING:
    from pflrepro.data.arrays import Arrays

__all__ = ["DATASETS", "Affine", "DatasetSpec", "Preset", "SourceFile", "find", "load_arrays", "mismatch", "missing"]

_SPECS: tuple[DatasetSpec, ...] = (
    *(DIGITS, MNIST, FMNIST, CIFAR10, CIFAR10_HALF, CIFAR100, TINY_IMAGENET, TINY_IMAGENET_110K, EMNIST, FEMNIST),
    *(SVHN, USPS, MNISTM, MNISTM_68K, SYNTHDIGITS, PACS),
    *(AGNEWS, AGNEWS_PART, AMAZON, AMAZON_LABELLED, AMAZON_MATRIX, HAR, HAR_INTERLEAVED, MITBIH),
    *DERIVED,
)
DATASETS: dict[str, DatasetSpec] = {spec.name: spec for spec in _SPECS}


def find(name: str, datasets: Mapping[str, DatasetSpec] | None = None) -> DatasetSpec:
    """The spec of data set `name`, or of the file behind `file:FILE.npz`; `UserError` that lists the valid names, the nearest first."""
    known = DATASETS if datasets is None else datasets
    if not isinstance(name, str):
        raise UserError(f"a data set is a name or file:FILE.npz, not a {type(name).__name__}")
    if is_own(name) and datasets is None:
        return own_spec(name)
    if name not in known:
        raise unknown("data set", name, known, "data of your own: file:FILE.npz" if datasets is None else "")
    return known[name]


def load_arrays(
    name: str, root: str | Path | None = None, *, datasets: Mapping[str, DatasetSpec] | None = None
) -> Arrays:
    """The arrays of data set `name`, from its array cache in the data root (or from the installed package that bundles it).

    `file:FILE.npz` names a file of one's own, see `data.own`.

    Raises `MissingData` (how to get it, what works offline), `CorruptFile` (for arrays other than the published ones too, by their
    fingerprint), or `UserError` for an unknown name.

    Example:
        >>> digits = load_arrays("digits")  # bundled with scikit-learn
        >>> digits.x.shape, digits.x.dtype.name, digits.y[:5].tolist()
        ((1797, 8, 8), 'uint8', [0, 1, 2, 3, 4])
    """
    from pflrepro.data.arrays import read_arrays

    if is_own(name):
        return own_arrays(name)
    spec = find(name, datasets)
    if spec.source:
        try:
            source = load_arrays(spec.source, root, datasets=datasets)
        except MissingData:
            raise missing(spec, root) from None
        return derived(spec, source)
    if spec.embedded:
        from pflrepro.data.readers.bundled import bundled_digits

        arrays, place = bundled_digits(name), "the installed scikit-learn"
    else:
        path = cache_path(name, root)
        try:
            arrays, place = as_described(spec, read_arrays(path, name)), str(path)
        except FileNotFoundError:
            raise missing(spec, root) from None
        except CorruptFile as error:
            raise CorruptFile(f"{error}; make it anew with: pflrepro data get {name}") from None
    reason = mismatch(spec, arrays)
    if reason:
        raise CorruptFile(f"{place} does not hold {name}: {reason}; make it anew with: pflrepro data get {name}")
    return arrays


def derived(spec: DatasetSpec, source: Arrays) -> Arrays:
    """The rows of a set that has those of another; what a shift does to them is in their fingerprint."""
    from pflrepro.data.arrays import first_part

    unknown_tests = spec.tested_officially and not find(spec.source).fingerprint
    tested_on = source.fingerprint() if unknown_tests else ""
    arrays = replace(source, name=spec.name, shift=spec.shift, tested_on=tested_on)
    if spec.part == "all":
        return arrays
    try:
        return first_part(arrays, spec.samples)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; make it anew with: pflrepro data get {spec.source}") from None


def as_described(spec: DatasetSpec, arrays: Arrays) -> Arrays:
    """`arrays` with pictures as [channels, height, width] where another tool wrote the cache with the channels last."""
    if len(spec.shape) == 3 and arrays.shape != spec.shape and arrays.shape == (*spec.shape[1:], spec.shape[0]):
        return replace(arrays, x=arrays.x.transpose(0, 3, 1, 2))
    return arrays


def mismatch(spec: DatasetSpec, arrays: Arrays) -> str | None:
    """Why `arrays` are not what `spec` promises, in words; None if they are."""
    if arrays.shape != spec.shape:
        return f"samples have shape {arrays.shape}, expected {spec.shape}"
    if int(arrays.y.max()) >= spec.classes:
        return f"it has a label {int(arrays.y.max())}, expected 0..{spec.classes - 1}"
    if spec.samples is not None and len(arrays) != spec.samples:
        return f"it has {len(arrays):,} samples, expected {spec.samples:,}"
    if empty := set(range(spec.classes)).difference(arrays.labels()):
        return f"it has no sample of class {min(empty)}"
    if spec.fingerprint and arrays.fingerprint() != spec.fingerprint:
        return f"its content has SHA-256 {arrays.fingerprint()[:12]}..., expected {spec.fingerprint[:12]}..."
    return None if spec.odd is None else spec.odd(arrays.x)


def missing(spec: DatasetSpec, root: str | Path | None = None) -> MissingData:
    """The error for a data set that is not in the data root: how to get it, and what works without a download."""
    offline = ", ".join(sorted(other.name for other in DATASETS.values() if other.embedded))
    named = f"{spec.name!r} is made from {spec.stored_as!r}, which" if spec.source else repr(spec.name)
    return MissingData(
        f"data set {named} is not in {data_root(root)}: get it with `pflrepro data get {spec.stored_as}`, or name a "
        f"folder that has it with --data-root or $PFLREPRO_DATA; without a download: {offline}"
    )
