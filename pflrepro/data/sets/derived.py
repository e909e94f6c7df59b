"""Data sets made from others.

Of two kinds. `made_of`: a new array cache, made by `pflrepro data get` from the caches of its parts. `source`: the rows of another
set, its own cache or all of it; where `shift` is named, what a client sees depends on which client holds a row, and is made when
the clients are known (`pflrepro.data.shifts`). The name in an experiment is all that tells them from the originals.
"""

from __future__ import annotations

from dataclasses import replace

from pflrepro.data.sets.cifar import CIFAR10, CIFAR10_HALF, CIFAR100
from pflrepro.data.sets.mnist import MNIST
from pflrepro.data.sets.numbers import PFEDFDA_CNN5
from pflrepro.data.sets.types import PIXELS, Affine, DatasetSpec, fedbr, pfedfda, standardised

_ZERO_TO_ONE = Affine(1 / 255, 0.0)  # [BR-code]: RotatedMNIST and CIFAR10 are not normalised
# CIFAR-100: [BR-code]; CIFAR-10: the values in common use [?]
_CIFAR100_UNIT = standardised((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
_CIFAR10_UNIT = standardised((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def _derived(source: DatasetSpec, name: str, title: str, **changes: object) -> DatasetSpec:
    """The spec of a set with the rows of `source`; with part="train" only its official training rows are divided."""
    if changes.get("part") == "train":
        changes["samples"] = changes["train_samples"] = source.train_samples
    unchanged = {"fingerprint": None, "files": (), "mirrors": (), "reader": "", "made_of": ()}
    return replace(source, name=name, title=title, source=source.name, **(unchanged | changes))


def _fedbr(
    source: DatasetSpec, name: str, title: str, model: str, lr: float, batch: int, rounds: int, **changes: object
):
    """FedBR divides the training rows; every client is tested on all official test rows, under its own of the ten angles."""
    partition = {"partition": "lda-flat:0.1", "momentum": 0.9} if model.startswith("cct") else {}  # [BR-code], [BR A]
    return _derived(source, name, title, part="train", preset=fedbr(model, lr, batch, rounds, **partition), **changes)


ROTATED_MNIST = _fedbr(
    MNIST,
    "rotated-mnist",
    "RotatedMNIST: client i sees its digits turned by 15 i degrees",
    *("domainbed-cnn", 0.001, 64, 1000),
    shift="rotate-clients",
    to_unit=_ZERO_TO_ONE,
)
AUGMENTED_CIFAR100 = _fedbr(
    CIFAR100,
    "augmented-cifar100",
    "CIFAR-100 with each training image cropped and flipped at random once, tested on the official test set",
    *("cct-7-3x1", 0.01, 32, 800),
    shift="augment-once",
    to_unit=_CIFAR100_UNIT,
)


def _proxy(source: DatasetSpec, what: str, to_unit: Affine) -> DatasetSpec:
    """FedBR's proxy data: training images of the other CIFAR, normalised with their own means and deviations."""
    title = f"{what}'s training images, standardised: proxy data"
    return _derived(source, f"proxy-{source.name}", title, part="train", to_unit=to_unit)


def _corrupted(source: DatasetSpec, what: str) -> tuple[DatasetSpec, ...]:
    """CIFAR10-S or CIFAR100-S: half of the clients see corrupted images [FDA 5.1, C.1.1]; the pairs of its code, or of its text."""
    title = f"{what}-S: half of the clients see corrupted images"
    return (
        _derived(
            source,
            f"{source.name}-s",
            f"{title} (10 pairs, the code's)",
            shift="corrupt-half:code",
            preset=PFEDFDA_CNN5,
        ),
        _derived(
            source,
            f"{source.name}-s-paper",
            f"{title} (50 pairs, the paper's)",
            shift="corrupt-half:paper",
            preset=PFEDFDA_CNN5,
        ),
    )


_KINDS = (
    *("motion-blur", "defocus-blur", "gaussian-noise", "shot-noise", "impulse-noise"),
    *("frost", "fog", "jpeg", "brightness", "contrast"),
)


def _of_cifar10(source: DatasetSpec, what: str) -> tuple[DatasetSpec, ...]:
    """All that the papers make of CIFAR-10, made of `source`, which is `what`: CIFAR-10 or a part of it."""
    rotated = _fedbr(
        source,
        f"rotated-{source.name}",
        f"rotated {what}: each image turned by an angle drawn from its client's Dir(1.0) over ten angles",
        *("vgg11", 0.01, 32, 1000),
        shift="rotate-images:1",
        to_unit=_ZERO_TO_ONE,
    )
    rotated_by_code = replace(
        rotated,
        name=f"{rotated.name}-code",
        title=f"rotated {what} with angles from Dir(0.1 an angle), as FedBR's code draws them",
        shift="rotate-images:0.1",
    )
    clean = _fedbr(
        source,
        f"clean-{source.name}",
        f"{what}, training rows divided, every client tested on the official test set",
        *("vgg11", 0.01, 32, 1000),
        shift="official-test",
        to_unit=_ZERO_TO_ONE,
    )
    # New clients under each corruption at severity 3 [FDA 5.2, C.3].
    new_clients = (
        _derived(
            source,
            f"{source.name}-{kind}-3",
            f"{what} with every image corrupted: {kind.replace('-', ' ')}, severity 3",
            shift=f"corrupt-all:{kind},3",
            preset=PFEDFDA_CNN5,
        )
        for kind in _KINDS
    )
    proxy = _proxy(source, what, _CIFAR10_UNIT)
    return (rotated, rotated_by_code, clean, proxy, *_corrupted(source, what), *new_clients)


DIGIT5 = DatasetSpec(
    name="digit5",
    title="Digit-5: MNIST, SVHN, USPS, synthetic digits, MNIST-M at 32x32",
    shape=(3, 32, 32),
    samples=184_699,
    train_samples=None,
    class_names=tuple("0123456789"),
    origin="its parts, cut as github.com/med-air/FedBN does",
    licence="those of its parts",
    citation="X. Li, M. Jiang, X. Zhang, M. Kamp, Q. Dou: FedBN: Federated Learning on Non-IID Features via Local Batch "
    "Normalization, ICLR 2021; and those of its parts",
    preset=pfedfda(
        "fedpac-cnn5", partition="group-dirichlet:0.5", clients=20, participation=1.0, sampling="number"
    ),  # [FDA D.1]
    to_unit=PIXELS,
    reader="digit5:pooled",
    groups="domain",
    made_of=("mnist", "svhn", "usps", "synthdigits", "mnistm"),
)

# Four clients a domain, as of Digit-5 [FDA D.1].
DIGIT3 = replace(
    DIGIT5,
    name="digit3",
    title="three of Digit-5: MNIST, USPS, MNIST-M at 32x32",
    reduced="3 of 5 domains: MNIST, USPS and MNIST-M (this one in the cut of its authors, 68,002 images), no SVHN, no synthetic digits",
    samples=51_775,
    preset=replace(DIGIT5.preset, clients=12),
    made_of=("mnist", "usps", "mnistm-68k"),
)

DERIVED = (
    *(ROTATED_MNIST, *_of_cifar10(CIFAR10, "CIFAR-10"), *_of_cifar10(CIFAR10_HALF, "CIFAR-10-half")),
    *(AUGMENTED_CIFAR100, _proxy(CIFAR100, "CIFAR-100", _CIFAR100_UNIT), *_corrupted(CIFAR100, "CIFAR-100")),
    *(DIGIT5, DIGIT3),
)
