"""The digits of Digit-5 beside MNIST: SVHN, USPS, MNIST-M, synthetic digits.

All four are used by pFedFDA only (Table 7, 5-layer CNN, rate 0.01, batch 50, 200 rounds), as parts of Digit-5: one domain on its
own is no paper's setting, and its preset is pFedFDA's or ours. Sums: MD5 as in torchvision's stable loaders, SHA-256 as in its
prototype data sets; of the synthetic digits the SHA-256 that the mirror's own Git LFS pointers name. MNIST-M has none.
"""

from __future__ import annotations

from dataclasses import replace

from pflrepro.data.sets.types import PIXELS, RAW, DatasetSpec, SourceFile, pfedfda

_DIGITS = tuple("0123456789")
# min_size 63: one batch of 50 after the 80 % split [FDA-code].
PFEDFDA_CNN5 = pfedfda("fedpac-cnn5")

SVHN = DatasetSpec(
    name="svhn",
    title="SVHN street-view house numbers, cropped digits, without the extra part",
    shape=(3, 32, 32),
    samples=99_289,
    train_samples=73_257,
    class_names=_DIGITS,
    origin="http://ufldl.stanford.edu/housenumbers/",
    licence="for non-commercial use only (the origin's words)",
    citation="Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu, A. Y. Ng: Reading Digits in Natural Images with Unsupervised "
    "Feature Learning, NIPS Workshop on Deep Learning and Unsupervised Feature Learning, 2011",
    preset=PFEDFDA_CNN5,
    to_unit=PIXELS,
    mirrors=(
        "https://ufldl.stanford.edu/housenumbers/",
        "https://cseweb.ucsd.edu/~weijian/static/datasets/svhn/",
    ),
    reader="matlab:house_numbers",
    files=(
        SourceFile(
            "train",
            "train_32x32.mat",
            182_040_794,
            "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            "e26dedcc434d2e4c54c9b2d4a06d8373",
        ),
        SourceFile(
            "test",
            "test_32x32.mat",
            64_275_384,
            "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            "eb5a983be6a315427106f1b164d9cef3",
        ),
    ),
)

USPS = DatasetSpec(
    name="usps",
    title="USPS handwritten digits of zip codes",
    shape=(16, 16),
    samples=9298,
    train_samples=7291,
    class_names=_DIGITS,
    origin="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
    licence="none stated by the origin",
    citation="J. J. Hull: A Database for Handwritten Text Recognition Research, IEEE Transactions on Pattern Analysis and Machine "
    "Intelligence 16(5), 1994",
    # No fingerprint: the complete copy at hand has the same counts, order and values to three decimals, but was not read from
    # these two files, whose decimals decide the last bits of a float.
    preset=pfedfda("cnn4", partition="pfedfda-dirichlet:0.5", clients=20, participation=1.0, sampling="number"),
    to_unit=RAW,
    mirrors=("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",),
    reader="libsvm:usps",
    files=(
        SourceFile(
            "train",
            "usps.bz2",
            sha256="3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
            md5="ec16c51db3855ca6c91edd34d0e9b197",
        ),
        SourceFile(
            "test",
            "usps.t.bz2",
            sha256="a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
            md5="8ea070ee2aca1ac39742fdd1ef5ed118",
        ),
    ),
)

SYNTHDIGITS = DatasetSpec(
    name="synthdigits",
    title="synthetic digits: rendered from fonts on coloured backgrounds",
    shape=(3, 32, 32),
    samples=488_953,
    train_samples=479_400,
    class_names=_DIGITS,
    origin="http://yaroslav.ganin.net/ (a drive that gives no direct link), through github.com/domainadaptation/datasets",
    licence="none stated by the origin",
    citation="Y. Ganin, V. Lempitsky: Unsupervised Domain Adaptation by Backpropagation, ICML 2015",
    preset=PFEDFDA_CNN5,
    to_unit=PIXELS,
    mirrors=(
        "https://media.githubusercontent.com/media/domainadaptation/datasets/91ff02225a73db330883843bc41ee3aca59a19d9/synth/",
    ),
    reader="matlab:house_numbers",
    files=(
        SourceFile(
            "train",
            "synth_train_32x32.mat",
            895_578_032,
            "e0e0924ecd0c0b5a55ed6485aaa7d39937af982397717b89a3d91777aca9433c",
        ),
        SourceFile(
            "test",
            "synth_test_32x32.mat",
            17_851_156,
            "6285fe9a1c6f27b379a47263907a37899b59ce86948fd343a5b904435cde5bcc",
        ),
    ),
)

MNISTM = DatasetSpec(
    name="mnistm",
    title="MNIST-M: MNIST digits blended with patches of photographs",
    shape=(3, 28, 28),
    samples=70_000,
    train_samples=60_000,
    class_names=_DIGITS,
    origin="the Digit-5 archive linked by github.com/med-air/FedBN (its folder MNIST_M)",
    licence="none stated by the origin",
    citation="Y. Ganin, V. Lempitsky: Unsupervised Domain Adaptation by Backpropagation, ICML 2015",
    preset=pfedfda("cnn4", partition="pfedfda-dirichlet:0.5", clients=20, participation=1.0, sampling="number"),
    to_unit=PIXELS,
    reader="mnistm:mnistm",
    files=(SourceFile("pickle", "mnistm_data.pkl"),),
    by_hand="take MNIST_M/mnistm_data.pkl out of the Digit-5 archive that github.com/med-air/FedBN links",
)

MNISTM_68K = replace(
    MNISTM,
    name="mnistm-68k",
    title="MNIST-M as its authors released it: 59,001 and 9,001 pictures of 32x32",
    shape=(3, 32, 32),
    samples=68_002,
    train_samples=59_001,
    fingerprint="fd382fdfee163aaa72b168df121cb1d4fe4796eab8d96638271ee6b00f6e0027",
    origin="http://yaroslav.ganin.net/ (mnist_m.tar.gz, through a drive that gives no direct link)",
    reader="pictures:mnistm_68k",
    files=(SourceFile("pictures", "mnist_m/"),),
    by_hand="take the folder mnist_m with mnist_m_train, mnist_m_test and their lists of labels out of the authors' "
    "mnist_m.tar.gz, or out of the public copy that docs/data.md names",
)
