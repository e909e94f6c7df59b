"""FedBR's figures: the toy of local bias (2, 3), curves (5), ablations of the pseudo-data (6), accuracy over time (7).

The toy's data, network and length of training are not stated [?]: CIFAR-10 with VGG11, twenty epochs at one place, then one epoch of
local training. Figure 6 prints bars without numbers; (c) is of CIFAR10 and CIFAR100, which data (d) is of is not
said [?]: RotatedCIFAR10, as (a).
"""

from __future__ import annotations

from pflrepro.papers.artefact import Artefact, column, fast, row, scales
from pflrepro.papers.claims import above, rises_across, within
from pflrepro.papers.fedbr_tables import (
    FEDAVG,
    FEDCM,
    MOON,
    ONCE,
    ROWS,
    TIMED_SCALE,
    VHL_BY_DATA,
    fedbr,
    small,
)
from pflrepro.papers.measures import BR_ACCURACY
from pflrepro.papers.relative_measures import accuracy_in_time_of
from pflrepro.papers.settings import AUGMENTED_CIFAR100, ROTATED_CIFAR10, ROTATED_MNIST, br
from pflrepro.papers.toy import ToyPlanes, bias, predictions
from pflrepro.papers.views.bars import Bars, ClassBars
from pflrepro.papers.views.curves import Curves
from pflrepro.papers.views.table import Table

# ---- the toy -----------------------------------------------------------------------------------------------------------------------
# The toy is no federation: the first round of the script is not its either.
_CENTRAL = {"partition": "iid", "clients": 1, "local_steps": 0, "local_epochs": 1, "evaluate_after": False}
_CENTRAL |= {"first_steps": 0, "first_weights": "common"}
CENTRAL = br("CIFAR-10, VGG11, one place", "clean-cifar10", "vgg11", rounds=20, **_CENTRAL)
# The only client of rotated MNIST is the one whose digits are not turned.
SMALL_CENTRAL = br("MNIST, CNN4, one place", "rotated-mnist", "cnn4", rounds=5, lr=0.05, **_CENTRAL)
PLACE = row("FedAvg, one client", "fedavg")


def toy(number: int, title: str, columns: dict[str, tuple[str, str, float]], **more: object) -> Artefact:
    """A figure of the toy.

    Args:
        columns: key -> entry of `LocalBias`, title, factor.
    """
    made = tuple(
        column(key, CENTRAL, bias(entry, said, unit="%" if factor > 1 else "", scale=factor), label=said)
        for key, (entry, said, factor) in columns.items()
    )
    instead = {each.key: SMALL_CENTRAL for each in made}
    said = "MNIST and CNN4 at rate 0.05 in place of CIFAR-10 and VGG11 at 0.01, five epochs"
    plan = scales(fast(5, said, seeds=3, instead=instead), seeds=3)
    return Artefact(f"fedbr/figure{number}", title, rows=(PLACE,), columns=made, scales=plan, trials=1, **more)


FIGURE2 = toy(
    2,
    "FedBR Figure 2: features before and after local training on half of the classes",
    {
        "distance": ("distance_own", "distance of F_1 from F_g on X_1, relative", 1.0),
        "before": ("similarity_before", "cosine of X_1 and X_2 under F_g", 1.0),
        "after": ("similarity_after", "cosine of X_1 and X_2 under F_1", 1.0),
    },
    claims=(rises_across("fedavg", ("before", "after"), source="FedBR section 3, Figure 2"),),
    views=(ToyPlanes(), Table()),
    about="A model F_g that is trained on all classes at one place, and F_1, the same after local training on X_1, the first "
    "five. The paper claims that local features of the same input differ from the global ones, and that those of other "
    "inputs, X_2, get too like them.",
)
FIGURE3 = toy(
    3,
    "FedBR Figure 3: what a local classifier predicts for classes that it has not got",
    {
        "before": ("seen_before", "predictions for X_2 within the first five classes, before", 100.0),
        "after": ("seen_after", "predictions for X_2 within the first five classes, after", 100.0),
    },
    claims=(
        rises_across("fedavg", ("before", "after"), source="FedBR section 3, Figure 3 (claimed: all; tested: more)"),
    ),
    views=(ClassBars(predictions, "predictions (%)", name=""), Table()),
    about="The model of Figure 2 after local training on the first five classes: its output for one sample of class 8, and its "
    "predictions for all samples of the other five. The paper claims that only classes that the client has are predicted.",
)

# ---- curves ------------------------------------------------------------------------------------------------------------------------
_MIXED = {"plugins": "mixup"}
FIGURE5 = Artefact(
    "fedbr/figure5",
    "FedBR Figure 5: test accuracy over rounds",
    rows=ROWS,
    columns=(
        column("cifar10", ROTATED_CIFAR10, BR_ACCURACY, label="CIFAR10"),
        column("cifar100", AUGMENTED_CIFAR100, BR_ACCURACY, label="CIFAR100"),
    ),
    scales=scales(
        small(100, ("fedavg", "fedprox", "moon", "fedbr", "fedavg+mixup", "fedavg+mixup+fedbr"), ("cifar10",)), seeds=1
    ),
    claims=(above("fedbr", "fedavg", source="FedBR Figure 5"),),
    views=(Curves(("accuracy over clients",), zoom=False, name=""), Table()),
    trials=1,
    about="The runs of Table 1: the plain mean of the accuracies on the clients' test sets, after every tested round. The paper "
    "claims that FedBR converges faster and higher.",
)
FIGURE7 = Artefact(
    "fedbr/figure7",
    "FedBR Figure 7: test accuracy over simulated time",
    rows=(FEDAVG, MOON, VHL_BY_DATA, FEDCM, ONCE),
    columns=(
        column("cifar10", ROTATED_CIFAR10, accuracy_in_time_of("fedavg"), label="CIFAR10"),
        column("cifar100", AUGMENTED_CIFAR100, accuracy_in_time_of("fedavg"), label="CIFAR100", **_MIXED),
    ),
    scales=scales(TIMED_SCALE, seeds=1),
    claims=(above("fedbr-once", "fedavg", source="FedBR Figure 7: better in the same time"),),
    views=(Curves(("accuracy over clients",), over="seconds", name=""), Table()),
    trials=1,
    timed=True,
    about="The methods of Table 7 over the seconds of local training and averaging that their runs took here, without tests; "
    "CIFAR100 with Mixup. The numbers are what a method reaches in the time that FedAvg's whole run takes. Ask for all its runs in "
    "one call, on a machine that does nothing else.",
)

# ---- ablations ---------------------------------------------------------------------------------------------------------------------
# The width of the extra layer is not said for this figure [?]: the projection of MOON, which without its term is FedAvg with it.
_ONLY10 = (
    row("FedAvg, extra layer", "moon/fedbr", key="fedavg-layer", mu=0.0),
    fedbr("FedBR, extra layer", "fedbr-layer", host="moon/fedbr", mu=0.0),
    fedbr("Mixture, K = 0", "mixture-0", pseudo="mixture", mixed_samples=0, pseudo_refresh="once"),
    fedbr("Mixture, K = 1", "mixture-1", pseudo="mixture", mixed_samples=1, pseudo_refresh="once"),
    fedbr("RSM, balanced", "balanced", pseudo_balanced=True, pseudo_refresh="once"),
)
_BOTH = ("fedbr", "fedbr-once")
_KINDS = ("fedavg", "fedbr-once", "mixture-0", "mixture-1")
_IMAGES = ("cifar10", "cifar100")
_ALIKE = "FedBR Figure 6{}: alike (the bound of one point is ours)"
FIGURE6 = Artefact(
    "fedbr/figure6",
    "FedBR Figure 6: projection layer, refreshing, kind and balance of the pseudo-data",
    rows=(FEDAVG, fedbr("FedBR, every round"), fedbr("FedBR, once", "fedbr-once", pseudo_refresh="once"), *_ONLY10),
    columns=(
        column("mnist", ROTATED_MNIST, BR_ACCURACY, label="RotatedMNIST", rows=_BOTH),
        column("cifar10", ROTATED_CIFAR10, BR_ACCURACY, label="CIFAR10"),
        column("cifar100", AUGMENTED_CIFAR100, BR_ACCURACY, label="CIFAR100", rows=("fedbr", *_KINDS), **_MIXED),
    ),
    scales=scales(
        small(100, ("fedavg", "fedbr", "fedbr-once", "mixture-0", "mixture-1", "balanced"), ("cifar10",)), seeds=1
    ),
    claims=(
        within("fedbr-once", "fedbr", 1.0, source=_ALIKE.format("b")),
        within("fedbr-once", "mixture-1", 1.0, _IMAGES, source=_ALIKE.format("c")),
        above("mixture-1", "mixture-0", _IMAGES, source="FedBR Figure 6c"),
        above("mixture-0", "fedavg", _IMAGES, source="FedBR Figure 6c"),
        within("balanced", "fedbr-once", 1.0, ("cifar10",), source=_ALIKE.format("d")),
    ),
    views=(
        Bars((("(a) an extra layer", ("fedavg", "fedavg-layer", "fedbr", "fedbr-layer")),), ("cifar10",), name="a"),
        Bars((("(b) how often", _BOTH),), name="b"),
        Bars((("(c) which kind", _KINDS),), _IMAGES, name="c"),
        Bars((("(d) balance", ("fedbr-once", "balanced")),), ("cifar10",), name="d"),
        Table(),
    ),
    trials=1,
    about="(a) With and without a further layer in the feature extractor; (b) pseudo-data made once or every round, CIFAR100 "
    "with Mixup [inferred: Table 3's is]; (c) none, means of the clients' own images (RSM), of proxy images (Mixture, K = 0), "
    "and these mixed with one of the client's; (d) RSM from all classes equally. The paper claims that RSM and K = 1 do about the "
    "same, K = 0 less, none least, and that less often and no balance will do.",
)

ARTEFACTS = (FIGURE2, FIGURE3, FIGURE5, FIGURE6, FIGURE7)
