"""MNIST and Fashion-MNIST: four idx files each.

For each file: `sha256` of the .gz as published by torchvision (its prototype data sets), and `md5`, the sum its own authors or
torchvision's stable loader give.
"""

from __future__ import annotations

from pflrepro.data.sets.types import PAPERS_CNN, PIXELS, DatasetSpec, SourceFile


def idx_files(*rows: tuple[int, str, str]) -> tuple[SourceFile, ...]:
    names = {
        "train_images": "train-images-idx3-ubyte.gz",
        "train_labels": "train-labels-idx1-ubyte.gz",
        "test_images": "t10k-images-idx3-ubyte.gz",
        "test_labels": "t10k-labels-idx1-ubyte.gz",
    }
    return tuple(SourceFile(role, name, *row) for (role, name), row in zip(names.items(), rows, strict=True))


MNIST = DatasetSpec(
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
    preset=PAPERS_CNN,
    to_unit=PIXELS,
    # of the official files: written as idx again, the pictures have the published MD5 sums
    fingerprint="59ab76b6c741fcaa2382602399d12aee8eaf4e386a368e9c49df925aa9ebe8be",
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    reader="idx:images_and_labels",
    files=idx_files(
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

FMNIST = DatasetSpec(
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
    preset=PAPERS_CNN,
    to_unit=PIXELS,
    # The labels are the official files'; the pictures those of a complete copy in the official order [inferred]: two copies of
    # different origin agree wherever both have a picture, and mean and deviation are the published ones.
    fingerprint="3c89fb94a7e194ffdd4890f237eed8ff4dfa2f25c454f37942cdf9f5af57296a",
    mirrors=(
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    reader="idx:images_and_labels",
    files=idx_files(
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
