"""DBE's tables and figures that look into the models: description lengths (Tables 1, 2, 4, 7), features in a plane (Figures 1, 3, 5).

The description length is the mean over clients of their own test part, with the public library's probe, after the last round
[inferred: the paper says neither the samples nor the round, see docs/papers/dbe.md]; at smaller scales a cheaper probe on the first
clients orders the methods, its lengths are no published ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pflrepro.papers.artefact import Artefact, Column, Row, column, fast, row, scales
from pflrepro.papers.claims import above, falls_across
from pflrepro.papers.dbe import DBE, GLOBAL, KAPPA, ON_CIFAR100, PERHAPS_TRAINING, printed
from pflrepro.papers.measures import Evidence, Measure, Value
from pflrepro.papers.model_measures import CHEAP_PROBE, mdl, tuned
from pflrepro.papers.numbers import LEADERBOARD
from pflrepro.papers.settings import (
    AGNEWS_PRACTICAL,
    CIFAR100_PRACTICAL,
    FMNIST_PRACTICAL,
    TINY_PRACTICAL,
    TINY_RESNET,
    Setting,
)
from pflrepro.papers.views.curves import Curves
from pflrepro.papers.views.layers import Layers
from pflrepro.papers.views.planes import Planes, Shot
from pflrepro.papers.views.table import Change, Table

TINY_PROBE = {"hidden": (16,), "lr": 1e-3, "steps": 10, "sizes": 3, "seeds": 1}


def length(layer: str, metric: str = "MDL_bits", after: bool = False) -> Measure:
    """The description length at a layer: the papers' probe at their scale, a cheap one at smaller ones."""
    cheaper = (
        ("fast", mdl(layer, CHEAP_PROBE, 5, after, metric)),
        ("smoke", mdl(layer, TINY_PROBE, 2, after, metric)),
    )
    return replace(mdl(layer, after=after, metric=metric), cheaper=cheaper)


def _bias_size(evidence: Evidence) -> Value:
    def take(simulation: Any) -> dict[str, Any]:
        params = simulation.replicas[0].clients.get("params", {})
        return {"size": sum(leaf[0].numel() for leaf in params["bias"].leaves()) if "bias" in params else 0}

    return Value(float(evidence.reading("bias-size", take)["size"]))


BIAS_SIZE = Measure("bias-size", "numbers of the personal bias", _bias_size, "", 0, "", "extra_trainable_params")


def at_layers(setting: Setting, layers: tuple[tuple[str, str], ...]) -> tuple[Column, ...]:
    """The description length at each layer, and at the logits."""
    where = printed(setting)
    return tuple(
        column(f"mdl/{layer}", setting, length(layer, f"MDL_bits@{name}"), label=name, group="MDL", **where)
        for name, layer in (*layers, ("Logits", "logits"))
    )


def split(position: str, at: str) -> Row:
    """DBE behind a layer of the network."""
    return row(
        f"FedAvg+DBE[{position}]",
        "fedavg+dbe",
        key=f"dbe-{at.split('@')[1]}",
        setting={"model": at},
        by_model={at: KAPPA.get(at.split("@")[0], {})},
    )


# ---- Tables 1 and 7: where the bias stands -------------------------------------------------------------------------------------
CNN_LAYERS = (("CONV1-CONV2", "conv1"), ("CONV2-FC1", "conv2"), ("FC1-FC2", "fc1"))
CNN_SPLITS = tuple(split(name, f"cnn4@{layer}") for name, layer in CNN_LAYERS)
_SPLIT_KEYS = tuple(each.key for each in CNN_SPLITS)
_CNN_COLUMNS = at_layers(TINY_PRACTICAL, CNN_LAYERS)
_LENGTHS = tuple(each.key for each in _CNN_COLUMNS)
TABLE1 = Artefact(
    "dbe/table1",
    "DBE Table 1: description length at each layer, by the position of DBE",
    rows=(
        *(row("FedPer"), row("FedRep"), row("FedRoD")),
        row("FedBABU", tune_epochs=0, note="before its fine-tuning, which has a column of its own"),
        *(row("FedAvg"), *CNN_SPLITS),
    ),
    columns=(
        *_CNN_COLUMNS,
        column("accuracy", TINY_PRACTICAL, label="accuracy", **printed(TINY_PRACTICAL)),
        column(
            *("tuned", TINY_PRACTICAL, tuned(10, metric="accuracy_finetuned", printed=1.0)),
            label="fine-tuned",
            rows=("fedbabu",),
            **printed(TINY_PRACTICAL),
        ),
        column("bias", TINY_PRACTICAL, BIAS_SIZE, label="added numbers", **printed(TINY_PRACTICAL)),
    ),
    scales=scales(
        fast(
            60,
            "CIFAR-100 in place of Tiny-ImageNet, a quarter of the training data, 60 rounds, a cheap probe on 5 clients",
            every=5,
            share=0.25,
            rows=("fedper", "fedrep", "fedavg", *_SPLIT_KEYS),
            instead=dict.fromkeys((*_LENGTHS, "accuracy", "tuned", "bias"), CIFAR100_PRACTICAL),
        )
    ),
    claims=(
        *(
            above(each.key, "fedavg", _LENGTHS, source="DBE section 5.1.1: shorter at every layer")
            for each in CNN_SPLITS
        ),
        *(
            above("dbe-conv2", name, ("mdl/conv2", "mdl/fc1", "mdl/logits"), source="DBE section 5.1.1")
            for name in ("fedper", "fedrep", "fedrod", "fedbabu")
        ),
        *(
            above("dbe-conv2", name, ("mdl/conv1", "mdl/fc1", "mdl/logits"), source="DBE Table 1: the shortest")
            for name in ("dbe-conv1", "dbe-fc1")
        ),
        *(above(each.key, "fedavg", ("accuracy",), source="DBE section 5.1.1") for each in CNN_SPLITS),
    ),
    views=(
        Table(
            changes=(
                Change("percent", _LENGTHS, row="fedavg", rows=_SPLIT_KEYS),
                Change("points", ("accuracy",), row="fedavg", rows=_SPLIT_KEYS),
            )
        ),
    ),
    sources=("dbe_table1", "dbe_table5", LEADERBOARD),
    about="How generic the features of each layer are (the shorter the description of the labels, the more), with DBE behind the "
    "first, the second or the third layer: DBE makes them more generic than other methods do.",
)
RESNET_LAYERS = (
    ("CONV-B1", "conv"),
    ("B1-B2", "b1"),
    ("B2-B3", "b2"),
    ("B3-B4", "b3"),
    ("B4-POOL", "b4"),
    ("POOL-FC", "pool"),
)
_RESNET_COLUMNS = at_layers(TINY_RESNET, RESNET_LAYERS)
_RESNET_LENGTHS = tuple(each.key for each in _RESNET_COLUMNS)
RESNET_SPLITS = tuple(split(name, f"resnet18@{layer}") for name, layer in RESNET_LAYERS)
_RESNET_ON_CIFAR100 = CIFAR100_PRACTICAL.with_("Cifar100*, practical", model="resnet18", lr=0.1)
TABLE7 = Artefact(
    "dbe/table7",
    "DBE Table 7: DBE at six positions of ResNet-18",
    rows=(row("FedAvg"), *RESNET_SPLITS),
    columns=(
        *_RESNET_COLUMNS,
        column("accuracy", TINY_RESNET, label="accuracy", **printed(TINY_RESNET)),
        column("bias", TINY_RESNET, BIAS_SIZE, label="added numbers", **printed(TINY_RESNET)),
    ),
    scales=scales(
        fast(
            30,
            "CIFAR-100 in place of Tiny-ImageNet, a tenth of the training data, 30 rounds, a cheap probe on 5 clients",
            every=5,
            share=0.1,
            instead=dict.fromkeys((*_RESNET_LENGTHS, "accuracy", "bias"), _RESNET_ON_CIFAR100),
        )
    ),
    claims=(
        *(
            above(late.key, early.key, ("accuracy",), source="DBE App. D.2: late positions")
            for late in RESNET_SPLITS[4:]
            for early in RESNET_SPLITS[:4]
        ),
        *(
            above(each.key, "fedavg", _RESNET_LENGTHS, source="DBE App. D.2: shorter at every layer")
            for each in RESNET_SPLITS
        ),
    ),
    views=(Table(),),
    sources=("dbe_table7",),
    about="DBE behind each stage of ResNet-18: late positions are far better in accuracy, all have shorter descriptions than FedAvg.",
)

# ---- Tables 2 and 4: what MR and PRBM do, and DBE on other methods -------------------------------------------------------------
LAST = {"cnn4": "fc1", "resnet18": "pool", "fasttext": "fc1"}


def both(key: str, setting: Setting, label: str) -> tuple[Column, Column]:
    """Description length behind the base, and accuracy."""
    where = printed(setting)
    return (
        column(f"{key}/mdl", setting, length(LAST[setting.model]), label="MDL", group=label, **where),
        column(f"{key}/accuracy", setting, label="accuracy", group=label, **where),
    )


TABLE2 = Artefact(
    "dbe/table2",
    "DBE Table 2: what mean regularisation and the personal bias do",
    rows=(*(row("FedAvg"), row("FedAvg+MR", by_model=KAPPA), row("FedAvg+PRBM"), DBE),),
    columns=(*both("tiny", TINY_PRACTICAL, "TINY"), *both("tiny-resnet18", TINY_RESNET, "TINY*")),
    scales=scales(
        fast(
            60,
            "CIFAR-100 in place of Tiny-ImageNet (CNN4 only), a quarter of the training data, 60 rounds, a cheap probe",
            every=5,
            share=0.25,
            columns=("tiny/mdl", "tiny/accuracy"),
            instead={"tiny/mdl": CIFAR100_PRACTICAL, "tiny/accuracy": CIFAR100_PRACTICAL},
        )
    ),
    claims=(
        *(
            above(better, worse, ("tiny/accuracy", "tiny-resnet18/accuracy"), source="DBE section 5.1.2")
            for better, worse in (("fedavg+dbe", "fedavg+prbm"), ("fedavg+prbm", "fedavg+mr"), ("fedavg+mr", "fedavg"))
        ),
        above("fedavg+mr", "fedavg+prbm", ("tiny/mdl", "tiny-resnet18/mdl"), source="DBE section 5.1.2"),
    ),
    views=(Table(),),
    sources=("dbe_table2", "dbe_table5", LEADERBOARD),
    about="FedAvg with the mean regularisation (MR), with the personal bias (PRBM) and with both (DBE): PRBM lifts the accuracy, MR "
    "makes the features generic, together they do both.",
)
HOSTS = tuple(each for each in GLOBAL if each.key != "fedavg")
WITH_DBE = tuple(row(f"{host.label}+DBE", f"{host.algorithm}+dbe", by_model=KAPPA) for host in HOSTS)
_PAIRS = tuple(
    tuple(replace(each, group=each.label, label=each.group) for each in both(*how))
    for how in (
        ("cifar100", CIFAR100_PRACTICAL, "Cifar100"),
        ("tiny", TINY_PRACTICAL, "TINY"),
        ("tiny-resnet18", TINY_RESNET, "TINY*"),
        ("agnews", AGNEWS_PRACTICAL, "AG News"),
    )
)
TABLE4 = Artefact(
    "dbe/table4",
    "DBE Table 4: DBE on other methods",
    rows=(*HOSTS, *WITH_DBE),
    columns=tuple(each for half in zip(*_PAIRS, strict=True) for each in half),  # all lengths, then all accuracies
    scales=scales(
        fast(
            60,
            "the Cifar100 columns, a quarter of the training data, 60 rounds, FedGen with 100 server steps, a cheap probe",
            every=5,
            share=0.25,
            columns=("cifar100/mdl", "cifar100/accuracy"),
            options={"fedgen": {"server_steps": 100}, "fedgen+dbe": {"server_steps": 100}},
        )
    ),
    claims=tuple(
        above(each.key, host.key, source="DBE section 5.1.4: DBE improves every method")
        for each, host in zip(WITH_DBE, HOSTS, strict=True)
    ),
    views=(Table(),),
    sources=("dbe_table4",),
    about="DBE on four methods that train one global model: description length and accuracy improve everywhere. How DBE enters them is "
    f"not printed [inferred: docs/papers/dbe.md]. {PERHAPS_TRAINING}",
)

# ---- Figures 1, 3, 5 -----------------------------------------------------------------------------------------------------------
_APART = "A-distance between clients"
FIGURE_FAST = scales(
    fast(
        60,
        "CIFAR-100 in place of Tiny-ImageNet, a quarter of the training data, 60 rounds",
        every=5,
        share=0.25,
        instead=ON_CIFAR100
        | {f"{when}/{layer}": CIFAR100_PRACTICAL for when in ("before", "after") for _, layer in CNN_LAYERS},
    ),
    seeds=1,
)


FIGURE1 = Artefact(
    "dbe/figure1",
    "DBE Figure 1: what local training does to FedAvg's features",
    rows=(row("FedAvg"),),
    columns=(
        column("tiny", TINY_PRACTICAL, label="accuracy"),
        *(
            column(
                f"{when}/{layer}", TINY_PRACTICAL, length(layer, "", when == "after"), label=name, group=f"MDL {when}"
            )
            for when in ("before", "after")
            for name, layer in CNN_LAYERS
        ),
    ),
    scales=FIGURE_FAST,
    claims=tuple(
        falls_across(
            "fedavg", (f"after/{layer}", f"before/{layer}"), source="DBE section 1: before < after at every layer"
        )
        for _, layer in CNN_LAYERS
    ),
    views=(
        Planes(
            (
                Shot("fedavg", "tiny", title="(a) FedAvg, before local training"),
                Shot("fedavg", "tiny", after=True, title="(b) FedAvg, after local training"),
            ),
            numbers=("class separation", _APART),
        ),
        Layers("fedavg", tuple(f"{when}/{layer}" for when in ("before", "after") for _, layer in CNN_LAYERS), name="c"),
        Table(),
    ),
    about="FedAvg's features before and after a local training. The paper says: after it they gather by client, and the description "
    "of the labels becomes longer at every layer. Data set of the pictures [recalled].",
)
FIGURE3 = Artefact(
    "dbe/figure3",
    "DBE Figure 3: features of FedAvg and of DBE, before and after local training",
    rows=(row("FedAvg"), DBE),
    columns=(column("tiny", TINY_PRACTICAL, **printed(TINY_PRACTICAL)),),
    scales=FIGURE_FAST,
    views=(
        Planes(
            tuple(
                Shot(name, "tiny", layer, after, title=f"({letters[after]}) {title}, {'after' if after else 'before'}")
                for after in (False, True)  # a row of three panels each; the letters are the paper's [inferred]
                for name, layer, title, letters in (
                    ("fedavg", "features", "FedAvg", "ab"),
                    ("fedavg+dbe", "features", "DBE, generic z^g", "cd"),
                    ("fedavg+dbe", "embedded", "DBE, z with the bias", "ef"),
                )
            ),
            numbers=(_APART, "Fisher ratio of clients"),
        ),
    ),
    sources=("dbe_table5", LEADERBOARD),
    about="FedAvg's features, DBE's generic ones (z^g) and DBE's with the personal bias (z), before and after a local training. The "
    "paper says: the generic ones stay mixed over clients, those with the bias gather by client.",
)
FIGURE5 = Artefact(
    "dbe/figure5",
    "DBE Figure 5: features of the global extractor on news",
    rows=(DBE,),
    columns=(column("agnews", AGNEWS_PRACTICAL, **printed(AGNEWS_PRACTICAL)),),
    scales=scales(
        fast(
            60,
            "a part of AG News, 60 rounds, tests every 5",
            every=5,
            instead={"agnews": AGNEWS_PRACTICAL.with_("part of AG News, practical", dataset="agnews-part")},
        ),
        seeds=1,
    ),
    views=(Planes((Shot("fedavg+dbe", "agnews"),), numbers=("class separation",), named=True),),
    sources=("dbe_table5", LEADERBOARD),
    about="t-SNE of DBE's generic features of four kinds of news, coloured by kind. The paper shows four groups.",
)

FIGURE4 = Artefact(
    "dbe/figure4",
    "DBE Figure 4: objective and accuracy over rounds",
    rows=(DBE,),
    columns=(column("practical/fmnist", FMNIST_PRACTICAL, **printed(FMNIST_PRACTICAL)),),
    scales=scales(fast(100, "a quarter of the training data, 100 rounds, tests every 5", every=5, share=0.25), seeds=1),
    views=(Curves(("objective", "accuracy"), zoom=False, name=""),),
    sources=("dbe_table5", LEADERBOARD),
    about="The clients' objective, with the regularisation, and the test accuracy over rounds: no divergence. The data set is not "
    "legible in the text at hand: FMNIST [recalled].",
)

ARTEFACTS = (TABLE1, TABLE2, TABLE4, TABLE7, FIGURE1, FIGURE3, FIGURE4, FIGURE5)
