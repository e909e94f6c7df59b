"""A first round of its own: fewer steps, and first models of their own by place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pflrepro.algorithms import build_method
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.settings import Settings
from pflrepro.simulation.loop import Loop
from pflrepro.trees import Tree

SLOTS = {"first_weights": "slots"}
RELEASED = SLOTS | {"first_steps": 1, "local_steps": 4, "drop_last": True, "weights": "uniform"}


# ---- steps -------------------------------------------------------------------------------------------------------------------------
def test_only_the_training_of_round_0_has_the_first_steps(start) -> None:
    """The tuning before a test keeps the run's number, and so does what methods know of the run."""
    method = build_method("fedavgft", {"tune_epochs": 2})
    simulation = start(method, receivers="selected", first_steps=2, local_steps=5)
    dispatcher, program = simulation.dispatcher, simulation.dispatcher.program(Loop())
    ids = np.arange(5)
    expected = {0: 2, 1: 5}
    for t, steps in expected.items():
        clock = dispatcher.clock(t)
        launch = dispatcher.launch(program, clock, [ids], program.phases(clock))
        assert launch.tables[0].steps.tolist() == [steps] * 5 == launch.rows.steps.train.tolist()
        tuned = [
            launch.adapt_tables[0],
            dispatcher.test_launch(program, simulation.replicas[0], clock, ids).adapt_tables[0],
        ]
        assert [table.steps.tolist() for table in tuned] == [[10, 2, 6, 4, 12]] * 2, "two passes, as ever"
        assert clock.local_steps == steps and simulation.task.local_steps == 5
    same = start(method, local_steps=5).dispatcher
    whole = same.launch(same.program(Loop()), same.clock(0), [ids], method.phases(same.clock(0)))
    first = dispatcher.launch(program, dispatcher.clock(0), [ids], program.phases(dispatcher.clock(0)))
    assert np.array_equal(first.tables[0].index, whole.tables[0].index[:, :2]), (
        "the first of the steps that it would take"
    )


def test_a_first_round_of_so_many_steps_is_that_of_a_run_of_so_many(simulate, differ) -> None:
    for method in ("fedavg", "dann", "fedavg+fedbr"):
        few, first = (
            simulate(build_method(method), rounds=1, **steps).replicas[0].server
            for steps in ({"local_steps": 1}, {"local_steps": 4, "first_steps": 1})
        )
        assert differ(few, first) == 0, method


def test_there_are_no_more_first_steps_than_steps() -> None:
    for steps in (0, 2):
        with pytest.raises(UserError, match=f"first_steps is at most local_steps, {steps}, not 3"):
            Settings(2, local_steps=steps, first_steps=3)
    settings = Settings(2, local_steps=3, first_steps=3)
    assert settings.at(0) == settings and Settings(2).at(0) == Settings(2)
    assert [Settings(2, local_steps=3, first_steps=1).at(t).local_steps for t in (-1, 0, 1)] == [3, 1, 3]


# ---- weights -----------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def three(federation) -> Federation:
    """Three of the made-up clients, of 24, 14 and 9 samples."""
    train, test = ([federation.rows[split][i] for i in (0, 2, 3)] for split in ("train", "test"))
    return Federation(federation.x, federation.y, train, test, classes=federation.classes)


@pytest.mark.parametrize("backend", ["loop", "batched", "graph"])
def test_by_hand(three, simulate, differ, backend: str) -> None:
    """A step on all samples of each client: w^1 = w^0 - eta sum_i p_i grad f_i(v_k), k its place; the next ones are FedAvg's."""
    settings = {"federation": three, "batch_size": 100, "backend": backend} | SLOTS
    runs = [simulate(build_method("fedavg"), rounds=rounds, **settings) for rounds in (0, 1, 2)]
    start, first, second = (run.replicas[0].server.params for run in runs)
    dispatcher, ids = runs[0].dispatcher, np.arange(3)
    places = dispatcher.participants(runs[0].replicas[0], ids, 0).slot.tolist()
    assert sorted(places) == [0, 1, 2]

    def mean_gradient(models: list[Tree]) -> Tree:
        total = start.map(torch.zeros_like)
        for i, model in enumerate(models):
            network = nn.ModuleDict(dict(zip(("base", "head"), _parts(), strict=True))).double()
            network.load_state_dict({path.replace("/", "."): value for path, value in model.flat().items()})
            x, y = three.batch(torch.as_tensor(three.rows["train"][i]), torch.float64)
            F.cross_entropy(network["head"](network["base"](x)), y).backward()
            grads = {name.replace(".", "/", 1): p.grad for name, p in network.named_parameters()}
            total = total + (len(y) / 47) * Tree.of_paths(grads)
        return total

    own = [_drawn(f"weights/slot{place}/model") for place in places]
    assert differ(start, _drawn("weights/model")) == 0
    assert differ(first, start - 0.05 * mean_gradient(own)) < 1e-12
    assert differ(second, first - 0.05 * mean_gradient([first] * 3)) < 1e-12
    assert differ(start - 0.05 * mean_gradient([start] * 3), first) > 1e-4


def _parts() -> tuple[nn.Module, nn.Module]:
    network = build_model("mlp", (8, 8), 6, 0)
    return network.base, network.head


def _drawn(purpose: str) -> Tree:
    network = build_model("mlp", (8, 8), 6, 0, purpose)
    return Tree(
        {
            name: Tree(dict(part.double().named_parameters()))
            for name, part in vars(network).items()
            if name != "features"
        }
    ).map(torch.Tensor.detach)


@pytest.mark.parametrize("method", ["fedavg+fedbr", "vhl", "moon"])
def test_all_shared_groups_are_drawn_and_nobody_who_stands_still_moves_the_server(
    start, simulate, differ, method: str
) -> None:
    """A wider head, projections and all: each place has its own, and at rate 0 the server stays where it was."""
    made = build_method(method, OPTIONS.get(method))
    before, after = (simulate(made, rounds=rounds, lr=0.0, **SLOTS).replicas[0].server for rounds in (0, 1))
    assert differ(before.params, after.params) < 1e-12
    simulation = start(made, **SLOTS)
    program, rounds = simulation.dispatcher.program(Loop()), map(simulation.dispatcher.clock, (0, 1))
    launch, later = (simulation.dispatcher.launch(program, clock, [np.arange(5)], []) for clock in rounds)
    assert launch.rows.first.keys() == before.params.keys() and "first" not in later.rows
    for path, rows in launch.rows.first.flat().items():
        assert rows.shape[1:] == before.params.flat()[path].shape
        assert len({tuple(row.flatten().tolist()) for row in rows}) == 5, path


def test_changes_that_are_handed_in_count_from_the_own_model(simulate, differ) -> None:
    """SCAFFOLD's first round is FedAvg's with uniform weights, with first models too."""
    scaffold, fedavg = (
        simulate(build_method(method), rounds=1, weights="uniform", **SLOTS).replicas[0].server.params
        for method in ("scaffold", "fedavg")
    )
    assert differ(scaffold, fedavg) < 1e-12


def test_a_reference_to_what_was_received_is_the_own_model(simulate, differ) -> None:
    """At the first step FedProx's and FedNTD's terms have no gradient, as the client stands where they pull it to."""
    settings = SLOTS | {"rounds": 1, "first_steps": 1, "local_steps": 2}
    plain, prox, ntd = (
        simulate(build_method(name, options), **settings).replicas[0].server.params
        for name, options in (("fedavg", {}), ("fedprox", {"mu": 5.0}), ("fedntd", {"ntd_beta": 5.0}))
    )
    assert differ(plain, prox) < 1e-12 and differ(plain, ntd) < 1e-12


OPTIONS = {
    "fedgen": {"server_steps": 2, "noise": 8, "hidden": 16},
    "vhl/fedbr": {"virtual_samples": 24, "virtual_batch": 7},
}
PLAIN = (
    *(
        "scaffold",
        "fedmix/fedbr",
        "moon/fedbr",
        "dann/fedbr",
        "fedcm/fedbr+mixup",
        "feddecorr",
        "fedntd+mixup+fedbr",
        "groupdro/fedbr+mixup",
        "afl",
        "q-ffl",
        "lg-fedavg",
        "gpfl",
    ),
    *(
        "fedrep",
        "ditto",
        "fedbabu",
        "per-fedavg",
        "pfedme",
        "grp-fed",
        "fedphp",
        "fedavg+dbe",
        "fedrod",
        "apfl",
        "pfedfda",
    ),
)


@pytest.mark.parametrize("method", [*OPTIONS, *PLAIN])
def test_backends_agree(simulate, differ, method: str) -> None:
    settings = RELEASED | {"momentum": 0.5, "participation": 0.6, "seeds": [0, 1]}
    one, *others = (
        simulate(build_method(method, OPTIONS.get(method)), backend=backend, **settings)
        for backend in ("loop", "batched", "graph")
    )
    for other in others:
        for a, b in zip(one.replicas, other.replicas, strict=True):
            assert differ(a.server, b.server) < 1e-10 and differ(a.clients, b.clients) < 1e-10
    plain = simulate(build_method(method, OPTIONS.get(method)), **settings | {"first_weights": "common"})
    assert differ(plain.replicas[0].server, one.replicas[0].server) > 1e-6


@pytest.mark.parametrize(
    ("method", "lacks"),
    [
        *((name, "nothing is shared") for name in ("local", "fedproto", "fedfomo")),
        ("apple", "'base' is not sent"),
        ("fedpac", "'head' is not sent"),
    ],
)
def test_who_receives_no_model_has_no_first_one(start, method: str, lacks: str) -> None:
    with pytest.raises(UserError, match=f"first_weights=slots needs .*{lacks}"):
        start(build_method(method), **SLOTS)


@pytest.mark.parametrize("backend", ["loop", "batched", "graph", "auto"])
def test_a_run_taken_up_before_its_first_round(start, differ, backend: str) -> None:
    whole, other = (start(build_method("fedavg"), backend=backend, **RELEASED) for _ in range(2))
    other.restore(whole.state())
    for simulation in (whole, other):
        while not simulation.finished:
            simulation.step()
    assert differ(whole.replicas[0].server, other.replicas[0].server) == 0
