"""Intervals and tests of claims: by hand, against SciPy, and where nothing can be said."""

import math

import numpy as np
import pytest
from scipy import stats

from pflrepro.metrics.comparison import paired
from pflrepro.metrics.intervals import bootstrap, over_clients
from pflrepro.papers import evidence
from pflrepro.papers.artefact import Artefact, Claim, Column, Row, Scale
from pflrepro.papers.finished import Trials, trials
from pflrepro.papers.verdicts import ClaimCounts, count_claims

SAMPLES = np.array([10, 30, 60])


def cell(*values, seeds=None, samples=SAMPLES):
    """A cell whose seeds have these accuracies in percent, in the same shares on all clients."""
    correct = tuple(value / 100 * samples for value in values)
    return Trials(tuple(seeds or range(len(values))), np.array(values, float), correct, (samples,) * len(values))


def artefact(*claims):
    rows = (Row("A", "a"), Row("B", "b"), Row("C", "c"))
    columns = (Column("x", "X", "digits", "mlp", "iid"), Column("y", "Y", "digits", "mlp", "iid"))
    return Artefact("p/t", "p", "T", "table", "p/t.ipynb", rows, columns, (Scale("fast", "", 1, 1),), claims=claims)


def checked(claims, **cells):
    """Outcomes; a cell is named `a_x`: method and column."""
    return evidence.check_claims(artefact(*claims), {tuple(name.split("_")): found for name, found in cells.items()})


def test_the_interval_is_student_s_below_ten_seeds_and_a_bootstrap_from_ten_on():
    values = [70.0, 71.0, 72.5, 69.0, 70.5, 71.5, 73.0, 70.0, 71.0]
    wanted = stats.ttest_1samp(values, 0).confidence_interval()
    assert evidence.interval(cell(*values)) == (pytest.approx(wanted.low), pytest.approx(wanted.high), "t, 9 seeds")
    ten = [*values, 72.0]
    wanted = bootstrap(ten)
    assert evidence.interval(cell(*ten)) == (wanted.low, wanted.high, "bootstrap, 10 seeds")


def test_one_seed_has_the_interval_over_its_tested_clients():
    correct, samples = np.array([9.0, 12.0, 0.0, 50.0]), np.array([10, 30, 0, 60])
    one = Trials((4,), np.array([71.0]), (correct,), (samples,))
    wanted = over_clients(correct, samples)
    assert evidence.interval(one) == (100 * wanted.low, 100 * wanted.high, "bootstrap, 3 clients")
    alone = Trials((4,), np.array([90.0]), (correct[:1],), (samples[:1],))
    low, high, what = evidence.interval(alone)
    assert math.isnan(low) and math.isnan(high) and what == ""


def test_an_interval_ends_at_0_and_100_percent():
    assert evidence.interval(cell(99.0, 99.8))[1] == 100.0
    assert evidence.interval(cell(1.0, 0.2))[0] == 0.0


def test_trials_take_the_selected_evaluations(store):
    run = store.add("fedavg", [10, 84, 60, 80], seed=3)
    (best, mean) = (trials([run], rule) for rule in ("best_round", "mean_best_2"))
    assert (best.seeds, best.values.tolist()) == ((3,), [84.0])
    assert best.correct[0].tolist() == [25, 59]
    assert mean.values.tolist() == [82.0]
    assert mean.correct[0].tolist() == [24.5, 57.5]
    assert best.samples[0].tolist() == [30, 70]


def test_claims_are_checked_only_where_both_rows_were_run():
    cells = {"a_x": cell(80), "b_x": cell(70), "a_y": cell(80)}
    found = checked([Claim("a", "b", source="s")], **cells)
    assert [(claim.column, claim.better, claim.worse, claim.difference, claim.source) for claim in found] == [
        ("x", "A", "B", 10, "s")
    ]
    assert checked([Claim("a", "b", columns=("y",))], **cells) == []


def test_seeds_are_paired_and_the_t_test_decides():
    """Seeds differ by ten points, the methods by about two in every seed: paired it is decided, unpaired it would not be."""
    a, b = [72.0, 82.3, 61.9, 92.1], [70.0, 80.0, 60.0, 90.0]
    (kept,) = checked([Claim("a", "b")], a_x=cell(*a), b_x=cell(*b))
    wanted = stats.ttest_rel(a, b)
    assert (kept.p, kept.adjusted) == pytest.approx((wanted.pvalue, wanted.pvalue))
    assert kept.difference / kept.error == pytest.approx(wanted.statistic)
    assert (kept.outcome, kept.test) == ("kept", "paired t over 4 seeds")
    assert stats.ttest_ind(a, b).pvalue > 0.5
    (broken,) = checked([Claim("b", "a")], a_x=cell(*a), b_x=cell(*b))
    assert (broken.outcome, broken.p) == ("broken", kept.p)


def test_only_common_seeds_are_compared():
    first, second = cell(72, 75, 90, seeds=(0, 1, 2)), cell(70, 72.5, seeds=(1, 0))
    (found,) = checked([Claim("a", "b")], a_x=first, b_x=second)
    wanted = stats.ttest_rel([72, 75], [72.5, 70])
    assert found.difference == pytest.approx((-0.5 + 5) / 2)
    assert found.p == pytest.approx(wanted.pvalue)
    (none,) = checked([Claim("a", "b")], a_x=first, b_x=cell(70, seeds=(7,)))
    assert (none.outcome, none.test, none.difference) == ("undecided", "none: no common seed", pytest.approx(9.0))
    assert math.isnan(none.p) and math.isnan(none.adjusted)


def test_equal_differences_of_few_seeds_prove_nothing():
    """Two seeds with the same difference have no spread, so t would be infinite; signs over seeds give p = 1/2."""
    (two,) = checked([Claim("a", "b")], a_x=cell(72.2, 82.4), b_x=cell(70.1, 80.3))
    assert (two.outcome, two.p, two.test) == ("undecided", 0.5, "sign flips over 2 seeds")
    many = [70.1 + seed for seed in range(6)]
    (six,) = checked([Claim("a", "b")], a_x=cell(*(value + 2 for value in many)), b_x=cell(*many))
    assert (six.outcome, six.p) == ("kept", 2**-5)
    (none,) = checked([Claim("a", "b")], a_x=cell(70, 71), b_x=cell(70, 71))
    assert (none.outcome, none.p, none.difference) == ("undecided", 1.0, 0.0)


def test_one_seed_is_tested_over_clients():
    samples = np.array([20, 20, 40, 40, 10, 10, 60])
    better = np.array([18.0, 17.0, 37.0, 36.0, 9.0, 9.0, 51.0])
    worse = np.array([15.0, 16.0, 30.0, 31.0, 7.0, 5.0, 43.0])
    cells = [Trials((0,), np.array([100 * c.sum() / 200]), (c,), (samples,)) for c in (better, worse)]
    (found,) = checked([Claim("a", "b")], a_x=cells[0], b_x=cells[1])
    assert found.difference == pytest.approx(15.0)
    assert math.isnan(found.error)
    # All seven clients are better off: of 2^7 patterns of signs two are as extreme.
    assert found.p == found.p_clients == 2**-6
    assert (found.outcome, found.test) == ("kept", "sign flips over 7 clients")
    few = [Trials((0,), t.values, (t.correct[0][:5],), (samples[:5],)) for t in cells]
    assert checked([Claim("a", "b")], a_x=few[0], b_x=few[1])[0].outcome == "undecided"  # 2^-4 at best


def test_other_clients_cannot_be_paired():
    (found,) = checked([Claim("a", "b")], a_x=cell(90), b_x=cell(10, samples=SAMPLES[::-1]))
    assert (found.outcome, found.test) == ("undecided", "none: other clients")
    (seeds,) = checked([Claim("a", "b")], a_x=cell(90, 91.5), b_x=cell(10, 11, samples=SAMPLES[::-1]))
    assert seeds.outcome == "kept" and math.isnan(seeds.p_clients)


def test_p_over_clients_is_of_the_mean_over_seeds_and_decides_nothing():
    rng = np.random.default_rng(0)
    samples = np.full(20, 50)
    better = [rng.integers(30, 50, 20).astype(float) for _ in range(3)]
    worse = [counts - shift for counts, shift in zip(better, (12.0, 1.0, 3.0), strict=True)]
    cells = [
        Trials((0, 1, 2), np.array([100 * c.sum() / 1000 for c in side]), tuple(side), (samples,) * 3)
        for side in (better, worse)
    ]
    (found,) = checked([Claim("a", "b")], a_x=cells[0], b_x=cells[1])
    assert found.p_clients == paired(np.mean(better, 0), np.mean(worse, 0), "permutation").p < 1e-4
    assert found.p > 0.05
    assert found.outcome == "undecided"


def test_an_ordering_s_own_p_decides_and_holm_s_over_all_claims_tells_what_is_firm():
    """Three seeds, by hand: with two degrees of freedom p = 1 - t / sqrt(t^2 + 2), and t^2 = n mean^2 / s^2."""
    a, b, c = (70.0, 72.0, 71.0), (68.0, 70.1, 69.2), (60.0, 61.0, 66.0)
    cells = {"a_x": cell(*a), "b_x": cell(*b), "c_x": cell(*c), "a_y": cell(*c), "b_y": cell(*b)}
    claims = [Claim("a", "b"), Claim("a", "c")]
    found = checked(claims, **cells)
    assert [(claim.column, claim.worse) for claim in found] == [("x", "B"), ("x", "C"), ("y", "B")]
    # Differences (2, 1.9, 1.8), (10, 11, 5), (-8, -9.1, -3.2): variances 0.01, 31 / 3 and (157.05 - 20.3^2 / 3) / 2.
    squares = [3 * 1.9**2 / 0.01, 3 * (26 / 3) ** 2 / (31 / 3), 3 * (20.3 / 3) ** 2 / ((157.05 - 20.3**2 / 3) / 2)]
    raw = [1 - math.sqrt(square / (square + 2)) for square in squares]
    assert [claim.p for claim in found] == pytest.approx(raw)
    assert [claim.adjusted for claim in found] == pytest.approx([3 * raw[0], 2 * raw[1], 2 * raw[1]])
    assert [(claim.outcome, claim.firm) for claim in found] == [("kept", True), ("kept", False), ("undecided", False)]
    assert found[1].p == pytest.approx(0.0429, abs=5e-5)
    assert count_claims(found) == ClaimCounts(kept=2, kept_firm=1, undecided=1, tests=3)
    (alone,) = checked(claims[1:], a_x=cells["a_x"], c_x=cells["c_x"])
    assert (alone.p, alone.adjusted, alone.firm) == (found[1].p, found[1].p, True)


def test_the_tests_of_the_family_are_those_that_could_be_made():
    first, other = cell(72, 82.3, 61.9), cell(70, 80, 60, seeds=(5, 6, 7))
    claims = [Claim("b", "a"), Claim("a", "c")]
    found = checked(claims, a_x=first, b_x=cell(70, 80, 60), c_x=other)
    assert [(claim.outcome, claim.firm) for claim in found] == [("broken", True), ("undecided", False)]
    assert found[0].adjusted == found[0].p
    assert count_claims(found) == ClaimCounts(broken=1, broken_firm=1, undecided=1, tests=1)


def test_how_many_standard_errors_decide():
    """With one degree of freedom t = tan(pi (1 - alpha) / 2), with two t = (1 - a) sqrt(2 / (a (2 - a)))."""
    assert evidence.t_needed(2) == pytest.approx(math.tan(math.pi * 0.95 / 2))
    family = 0.05 / 80
    assert evidence.t_needed(3, tests=80) == pytest.approx((1 - family) * math.sqrt(2 / (family * (2 - family))))
