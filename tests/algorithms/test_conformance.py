"""Every row of the table of methods (`helpers.subjects`) goes through every check of `pflrepro.conformance`."""

from __future__ import annotations

import pytest
from helpers.subjects import ROWS, rows

from pflrepro.algorithms.registry import ALGORITHMS, PLUGINS
from pflrepro.conformance import CHECKS, Subject


@pytest.fixture(scope="module")
def current() -> list[Subject]:
    """The row whose runs are kept: the checks of a row follow each other and share them."""
    return []


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("subject", rows())
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
