"""The one table of methods: rows for the conformance suite and for what else every method must keep."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from pflrepro.conformance import Subject, federation
from pflrepro.data.federation import Federation
from pflrepro.experiments.config import Experiment
from pflrepro.simulation import Simulation

NORM = "cnn-digits-bn"  # one method a family also on a small network with batch norm

# Entries of a state that a learning rate of 0 does not hold still: what was gathered, counted or estimated.
ZBAR = {"server/zbar": "the mean of the features"}
GPFL = {
    "server/t": "the number of rounds",
    "server/previous": "the embeddings of the round before",
    "clients/seen": "the round of the last training",
    "clients/condition": "computed from the embeddings and the class shares",
}
FEDGEN = {"server_steps": 4, "noise": 8, "hidden": 16}  # the real sizes only take longer
ADAM = {"server/adam": "moments of gradients"}
PROTOTYPES = {"server/params/prototypes": "means of features"}
PAC = {"server/centroids": "means of features", "server/present": "classes seen"}
STRENGTH = {"server/strength": "the weight of the loss scheduler"}
FOMO = {"server/P": "preferences", "server/models": "starts empty"}

NUMBERED = {"client_permutation": "the discriminator's outputs are numbered as the clients, with weights of their own"}
AFL_WEIGHTS = {"server/weights": "the mixture over clients"}
DRO_WEIGHTS = {"server/log_weights": "the weights of the clients"}
COUNT = {"clients/count": "the rounds taken part in"}
VIRTUAL = {"virtual_samples": 24, "virtual_batch": 7}  # the real sizes only take longer
PLACES = {"client_permutation": "its weights belong to the places in the cohort, not to the clients"}
SEEN = {"clients/seen": "whether the client has taken part"}
FDA = {
    "server/mu": "means of features",
    "server/sigma": "covariance of features",
    "clients/beta": "the last interpolation",
}
GRP = {
    "server/q": "the power",
    "server/spread": "the spread of the losses",
    "server/started": "whether a round has been closed",
}


class WithProxy(Subject):
    """A method on clients that are handed data of another origin."""

    def simulation(self, *args: Any, **changes: Any) -> Simulation:
        x = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(3))
        clients = copy.copy(federation())
        clients.proxy = Federation(x, torch.arange(12) % 3, [np.arange(12)], [[]])
        return super().simulation(*args, **{"federation": clients} | changes)


class AsFedBRsScript(Subject):
    """A method in FedBR's released rounds: first models by place, one step in round 0, uniform weights."""

    def simulation(self, *args: Any, **changes: Any) -> Simulation:
        rounds = {"first_steps": 1, "local_steps": 3, "first_weights": "slots", "weights": "uniform"}
        return super().simulation(*args, **rounds | changes)

    def __str__(self) -> str:
        return f"{super().__str__()} in FedBR's script"


# A batch drawn with replacement from one sample: behind batch norm its features are 0 but for rounding, where ReLU has its kink.
REPEATED = {"clients_without_data": "one sample repeated has no variance: its gradient is the sign of a rounding error"}
NO_PROXY = {"client_permutation": "its renumbered supply is made without proxy data"}
ROWS = [
    Subject("fedavg"),
    Subject("local"),
    Subject("fedprox"),
    Subject("scaffold"),
    Subject("fedgen", FEDGEN, zero_rate={"generator_rate": 0.0}, moves=ADAM),
    Subject("per-fedavg"),
    Subject("per-fedavg", {"variant": "hf"}),
    Subject("per-fedavg", {"variant": "exact"}),
    Subject("pfedme", zero_rate={"personal_rate": 0.0}),
    Subject("ditto"),
    Subject("fedper"),
    Subject("fedrep"),
    Subject("fedbabu", {"tune_epochs": 2}),
    Subject("fedfomo", moves=FOMO),
    Subject("apple", zero_rate={"weight_rate": 0.0}, moves=STRENGTH),
    Subject("fedpac", zero_rate={"head_rate": 0.0}, moves=PAC),
    Subject("fedproto", moves=PROTOTYPES),
    Subject("gpfl", moves=GPFL),
    *(Subject(f"gpfl/without-{part}") for part in ("pci", "cov", "gce")),
    Subject("gpfl/without-mlg", moves=GPFL),
    Subject("fedavgft", {"tune_epochs": 2}),
    Subject("fedavgft", {"tune_epochs": 1, "tune_parts": "head"}),
    Subject("moon", moves=SEEN),
    Subject("moon/fedbr", moves=SEEN),
    Subject("fedcm"),
    Subject("fedcm", {"server_rate": 0.5}),
    Subject("fedcm/fedbr"),
    Subject("feddecorr"),
    Subject("fedntd"),
    Subject("afl", moves=AFL_WEIGHTS),
    Subject("q-ffl"),
    Subject("groupdro", moves=DRO_WEIGHTS),
    Subject("groupdro/fedbr", moves=DRO_WEIGHTS, without=PLACES),
    Subject("dann", without=NUMBERED),
    Subject("dann/fedbr", {"weight": 1.0}, without=NUMBERED),
    Subject("lg-fedavg"),
    Subject("fedrod"),
    Subject("apfl"),
    Subject("apfl", {"adaptive": True}),
    Subject("apfl/platform"),
    Subject("fedphp", moves=COUNT),
    Subject("fedphp/platform", {"weight": 0.01}, moves=COUNT),
    Subject("fedavg+dbe", moves=ZBAR),
    Subject("fedavg+dbe", {"mr_momentum": 0.1, "kappa": 1.0}, moves=ZBAR),
    Subject("fedavg+prbm"),
    Subject("fedavg+mr", moves=ZBAR),
    Subject("fedprox+dbe", moves=ZBAR),
    Subject("scaffold+dbe", moves=ZBAR),
    Subject("fedgen+dbe", FEDGEN, zero_rate={"generator_rate": 0.0}, moves=ADAM | ZBAR),
    Subject("ditto+mr", moves=ZBAR),
    Subject("fedper+mr", moves=ZBAR),
    Subject("fedrep+mr", moves=ZBAR),
    Subject("apfl+mr", moves=ZBAR),
    Subject("fedrod+mr", moves=ZBAR),
    Subject("fedmix"),
    Subject("fedmix/fedbr", {"samples": 3}),
    Subject("vhl", VIRTUAL),
    Subject("vhl/fedbr", VIRTUAL),
    Subject("fedavg+fedbr"),
    Subject("fedavg+fedbr", {"pseudo_refresh": "once", "pseudo_balanced": True}),
    Subject("fedavg+fedbr", {"max_step": False}),
    WithProxy("fedavg+fedbr", {"pseudo": "proxy", "pseudo_samples": 8}, without=NO_PROXY),
    WithProxy("fedavg+fedbr", {"pseudo": "mixture"}, without=NO_PROXY),
    Subject("fedcm+fedbr"),
    Subject("feddecorr+fedbr"),
    Subject("fedntd+fedbr"),
    Subject("fedavg+mixup+fedbr"),
    Subject("fedcm+mixup+fedbr"),
    Subject("feddecorr+mixup+fedbr"),
    Subject("fedntd+mixup+fedbr"),
    Subject("vhl+mixup", VIRTUAL),
    Subject("vhl/fedbr+mixup", VIRTUAL),
    AsFedBRsScript("fedavg"),
    AsFedBRsScript("scaffold"),
    AsFedBRsScript("fedavg+mixup+fedbr"),
    AsFedBRsScript("moon/fedbr", moves=SEEN | {"clients/previous/projector": "in round 0 the place's own"}),
    AsFedBRsScript("fedcm/fedbr+mixup"),
    AsFedBRsScript("dann/fedbr", without=NUMBERED),
    AsFedBRsScript("groupdro/fedbr+mixup", moves=DRO_WEIGHTS, without=PLACES),
    AsFedBRsScript("fedmix/fedbr"),
    AsFedBRsScript("vhl/fedbr", VIRTUAL),
    AsFedBRsScript("fedavg+fedbr", model=NORM, without=REPEATED),
    Subject("pfedfda", moves=FDA),
    Subject("pfedfda", {"coefficients": "none"}, moves=FDA),
    Subject("pfedfda", {"coefficients": "separate"}, moves=FDA),
    Subject("pfedfda", {"beta_search": "code", "folds": 3, "coefficients": "separate"}, moves=FDA),
    Subject("grp-fed", moves=GRP),
    Subject("grp-fed", {"discriminator_width": 7}, moves=GRP),
    Subject("grp-fed", {"beta": 1.0, "q0": 0.0, "q_step": 0.0}, moves=GRP),
    Subject("moon+dbe", moves=ZBAR | SEEN),
    Subject("fedavg+mixup"),
    Subject("moon+mixup", moves=SEEN),
    Subject("fedcm+mixup"),
    Subject("feddecorr+mixup"),
    Subject("fedntd+mixup"),
    Subject("groupdro+mixup", moves=DRO_WEIGHTS),
    Subject("fedbabu+mr", {"tune_epochs": 2}, moves=ZBAR),
    Subject("fedfomo+mr", moves=FOMO | ZBAR),
    Subject("fedavg", model=NORM),
    Subject("local", model=NORM),
    Subject("scaffold", model=NORM),
    Subject("ditto", model=NORM),
    Subject("fedper", model=NORM),
    Subject("fedrep", model=NORM),
    Subject("gpfl", model=NORM, moves=GPFL),
    Subject("fedavg+dbe", model=NORM, moves=ZBAR),
    Subject("moon", model=NORM, moves=SEEN),
    Subject("fedcm", model=NORM),
    Subject("fedrod", model=NORM),
    Subject("apfl", model=NORM),
    Subject("dann", model=NORM, without=NUMBERED),
    Subject("afl", model=NORM, moves=AFL_WEIGHTS),
    Subject("fedavg+mixup", model=NORM),
    Subject("fedmix", model=NORM),
    Subject("pfedfda", model=NORM, moves=FDA),
    Subject("grp-fed", model=NORM, moves=GRP),
    Subject("vhl", VIRTUAL, model=NORM),
    Subject("fedavg+fedbr", model=NORM),
]


def plain(subject: Subject) -> bool:
    """Whether it is its method in the plainest form of the table: the small network, fewest options, a plug-in alone on FedAvg.

    The others are variants: a departure that a printed cell needs (`moon/fedbr`), plug-ins on further hosts or together.
    """
    host, *plugins = subject.source.split("+")
    if "/" in host or len(plugins) > 1 or (plugins and host != "fedavg"):
        return False
    forms = [row for row in ROWS if row.source == subject.source and row.model != NORM]
    return subject is min(forms, key=lambda row: len(row.options))


def rows() -> list[Any]:
    """The table for `parametrize`; variants run with `make test-all`."""
    return [pytest.param(row, id=str(row), marks=() if plain(row) else pytest.mark.variant) for row in ROWS]


def experiment(subject: Subject, **changes: Any) -> Experiment:
    """Five clients of the embedded digits, a tenth of their training samples, two or three of them a round."""
    asked = {"clients": 5, "partition": "dirichlet:0.5+train-share=0.1", "participation": 0.6, "rounds": 6, "lr": 0.05}
    given = {"proxy": "digits"} if isinstance(subject, WithProxy) else {}
    options = subject.options.items()
    return Experiment.for_dataset(
        subject.source, "digits", model=subject.model, options=options, **(asked | given | changes)
    )
