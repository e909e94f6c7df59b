"""Each verb hands the right things to its room and shows what the room gives back; the rooms are replaced by fakes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.commands import answer

from pflrepro import cli
from pflrepro.errors import MissingData
from pflrepro.experiments.store import Store

# list


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("algorithms", "fedavg"),
        ("algorithms", "fedavg+dbe"),
        ("datasets", "digits"),
        ("models", "cnn4"),
        ("partitions", "dirichlet"),
        ("papers", "dbe"),
        ("artefacts", "dbe/table5"),
    ],
)
def test_list_names_what_there_is(what: str, name: str, capsys) -> None:
    rows = answer(capsys, "list", what)
    names = [row["id" if what == "artefacts" else "name"] for row in rows]
    assert any(entry == name or entry.startswith(f"{name}:") for entry in names)
    assert len(set(names)) == len(names)
    assert all(row["title"] for row in rows)
    for words in (["list", what], ["list", what, "--long"])[: 1 if what == "algorithms" else 2]:
        assert cli.main(words) == 0
        assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1


def test_the_long_list_of_algorithms_is_complete_and_fits_a_terminal(capsys, monkeypatch) -> None:
    """Every entry with its tested model and options, and one line of costs each; the counting itself is replaced."""
    from pflrepro.cli import listing
    from pflrepro.simulation.cost import Cost

    numbers = dict.fromkeys(Cost.__dataclass_fields__, 20) | {"model": 16}
    monkeypatch.setattr("pflrepro.simulation.cost.cost_of_default", lambda name: Cost(**numbers))
    rows = answer(capsys, "list", "algorithms", "--long")
    assert all(set(listing.COSTS) <= set(row) and row["supplied"] == 1.25 for row in rows)
    tested = {row["name"]: row["tested"] for row in rows}
    assert tested["fedavg"] == "global model"
    assert {tested[name] for name in ("dbe", "prbm", "scaffold+dbe")} == {"global model, plus the own bias"}
    assert tested["fedper+mr"] == tested["fedper"]
    assert cli.main(["list", "algorithms", "--long"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= listing.WIDTH
    counted = {line.split()[0] for line in lines if len(line.split()) == 1 + len(listing.COSTS)}
    assert {row["name"] for row in rows} <= counted
    for row in rows:
        assert any(line.startswith(f"{row['name']}: {row['title']}") for line in lines)


def test_every_listed_algorithm_can_be_built_with_its_listed_options(capsys) -> None:
    from pflrepro.algorithms.registry import build_method

    for row in answer(capsys, "list", "algorithms"):
        method = build_method(row["name"], row["options"])
        assert {name: getattr(method, name) for name in row["options"]} == row["options"]


def test_list_artefacts_names_notebook_and_scales(capsys) -> None:
    [table5] = [row for row in answer(capsys, "list", "artefacts") if row["id"] == "dbe/table5"]
    assert table5["notebook"] == "dbe/table5.ipynb"
    assert {"smoke", "paper"} <= set(table5["scales"])
    assert table5["title"]


# data


def test_data_status_tells_what_is_there(capsys, tmp_path: Path) -> None:
    rows = {row["name"]: row for row in answer(capsys, "data", "status", "--data-root", str(tmp_path))}
    assert rows["digits"]["state"] == "embedded"
    assert rows["fmnist"]["state"] == "absent"
    assert rows["fmnist"]["path"] == str(tmp_path / "fmnist" / "fmnist.npz")


def test_data_get_hands_names_and_root_on(capsys, monkeypatch) -> None:
    from pflrepro.data import download

    calls = []
    monkeypatch.setattr(download, "get", lambda *given, **more: calls.append((given, more)) or [])
    assert answer(capsys, "data", "get", "mnist", "fmnist", "--data-root", "here", "--quiet") == []
    assert answer(capsys, "data", "get") == []
    assert calls == [((["mnist", "fmnist"], "here"), {"progress": False}), ((None, None), {"progress": True})]


@pytest.mark.parametrize(
    ("names", "states", "code"),
    [
        ((), ("ok", "absent"), 0),
        (("mnist",), ("ok",), 0),
        (("mnist",), ("absent",), 1),
        ((), ("ok", "corrupt"), 1),
    ],
)
def test_data_verify_fails_for_what_is_wrong(capsys, monkeypatch, names, states, code) -> None:
    from pflrepro.data import download

    rows = [{"name": f"set{place}", "state": state} for place, state in enumerate(states)]
    monkeypatch.setattr(download, "verify", lambda *_: rows)
    assert answer(capsys, "data", "verify", *names, code=code) == rows


# plan, reproduce, score


def test_plan_counts_every_experiment_once(capsys) -> None:
    rows = answer(capsys, "plan", "demo/digits", "--scale", "fast", "--methods", "fedavg,local", "--seeds", "2")
    assert {(row["row"], row["seed"]) for row in rows} == {(m, s) for m in ("FedAvg", "Local") for s in (0, 1)}
    assert {row["state"] for row in rows} == {"to run"}
    asked = ("plan", "gpfl/table2", "--scale", "smoke", "--methods", "fedavg")
    of_har = [row for row in answer(capsys, *asked) if "HAR" in row["column"]]
    assert answer(capsys, *asked, "--columns", "har") == of_har and len(of_har) == 1
    assert cli.main(["plan", "demo/digits", "--scale", "fast"]) == 0
    assert "18 to run; to run: about" in capsys.readouterr().out


@pytest.fixture
def regenerated(monkeypatch) -> list[tuple]:
    """Calls of `reproduce`, which does nothing."""
    from pflrepro.papers import reproduce as room

    calls = []

    def fake(artefact, scale, parameters, figures, **more):
        calls.append((artefact.id, scale, parameters, figures, more))
        outputs = (Path(figures) / artefact.paper / "table.csv",)
        return room.Reproduced(artefact.id, scale, outputs, Path("executed.ipynb"))

    monkeypatch.setattr(room, "reproduce", fake)
    return calls


def test_reproduce_says_where_the_outputs_are(capsys, regenerated) -> None:
    words = "reproduce demo/digits --scale smoke --seeds 2 --methods fedavg,ditto --columns digits --figures out --store runs"
    words += " --workers 2 --quiet --launcher processes"
    assert cli.main(words.split()) == 0
    shown = capsys.readouterr().out
    assert str(Path("out") / "demo" / "table.csv") in shown
    assert "executed.ipynb" in shown
    parameters = {"seeds": 2, "methods": ["fedavg", "ditto"], "columns": ["digits"]}
    how = {"store": "runs", "progress": False, "workers": 2, "launcher": "processes"}
    assert regenerated == [
        ("demo/digits", "smoke", parameters, "out", how),
    ]


def test_reproduce_reads_further_parameters_by_their_declared_types(capsys, regenerated) -> None:
    [row] = answer(capsys, "reproduce", "demo/digits", "--set", "seeds=3", "--device", "cpu")
    assert regenerated[0][2] == {"seeds": 3, "device": "cpu"}
    assert row["id"] == "demo/digits"
    assert row["outputs"] == [str(Path("") / "demo" / "table.csv")], "the default is the library's"


def test_reproduce_refuses_a_wrong_value_before_anything_starts(capsys, regenerated) -> None:
    assert cli.main(["reproduce", "demo/digits", "--set", "seeds=many"]) == 2
    assert "parameter seeds of demo/digits.ipynb must be" in capsys.readouterr().err
    assert regenerated == []


def test_reproduce_takes_every_artefact_of_a_paper(capsys, regenerated) -> None:
    from pflrepro.papers import select

    rows = answer(capsys, "reproduce", "dbe", "--scale", "smoke", "--also", "local")
    assert [row["id"] for row in rows] == [artefact.id for artefact in select("dbe")] != []
    assert all(call[2] == {"also": ["local"]} for call in regenerated)


def test_reproduce_goes_on_behind_a_failed_one(capsys, regenerated, monkeypatch) -> None:
    from pflrepro.papers import reproduce as room

    works = room.reproduce

    def fails(artefact, *rest, **more):
        if artefact.id == "fedbr/table7":
            raise MissingData("data set x not downloaded")
        return works(artefact, *rest, **more)

    monkeypatch.setattr(room, "reproduce", fails)
    rows = answer(
        capsys, "reproduce", "demo", "fedbr/table7", "fedbr/table8", "demo/digits", "--scale", "smoke", code=1
    )
    assert [row["id"] for row in rows] == ["demo/digits", "fedbr/table7", "fedbr/table8"]
    assert [row["error"] for row in rows] == [None, "data set x not downloaded", None]
    assert cli.main(["reproduce", "fedbr/table7", "fedbr/table8", "--scale", "smoke"]) == 1
    assert capsys.readouterr().out.endswith("failed: fedbr/table7\n")
    assert cli.main(["reproduce", "fedbr/table7", "--scale", "smoke"]) == 2, "a single one is an error"
    assert cli.main(["reproduce", "--scale", "smoke"]) == 2
    assert "name artefacts or papers" in capsys.readouterr().err


def test_all_are_the_artefacts_that_have_the_scale(capsys, regenerated) -> None:
    from pflrepro.papers import select

    rows = answer(capsys, "reproduce", "--all", "--scale", "paper")
    assert [row["id"] for row in rows] == [each.id for each in select() if "paper" in each.scale_names]
    assert "results/methods" not in {row["id"] for row in rows}
    assert cli.main(["reproduce", "--all", "dbe/table5"]) == 2
    for chosen in ("--all", "fedbr"):
        assert cli.main(["reproduce", chosen, "--scale", "papre"]) == 2
        assert "unknown scale 'papre'; valid: paper" in capsys.readouterr().err


def test_the_plan_of_several_artefacts_is_the_total_and_a_line_each(capsys, monkeypatch) -> None:
    from pflrepro.papers import timing

    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(0.0, 0.001, 0.0001))
    assert cli.main(["plan", "dbe/table5", "dbe/figure4", "--scale", "paper"]) == 0
    total, _, header, *lines, _, missing = capsys.readouterr().out.splitlines()
    assert re.search(r"no data; about .* with the data that are missing$", total)
    assert missing == "the data that are missing: pflrepro data get fmnist cifar100 tiny-imagenet agnews", "once each"
    assert header.split() == ["artefact", "runs", "done", "time", "GiB", "lacks"]
    assert [line.split()[0] for line in lines] == ["dbe/table5", "dbe/figure4"]
    both = sum(int(line.split()[1]) for line in lines)
    assert int(total.split()[0]) < both, "what they share is counted once"
    assert cli.main(["plan", "dbe/table5", "dbe/figure4", "--scale", "paper", "--long"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == both + 5


def test_score_is_in_the_unit_of_the_column_and_hides_what_was_not_run(capsys) -> None:
    found = answer(capsys, "score", "dbe/table5")
    assert (found["claims"], found["claim_counts"]) == ([], [])
    rows = found["cells"]
    assert {row["verdict"] for row in rows} == {"not run"}
    published = [row["published"] for row in rows if row["published"] is not None]
    assert {row["unit"] for row in rows} == {"%"} and all(1 < value <= 100 for value in published) and published
    assert cli.main(["score", "dbe/table5"]) == 0
    assert capsys.readouterr().out == f"{len(rows)} – not run\n"
    assert cli.main(["score", "dbe/table5", "--long"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 3


def test_score_shows_intervals_and_claims(capsys, monkeypatch) -> None:
    import pandas as pd

    from pflrepro.papers import result, scoring

    cell = dict.fromkeys(result.FRAME_COLUMNS, "") | {"artefact": "dbe/table5", "unit": "%", "scale": "fast"}
    cell |= {"published": 90.0, "ours": 80.0, "low": 78.5, "high": 81.5, "rounds": 100}
    three = {"row": "Ditto", "n": 3, "spread": 1.0, "interval": "t, 3 seeds", "verdict": "ordering kept"}
    one = {"row": "APFL", "n": 1, "spread": float("nan"), "interval": "bootstrap, 20 clients", "verdict": "differs"}
    claim = dict.fromkeys(scoring.CLAIM_COLUMNS, "") | {
        "artefact": "dbe/table5",
        "scale": "fast",
        "claimed": "Ditto > APFL",
    }
    claim |= {
        "difference": 2.0,
        "error": 0.5,
        "test": "paired t over 3 seeds",
        "p": 0.04,
        "adjusted": 0.08,
        "chance": 0.05,
        "over": "seeds",
    }
    claims = [claim | {"outcome": "kept", "firm": False}, claim | {"p": 0.2, "outcome": "undecided", "firm": False}]
    card = scoring.ScoreCard(pd.DataFrame([cell | three, cell | one]), pd.DataFrame(claims), {}, Store())
    monkeypatch.setattr(scoring, "score_card", lambda *_, **__: card)
    found = answer(capsys, "score", "dbe/table5")
    assert [found["cells"][0][name] for name in ("low", "high", "interval")] == [78.5, 81.5, "t, 3 seeds"]
    assert found["cells"][1]["spread"] is None
    assert [found["claims"][0][name] for name in ("difference", "error", "adjusted")] == [2.0, 0.5, 0.08]
    assert found["claims"][0]["firm"] is False
    counts = {"outcomes": {"kept": 1, "undecided": 1}, "firm": 0, "tests": 2, "chance": 0.1, "over_clients": 0}
    assert found["claim_counts"] == [{"artefact": "dbe/table5", "scale": "fast"} | counts]
    assert cli.main(["score", "dbe/table5"]) == 0
    shown = capsys.readouterr().out
    assert "78.5  81.5  t, 3 seeds" in shown
    (alone,) = (line for line in shown.splitlines() if "20 clients" in line)
    words = "dbe/table5 APFL 90 80 78.5 81.5 bootstrap, 20 clients % 1 fast 100 ≠ differs"  # no spread
    assert " ".join(alone.split()) == words
    assert "Ditto > APFL" in shown and "paired t over 3 seeds" in shown
    assert "✓ kept" in shown and "? undecided" in shown
    assert (
        "claims of dbe/table5 at scale fast: 1 kept, 1 undecided; 0 also after Holm's correction; "
        "by chance about 0.1 would be decided if nothing differed\n"
    ) in shown


def test_score_writes_a_page_on_request(capsys, tmp_path: Path) -> None:
    found = answer(capsys, "score", "dbe/figure4", "--html", str(tmp_path))
    assert found["page"] == str(tmp_path / "index.html")
    assert "DBE Figure 4" in (tmp_path / "index.html").read_text("utf-8")
    assert cli.main(["score", "dbe/figure4", "--html", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith(f"page: {tmp_path / 'index.html'}\n")


# bench


def test_bench_compares_the_cases(capsys, monkeypatch) -> None:
    def measured(case: str) -> dict[str, Any]:
        numbers = {"seconds_per_round": {"ours": 0.5, "naive": 1.0}, "gflops_per_second": {"ours": 20.0, "naive": 10.0}}
        return {"case": case, **numbers, "ratio": 2.0, "peak_gflops_per_second": 80.0, "data": "random images"}

    calls = []

    def compare(cases, rounds, **more):
        calls.append((cases, rounds, more))
        return [measured(case) for case in cases]

    module = ModuleType("pflrepro.benchmark")
    module.compare = compare
    monkeypatch.setitem(sys.modules, "pflrepro.benchmark", module)
    words = ["bench", "gpfl", "--rounds", "2", "--device", "cpu", "--backend", "loop", "--share", "0.1", "--quiet"]
    assert answer(capsys, *words) == [measured("gpfl")]
    more = {"backend": "loop", "device": "cpu", "workers": None, "data_root": None, "share": 0.1, "progress": False}
    assert calls == [(["gpfl"], 2, more)]
    assert cli.main(["bench"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split() for line in shown[1:4]] == [
        [case, "0.5", "1", "2", "20", "10", "80"] for case in ("fedavg", "fedavg+dbe", "gpfl")
    ]
    assert shown[4] == "random images"


def test_the_benchmark_takes_what_the_command_hands_it() -> None:
    from inspect import signature

    from pflrepro.benchmark import compare

    names = ("backend", "device", "workers", "data_root", "share", "progress")
    signature(compare).bind(["fedavg"], 1, **dict.fromkeys(names))


def test_the_benchmark_says_what_a_small_share_comes_to(tmp_path: Path) -> None:
    from pflrepro.benchmark import benchmark_federation

    federation, told = benchmark_federation(str(tmp_path), 1e-9, "cpu")
    assert told.endswith(", 1e-09 of each client's samples, but 10 at least: 200 for training")
    assert federation.sizes("train").sum() == 200


# doctor
