"""`make gpu` without a GPU: the command itself, and every part with tiny sizes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers.scripts import load

Day = Callable[..., dict[str, str]]


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Day:
    """Runs the script's `main`, with commands of Python in place of its parts if given; the outcomes by name."""
    module = load("gpu_day", monkeypatch)

    def outcomes(*options: str, commands: Sequence[tuple[str, str, float]] = (), commit: str = "abc") -> dict[str, str]:
        if commands:
            made = [module.Part(name, (sys.executable, "-c", code), minutes) for name, code, minutes in commands]
            monkeypatch.setattr(module, "parts", lambda *_: made)
        monkeypatch.setattr(module, "commit", lambda: commit)
        monkeypatch.setattr(sys, "argv", ["gpu_day.py", "--out", str(tmp_path / "out"), *options])
        module.main()
        return {
            name: each["outcome"] for name, each in json.loads((tmp_path / "out" / "parts.json").read_text()).items()
        }

    return outcomes


def test_what_has_passed_is_not_done_again_unless_the_code_has_changed(day: Day, tmp_path: Path) -> None:
    count = tmp_path / "count"
    commands = [("one", f"open({str(count)!r}, 'a').write('x'); print(1)", 1)]
    assert day(commands=commands) == day(commands=commands) == {"one": "passed"}
    assert count.read_text() == "x" and (tmp_path / "out" / "one.log").read_text() == "1\n"
    day(commands=commands, commit="abd")
    assert count.read_text() == "xx"
    for _ in range(2):  # edited code has no name that says whether it is the same
        day(commands=commands, commit="abd-dirty")
    assert count.read_text() == "xxxx"


def test_a_part_that_takes_too_long_is_told_to_end_and_the_next_one_has_its_turn(day: Day, tmp_path: Path) -> None:
    late = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(open('mark', 'w').close())); time.sleep(60)"
    late = late.replace("'mark'", repr(str(tmp_path / "mark")))
    assert day(commands=[("late", late, 0.05), ("next", "print(1)", 1)]) == {"late": "out of time", "next": "passed"}
    assert (tmp_path / "mark").exists()


def test_a_failure_is_named_behind_the_others(day: Day, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="failed: bad"):
        day(commands=[("bad", "raise SystemExit(3)", 1), ("good", "print(1)", 1)])
    found = json.loads((tmp_path / "out" / "parts.json").read_text())
    assert found["bad"]["outcome"] == "exit code 3, see bad.log" and found["good"]["outcome"] == "passed"


@pytest.mark.slow
def test_every_part_runs_with_tiny_sizes(day: Day) -> None:
    outcomes = day("--tiny", "--device", "cpu", "--minutes", "20")
    assert set(outcomes.values()) == {"passed"} and {"tests", "bench", "scaling", "demo/digits"} <= set(outcomes)
