"""Cohorts and batch orders: fixed by (seed, round, client) and the phase's stream alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.algorithms.phases import Draw, Phase
from pflrepro.conformance import federation as made_up
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import batches, cohort, table

FEDERATION = made_up()
SETTINGS = Settings(3, batch_size=5, drop_last=False)


@given(st.integers(0, 99), st.integers(-2, 50), st.integers(1, 60), st.floats(0.001, 1.0))
def test_a_cohort_is_the_floor_of_the_share_at_least_one_without_repeats(
    seed: int, t: int, clients: int, share: float
) -> None:
    settings = Settings(50, participation=share)
    ids = cohort(seed, t, clients, settings)
    assert len(ids) == max(1, int(np.floor(share * clients + 1e-9)))
    assert (np.diff(ids) > 0).all() and ids[0] >= 0 and ids[-1] < clients
    assert (ids == cohort(seed, t, clients, settings)).all()


@pytest.mark.parametrize(
    ("clients", "share", "size"), [(20, 0.15, 3), (100, 0.29, 29), (10, 0.7, 7), (50, 0.1, 5), (3, 0.1, 1)]
)
def test_shares_that_binary_fractions_miss_still_give_whole_cohorts(clients: int, share: float, size: int) -> None:
    assert len(cohort(0, 0, clients, Settings(50, participation=share))) == size


def test_cohorts_change_with_round_and_seed_and_reach_everyone() -> None:
    settings = Settings(50, participation=0.3)
    drawn = [tuple(cohort(0, t, 20, settings)) for t in range(30)]
    assert len(set(drawn)) > 25 and set().union(*drawn) == set(range(20))
    assert drawn != [tuple(cohort(1, t, 20, settings)) for t in range(30)]
    assert cohort(0, 5, 4, Settings(50)).tolist() == [0, 1, 2, 3]


@given(st.integers(1, 9), st.integers(1, 3), st.booleans(), st.integers(0, 4), st.integers(0, 5))
def test_every_pass_sees_each_sample_once_but_for_a_dropped_rest(
    size: int, passes: int, drop: bool, client: int, t: int
) -> None:
    settings = replace(SETTINGS, batch_size=size, local_epochs=passes, drop_last=drop)
    rows = FEDERATION.rows["train"][client]
    chosen = batches(FEDERATION, Phase(), settings, 0, t, client, "s")
    whole, rest = divmod(len(rows), size)
    a_pass = whole + (0 if drop or not rest else 1)
    assert len(chosen) == passes * a_pass
    for p in range(passes):
        mine = chosen[p * a_pass : (p + 1) * a_pass]
        assert [len(batch) for batch in mine[:whole]] == [size] * whole
        seen = np.concatenate([np.zeros(0, np.int64), *mine])
        assert len(set(seen)) == len(seen) == (whole * size if drop else len(rows)) and set(seen) <= set(rows)


def test_orders_are_new_each_pass_round_client_seed_and_stream() -> None:
    def order(seed: int = 0, t: int = 0, client: int = 4, stream: str = "s") -> list[list[int]]:
        chosen = batches(FEDERATION, Phase(passes=2, batch=30), SETTINGS, seed, t, client, stream)
        return [batch.tolist() for batch in chosen]

    first, second = order()
    assert first != second and sorted(first) == sorted(second)
    assert order() == [first, second]
    others = [order(seed=1), order(t=1), order(stream="other")]
    assert all(other[0] != first for other in others) and len({str(other) for other in others}) == 3


def test_phase_overrides_the_runs_batch_passes_and_rest() -> None:
    def sizes(phase: Phase, settings: Settings = SETTINGS) -> list[int]:
        return [len(batch) for batch in batches(FEDERATION, phase, settings, 0, 0, 3, "s")]  # 9 samples

    assert sizes(Phase()) == [5, 4]
    assert sizes(Phase(batch=4)) == [4, 4, 1]
    assert sizes(Phase(batch=4, drop_last=True)) == [4, 4]
    assert sizes(Phase(drop_last=False), replace(SETTINGS, drop_last=True)) == [5, 4]
    assert sizes(Phase(passes=3)) == [5, 4] * 3
    assert sizes(Phase(passes=0)) == []
    assert sizes(Phase(passes=3, steps=4)) == [5, 4, 5, 4]
    assert sizes(Phase(data="none", steps=3)) == [0, 0, 0]


def test_a_scan_reads_everything_in_order_once_and_drops_nothing() -> None:
    chosen = batches(FEDERATION, Phase(scan=True), replace(SETTINGS, drop_last=True, local_epochs=3), 0, 0, 3, "s")
    assert np.concatenate(chosen).tolist() == FEDERATION.rows["train"][3].tolist()


def test_a_clients_batches_do_not_depend_on_who_else_takes_part() -> None:
    alone = table(FEDERATION, Phase(), SETTINGS, 2, [(0, 3)])
    among = table(FEDERATION, Phase(), SETTINGS, 2, [(0, 4), (0, 3), (1, 3)])
    steps = int(alone.steps[0])
    assert (among.index[1, :steps] == alone.index[0]).all() and (among.mask[1, :steps] == alone.mask[0]).all()
    assert not (among.index[2, :steps] == alone.index[0]).all(), "another seed has another order"


def test_a_table_is_padded_with_masked_rows() -> None:
    chosen = table(FEDERATION, Phase(), SETTINGS, 0, [(0, client) for client in range(5)])
    assert chosen.steps.tolist() == [5, 1, 3, 2, 6] and chosen.longest == 6
    assert chosen.index.shape == chosen.mask.shape == (5, 6, 5)
    assert chosen.mask.sum((1, 2)).tolist() == FEDERATION.sizes("train").tolist()
    assert (chosen.index[~chosen.mask] == 0).all()
    part = chosen.part(np.array([3, 0]))
    assert part.steps.tolist() == [2, 5] and (part.index[0] == chosen.index[3]).all()


def test_a_table_of_nobody_or_of_no_steps_is_empty() -> None:
    none = table(FEDERATION, Phase(), replace(SETTINGS, batch_size=64, drop_last=True), 0, [(0, 0), (0, 1)])
    assert none.steps.tolist() == [0, 0] and none.longest == 0 and none.index.shape == (2, 0, 0)


def test_methods_that_name_no_stream_draw_alike_and_a_prologue_draws_apart() -> None:
    keys = [(0, 4)]
    plain = table(FEDERATION, Phase(), SETTINGS, 1, keys).index
    assert (table(FEDERATION, Phase("head", train=("head",)), SETTINGS, 1, keys).index == plain).all()
    assert not (table(FEDERATION, Phase(stream="own"), SETTINGS, 1, keys).index == plain).all()
    assert not (table(FEDERATION, Phase(where="adapt"), SETTINGS, 1, keys).index == plain).all()
    assert not (table(FEDERATION, Phase(), SETTINGS, 1, keys, prefix="prologue/").index == plain).all()


def test_draws_are_tables_of_their_distribution_keyed_by_slot() -> None:
    draws = {
        "u": Draw("uniform", (400,)),
        "z": Draw("normal", (20, 20)),
        "lam": Draw("beta", (400,), (2.0, 2.0)),
        "v": Draw("uniform", (400,)),
    }
    first = table(FEDERATION, Phase(draws=draws), SETTINGS, 0, [(0, 0), (0, 1)])
    assert first.draws["z"].shape == (2, 5, 20, 20)
    used = {slot: values[0].reshape(-1) for slot, values in first.draws.items()}
    assert used["u"].min() >= 0 and used["u"].max() < 1 and abs(used["u"].mean() - 0.5) < 0.03
    assert abs(used["z"].mean()) < 0.1 and abs(used["z"].std() - 1) < 0.1
    assert abs(used["lam"].var() - 0.05) < 0.01, "beta(2, 2) has variance 1/20"
    assert not (used["u"] == used["v"]).any(), "each slot has its own stream"
    assert (first.draws["u"][1, 1:] == 0).all(), "client 1 has one step only"
    without = table(FEDERATION, Phase(draws={"u": draws["u"]}), SETTINGS, 0, [(0, 0)])
    assert (without.draws["u"][0] == first.draws["u"][0]).all(), "adding a slot shifts no other"
    assert (without.index[0] == first.index[0]).all(), "and no batch order"


# ---- the other papers' protocols -------------------------------------------------------------------------------------------------
@given(st.integers(0, 99), st.floats(0.01, 0.5), st.floats(0.5, 1.0))
def test_a_drawn_share_lies_between_its_bounds(seed: int, low: float, high: float) -> None:
    settings = Settings(50, participation=high, participation_low=low)
    sizes = {len(cohort(seed, t, 200, settings)) for t in range(20)}
    assert min(sizes) >= int(200 * low) and max(sizes) <= int(200 * high + 1e-9)
    assert settings.mean_participation == (low + high) / 2


def test_drawn_shares_spread_over_their_range() -> None:
    settings = Settings(400, participation=1.0, participation_low=0.1)
    sizes = [len(cohort(0, t, 1000, settings)) for t in range(400)]
    assert abs(np.mean(sizes) - 550) < 30 and max(sizes) > 980 and min(sizes) < 120


def test_coins_fall_independently_with_the_given_probability() -> None:
    settings = Settings(2000, participation=0.3, sampling="coins")
    drawn = [cohort(0, t, 20, settings) for t in range(2000)]
    sizes = np.array([len(ids) for ids in drawn])
    assert abs(sizes.mean() - 6) < 0.15 and abs(sizes.var() - 20 * 0.3 * 0.7) < 0.4
    assert all((np.diff(ids) > 0).all() for ids in drawn)
    often = np.bincount(np.concatenate(drawn), minlength=20) / 2000
    assert (abs(often - 0.3) < 0.05).all()


def test_a_round_without_a_fallen_coin_has_one_client() -> None:
    settings = Settings(200, participation=1e-6, sampling="coins")
    drawn = [cohort(0, t, 5, settings).tolist() for t in range(200)]
    assert {len(ids) for ids in drawn} == {1} and {ids[0] for ids in drawn} == set(range(5))


def test_everybody_closes() -> None:
    settings = Settings(4, participation=0.2, sampling="coins", closing=True)
    assert [len(cohort(0, t, 30, settings)) == 30 for t in range(4)] == [False, False, False, True]


def test_local_steps_draw_full_batches_with_replacement() -> None:
    settings = replace(SETTINGS, local_steps=7, drop_last=True)
    for client in range(5):  # whatever their sizes
        chosen = batches(FEDERATION, Phase(), settings, 0, 1, client, "s")
        assert [len(batch) for batch in chosen] == [5] * 7
        assert np.isin(np.concatenate(chosen), FEDERATION.rows["train"][client]).all()
    three = FEDERATION.rows["train"][1]
    assert len(three) == 3 and set(np.concatenate(batches(FEDERATION, Phase(), settings, 0, 1, 1, "s"))) == set(three)
    with_passes = batches(FEDERATION, Phase(passes=1), settings, 0, 1, 0, "s")
    assert len(with_passes) == len(FEDERATION.rows["train"][0]) // 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"participation": 0.5, "participation_low": 0.6}, "lowest participation must be .*0.5"),
        ({"sampling": "coin"}, "unknown sampling 'coin'; valid: coins, number"),
        ({"local_steps": -1}, "local steps"),
        ({"augment": "flip"}, "unknown augmentation 'flip'; valid: crop-flip, none"),
    ],
)
def test_impossible_protocols_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Settings(3, **changes)


def test_a_batch_fits_a_client_with_fewer_samples() -> None:
    settings = replace(SETTINGS, batch_size=8, drop_last=True, fit_batch=True)
    sizes = [[len(batch) for batch in batches(FEDERATION, Phase(), settings, 0, 1, client, "s")] for client in range(5)]
    held = [len(rows) for rows in FEDERATION.rows["train"]]
    assert sizes == [[min(8, n)] * (n // min(8, n)) for n in held] and min(held) < 8


def test_a_method_s_cap_on_steps_holds_for_drawn_batches_too() -> None:
    settings = replace(SETTINGS, local_steps=7)
    assert len(batches(FEDERATION, Phase(steps=4), settings, 0, 1, 0, "s")) == 4
