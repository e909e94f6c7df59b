"""Every row of the table of methods (`helpers.subjects`) goes through every check of `pflrepro.conformance`."""

from __future__ import annotations

import pytest
from helpers import golden
from helpers.subjects import ROWS, rows

from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS
from pflrepro.conformance import CHECKS, Subject
from pflrepro.conformance.checks import TOLERANCES, same_runs
from pflrepro.conformance.subject import run


@pytest.fixture(scope="module")
def current() -> list[Subject]:
    """The row whose runs are kept: the checks of a row follow each other and share them."""
    return []


@pytest.mark.parametrize("check", [*CHECKS, "numbers_change_only_with_a_revision"])
@pytest.mark.parametrize("subject", rows())
def test_conformance(subject: Subject, check: str, current: list[Subject]) -> None:
    if current and current[0] is not subject:
        current.pop().forget()
    current[:] = [subject]
    if check in subject.without:
        pytest.skip(subject.without[check])
    ALL[check](subject)


@pytest.mark.gpu
@pytest.mark.parametrize("subject", rows())
def test_captured_graphs_on_a_gpu_give_the_processors_numbers(subject: Subject) -> None:
    expected = run(subject.simulation(), 2)
    found = run(subject.simulation("graph", device="cuda"), 2)
    same_runs(found, expected, "a GPU's graphs are not the loop", TOLERANCES["float64"])


def numbers_change_only_with_a_revision(subject: Subject) -> None:
    key, found = golden.key(subject), golden.numbers(subject)
    advice = "raise the engine's or the method's revision if the change is meant, then: python tests/helpers/golden.py"
    assert key in golden.recorded(), f"no numbers are recorded of {key}: {advice}"
    pinned = golden.recorded()[key]
    assert found == {name: pytest.approx(value, rel=0, abs=1e-6) for name, value in pinned.items()}, f"{key}: {advice}"


ALL = CHECKS | {"numbers_change_only_with_a_revision": numbers_change_only_with_a_revision}


def test_the_table_holds_every_method_and_every_combination_of_the_papers() -> None:
    wanted = set(ALGORITHMS) | {f"{host}+{name}" for name, plugin in PLUGINS.items() for host in plugin.hosts}
    assert wanted <= {subject.source for subject in ROWS}


def test_no_numbers_are_kept_of_rows_that_are_gone() -> None:
    assert set(golden.recorded()) == {golden.key(subject) for subject in ROWS}
