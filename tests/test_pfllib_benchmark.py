"""The benchmark beside PFLlib: what a checkout is given, and what is made of its words."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.scripts import load

THEIRS = """
import sys, numpy as np
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
for part, samples in (("train", 5), ("test", 2)):
    for client in range(int(options["-nc"])):
        data = np.load(f"../dataset/{options['-data']}/{part}/{client}.npz", allow_pickle=True)["data"].tolist()
        assert data["x"].shape == (samples, 1, 28, 28) and data["y"].shape == (samples,)
for seconds in (9.0, 6.0, 4.0, 5.0):
    print("-" * 25, "time cost", "-" * 25, seconds)
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    return load("pfllib", monkeypatch)


def test_the_ratio_is_that_of_the_medians_behind_the_first_round(script, tmp_path, monkeypatch) -> None:
    (tmp_path / "checkout" / "system").mkdir(parents=True)
    (tmp_path / "checkout" / "system" / "main.py").write_text(THEIRS)
    monkeypatch.setattr(script, "ours", lambda *_: [2.0, 1.0, 3.0])
    options = ["--checkout", str(tmp_path / "checkout"), "--train", "5", "--test", "2", "--methods", "gpfl"]
    monkeypatch.setattr(sys, "argv", ["pfllib.py", *options, "--turns", "1", "--out", str(tmp_path / "out.json")])
    script.main()
    record = json.loads((tmp_path / "out.json").read_text())
    (line,) = record["rows"]
    assert (line["method"], line["times faster"], line["ours"]) == ("gpfl", 2.5, [2.0, 1.0, 3.0])
    assert line["PFLlib, threads 1"] == [6.0, 4.0, 5.0]
    assert record["case"]["train"] == 5 and " GFLOP at " in record["case"]["limit"]


@pytest.mark.parametrize(
    ("option", "value", "said"), [("--methods", "sgd", "no method sgd"), ("--checkout", "/", "no checkout")]
)
def test_bad_input_is_refused_before_anything_runs(script, monkeypatch, capsys, option, value, said) -> None:
    monkeypatch.setattr(sys, "argv", ["pfllib.py", "--checkout", "/", option, value])
    with pytest.raises(SystemExit):
        script.main()
    assert said in capsys.readouterr().err
