"""Every plug-in on every method: it runs, the same on both backends, or is refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from pflrepro.algorithms.entries import ALGORITHMS, METHOD_PLUGINS, PLUGINS
from pflrepro.algorithms.registry import build_method, canonical_name, hyperparameters
from pflrepro.conformance import federation
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation

SMALL = {  # the real sizes only take longer
    "fedgen": {"server_steps": 2, "noise": 4, "hidden": 8},
    "vhl": {"virtual_samples": 20, "virtual_batch": 5},
    "fedavgft": {"tune_epochs": 1},
    "fedbabu": {"tune_epochs": 1},
}


IN_PAPERS = [host for host in ALGORITHMS if any(host in plugin.hosts for plugin in PLUGINS.values())]
HOSTS = [pytest.param(host, marks=() if host in IN_PAPERS else pytest.mark.variant) for host in ALGORITHMS]


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("host", HOSTS)
def test_a_combination_runs_alike_on_both_backends_or_is_refused_with_the_reason(host: str, plugin: str) -> None:
    try:
        method = build_method(f"{host}+{plugin}", SMALL.get(host))
    except UserError as refusal:
        assert f"{plugin} is not defined for {host}: " in str(refusal)
        assert host not in PLUGINS[plugin].hosts, "a paper uses this combination"
        return
    settings = Settings(1, participation=0.6, batch_size=5, lr=0.05, momentum=0.5, drop_last=False)
    states = []
    for backend in ("loop", "batched"):
        simulation = Simulation(method, federation(), "mlp", settings, [0], backend=backend, workers=1, dtype="float64")
        while not simulation.finished:
            simulation.step()
        states.append(simulation.state())
    numbers = [name for name, value in states[0].items() if value.dtype.kind == "f" and "seconds" not in name]
    for name in numbers:
        np.testing.assert_allclose(states[0][name], states[1][name], rtol=0, atol=1e-9, err_msg=name)


def test_there_are_36_methods() -> None:
    assert len({*ALGORITHMS, *METHOD_PLUGINS}) == 36


def test_an_alias_and_the_order_of_plug_ins_do_not_matter() -> None:
    assert canonical_name("fedbr+mixup") == canonical_name("mixup+fedbr") == "fedavg+mixup+fedbr"
    assert canonical_name("dbe") == "fedavg+dbe"
    assert canonical_name("my_module:Mine+dbe+mixup") == "my_module:Mine+mixup+dbe"
    assert type(build_method("fedcm+fedbr+mixup")).__mro__[1:3] == type(build_method("fedcm+mixup+fedbr")).__mro__[1:3]


def test_a_plug_in_twice_is_refused_also_behind_its_alias() -> None:
    with pytest.raises(UserError, match="once"):
        build_method("dbe+dbe")


@pytest.mark.parametrize(
    ("name", "inner"),
    [
        ("dbe+prbm", "prbm"),
        ("fedavg+dbe+prbm", "prbm"),
        ("fedavg+prbm+dbe", "prbm"),
        ("fedavg+dbe+mr", "mr"),
        ("mr+dbe", "mr"),
        ("scaffold+mr+dbe", "mr"),
    ],
)
def test_a_plug_in_that_another_one_contains_is_refused_with_the_reason(name: str, inner: str) -> None:
    with pytest.raises(UserError, match=f"DBE has {inner.upper()} in it already.*leave out \\+{inner}"):
        build_method(name)


@pytest.mark.parametrize("plugin", ["mr", "dbe"])
@pytest.mark.parametrize("host", ["moon/fedbr", "gpfl", "gpfl/without-pci", "gpfl/without-gce", "gpfl/without-mlg"])
def test_no_means_of_features_behind_which_a_layer_would_be_left_out(host: str, plugin: str) -> None:
    """By name, whatever the widths are; what a variant alone has is no reason against its method."""
    with pytest.raises(UserError, match=f"{plugin} is not defined for {host}: .* without the (valve|projection)"):
        build_method(f"{host}+{plugin}")
    build_method(f"moon+{plugin}")


@pytest.mark.parametrize(("host", "reason"), [("pfedfda", "would leave its client"), ("fedproto", "on the head alone")])
def test_the_bias_is_refused_where_it_would_be_sent_or_not_be_seen(host: str, reason: str) -> None:
    with pytest.raises(UserError, match=f"prbm is not defined for {host}: .*{reason}"):
        build_method(f"{host}+prbm")


def test_an_own_method_that_contains_the_plug_in_is_refused_too() -> None:
    for host in ("DBE", "PRBM"):
        with pytest.raises(UserError, match=f"{host} has PRBM in it already"):
            build_method(f"pflrepro.algorithms.dbe:{host}+prbm")


def test_both_halves_of_dbe_are_dbe() -> None:
    assert hyperparameters("fedavg+prbm+mr") == hyperparameters("fedavg+dbe")
