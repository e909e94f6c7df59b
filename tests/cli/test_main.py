"""The command as a whole: exit codes, one-line errors, what goes to which stream."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pflrepro import cli
from pflrepro.cli.output import Answer
from pflrepro.errors import CorruptFile, MissingData, RunFailed, UserError

ROOT = Path(__file__).parents[2]


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return subprocess.run(
        [sys.executable, "-m", "pflrepro", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path} | environment,
        cwd=os.environ["PFLREPRO_DATA"].removesuffix("data"),
    )


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable], None]:
    """Let `pflrepro list models` do something else."""

    def replace(function: Callable) -> None:
        monkeypatch.setattr(cli.listing, "handle", function)

    return replace


def raising(error: BaseException) -> Callable:
    def handle(_arguments: object) -> Answer:
        raise error

    return handle


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("a mistake"), 2),
        (MissingData("no data"), 2),
        (CorruptFile("a broken file"), 2),
        (RunFailed("broke in round 3"), 1),
        (PermissionError(13, "Permission denied", "/a/folder"), 2),
        (OSError(28, "No space left on device"), 2),  # as libraries raise it, without the name of a file
        (UserError("over\n  two lines"), 2),
    ],
)
def test_an_error_is_one_line_on_standard_error(handler, capsys, error: Exception, code: int) -> None:
    handler(raising(error))
    assert cli.main(["list", "models", "--json"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"pflrepro: error: {' '.join(str(error).split())}\n"


def test_the_traceback_is_shown_on_request(handler, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PFLREPRO_TRACEBACK", "1")
    handler(raising(RunFailed("broke")))
    assert cli.main(["list", "models"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "pflrepro: error: broke"


def test_a_bug_of_ours_keeps_its_traceback(handler) -> None:
    handler(raising(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["list", "models"])


def test_an_interrupt_is_one_line_and_130(handler, capsys) -> None:
    handler(raising(KeyboardInterrupt()))
    assert cli.main(["list", "models"]) == 130
    assert capsys.readouterr() == ("", "pflrepro: interrupted\n")


def test_what_a_room_prints_never_mixes_with_the_answer(handler, capsys) -> None:
    def handle(_arguments: object) -> Answer:
        print("chatter")
        return Answer([{"name": "x", "value": float("nan")}], "text")

    handler(handle)
    assert cli.main(["list", "models", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [{"name": "x", "value": None}]
    assert captured.err == "chatter\n"


CHATTY = """
import subprocess, sys
from pflrepro import cli
from pflrepro.cli.output import Answer

def handle(_):
    subprocess.run([sys.executable, "-c", "print(1)"], check=True)
    return Answer({"a": 1}, "")

cli.listing.handle = handle
sys.exit(cli.main(["list", "models", "--json"]))
"""


def test_what_a_child_process_prints_never_mixes_with_the_answer() -> None:
    done = subprocess.run([sys.executable, "-c", CHATTY], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"a": 1}, "1\n")


def test_text_goes_to_standard_output(handler, capsys) -> None:
    handler(lambda _: Answer([], "for a reader\n"))
    assert cli.main(["list", "models"]) == 0
    assert capsys.readouterr() == ("for a reader\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"say what to do: pflrepro VERB"),
        (["lst"], r"unknown verb 'lst'; valid: list, "),
        (["list"], r"the following arguments are required: WHAT"),
        (["list", "algoritms"], r"unknown what 'algoritms'; valid: algorithms, "),
        (["list", "models", "--jsn"], r"unknown option '--jsn'; valid: --json, "),
        (["--json", "list", "models"], r"--json stands behind the verb: pflrepro list ... --json"),
        (["list", "models", "more"], r"unexpected argument 'more' \(see pflrepro list --help\)"),
        (["data"], r"say what to do with data: get, status, verify"),
        (["data", "gt"], r"unknown action 'gt'; valid: get, "),
        (["store"], r"say what to do with the store: unfinished, prune or merge"),
        (["show", "12"], r"no run begins with '12' among the 0 of "),
        (["run"], r"--algorithm is missing"),
        (
            ["run", "--algorithm", "fedavg", "--rounds", "few"],
            r"--rounds must be a whole number >= 0 and <= 1,000,000, not 'few'",
        ),
        (
            ["run", "--algorithm", "fedavg", "--rounds", "-1"],
            r"--rounds must be a whole number >= 0 and <= 1,000,000, not -1",
        ),
        (["run", "--algorithm", "fedavg", "--seeds", "0"], r"--seeds must be a whole number >= 1 and <= 1,000, not 0"),
        (
            ["run", "--algorithm", "fedavg", "--participation", "0"],
            r"--participation must be a number > 0 and <= 1, not 0.0",
        ),
        (["run", "--algorithm", "fedavg", "--lr", "nan"], r"--lr must be a number >= 0, not nan"),
        (["run", "--algorithm", "fedavg", "--option", "kappa"], r"expected NAME=VALUE, not 'kappa'"),
        (["run", "--algorithm", "fedavg", "--backend", "batch"], r"unknown --backend 'batch'; valid: batched, "),
        (["run", "--algorithm", "fedavg", "--select", "best"], r"unknown selection rule 'best'; valid: best_round, "),
        (
            ["run", "--algorithm", "fedavg", "--rounds", "9", "--select", "mean_last_11"],
            "mean_last_11 is a mean of 11 tests, ",
        ),
        (
            ["run", "--algorithm", "fedavg", "--device", "cuda:99"],
            r"no device 'cuda:99' on this machine; valid: auto, cpu",
        ),
        (["run", "--algorithm", "no_module:Method"], r"no module 'no_module'"),
        (["run", "--algorithm", ":Method"], r".*Method"),
        (
            ["run", "--algorithm", "fedavgg"],
            r"unknown algorithm 'fedavgg' .a method of your own: module:Class.; valid: fedavg, ",
        ),
        (
            ["run", "--algorithm", "fedavg", "--dataset", "digit"],
            r"unknown data set 'digit' .data of your own: file:FILE.npz.; valid: digits, ",
        ),
        (
            ["run", "--algorithm", "fedavg", "--drop-last", "--no-drop-last"],
            r"--drop-last or --no-drop-last is given twice",
        ),
        (["run", "--algorithm", "fedavg", "--rounds", "2", "--lr=1", "--rounds=3"], r"--rounds is given twice"),
        (["run", "--algorithm", "fedavg", "--weights", "equal"], r"unknown weights of the average 'equal'; valid: "),
        (["run", "--algorithm", "fedavg", "--store"], r"argument --store: expected one argument"),
        (["run", "--algorithm", "fedavg", "--lr", "-inf"], r"--lr must be a number >= 0, not -inf"),
        (["run", "--algorithm", "fedavg", "--lr", "-1e-5"], r"--lr must be a number >= 0, not -1e-05"),
        (["run", "--algorithm", "fedavg", "--store", "a\0b"], r"--store must name a folder, not 'a\\x00b'"),
        (["run", "--algorithm", "fedavg", "--data-root", "a\0b"], r"--data-root must name a folder, not 'a\\x00b'"),
        (["run", "--algorithm", "fedavg", "--data-root", __file__], r"--data-root must name a folder, not the file "),
        (
            ["run", "--algorithm", "fedavg", "--store", "~no-such-user/a"],
            r"--store is '~no-such-user/a', but there is no ",
        ),
        (
            ["run", "--algorithm", "fedavg", "--partition", "counts:a\0.csv"],
            r"a partition is written without null bytes",
        ),
        (["score", "demo/digits", "--html", "a\0b"], r"--html must name a folder, not 'a\\x00b'"),
        (["reproduce", "demo/digits", "--figures", "a\0b"], r"figures must name a folder, not 'a\\x00b'"),
        (
            ["reproduce", "demo/digits", "--set", "seeds=1", "--seeds", "2"],
            r"seeds is given twice: by --seeds and by --set",
        ),
        (["reproduce", "demo/digits", "--set", "seeds=1", "--set", "seeds=2"], r"seeds is given twice by --set"),
        (
            ["reproduce", "demo/digits", "--set", "store=a", "--store", "a"],
            r"store is given twice: by --store and by --set",
        ),
        (["plan", "dbe/table55"], r"unknown artefact 'dbe/table55'; valid: dbe/table5, "),
        (["plan", "dbe/table5", "--scale", "papr"], r"unknown scale of dbe/table5 'papr'; valid: paper, "),
        (["score", "dbee"], r"unknown paper 'dbee'; valid: dbe, "),
        (
            ["reproduce", "demo/digits", "--set", "sale=1"],
            r"unknown parameter of demo/digits.ipynb 'sale'; valid: scale, ",
        ),
        (["reproduce", "demo/digits", "--launcher", "dusk:x"], r"unknown launcher 'dusk:x'; valid: dask:ADDRESS"),
        (["reproduce", "demo/digits", "--methods", ","], r"expected names separated by commas, not ','"),
        (
            ["reproduce", "demo/digits", "--methods", "fedagv"],
            r"unknown row of demo/digits 'fedagv'; valid: fedavg, ",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(words: list[str], message: str, capsys) -> None:
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"pflrepro: error: .*{message}.*\n", captured.err)


@pytest.mark.parametrize(
    "verb", ["list", "data", "run", "show", "store", "plan", "reproduce", "score", "bench", "doctor"]
)
def test_every_verb_explains_itself(verb: str, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([verb, "--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pflrepro {verb}")


def test_the_command_of_a_shell(tmp_path: Path) -> None:
    shown = command("--version")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.fullmatch(r"pflrepro \d+\.\d+\.\d+\n", shown.stdout)
    wrong = command("list", "modles")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.count("\n") == 1


def test_a_closed_pipe_is_quiet() -> None:
    program = f"{sys.executable} -m pflrepro list artefacts --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "closed", "code"), [("papers", ">&-", 0), ("papers", "2>&-", 0), ("nonsense", ">&- 2>&-", 2)]
)
def test_a_closed_standard_stream_leads_nowhere(words: str, closed: str, code: int) -> None:
    program = f"{sys.executable} -m pflrepro list {words} {closed}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (code, "") and bool(done.stdout) == (closed == "2>&-")


def test_a_terminal_without_unicode_gets_its_answer(tmp_path: Path) -> None:
    shown = command("list", "artefacts", "--long", PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "dbe/table5" in shown.stdout
