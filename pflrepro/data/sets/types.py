"""What the description of a data set is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pflrepro.settings import Settings

if TYPE_CHECKING:
    import numpy as np


class Affine(NamedTuple):
    """A stored value v is trained on as `scale * v + offset`, roughly in [-1, 1].

    Each of the two is one number, or one number a channel (the first axis of a sample).
    """

    scale: float | tuple[float, ...]
    offset: float | tuple[float, ...]


# pixel/255, then (v - 0.5)/0.5: range [-1, 1]  [GPFL-code, DBE-code; pFedFDA's code]
PIXELS = Affine(2 / 255, -1.0)
# values as they are
RAW = Affine(1.0, 0.0)


def standardised(mean: Sequence[float], std: Sequence[float]) -> Affine:
    """pixel/255, then (v - mean)/std, with one mean and standard deviation a channel."""
    return Affine(
        tuple(1 / (255 * s) for s in std),
        tuple(-m / s for m, s in zip(mean, std, strict=True)),
    )


@dataclass(frozen=True)
class Preset:
    """What an experiment on a data set uses where the user says nothing: a network, a partition, the protocol of its papers.

    Attributes:
        min_size: smallest total (training + test) samples of a client, for partitions without a rule of their own.
    """

    model: str
    min_size: int
    settings: Settings
    partition: str = "dirichlet:0.1"
    clients: int = 20
    test_share: float = 0.25


def preset(
    model: str,
    min_size: int,
    *,
    partition: str = "dirichlet:0.1",
    clients: int = 20,
    test_share: float = 0.25,
    **settings: Any,
) -> Preset:
    """The preset with these settings; by default DBE's and GPFL's partition and protocol."""
    return Preset(model, min_size, Settings(**settings), partition, clients, test_share)


# lr 0.005, batch 10, 2,000 rounds, last batch dropped (the defaults of `Settings`): [GPFL; its code's default is 1,000 rounds];
# min_size 40 = batch/(1 - 0.75): [LIB-era].
PAPERS_CNN = preset("cnn4", 40)


def pfedfda(model: str, **changes: Any) -> Preset:
    """pFedFDA's protocol: 100 clients, Dir(0.5), coins of 0.3, all in the last of 200 rounds, 5 epochs, split 80/20 [FDA; code]."""
    common = {"lr": 0.01, "batch_size": 50, "momentum": 0.5, "weight_decay": 5e-4, "rounds": 200, "local_epochs": 5}
    cohort = {"clients": 100, "participation": 0.3, "sampling": "coins", "closing": True, "fit_batch": True}
    data = {"partition": "pfedfda-dirichlet:0.5", "test_share": 0.2, "min_size": 63}
    return preset(model, **(common | cohort | data | changes))


def fedbr(model: str, lr: float, batch_size: int, rounds: int, **changes: Any) -> Preset:
    """FedBR's protocol: 10 clients by its LDA split, 50 steps a round on batches drawn with replacement [BR; code].

    A fifth of each client's samples is held out and not trained on [BR-code]. Averages are plain means [BR Alg. 1; BR-code].
    """
    data = {"partition": "lda:0.1", "clients": 10, "test_share": 0.2, "min_size": 1}
    common = {"local_steps": 50, "weights": "uniform", "lr": lr, "batch_size": batch_size, "rounds": rounds}
    return preset(model, **(data | common | changes))


@dataclass(frozen=True)
class SourceFile:
    """One original file: its role for the reader, its name, its size in bytes and its checksums (hex); None: not published.

    A `name` that ends in "/" is a folder, always placed by hand: the folder of that name, or a zip archive `<name>.zip` of it.

    Attributes:
        mirrors: base addresses of this file where they are not those of its data set.
    """

    role: str
    name: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    mirrors: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")


@dataclass(frozen=True)
class DatasetSpec:
    """One data set: where it comes from, how it is read, and what its papers use with it.

    The last four attributes are of a set made from others (see `sets.derived`).

    Attributes:
        shape: of one stored sample.
        samples: pooled rows (None: not known beforehand).
        train_samples: how many of them are the official training rows (first).
        class_names: one name a class, or empty with `class_count` where the files name them.
        mirrors: base addresses, tried in order.
        reader: "module:function" in `pflrepro.data.readers`, or "" for a set that comes with an installed package.
        fingerprint: of the decoded arrays (None: not known).
        odd: says what is wrong with samples [n, ...] whose fingerprint is not known, None where nothing is seen.
        to_unit: the normalisation.
        groups: what a row's group is ("writer", "patient", "user", "domain"), "" without.
        by_hand: where to get files that nobody offers for a download that can be relied on, "" where `mirrors` do.
        reduced: of a set that is less than its original, what it has of it, in words: its numbers may stand beside published ones,
            but their level is not compared; "" for all that its papers use.
        made_of: the sets whose caches the reader combines.
        source: the set whose rows these are.
        part: "train" for its official training rows only.
        shift: what clients see instead, "kind:value" of `data.shifts`.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    samples: int | None
    train_samples: int | None
    class_names: tuple[str, ...]
    origin: str
    licence: str
    citation: str
    preset: Preset
    to_unit: Affine
    fingerprint: str | None = None
    odd: Callable[[np.ndarray], str | None] | None = None
    files: tuple[SourceFile, ...] = ()
    mirrors: tuple[str, ...] = ()
    reader: str = ""
    groups: str = ""
    by_hand: str = ""
    reduced: str = ""
    class_count: int | None = None
    made_of: tuple[str, ...] = ()
    source: str = ""
    part: str = "all"
    shift: str = ""

    @property
    def classes(self) -> int:
        return len(self.class_names) if self.class_count is None else self.class_count

    @property
    def embedded(self) -> bool:
        """True for a set that needs no download."""
        return not (self.files or self.made_of or self.source)

    @property
    def test_sets(self) -> int | None:
        """How many test sets all clients share, client i having number i % `test_sets`; None: each has its own."""
        shared = {"rotate-clients": 10, "rotate-images": 10, "official-test": 1, "augment-once": 1}
        return shared.get(self.shift.partition(":")[0])

    @property
    def turned(self) -> bool:
        """Whether all clients are tested on turns of the same images: ten numbers of one model, and no sample of clients."""
        return (self.test_sets or 1) > 1

    @property
    def tested_officially(self) -> bool:
        """Whether clients are tested on the official test rows, whatever their partition holds out."""
        return self.test_sets is not None

    @property
    def stored_as(self) -> str:
        """The name of the array cache that holds the rows."""
        return self.source or self.name
