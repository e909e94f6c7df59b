"""`pflrepro show` and `pflrepro store`, on real runs of a few rounds."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import answer

from pflrepro import cli
from pflrepro.errors import RunFailed
from pflrepro.experiments import compact
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.readings import Question
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store
from pflrepro.simulation.simulation import Simulation

SMALL = {"clients": 4, "rounds": 3, "model": "mlp"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two finished runs; the first one is given."""
    store = Store(tmp_path_factory.mktemp("runs"), behind=tmp_path_factory.mktemp("none"))
    asked = [
        Experiment.for_dataset("fedavg+dbe", "digits", options={"kappa": 5}.items(), seed=seed, **SMALL)
        for seed in (2, 3)
    ]
    first, _ = run(asked, store=store, progress=False)
    store.reading(first, Question("points", 3, (("layer", 2),)), lambda: {"x": np.arange(3)})
    return first


@pytest.fixture
def store(made: Run, tmp_path: Path) -> Store:
    """A copy of it to work on."""
    shutil.copytree(made.folder.parents[1], tmp_path / "store")
    return Store(tmp_path / "store", behind=tmp_path / "behind")


def test_show_tells_all_that_is_known(capsys, made: Run, store: Store) -> None:
    found = answer(capsys, "show", made.id, "--store", str(store.root))
    assert (found["id"], found["seed"], found["options"], found["model"]) == (made.id, 2, {"kappa": 5}, "mlp")
    assert (found["settings"]["rounds"], found["data"]["clients"]) == (3, 4)
    assert found["tested"] == [0, 1, 2, 3] and found["curve"] == made.curve.tolist()
    assert found["curve_after_training"][0] is None
    assert found["accuracy"] == {"best_round": made.curve.max(), "last_round": made.curve[-1]}
    [state] = found["states"]
    assert state == {"round": 3, "bytes": (store.folder(made.id) / "state-3.npz").stat().st_size}
    assert found["readings"] == [{"name": "points", "round": 3, "options": {"layer": 2}, "revision": 1}]
    assert found["commit"] == made.environment["versions"]["commit"]


def test_show_takes_the_first_digits_and_draws_the_curve(capsys, made: Run, store: Store) -> None:
    store.reading(store.get(made.id), Question("shares", 2), lambda: {"x": np.arange(3)})
    store.reading(store.get(made.id), Question("spread", 3, (("probe", {"steps": 4}),)), lambda: {"x": np.arange(3)})
    assert cli.main(["show", made.id[:6], "--store", str(store.root)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == f"run {made.id}: fedavg+dbe on digits, seed 2"
    assert f"  command   {made.command}" in lines
    assert "behind" not in text and "round 3 (0." in text
    place = lines.index("  readings  points at round 3 (layer=2)")
    assert lines[place + 1] == "            shares at round 2 (none)", "a line each"
    assert lines[place + 2] == "            spread at round 3 (probe=...)", "tables and lists are in --json"
    assert max(len(line) for line in lines if "command" not in line) <= 100
    for place, line in zip((0, 3), (lines[-4], lines[-1]), strict=True):
        assert line.split()[:2] == [str(place), f"{100 * made.curve[place]:.2f}"]
        assert line.count("#") == round(40 * made.curve[place])


def test_the_first_rounds_of_a_run_are_shown_as_a_shorter_table_reads_them(capsys, made: Run, store: Store) -> None:
    where = ("--store", str(store.root))
    found = answer(capsys, "show", made.id, "--rounds", "2", *where)
    assert found["tested"] == [0, 1, 2] and found["curve"] == made.curve[:3].tolist()
    assert found["accuracy"]["last_round"] == made.curve[2] and "--rounds 2" in found["command"]
    assert found["states"] == found["readings"] == [], "those of round 3"
    assert answer(capsys, "show", made.id, "--rounds", "3", *where) == answer(capsys, "show", made.id, *where)
    assert cli.main(["show", made.id, "--rounds", "4", *where]) == 2
    assert f"run {made.id} has 3 rounds, tested every 1; there is no test after round 4" in capsys.readouterr().err


def test_the_first_rounds_of_a_run_that_depends_on_its_last_are_no_run(capsys, store: Store) -> None:
    made = run(
        Experiment.for_dataset("fedavg", "digits", closing=True, participation=0.6, **SMALL),
        store=store,
        progress=False,
    )
    where = ("--store", str(store.root))
    assert answer(capsys, "show", made.id, "--rounds", "3", *where)["tested"] == [0, 1, 2, 3]
    assert cli.main(["show", made.id, "--rounds", "2", *where]) == 2
    assert f"the number of rounds, 3, is part of run {made.id}" in capsys.readouterr().err


def test_more_rounds_are_shown_of_the_run_that_came_with_the_package(capsys, store: Store, monkeypatch) -> None:
    """Made here with fewer rounds, as a look into its models does."""
    asked = Experiment.for_dataset("fedavg", "digits", seed=7, **SMALL)
    whole = run(asked, store=store, progress=False)
    compact.export(whole, store.behind)
    monkeypatch.setattr(compact, "shipped", lambda: store.behind)
    short = run(asked.with_settings(rounds=1), store=store.root.parent / "short", progress=False, keep=[1])
    where = ("--store", str(store.root.parent / "short"))
    assert answer(capsys, "show", short.id, *where)["tested"] == [0, 1]
    assert answer(capsys, "show", short.id, "--rounds", "3", *where)["curve"] == whole.curve.tolist()


def test_a_long_curve_is_shown_in_a_dozen_lines_with_its_best(capsys) -> None:
    from types import SimpleNamespace

    from pflrepro.cli.stored import _curve

    values = np.where(np.arange(501) == 333, 0.9, 0.5)
    after = np.full(501, np.nan)
    lines = _curve(
        SimpleNamespace(curve=values, curve_after_training=after, history={"round": 5 * np.arange(501)})
    ).splitlines()
    rounds = [int(line.split()[0]) for line in lines[1:]]
    assert (rounds[0], rounds[-1]) == (0, 2500) and 1665 in rounds and len(rounds) <= 13
    assert rounds == sorted(set(rounds))


def test_show_looks_into_the_runs_that_came_with_the_package(capsys, made: Run, store: Store, monkeypatch) -> None:
    compact.export(store.get(made.id), store.behind)
    monkeypatch.setattr(compact, "shipped", lambda: store.behind)
    found = answer(capsys, "show", made.id[:8], "--store", str(store.root.parent / "empty"))
    assert found["curve"] == made.curve.tolist() and found["states"] == []
    assert [each["name"] for each in found["readings"]] == ["points"]
    assert found["command"] == made.command


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("", r"2 runs begin with '': "),
        ("x", r"no run begins with 'x' among the 2 of "),
        ("0" * 16, r"no run begins with '0000000000000000' among the 2 of "),
    ],
)
def test_no_run_or_several_is_one_error(capsys, prefix: str, message: str, store: Store) -> None:
    assert cli.main(["show", prefix, "--store", str(store.root)]) == 2
    assert capsys.readouterr().err.startswith(f"pflrepro: error: {message}")


def test_a_damaged_run_is_not_shown(capsys, made: Run, store: Store) -> None:
    [history] = store.folder(made.id).glob("history-*")
    history.write_bytes(b"")
    assert cli.main(["show", made.id, "--store", str(store.root)]) == 2
    assert f"the run {made.id} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "experiment",
    [
        Experiment.for_dataset("fedavg+dbe", "digits", options=(("kappa", 5.0), ("mr_momentum", 0.5)), seed=2),
        Experiment.for_dataset(
            "fedavg", "digits", partition="pathological:2", every=3, evaluate_after=False, patience=7
        ),
        Experiment.for_dataset("fedavg", "digits", dtype="float64", model="mlp", drop_last=False, clients=7),
        Experiment.for_dataset(
            "pfedfda", "cifar10-s", options=(("coefficients", "none"),), rounds=3, sampling="number", proxy="mnist"
        ),
        Experiment.for_dataset("apfl", "fmnist", options=(("adaptive", True),), closing=True, participation_low=0.1),
        Experiment.for_dataset("local", "digits", partition="lda:0.1", min_size=10, seed=1001),
        Experiment.for_dataset("ditto", "digits", partition="file:/a folder/p$1.npz"),
        Experiment.for_dataset("fedper", "digits", min_size=None),
        Experiment.for_dataset("fedrep", "digits", partition="iid", min_size=None),
    ],
    ids=lambda each: each.algorithm,
)
def test_the_command_of_a_run_makes_the_same_run(experiment: Experiment, made: Run) -> None:
    shown = Run(made.id, experiment, made.identity, made.history, made.environment, made.folder)
    program, *words = shlex.split(shown.command)
    assert program == "pflrepro"
    assert asked(words) == [experiment]


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "figures" / "runs").glob("*.npz")), ids=lambda path: path.stem
)
def test_the_command_of_a_committed_run_asks_for_the_same_run(path: Path) -> None:
    experiment = compact.read(path).experiment
    _, *words = shlex.split(experiment.command)
    assert asked(words) == [experiment]


def asked(words: list[str]) -> list[Experiment]:
    return cli.run.experiments(cli.read(cli.build_parser(), words))


def sizes(store: Store) -> dict[str, int]:
    return {str(path.relative_to(store.root)): path.stat().st_size for path in store.root.rglob("*") if path.is_file()}


def test_prune_says_what_would_be_freed_and_frees_it(capsys, made: Run, store: Store) -> None:
    place, before = ["--store", str(store.root)], sizes(store)
    states = {name: size for name, size in before.items() if "state-" in name}
    assert len(states) == 2
    assert cli.main(["store", "prune", *place]) == 0
    assert capsys.readouterr().out.startswith(f"nothing to free in {store.root}\nwith --states: 0.")
    promised = answer(capsys, "store", "prune", "--states", "--dry-run", *place)
    assert sizes(store) == before
    assert promised["bytes"] == sum(states.values()) and promised["dry_run"] is True
    assert {row["what"] for row in promised["freed"]} == {"states after rounds 3"}
    done = answer(capsys, "store", "prune", "--states", *place)
    assert done == promised | {"dry_run": False}
    left = {name: size for name, size in sizes(store).items() if "locks" not in name}
    assert left == {name: size for name, size in before.items() if name not in states and "locks" not in name}
    assert store.get(made.id).curve.tolist() == made.curve.tolist()


def test_prune_removes_damaged_runs_and_leaves_those_in_the_making(capsys, made: Run, store: Store) -> None:
    (other,) = {path.name for path in (store.root / "runs").iterdir()} - {made.id}
    store.set_aside(other, "a test")
    aside = store.folder(f"{other}.damaged-1")
    size = sum(path.stat().st_size for path in aside.rglob("*") if path.is_file())
    lock = store.lock(made.id)
    assert lock.acquire()
    try:
        found = answer(capsys, "store", "prune", "--states", "--store", str(store.root))
    finally:
        lock.release()
    assert found["freed"] == [{"id": aside.name, "what": "damaged, set aside", "size": size}]
    assert not aside.exists() and list(store.states(made.id)) == [3]


def test_merge_says_what_it_took_and_what_it_left(capsys, store: Store, tmp_path: Path) -> None:
    into = str(tmp_path / "into")
    found = answer(capsys, "store", "merge", str(store.root), "--store", into)
    assert [row["what"] for row in found] == ["taken", "taken"] and {row["source"] for row in found} == {
        str(store.root)
    }
    (store.folder(found[0]["id"]) / "done").write_text("no")
    assert cli.main(["store", "merge", str(store.root), str(store.root), "--store", into]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[2] == f"{store.root}: 1 damaged, 1 kept"
    assert lines[1].startswith(f"  {found[0]['id']} is left: done cannot be read") and len(lines) == 4
    assert cli.main(["store", "merge", str(tmp_path / "absent"), "--store", into]) == 2
    assert "no run store at" in capsys.readouterr().err


def test_prune_by_age_and_size(capsys, store: Store) -> None:
    place = ["--store", str(store.root)]
    assert answer(capsys, "store", "prune", "--runs", "--older-than", "1d", *place)["freed"] == []
    promised = answer(capsys, "store", "prune", "--runs", "--keep-under", "0MB", "--dry-run", *place)
    assert [row["what"] for row in promised["freed"]] == ["a run", "a run"] and len(store.runs()) == 2
    assert answer(capsys, "store", "prune", "--runs", "--keep-under", "0MB", *place) == promised | {"dry_run": False}
    assert not store.runs()
    for wrong in ("30", "d", "1e3d", "-1d", "30days"):
        assert cli.main(["store", "prune", "--runs", f"--older-than={wrong}", *place]) == 2
        said = f"--older-than must be a number with a unit (h, d, w) behind it, not '{wrong}'"
        assert said in capsys.readouterr().err
    assert cli.main(["store", "prune", "--runs", *place]) == 2
    assert "give --older-than or --keep-under" in capsys.readouterr().err


def test_unfinished_says_how_far_what_is_under_way_is(capsys, store: Store, monkeypatch) -> None:
    assert answer(capsys, "store", "unfinished", "--store", str(store.root)) == []
    assert cli.main(["store", "unfinished", "--store", str(store.root)]) == 0
    assert capsys.readouterr().out == f"no unfinished run in {store.root}\n"
    step = Simulation.step
    monkeypatch.setattr(Simulation, "step", lambda self: 1 / 0 if self.round == 2 else step(self))
    asked = Experiment.for_dataset("local", "digits", **SMALL)
    with pytest.raises(RunFailed):
        run(asked, store=store, progress=False, checkpoint_every=0)
    [found] = answer(capsys, "store", "unfinished", "--store", str(store.root))
    assert (found["round"], found["algorithm"], found["settings"]["rounds"]) == (2, "local", 3)
    assert 0 < found["accuracy"] <= 1 and found["trained"] is False and "experiment" not in found
    assert cli.main(["store", "unfinished", "--store", str(store.root)]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert (
        "options" not in head
        and " seed " in head
        and re.search(rf" 2 of 3 +[\d.]+ %, round .* stopped +{found['id']}$", line)
    )
    assert cli.main(["show", found["id"][:6], "--store", str(store.root)]) == 2
    assert "is not finished; how far it is: pflrepro store unfinished" in capsys.readouterr().err


def test_unfinished_says_which_training_came_apart(capsys, store: Store, monkeypatch) -> None:
    step = Simulation.step
    monkeypatch.setattr(Simulation, "step", lambda self: 1 / 0 if self.round == 3 else step(self))
    for rate in (0.005, 1e9):
        with pytest.raises(RunFailed):
            run(
                Experiment.for_dataset("local", "digits", clients=4, rounds=4, lr=rate),
                store=store,
                progress=False,
                checkpoint_every=0,
            )
    found = {each["settings"]["lr"]: each for each in answer(capsys, "store", "unfinished", "--store", str(store.root))}
    assert found[0.005]["diverged"] is None
    assert found[1e9]["diverged"]["round"] in (1, 2) and set(found[1e9]["diverged"]["clients"]) <= {0, 1, 2, 3}
    assert cli.main(["store", "unfinished", "--store", str(store.root)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "  diverged  " in head
    assert sorted("by round" in line for line in lines) == [False, True]
