"""pFedFDA, "Personalized Federated Learning via Feature Distribution Adaptation" (NeurIPS 2024), without training: Figure 3, Table 8,
Theorem 1.

Figure 3 (App. C.1.2): training and test images of CIFAR-10 pooled, 6,000 a class; class by class over the clients by Dirichlet(alpha),
a client with n/M samples gets no more, drawn again until the smallest client has 63 samples [FDA-code]. M = 100 clients, as in the
tables; the figure's own number is not stated [?]. The code's random seed is not known, so ours is a draw of the same recipe, not the
printed one. Theorem 1 [FDA section 4.3, appendix E] prints no number; what is drawn is the exact error behind its bound.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.metrics.cost import gaussian_overhead, gaussian_size
from pflrepro.metrics.theory import Setting, best_beta, bound, fit_constant, risk, simulate
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.counted_artefacts import every_scale
from pflrepro.papers.settings import fda
from pflrepro.papers.shown_partitions import ShownPartition
from pflrepro.papers.views.counts import Counts
from pflrepro.papers.views.exact import Check, Exact, Found
from pflrepro.papers.views.sizes import Size, Sizes
from pflrepro.viz.theory import best_betas, trade_off

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARP, MILD = (fda(f"CIFAR-10, alpha {alpha}", "cifar10", f"pfedfda-dirichlet:{alpha}") for alpha in ("0.1", "0.5"))
FIGURE3 = Artefact(
    "pfedfda/figure3",
    "pFedFDA Figure 3: samples a client and class, CIFAR-10 by Dirichlet shares",
    scales=every_scale("the partitions depend on the class sizes only"),
    views=(
        Counts(
            (ShownPartition(SHARP), ShownPartition(MILD)),
            orderings=((SHARP.label, MILD.label, "pFedFDA App. C.1.2: less so as alpha grows"),),
        ),
    ),
    about="How Dirichlet shares divide CIFAR-10 among 100 clients: the larger alpha, the less a client's classes differ from all.",
)


# ---- Table 8: what pFedFDA sends in place of a linear classifier ----------------------------------------------------------------
NETWORKS = (  # the published file's data set and model, ours, shape of a sample, classes, features
    ("EMNIST", "CNN4 (D=128, 62 classes)", "fedpac-cnn4", (28, 28), 62, 128),
    ("CIFAR100", "CNN5 (D=128, 100 classes)", "fedpac-cnn5", (3, 32, 32), 100, 128),
    ("TinyImageNet", "ResNet18 (D=512, 200 classes)", "pfedfda-resnet18", (3, 64, 64), 200, 512),
    ("ImageNet (1000 classes)", "MobileNetV3-Small (Gaussian D=1024)", "mobilenet_v3_small", (3, 224, 224), 1000, 1024),
)


@cache
def part_size(model: str, shape: tuple[int, ...], classes: int, part: str) -> int:
    """Parameters of a network's `base` or `head`; of `mobilenet_v3_small`, which is torchvision's, of its features and classifier.

    Example:
        >>> part_size("fedpac-cnn4", (28, 28), 62, "base"), part_size("fedpac-cnn4", (28, 28), 62, "head")
        (115776, 7998)
    """
    from pflrepro.models import build_model
    from pflrepro.models.split import parameters_of

    if model == "mobilenet_v3_small":
        from torchvision.models import mobilenet_v3_small

        network = mobilenet_v3_small(weights=None, num_classes=classes)
        chosen = network.features if part == "base" else network.classifier
        return sum(leaf.numel() for leaf in chosen.parameters())
    return parameters_of(getattr(build_model(model, shape, classes, 0), part)).size()


def overhead(model: str, shape: tuple[int, ...], classes: int, features: int) -> float:
    """What pFedFDA sends more than FedAvg, in percent."""
    backbone, linear = (part_size(model, shape, classes, part) for part in ("base", "head"))
    return gaussian_overhead(backbone, linear, gaussian_size(classes, features))


def _sizes(dataset: str, printed: str, model: str, shape: tuple[int, ...], classes: int, features: int) -> list[Size]:
    setting = "row label lost in the text; reconstructed from the counts"
    counts = {  # metric -> our label, digits, ours
        "backbone_parameters": ("backbone", 0, partial(part_size, model, shape, classes, "base")),
        "linear_classifier_parameters": ("linear classifier", 0, partial(part_size, model, shape, classes, "head")),
        "gaussian_parameters": ("Gaussian classifier", 0, partial(gaussian_size, classes, features)),
        "overhead_pct": ("overhead, %", 3, partial(overhead, model, shape, classes, features)),
    }
    return [
        Size(dataset, label, "pFedFDA", dataset, printed, metric, setting, digits, count)
        for metric, (label, digits, count) in counts.items()
    ]


TABLE8 = Artefact(
    "pfedfda/table8",
    "pFedFDA Table 8: parameters of the backbone, a linear and the Gaussian classifier",
    scales=every_scale("counted on the networks themselves"),
    views=(Sizes(tuple(size for network in NETWORKS for size in _sizes(*network))),),
    sources=("pfedfda_table8",),
    about="What it costs to send class means and one covariance (its upper triangle) in place of a linear classifier's weights. "
    "Our engine sends the whole matrix; the table counts as the paper does.",
)


# ---- Theorem 1: the error of an interpolated mean -------------------------------------------------------------------------------
SHIFTS, SAMPLES = (0.0, 0.5, 1.0, 2.0), (5, 10, 20, 50, 100, 200, 500)
OTHERS, DRAWS, DELTAS = 50, 20_000, (0.1, 0.05, 0.01)
BETAS = np.linspace(0, 1, 11)


def _setting(shift: float, samples: int = 20) -> Setting:
    return Setting.of_shift(shift, samples, clients=10, features=10, others=OTHERS)


@cache
def theorem1() -> Found:
    """The exact error, the one without the cross term, and the mean over draws, over beta and for every shift; the statements."""
    import pandas as pd

    frames, worst, quantiles, bounds = [], 0.0, [], []
    for shift in SHIFTS:
        setting = _setting(shift)
        exact, found = risk(setting, BETAS).total, simulate(setting, BETAS, DRAWS)
        columns = {"beta": BETAS, "exact": exact, "independent": risk(setting, BETAS, cross=False).total}
        columns |= {"drawn": found.mean, "standard_error": found.standard_error}
        frames.append(pd.DataFrame({"shift": shift, "best_beta": best_beta(setting)} | columns))
        worst = max(worst, float((abs(found.mean - exact) / found.standard_error).max()))
        quantiles += [found.quantile(delta) for delta in DELTAS]
        bounds += [bound(setting, BETAS, delta, 1.0) for delta in DELTAS]
    return Found(pd.concat(frames, ignore_index=True), _checks(worst, fit_constant(quantiles, bounds)))


def _checks(worst: float, constant: float) -> tuple[Check, ...]:
    table = np.array([[best_beta(_setting(shift, samples)) for samples in SAMPLES] for shift in SHIFTS])
    fine = np.linspace(0, 1, 1001)
    above = min(
        float(risk(_setting(s, n), fine).total.min() - risk(_setting(s, n), best_beta(_setting(s, n))).total)
        for s in SHIFTS
        for n in SAMPLES
    )
    apart = [abs(risk(_setting(s), fine).total - risk(_setting(s), fine, cross=False).total).max() for s in SHIFTS]
    limit = _setting(0.0).traces[1] / 2
    ranges = "; ".join(f"shift {s:g}: {row[0]:.2f} to {row[-1]:.2f}" for s, row in zip(SHIFTS, table, strict=True))
    return (
        Check(
            "the exact error is the mean over draws (4 standard errors)",
            worst < 4,
            f"at most {worst:.1f} standard errors apart, {DRAWS:,} draws",
        ),
        Check(
            "no beta is better than the best one",
            above > -1e-12,
            f"of {len(fine):,} betas in each of {table.size} settings",
        ),
        Check(
            "more own samples never lower the best beta, and raise it where there is a shift",
            bool((np.diff(table, axis=1) > -1e-12).all() and (table[1:, -1] > table[1:, 0]).all()),
            f"n_i from {SAMPLES[0]} to {SAMPLES[-1]}: {ranges}",
        ),
        Check(
            "a larger shift raises the best beta",
            bool((np.diff(table, axis=0) > 0).all()),
            f"at {SAMPLES[0]} samples: " + ", ".join(f"{value:.2f}" for value in table[:, 0]),
        ),
        Check(
            "leaving out the cross term, as appendix E does, changes the error by at most tr Sigma_i / (2 N)",
            bool(np.allclose(apart, limit)),
            f"{max(apart):.4f}, bound {limit:.4f}",
        ),
        # Laurent and Massart's bound of a Gaussian quadratic form, with log(1/delta) >= 1, gives 10.
        Check(
            "one constant of at most 10 makes the high-probability form hold",
            constant <= 10,
            f"fitted {constant:.2f}, delta {', '.join(map(str, DELTAS))}",
        ),
    )


def _pictures() -> dict[str, Figure]:
    return {
        "": trade_off({f"shift {shift:g}": _setting(shift) for shift in SHIFTS}),
        "best": best_betas(SHIFTS, SAMPLES, others=OTHERS),
    }


THEOREM1 = Artefact(
    "pfedfda/theorem1",
    "pFedFDA Theorem 1: the error of a mean between the client's own and the global one",
    scales=every_scale("computed; no data, no training"),
    views=(Exact(theorem1, _pictures),),
    about="E||mu~ - mu||^2 of mu~ = beta (own mean) + (1 - beta) (mean of all): bias against variance. Ten clients with ten features, "
    "20 samples for the client in question and 50 for each of the others; shift: its distance to the mean of all. Solid lines: "
    "exact; marks: means of draws, with two standard errors.",
)
