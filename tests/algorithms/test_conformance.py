"""The one table of methods: every row goes through every check of `pflrepro.conformance`."""

from __future__ import annotations

import pytest

from pflrepro.algorithms.registry import ALGORITHMS, PLUGINS
from pflrepro.conformance import CHECKS, Subject

NORM = "cnn-digits-bn"  # one method a family also on a small network with batch norm

ROWS = [
    Subject("fedavg"),
    Subject("local"),
    Subject("fedprox"),
    Subject("scaffold"),
    Subject("fedgen"),
    Subject("per-fedavg"),
    Subject("pfedme"),
    Subject("ditto"),
    Subject("fedper"),
    Subject("fedrep"),
    Subject("fedbabu"),
    Subject("fedfomo"),
    Subject("apple"),
    Subject("fedpac"),
    Subject("fedproto", moves={"server/params/prototypes": "means of features, gathered and not learned"}),
    Subject("gpfl"),
    Subject("gpfl", {"conditions": "received", "magnitude": "sample", "average_condition": True}),
    Subject("fedavg+dbe"),
    Subject("fedavg+dbe", {"mr_momentum": 0.1, "kappa": 1.0}),
    Subject("fedavg+prbm"),
    Subject("fedavg+mr"),
    Subject("fedprox+dbe"),
    Subject("scaffold+dbe"),
    Subject("fedgen+dbe"),
    Subject("ditto+mr"),
    Subject("fedper+mr"),
    Subject("fedrep+mr"),
    Subject("fedbabu+mr"),
    Subject("fedfomo+mr"),
    Subject("fedavg", model=NORM),
    Subject("local", model=NORM),
    Subject("scaffold", model=NORM),
    Subject("ditto", model=NORM),
    Subject("fedper", model=NORM),
    Subject("fedrep", model=NORM),
    Subject("gpfl", model=NORM),
    Subject("fedavg+dbe", model=NORM),
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
