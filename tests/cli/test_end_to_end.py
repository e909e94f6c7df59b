"""The command from the shell down to the store, on a few clients of digits: nothing is replaced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pflrepro import cli

ROOT = Path(__file__).parents[2]
SMALL = [
    "--dataset",
    "digits",
    "--clients",
    "4",
    "--min-size",
    "10",
    "--model",
    "mlp",
    "--rounds",
    "2",
    "--device",
    "cpu",
    "--quiet",
]


def ran(capsys: pytest.CaptureFixture[str], algorithm: str, *words: str) -> dict:
    assert cli.main(["run", "--algorithm", algorithm, *SMALL, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_run_prints_accuracy_with_spread(capsys, tmp_path: Path) -> None:
    found = ran(capsys, "fedavg+dbe", "--seeds", "3", "--store", str(tmp_path), "--option", "kappa=2")
    assert set(found) == {
        *("algorithm", "measured", "accuracy", "rounds", "tested", "seconds_per_round", "backend", "device"),
        *("runs", "run_folders", "diverged", "stored", "curve", "curve_after_training"),
    }
    accuracy = found["accuracy"]
    assert set(accuracy) == {"mean", "std", "per_seed", "selection"}
    assert (found["algorithm"], found["rounds"], accuracy["selection"]) == ("fedavg+dbe", 2, "best_round")
    assert len(accuracy["per_seed"]) == len(set(found["run_folders"])) == 3
    assert accuracy["mean"] == pytest.approx(sum(accuracy["per_seed"]) / 3)
    assert 0 < accuracy["mean"] <= 1
    assert accuracy["std"] is not None
    assert len(found["curve"]) == len(found["curve_after_training"]) == 3
    assert all(0 <= value <= 1 for value in found["curve"])
    assert found["curve_after_training"][0] is None
    assert found["seconds_per_round"] > 0
    for folder in map(Path, found["run_folders"]):
        assert tmp_path in folder.parents
        assert (folder / "done").exists()


def test_several_methods_are_a_line_each_and_with_json_a_list(capsys, tmp_path: Path) -> None:
    place = ["--store", str(tmp_path), "--seeds", "2"]
    both = ran(capsys, "fedavg,fedavg+dbe", *place, "--every", "2")
    assert [one["algorithm"] for one in both] == ["fedavg", "fedavg+dbe"]
    assert [one["tested"] for one in both] == [[0, 2], [0, 2]]
    alone = ran(capsys, "fedavg+dbe", *place, "--every", "2")
    assert alone | {"stored": 0} == both[1]
    assert cli.main(["run", "--algorithm", "fedavg", "--algorithm", "dbe", *SMALL, *place, "--every", "2"]) == 0
    heading, _, *lines = capsys.readouterr().out.splitlines()
    assert heading == "test accuracy on digits, best_round"
    for one, line in zip(both, lines, strict=True):
        name, mean, spread, seeds, rounds, _, stored, *ids = line.replace(",", "").split()
        assert (name, seeds, rounds, stored, ids) == (one["algorithm"], "2", "2", "2", one["runs"])
        assert float(mean) == pytest.approx(100 * one["accuracy"]["mean"], abs=0.006)
        assert float(spread) == pytest.approx(100 * one["accuracy"]["std"], abs=0.006)


def test_a_finished_run_is_reused_whatever_the_rule(capsys, tmp_path: Path) -> None:
    first = ran(capsys, "fedavg", "--store", str(tmp_path))
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = ran(capsys, "fedavg", "--store", str(tmp_path), "--select", "last_round")
    assert again["curve"] == first["curve"]
    assert again["run_folders"] == first["run_folders"]
    assert (first["stored"], again["stored"]) == (0, 1)
    assert again["accuracy"]["mean"] == first["curve"][-1]
    assert again["accuracy"]["std"] is None
    kept = {path: path.stat().st_mtime_ns for path in stamps if path.exists()}
    assert {path: stamp for path, stamp in kept.items() if "locks" not in path.parts} == {
        path: stamp for path, stamp in stamps.items() if "locks" not in path.parts
    }


def test_loop_and_batched_agree(capsys, tmp_path: Path) -> None:
    loop, batched = (
        ran(capsys, "fedavg+dbe", "--backend", name, "--store", str(tmp_path / name)) for name in ("loop", "batched")
    )
    assert batched["curve"] == pytest.approx(loop["curve"], abs=0.01)
    assert batched["curve_after_training"][1:] == pytest.approx(loop["curve_after_training"][1:], abs=0.01)


def test_text_for_a_reader_is_in_percent(capsys, tmp_path: Path) -> None:
    assert cli.main(["run", "--algorithm", "fedavg", *SMALL, "--seeds", "2", "--store", str(tmp_path)]) == 0
    first, second, *folders = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"fedavg on digits: test accuracy \d+\.\d\d ± \d+\.\d\d % \(best_round; per seed \d+\.\d\d, \d+\.\d\d\)", first
    )
    assert second.startswith("2 rounds, ")
    assert [line.startswith("run: ") for line in folders] == [True, True]


OWN_METHOD = """
print("a chatty module")

from dataclasses import dataclass

from pflrepro.algorithms import Method


@dataclass(frozen=True)
class Mine(Method):
    boldness: int = 1
"""


@pytest.mark.slow
def test_a_method_of_the_users_own_module_runs_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text(OWN_METHOD, encoding="utf-8")
    # As the installed script does it: the current folder is not on the path by itself.
    program = f"import sys; sys.path[0] = {str(ROOT)!r}\nfrom pflrepro.cli import main\nsys.exit(main())"
    words = ["run", "--algorithm", "my_module:Mine", "--option", "boldness=3", *SMALL, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["algorithm"] == "my_module:Mine"
    assert "a chatty module" in done.stderr


def test_a_store_that_cannot_be_written_is_one_line(capsys, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    assert cli.main(["run", "--algorithm", "fedavg", *SMALL, "--store", str(tmp_path / "file" / "store")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pflrepro: error: ")
    assert captured.err.count("\n") == 1


def test_missing_data_says_how_to_get_them(capsys) -> None:
    assert cli.main(["run", "--algorithm", "fedavg", "--dataset", "fmnist", "--rounds", "1", "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "pflrepro data get fmnist" in error
    assert "digits" in error


def test_an_impossible_partition_is_one_line(capsys) -> None:
    assert cli.main(["run", "--algorithm", "fedavg", *SMALL, "--clients", "3000"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pflrepro: error: ")
    assert error.count("\n") == 1
