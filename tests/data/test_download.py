from __future__ import annotations

import errno
import hashlib
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_server import Mirror, serve
from data_sources import decode, tiny_sources, tiny_spec

from pflrepro.data import download
from pflrepro.data.arrays import Arrays, read_arrays, save_arrays
from pflrepro.data.datasets import DATASETS, SourceFile
from pflrepro.data.download import get, status, verify
from pflrepro.data.fetch import DownloadFailed, Policy, check_address, fetch
from pflrepro.errors import UserError

POLICY = Policy(timeout=0.3, loopback_http=True)
CONTENT = np.random.default_rng(1).bytes(300_000)
FILE = SourceFile("data", "file.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def fetched(folder: Path, *mirrors: Mirror | str, file: SourceFile = FILE, policy: Policy = POLICY) -> bytes:
    addresses = [mirror.address if isinstance(mirror, Mirror) else mirror for mirror in mirrors]
    return fetch(file, addresses, folder, policy, lambda arrived: None).read_bytes()


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


def test_a_file_arrives_and_nothing_else_stays(tmp_path: Path) -> None:
    arrived = []
    with serve(Mirror({FILE.name: CONTENT})) as mirror:
        fetch(FILE, [mirror.address], tmp_path, POLICY, arrived.append)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == [FILE.name]
    assert arrived == sorted(arrived) and arrived[0] == 0 and arrived[-1] == FILE.size


def test_a_name_with_spaces_is_quoted(tmp_path: Path) -> None:
    with serve(Mirror({"a%20file.bin": CONTENT})) as mirror:
        assert fetched(tmp_path, mirror, file=replace(FILE, name="a file.bin")) == CONTENT
    assert (tmp_path / "a file.bin").exists()


def test_a_right_file_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_bytes(CONTENT)
    assert fetched(tmp_path, closed_port()) == CONTENT


def test_a_broken_connection_is_continued(tmp_path: Path) -> None:
    with serve(Mirror({FILE.name: CONTENT}, break_after=120_000)) as mirror:
        assert fetched(tmp_path, mirror) == CONTENT
    assert mirror.requests == [(FILE.name, None), (FILE.name, "bytes=120000-"), (FILE.name, "bytes=240000-")]


def test_a_later_call_continues_what_an_earlier_one_left(tmp_path: Path) -> None:
    with (
        serve(Mirror({FILE.name: CONTENT}, break_after=100)) as mirror,
        pytest.raises(DownloadFailed, match="ended after 300"),
    ):
        fetched(tmp_path, mirror)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:300]
    with serve(Mirror({FILE.name: CONTENT})) as mirror:
        assert fetched(tmp_path, mirror) == CONTENT
    assert mirror.requests == [(FILE.name, "bytes=300-")]


@pytest.mark.parametrize("fault", [{"ranges": False}, {"wrong_range": True}])
def test_a_mirror_that_cannot_continue_sends_the_whole(tmp_path: Path, fault: dict[str, bool]) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    with serve(Mirror({FILE.name: CONTENT}, **fault)) as mirror:
        assert fetched(tmp_path, mirror) == CONTENT


@pytest.mark.parametrize("rubbish", [b"x" * 1000, b"x" * FILE.size, b"x" * (FILE.size + 1)])
def test_a_wrong_beginning_is_thrown_away(tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "file.bin.part").write_bytes(rubbish)
    with serve(Mirror({FILE.name: CONTENT})) as mirror:
        assert fetched(tmp_path, mirror) == CONTENT


def test_each_fault_sends_us_to_the_next_mirror(tmp_path: Path) -> None:
    wrong = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
    faults = {
        "HTTP 503": Mirror({}, status=503),
        "HTTP 404": Mirror({}),
        "wrong checksum": Mirror({FILE.name: wrong}),
        "offers 299,999 bytes": Mirror({FILE.name: CONTENT[:-1]}),
        "no answer in time": Mirror({FILE.name: CONTENT}, stall=5),
        "ended after 0 of": Mirror({FILE.name: CONTENT}, break_after=0),
        "more than the expected": Mirror({FILE.name: CONTENT}, endless=b"x" * 1000),
        "not https": Mirror({}, redirect="http://example.org/"),
    }
    for number, (words, fault) in enumerate(faults.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serve(fault), pytest.raises(DownloadFailed) as caught:
            fetched(folder, fault)
        assert words in str(caught.value) and "127.0.0.1" in str(caught.value) and "\n" not in str(caught.value)
        assert not (folder / FILE.name).exists()
        with serve(fault), serve(Mirror({FILE.name: CONTENT})) as good:
            assert fetched(folder, fault, good) == CONTENT


def test_a_refused_connection_sends_us_to_the_next_mirror(tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match=r"could not download file\.bin: 127\.0\.0\.1:\d+: .*refused"):
        fetched(tmp_path, closed_port())
    with serve(Mirror({FILE.name: CONTENT})) as mirror:
        assert fetched(tmp_path, closed_port(), mirror) == CONTENT


def test_a_trickle_counts_as_a_stall(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def trickle() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            try:
                for _ in range(100):
                    connection.sendall(b"x")
                    time.sleep(0.05)
            except OSError:
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    with listener, pytest.raises(DownloadFailed, match="stalled after"):
        fetched(tmp_path, f"http://127.0.0.1:{listener.getsockname()[1]}/", policy=replace(POLICY, tries=1))
    thread.join(10)


def test_the_md5_is_checked_too(tmp_path: Path) -> None:
    file = replace(FILE, sha256=None, md5="0" * 32)
    with serve(Mirror({FILE.name: CONTENT})) as mirror, pytest.raises(DownloadFailed, match=r"wrong checksum \(MD5"):
        fetched(tmp_path, mirror, file=file)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/f",
        "ftp://127.0.0.1/f",
        "file:///etc/passwd",
        "f",
        "http://127.0.0.1.example.org/f",
        "https:///f",
    ],
)
def test_only_https_is_asked(url: str) -> None:
    with pytest.raises(UserError, match="https only"):
        check_address(url, loopback_http=True)


def test_plain_http_to_this_machine_needs_permission() -> None:
    check_address("https://example.org/f")
    for host in ("127.0.0.1:80", "localhost:8000", "[::1]:1"):
        check_address(f"http://{host}/f", loopback_http=True)
        with pytest.raises(UserError, match="https only"):
            check_address(f"http://{host}/f")


def test_get_makes_the_cache_and_leaves_nothing_else(tmp_path: Path, sources: dict[str, bytes]) -> None:
    expected = decode(sources, tmp_path / "sources")
    root, said = tmp_path / "root", []
    with serve(Mirror(sources)) as mirror:
        known = {"tiny": tiny_spec(sources, mirror.address, fingerprint=expected.fingerprint())}
        assert status(root, datasets=known)[0]["state"] == "absent"
        assert verify(root=root, datasets=known)[0]["state"] == "absent"
        assert get("tiny", root, policy=POLICY, report=said.append, datasets=known)[0]["action"] == "downloaded"
        assert len(mirror.requests) == 4
        again = get(["tiny", "tiny"], root, policy=POLICY, report=said.append, datasets=known)
        assert [row["action"] for row in again] == ["present"] and len(mirror.requests) == 4
    assert said == []
    assert {path.name for path in (root / "tiny").iterdir()} == {"tiny.npz", ".lock"}
    row = status(root, datasets=known)[0]
    assert row["state"] == "present" and row["samples"] == 40 and row["classes"] == 3 and row["detail"] == ""
    checked = verify("tiny", root, datasets=known)[0]
    assert checked["state"] == "ok" and checked["fingerprint"] == checked["expected"] == expected.fingerprint()
    assert read_arrays(root / "tiny" / "tiny.npz").split.sum() == 10


def test_a_corrupt_cache_is_reported_and_made_anew(tmp_path: Path, sources: dict[str, bytes]) -> None:
    expected = decode(sources, tmp_path / "sources")
    root = tmp_path / "root"
    path = root / "tiny" / "tiny.npz"
    x = expected.x.copy()
    x[0, 0, 0] ^= 1
    save_arrays(path, Arrays("tiny", x, expected.y))
    altered = path.read_bytes()
    with serve(Mirror(sources)) as mirror:
        known = {"tiny": tiny_spec(sources, mirror.address, fingerprint=expected.fingerprint())}
        for content in (altered, altered[:-50], b""):
            path.write_bytes(content)
            said: list[str] = []
            assert status(root, datasets=known)[0]["state"] == "corrupt"
            assert verify("tiny", root, datasets=known)[0]["state"] == "corrupt"
            row = get("tiny", root, policy=POLICY, report=said.append, datasets=known)[0]
            assert row["action"] == "redone" and row["state"] == "present"
            assert len(said) == 1 and str(path) in said[0] and "making it anew" in said[0]
            assert path.with_name("tiny.npz.set-aside").read_bytes() == content


def test_a_failed_get_leaves_the_old_file_and_can_go_on(tmp_path: Path, sources: dict[str, bytes]) -> None:
    path = tmp_path / "tiny" / "tiny.npz"
    path.parent.mkdir()
    path.write_bytes(b"old")
    lacking = {name: content for name, content in sources.items() if name != "test_labels.gz"}
    with serve(Mirror(lacking)) as mirror, pytest.raises(DownloadFailed, match=r"test_labels\.gz"):
        get("tiny", tmp_path, report=[].append, policy=POLICY, datasets={"tiny": tiny_spec(sources, mirror.address)})
    assert path.read_bytes() == b"old"
    with serve(Mirror(sources)) as mirror:
        get("tiny", tmp_path, report=[].append, policy=POLICY, datasets={"tiny": tiny_spec(sources, mirror.address)})
    assert [name for name, _ in mirror.requests] == ["test_labels.gz"]


def test_one_that_fails_does_not_keep_the_others_waiting(tmp_path: Path, sources: dict[str, bytes]) -> None:
    with serve(Mirror(sources)) as mirror:
        spec = tiny_spec(sources, mirror.address)
        known = {name: replace(spec, name=name) for name in ("first", "second")}
        known["first"] = replace(known["first"], mirrors=[f"{mirror.address}none/"])
        with pytest.raises(
            DownloadFailed, match="1 of 2 data sets were not got, 1 is there; first: could not download"
        ):
            get(["first", "second"], tmp_path, policy=POLICY, datasets=known)
        known["third"] = replace(known["second"], name="third", mirrors=())
        with pytest.raises(
            DownloadFailed, match="1 of 3 data sets were not got, 1 is there, 1 must be placed by hand; first: "
        ):
            get(None, tmp_path, policy=POLICY, datasets=known)
        assert get("second", tmp_path, policy=POLICY, datasets=known)[0]["action"] == "present"


def test_sources_that_decode_to_something_else_are_refused(tmp_path: Path, sources: dict[str, bytes]) -> None:
    with serve(Mirror(sources)) as mirror:
        known = {"tiny": tiny_spec(sources, mirror.address, fingerprint="0" * 64)}
        with pytest.raises(DownloadFailed, match="delivered something else"):
            get("tiny", tmp_path, policy=POLICY, datasets=known)
    assert {path.name for path in (tmp_path / "tiny").iterdir()} == {".lock"}


def test_no_names_are_all_names(tmp_path: Path, sources: dict[str, bytes]) -> None:
    placed = {"tiny": replace(tiny_spec(sources, ""), mirrors=())}
    (row,) = get([], tmp_path, datasets=placed)
    assert row == get(None, tmp_path, datasets=placed)[0] and row["action"] == "by hand"


def test_names_and_roots_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown data set 'minst'; valid: mnist"):
        get(["minst"], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="must name a folder"):
        get("mnist", tmp_path / "file")
    (tmp_path / "mnist").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*mnist"):
        get("mnist", tmp_path)


def test_an_original_that_cannot_be_read_is_named(
    tmp_path: Path, sources: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "original/tiny.gz")

    monkeypatch.setattr(download, "_make", denied)
    with pytest.raises(UserError, match=r"cannot make .*tiny: Permission denied: original/tiny.gz$"):
        get("tiny", tmp_path, datasets={"tiny": tiny_spec(sources, "")})


def test_digits_are_embedded(tmp_path: Path) -> None:
    assert get("digits", tmp_path)[0]["action"] == "embedded"
    states = {row["name"]: row["state"] for row in status(tmp_path)}
    assert states.pop("digits") == "embedded" and set(states.values()) == {"absent"} and set(states) < set(DATASETS)
    assert verify("digits", tmp_path)[0]["state"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_download_once(tmp_path: Path) -> None:
    sources, said, actions = tiny_sources(), [], []
    with serve(Mirror(sources, stall=0.0)) as mirror:
        known = {"tiny": tiny_spec(sources, mirror.address)}

        def work() -> None:
            actions.append(get("tiny", tmp_path, policy=POLICY, report=said.append, datasets=known)[0]["action"])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(mirror.requests) == 4
    assert sorted(actions) == ["downloaded", "present", "present", "present"]
    assert set(said) <= {"another process is getting tiny; waiting for it"}


def test_a_killed_process_does_not_block_the_next(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from pflrepro.data.download import _alone\n"
        "with _alone(Path(sys.argv[1]), 'tiny', print):\n    print('held', flush=True); time.sleep(60)"
    )
    folder = tmp_path / "tiny"
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        said: list[str] = []
        waiting = threading.Thread(target=lambda: get_small(tmp_path, said))
        waiting.start()
        while not said and waiting.is_alive():
            time.sleep(0.01)
        holder.kill()
        waiting.join(30)
    assert said == ["another process is getting tiny; waiting for it"]
    assert (folder / "tiny.npz").exists()


def get_small(root: Path, said: list[str]) -> None:
    sources = tiny_sources()
    with serve(Mirror(sources)) as mirror:
        get("tiny", root, policy=POLICY, report=said.append, datasets={"tiny": tiny_spec(sources, mirror.address)})


def test_no_bar_where_there_is_no_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    get_small(tmp_path, [])
    assert capfd.readouterr() == ("", "")
