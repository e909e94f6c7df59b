"""The one table of methods: every row goes through every check of `pflrepro.conformance`."""

from __future__ import annotations

import pytest

from pflrepro.algorithms.registry import ALGORITHMS, PLUGINS
from pflrepro.conformance import CHECKS, Subject

NORM = "cnn-digits-bn"  # one method a family also on a small network with batch norm

# Entries of a state that a learning rate of 0 does not hold still: what was gathered, counted or estimated.
ZBAR = {"server/zbar": "the mean of the features"}
GPFL = {
    "server/t": "the number of rounds",
    "server/previous": "the embeddings of the round before",
    "clients/seen": "the round of the last training",
    "clients/condition": "computed from the embeddings and the class shares",
}
FEDGEN = {"form": "simplified", "server_steps": 4, "noise": 8, "hidden": 16}  # the real sizes only take longer
OFFICIAL = FEDGEN | {"form": "official"}
ADAM = {"server/adam": "moments of gradients"}
PROTOTYPES = {"server/params/prototypes": "means of features"}
PAC = {"server/centroids": "means of features", "server/present": "classes seen"}
FOMO = {"server/P": "preferences", "server/models": "starts empty"}

ROWS = [
    Subject("fedavg"),
    Subject("local"),
    Subject("fedprox"),
    Subject("scaffold"),
    Subject("fedgen", FEDGEN, zero_rate={"generator_rate": 0.0}, moves=ADAM),
    Subject("fedgen", OFFICIAL, zero_rate={"generator_rate": 0.0}, moves=ADAM),
    Subject("per-fedavg"),
    Subject("pfedme", zero_rate={"personal_rate": 0.0}),
    Subject("ditto"),
    Subject("fedper"),
    Subject("fedrep"),
    Subject("fedbabu", {"tune_epochs": 2}),
    Subject("fedfomo", moves=FOMO),
    Subject("apple", zero_rate={"weight_rate": 0.0}, moves={"server/strength": "the weight of the loss scheduler"}),
    Subject("fedpac", zero_rate={"head_rate": 0.0}, moves=PAC),
    Subject("fedproto", moves=PROTOTYPES),
    Subject("gpfl", moves=GPFL),
    Subject("gpfl", {"conditions": "received", "magnitude": "sample", "average_condition": True}),
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
]


@pytest.fixture(scope="module")
def current() -> list[Subject]:
    """The row whose runs are kept: the checks of a row follow each other and share them."""
    return []


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("subject", ROWS, ids=str)
def test_conformance(subject: Subject, check: str, current: list[Subject]) -> None:
    if current and current[0] is not subject:
        current.pop().forget()
    current[:] = [subject]
    if check in subject.without:
        pytest.skip(subject.without[check])
    CHECKS[check](subject)


def test_the_table_holds_every_method_and_every_combination_of_the_papers() -> None:
    wanted = set(ALGORITHMS) | {f"{host}+{name}" for name, plugin in PLUGINS.items() for host in plugin.hosts}
    assert wanted <= {subject.source for subject in ROWS}
