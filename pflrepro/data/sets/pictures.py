"""Folders of pictures: Tiny-ImageNet and PACS."""

from __future__ import annotations

from dataclasses import replace

from pflrepro.data.sets.types import PAPERS_CNN, PIXELS, DatasetSpec, SourceFile, fedbr, pfedfda, standardised

TINY_IMAGENET = DatasetSpec(
    name="tiny-imagenet",
    title="Tiny-ImageNet: the training part, 500 photographs of each of 200 classes",
    shape=(3, 64, 64),
    samples=100_000,
    train_samples=100_000,
    class_names=(),
    class_count=200,
    origin="https://cs231n.stanford.edu/tiny-imagenet-200.zip",
    licence="that of ImageNet: for non-commercial research and education",
    citation="Y. Le, X. Yang: Tiny ImageNet Visual Recognition Challenge, CS 231N course report, Stanford University, 2015",
    preset=PAPERS_CNN,
    to_unit=PIXELS,
    mirrors=("https://cs231n.stanford.edu/",),
    reader="pictures:tiny_imagenet",
    # The origin publishes no sum; this one stands in many independent loaders.
    files=(SourceFile("archive", "tiny-imagenet-200.zip", 248_100_043, md5="90528d7ca1a48142e341f4ef8d21d0de"),),
)

# pFedFDA pools the training part with the validation part (110,000 labelled pictures) and trains a ResNet-18 with group norm.
TINY_IMAGENET_110K = replace(
    TINY_IMAGENET,
    name="tiny-imagenet-110k",
    title="Tiny-ImageNet: the training and validation parts, 550 photographs of each of 200 classes",
    samples=110_000,
    reader="pictures:tiny_imagenet_110k",
    preset=pfedfda("pfedfda-resnet18"),
)

PACS = DatasetSpec(
    name="pacs",
    title="PACS: seven kinds of objects as art paintings, cartoons, photographs and sketches, resized to 32x32",
    shape=(3, 32, 32),
    samples=9991,
    train_samples=None,
    class_names=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
    origin="https://domaingeneralization.github.io/#data",
    licence="none stated by the origin",
    citation="D. Li, Y. Yang, Y.-Z. Song, T. M. Hospedales: Deeper, Broader and Artier Domain Generalization, ICCV 2017",
    # [BR A]; size 32x32 and ImageNet's means and deviations: [BR-code]. Its batches are drawn with replacement.
    preset=fedbr("vgg11", 0.01, 32, 400, partition="group-classes:2", clients=8),
    to_unit=standardised((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    reader="pictures:pacs",
    files=(SourceFile("pictures", "PACS/"),),
    groups="domain",
    by_hand="the origin offers the pictures through a drive without a direct link: take the archive with the folders "
    "art_painting, cartoon, photo and sketch",
)
