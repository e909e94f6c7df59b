"""FedBR, "Improving Federated Learning on Heterogeneous Data via Local Learning Bias Reduction" (ICML 2023), without training: Table 7,
its parameters; Tables 8, 9 and 11, whose numbers are lost.

The printed sizes are what travels: FedCM sends its momentum along, MOON and FedBR a projection. The seconds beside them are those of
the authors' machine for a round (caption) or a step (text) [?], so they are listed and not compared.
"""

from __future__ import annotations

from functools import cache, partial

from pflrepro.papers.artefact import Artefact
from pflrepro.papers.counted_artefacts import every_scale
from pflrepro.papers.settings import Pairs
from pflrepro.papers.views.lost import Lost
from pflrepro.papers.views.sizes import Size, Sizes

SETTING = "10 clients; LDA alpha=0.1; FedBR pseudo-data transferred once (32)"
NETWORKS = (  # column, the published file's data set and model, ours, shape, classes
    ("CIFAR-10, VGG11", "CIFAR10", "VGG11", "vgg11", (3, 32, 32), 10),
    ("CIFAR-100, CCT", "CIFAR100 (Mixup backbone)", "CCT", "cct-7-3x1", (3, 32, 32), 100),
)
METHODS = (  # printed, ours, options
    ("FedAvg", "fedavg", ()),
    ("Moon", "moon/fedbr", ()),
    ("VHL", "vhl/fedbr", (("virtual_samples", 20),)),
    ("FedCM", "fedcm", ()),
    ("FedBR", "fedbr", ()),
)
LARGER = "22.4 is near CCT-14; the code's CCT-7 has 3.8 [BR-code]"
PROJECTION = "the printed projection fits no shape that a source gives [?]"
TIME = "seconds of another machine; fedbr/table7-times has them beside ours, as multiples of FedAvg's"


@cache
def millions_received(algorithm: str, options: Pairs, model: str, shape: tuple[int, ...], classes: int) -> float:
    """Millions of numbers that a client receives before a round, without supplied data."""
    from pflrepro.algorithms.registry import build_method
    from pflrepro.simulation.cost import numbers_received

    return numbers_received(build_method(algorithm, dict(options)), model, shape, classes) / 1e6


def _remark(printed: str, model: str) -> str:
    if model == "CCT":
        return LARGER
    return {"Moon": PROJECTION, "FedBR": PROJECTION, "FedCM": "printed: twice the rounded 9.2"}.get(printed, "")


SIZES = tuple(
    Size(
        printed,
        f"{column}: parameters, millions",
        printed,
        dataset,
        model,
        "parameters_millions",
        SETTING,
        digits=1,
        count=partial(millions_received, algorithm, options, ours, shape, classes),
        remark=_remark(printed, model),
    )
    for column, dataset, model, ours, shape, classes in NETWORKS
    for printed, algorithm, options in METHODS
)
SECONDS = tuple(
    Size(printed, f"{column}: seconds", printed, *place, "mean_simulation_time_s", SETTING, digits=2, lacking=TIME)
    for column, *place in (network[:3] for network in NETWORKS)
    for printed, *_ in METHODS
)
TABLE7 = Artefact(
    "fedbr/table7",
    "FedBR Table 7: parameters that travel, and simulation time",
    scales=every_scale("counted on the networks and methods themselves"),
    views=(Sizes(tuple(each for network in NETWORKS for each in (*SIZES, *SECONDS) if each.model == network[2])),),
    sources=("fedbr_table7",),
    about="Millions of numbers that a client receives before a round: the network, with FedCM its momentum too, with MOON and FedBR a "
    "projection.",
)


def _lost(table: int, title: str, about: str) -> Artefact:
    scales = every_scale("nothing to run: no source has its numbers")
    return Artefact(
        f"fedbr/table{table}", title, scales=scales, views=(Lost(),), sources=(f"fedbr_table{table}",), about=about
    )


TABLE8 = _lost(
    8,
    "FedBR Table 8: error bars over three seeds (numbers lost)",
    "Five methods with error bars [BR appendix]: the text at hand lacks the table, and its lines are known at second hand only.",
)
TABLE9 = _lost(
    9,
    "FedBR Table 9: CIFAR-10 without rotation, ResNet-18 with group norm (numbers lost)",
    "Four methods on plain CIFAR-10 [BR appendix]: the text at hand lacks the table, and its lines are known at second hand only.",
)
TABLE11 = _lost(
    11,
    "FedBR Table 11: temperatures of the contrastive loss, RotatedCIFAR10 (numbers lost)",
    "tau_1 = 2 and four values of tau_2 [BR appendix]: the text at hand lacks the table, and its lines are known at second hand only.",
)
