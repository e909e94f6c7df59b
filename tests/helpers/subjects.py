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

FEDGEN = {"server_steps": 4, "noise": 8, "hidden": 16}  # the real sizes only take longer
NUMBERED = {"client_permutation": "the discriminator's outputs are numbered as the clients, with weights of their own"}
VIRTUAL = {"virtual_samples": 24, "virtual_batch": 7}  # the real sizes only take longer
PLACES = {"client_permutation": "its weights belong to the places in the cohort, not to the clients"}


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
    Subject("fedgen", FEDGEN),
    Subject("per-fedavg"),
    Subject("per-fedavg", {"variant": "hf"}),
    Subject("per-fedavg", {"variant": "exact"}),
    Subject("pfedme"),
    Subject("ditto"),
    Subject("fedper"),
    Subject("fedrep"),
    Subject("fedbabu", {"tune_epochs": 2}),
    Subject("fedfomo"),
    Subject("apple"),
    Subject("fedpac"),
    Subject("fedproto"),
    Subject("gpfl"),
    *(Subject(f"gpfl/without-{part}") for part in ("pci", "cov", "gce")),
    Subject("gpfl/without-mlg"),
    Subject("fedavgft", {"tune_epochs": 2}),
    Subject("fedavgft", {"tune_epochs": 1, "tune_parts": "head"}),
    Subject("moon"),
    Subject("moon/fedbr"),
    Subject("fedcm"),
    Subject("fedcm", {"server_rate": 0.5}),
    Subject("fedcm/fedbr"),
    Subject("feddecorr"),
    Subject("fedntd"),
    Subject("afl"),
    Subject("q-ffl"),
    Subject("groupdro"),
    Subject("groupdro/fedbr", without=PLACES),
    Subject("dann", without=NUMBERED),
    Subject("dann/fedbr", {"weight": 1.0}, without=NUMBERED),
    Subject("lg-fedavg"),
    Subject("fedrod"),
    Subject("apfl"),
    Subject("apfl", {"adaptive": True}),
    Subject("apfl/platform"),
    Subject("fedphp"),
    Subject("fedphp/platform", {"weight": 0.01}),
    Subject("fedavg+dbe"),
    Subject("fedavg+dbe", {"mr_momentum": 0.1, "kappa": 1.0}),
    Subject("fedavg+prbm"),
    Subject("fedavg+mr"),
    Subject("fedprox+dbe"),
    Subject("scaffold+dbe"),
    Subject("fedgen+dbe", FEDGEN),
    Subject("ditto+mr"),
    Subject("fedper+mr"),
    Subject("fedrep+mr"),
    Subject("apfl+mr"),
    Subject("fedrod+mr"),
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
    AsFedBRsScript("moon/fedbr", moves={"clients/previous/projector": "in round 0 the place's own"}),
    AsFedBRsScript("fedcm/fedbr+mixup"),
    AsFedBRsScript("dann/fedbr", without=NUMBERED),
    AsFedBRsScript("groupdro/fedbr+mixup", without=PLACES),
    AsFedBRsScript("fedmix/fedbr"),
    AsFedBRsScript("vhl/fedbr", VIRTUAL),
    AsFedBRsScript("fedavg+fedbr", model=NORM, without=REPEATED),
    Subject("pfedfda"),
    Subject("pfedfda", {"coefficients": "none"}),
    Subject("pfedfda", {"coefficients": "separate"}),
    Subject("pfedfda", {"folds": 3, "coefficients": "separate"}),
    Subject("grp-fed"),
    Subject("grp-fed", {"discriminator_width": 7}),
    Subject("grp-fed", {"beta": 1.0, "q0": 0.0, "q_step": 0.0}),
    Subject("moon+dbe"),
    Subject("fedavg+mixup"),
    Subject("moon+mixup"),
    Subject("fedcm+mixup"),
    Subject("feddecorr+mixup"),
    Subject("fedntd+mixup"),
    Subject("groupdro+mixup"),
    Subject("fedbabu+mr", {"tune_epochs": 2}),
    Subject("fedfomo+mr"),
    Subject("fedavg", model=NORM),
    Subject("local", model=NORM),
    Subject("scaffold", model=NORM),
    Subject("ditto", model=NORM),
    Subject("fedper", model=NORM),
    Subject("fedrep", model=NORM),
    Subject("gpfl", model=NORM),
    Subject("fedavg+dbe", model=NORM),
    Subject("moon", model=NORM),
    Subject("fedcm", model=NORM),
    Subject("fedrod", model=NORM),
    Subject("apfl", model=NORM),
    Subject("dann", model=NORM, without=NUMBERED),
    Subject("afl", model=NORM),
    Subject("fedavg+mixup", model=NORM),
    Subject("fedmix", model=NORM),
    Subject("pfedfda", model=NORM),
    Subject("grp-fed", model=NORM),
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
