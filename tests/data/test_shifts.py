"""Derived data sets: what is divided, what clients see, what is kept."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pflrepro.data import frost, shifts
from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.corruptions import CORRUPTIONS, corrupt
from pflrepro.data.datasets import DATASETS, load_arrays
from pflrepro.data.download import get, status, verify
from pflrepro.data.federation import Federation
from pflrepro.data.partition import Partition
from pflrepro.data.rotation import ANGLES
from pflrepro.data.shifts import Clients, pair_of, shifted
from pflrepro.errors import CorruptFile, MissingData, UserError
from pflrepro.papers.availability import missing_data
from pflrepro.randomness import generator

TRAIN, TEST = 60, 8
PHOTOGRAPHS = [np.full((3, 40, 40), 200, np.uint8)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root with a small CIFAR-10, its half, CIFAR-100 and MNIST, whose specs agree."""
    random = np.random.default_rng(0)
    small = {"cifar10": (3, 32, 32), "cifar10-half": (3, 32, 32), "mnist": (28, 28), "cifar100": (3, 32, 32)}
    for name, shape in small.items():
        x = random.integers(0, 256, (TRAIN + TEST, *shape), dtype=np.uint8)
        arrays = Arrays(name, x, np.arange(TRAIN + TEST) % 10, np.repeat([0, 1], [TRAIN, TEST]))
        save_arrays(tmp_path / name / f"{name}.npz", arrays)
    for name, spec in list(DATASETS.items()):
        if spec.stored_as in small:
            samples = TRAIN if spec.part == "train" else TRAIN + TEST
            names = spec.class_names[:10]
            changed = replace(spec, samples=samples, train_samples=TRAIN, fingerprint=None, class_names=names)
            monkeypatch.setitem(DATASETS, name, changed)
    monkeypatch.setattr("pflrepro.data.shifts.frost_photographs", lambda root=None: PHOTOGRAPHS)
    return tmp_path


def clients_of(name: str, root: Path, clients: int = 12) -> Clients:
    """Rows k, k + clients, ... for client k; the last row of each is its test part."""
    arrays = load_arrays(name, root)
    rows = [np.arange(k, len(arrays), clients) for k in range(clients)]
    x, y = torch.from_numpy(arrays.x), torch.from_numpy(arrays.y)
    return Clients(x, y, [part[:-1] for part in rows], [part[-1:] for part in rows])


def turned(pictures: np.ndarray, angle: float) -> np.ndarray:
    """[n, H, W] or [n, 3, H, W], each as PIL turns it."""
    images = [Image.fromarray(np.ascontiguousarray(np.moveaxis(p, 0, -1) if p.ndim == 3 else p)) for p in pictures]
    made = [np.asarray(image.rotate(angle)) for image in images]
    return np.stack([np.moveaxis(p, -1, 0) if p.ndim == 3 else p for p in made])


def test_only_training_rows_are_divided_where_the_protocol_says_so(root: Path) -> None:
    whole = load_arrays("cifar10", root)
    for name in ("rotated-cifar10", "clean-cifar10", "proxy-cifar10"):
        arrays = load_arrays(name, root)
        assert len(arrays) == TRAIN and arrays.name == name
        np.testing.assert_array_equal(arrays.x, whole.x[:TRAIN])
    assert len(load_arrays("cifar10-s", root)) == TRAIN + TEST


def test_fingerprints_tell_shifts_apart(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("cifar10", "cifar10-s", "cifar10-s-paper", "cifar10-fog-3", "proxy-cifar10", "rotated-cifar10")
    before = [load_arrays(name, root).fingerprint() for name in names]
    assert len(set(before)) == len(names)
    monkeypatch.setattr("pflrepro.data.arrays.SHIFT_REVISION", 99)
    changed = [load_arrays(name, root).fingerprint() != old for name, old in zip(names, before, strict=True)]
    assert changed == [False, True, True, True, False, True], "only what a shift makes has its revision"


def test_a_cache_that_does_not_know_its_training_rows_is_refused(root: Path) -> None:
    arrays = load_arrays("mnist", root)
    save_arrays(root / "mnist" / "mnist.npz", replace(arrays, split=None))
    with pytest.raises(CorruptFile, match=r"which of their rows are official training rows.*data get mnist"):
        load_arrays("rotated-mnist", root)
    assert verify("rotated-mnist", root)[0]["state"] == "corrupt"


def test_a_missing_source_names_the_source(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="pflrepro data get mnist"):
        load_arrays("rotated-mnist", tmp_path)
    row = status(tmp_path, "rotated-mnist")[0]
    assert row["state"] == "absent"
    wanted = "made from mnist, which is absent: get it with `pflrepro data get mnist`; without a network, place train-images-idx3"
    assert row["detail"].startswith(wanted) and row["detail"].endswith(f" in {tmp_path / 'mnist' / 'original'} first")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist.npz").write_bytes(b"rubbish")
    source, derived = status(tmp_path, ["mnist", "rotated-mnist"])
    assert source["state"] == derived["state"] == "corrupt" and "mnist.npz is corrupt" in source["detail"]
    assert derived["detail"] == f"made from mnist, which is corrupt: {source['detail']}"


def test_a_present_source_is_all_that_a_derived_set_needs(root: Path) -> None:
    assert get("rotated-mnist", root)[0]["action"] == "present"
    assert verify("rotated-mnist", root)[0]["fingerprint"] == load_arrays("rotated-mnist", root).fingerprint()
    assert not any(DATASETS[row["name"]].source for row in verify(None, root)), "they have no content of their own"
    row = status(root, "rotated-mnist")[0]
    assert row["state"] == "present" and row["path"] == str(root / "mnist" / "mnist.npz") and row["samples"] == TRAIN


def test_each_client_has_its_angle_and_is_tested_under_it(root: Path) -> None:
    source, before = load_arrays("mnist", root), clients_of("rotated-mnist", root)
    after = shifted(DATASETS["rotated-mnist"], before, 1, root)
    assert len(after.x) == len(after.y) == TRAIN + 10 * TEST
    for client, (train, test) in enumerate(zip(after.train, after.test, strict=True)):
        angle = 15 * (client % 10)
        np.testing.assert_array_equal(train, before.train[client])
        np.testing.assert_array_equal(after.x[train], turned(source.x[train], angle))
        np.testing.assert_array_equal(after.x[test], turned(source.x[TRAIN:], angle))
        np.testing.assert_array_equal(after.y[test], source.y[TRAIN:])
    np.testing.assert_array_equal(before.x, source.x[:TRAIN])


def test_images_turn_by_their_clients_distribution(root: Path) -> None:
    source, before = load_arrays("cifar10", root), clients_of("rotated-cifar10", root, clients=2)
    spec = DATASETS["rotated-cifar10"]
    after = shifted(spec, before, 1, root)
    pictures = after.x.numpy()
    under = np.array([(turned(source.x[:TRAIN], k) == pictures[:TRAIN]).all((1, 2, 3)) for k in ANGLES])
    held = np.sort(np.concatenate(after.train))
    assert (under[:, held].sum(0) == 1).all() and under[:, held].any(1).sum() > 3
    unheld = np.concatenate(before.test)
    np.testing.assert_array_equal(pictures[unheld], source.x[unheld])
    for client, rows in enumerate(before.train):  # which angle: the draws themselves, worked out anew
        odds = generator(1, "shift/angles", client=client).dirichlet([1.0] * 10)
        for row in rows.tolist():
            number = int((odds.cumsum() <= generator(1, "shift/angle", client=row).random()).sum())
            assert under[min(number, 9), row]
    again = shifted(spec, replace(before, train=[before.train[0][::2], before.train[1]]), 1, root)
    part = before.train[0][::2]
    np.testing.assert_array_equal(again.x[part], after.x[part])
    other = shifted(spec, before, 2, root)
    assert (other.x[held] != after.x[held]).any()
    assert len(after.test[1]) == TEST and (pictures[after.test[1]] == turned(source.x[TRAIN:], 15)).all()


def test_the_angles_follow_their_distribution() -> None:
    few = {}
    for concentration in ("1", "0.1"):
        counts = []
        for client in range(60):
            odds = generator(1, "shift/angles", client=client).dirichlet([float(concentration)] * 10)
            counts.append((odds > 0.05).sum())
        few[concentration] = np.mean(counts)
    assert few["0.1"] < 3.5 < few["1"]


def test_crops_and_flips_are_drawn_once(root: Path) -> None:
    before = clients_of("augmented-cifar100", root)
    after = shifted(DATASETS["augmented-cifar100"], before, 1, root)
    padded = np.pad(before.x, [(0, 0), (0, 0), (4, 4), (4, 4)])
    for row in range(12):
        crops = [padded[row, :, a : a + 32, b : b + 32] for a in range(9) for b in range(9)]
        found = after.x[row].numpy()
        assert any((found == crop).all() or (found[..., ::-1] == crop).all() for crop in crops)
    np.testing.assert_array_equal(shifted(DATASETS["augmented-cifar100"], before, 1, root).x, after.x)
    source = load_arrays("cifar100", root)
    assert all((after.x[test] == source.x[TRAIN:]).all() for test in after.test)


def test_clean_means_that_only_the_test_set_changes(root: Path) -> None:
    before = clients_of("clean-cifar10", root)
    after = shifted(DATASETS["clean-cifar10"], before, 1, root)
    np.testing.assert_array_equal(after.x, load_arrays("cifar10", root).x)
    assert [test.tolist() for test in after.test] == [list(range(TRAIN, TRAIN + TEST))] * 12


def test_pairs_of_corruption_and_severity() -> None:
    code = [pair_of(client, "code") for client in range(50)]
    assert code[:10] == [
        ("motion-blur", 1),
        ("defocus-blur", 2),
        ("gaussian-noise", 3),
        ("shot-noise", 4),
        ("impulse-noise", 5),
        ("frost", 1),
        ("fog", 2),
        ("jpeg", 3),
        ("brightness", 4),
        ("contrast", 5),
    ]
    assert len(set(code)) == 10 and code[10:] == code[:40]
    paper = [pair_of(client, "paper") for client in range(50)]
    assert len(set(paper)) == 50 and set(paper) == {(kind, k) for kind in CORRUPTIONS for k in range(1, 6)}
    with pytest.raises(UserError, match="assignment of corruptions"):
        pair_of(0, "nobody's")


def test_half_of_the_clients_are_corrupted_and_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, before = DATASETS["cifar10-s"], clients_of("cifar10-s", root, clients=20)
    after = shifted(spec, before, 1, root)
    for client in range(20):
        rows = np.concatenate([before.train[client], before.test[client]])
        changed = (after.x[rows] != before.x[rows]).any((1, 2, 3))
        assert changed.all() if client < 10 else not changed.any()
    kept = list((root / "cifar10-s").glob("corrupted-*.npz"))
    assert len(kept) == 1
    with monkeypatch.context() as patch:
        patch.setattr(shifts, "corrupt", None)
        np.testing.assert_array_equal(shifted(spec, before, 1, root).x, after.x)
    kept[0].write_bytes(b"damaged")
    np.testing.assert_array_equal(shifted(spec, before, 1, root).x, after.x)
    fewer = replace(before, train=[rows[:1] for rows in before.train])
    part = shifted(spec, fewer, 1, root)
    for rows in fewer.train:
        np.testing.assert_array_equal(part.x[rows], after.x[rows])
    assert (shifted(spec, before, 2, root).x != after.x).any()


def test_the_kept_images_are_those_of_these_data(root: Path) -> None:
    spec, before = DATASETS["cifar10-fog-3"], clients_of("cifar10-fog-3", root)
    first = shifted(spec, before, 1, root)
    others = replace(before, x=255 - before.x)
    assert (shifted(spec, others, 1, root).x != first.x).any()
    assert len(list((root / spec.name).glob("corrupted-*.npz"))) == 2
    held = np.concatenate([*before.train, *before.test])
    assert (first.x[held] != before.x[held]).any((1, 2, 3)).all()


def test_a_root_that_cannot_be_written_keeps_nothing(root: Path) -> None:
    spec, before = DATASETS["cifar10-contrast-3"], clients_of("cifar10-contrast-3", root)
    (root / spec.name).write_text("a file where the folder should be")
    assert (shifted(spec, before, 1, root).x != before.x).any()


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_new_clients_meet_every_corruption(root: Path, kind: str) -> None:
    """Each image of each client, training and test, is the corruption at severity 3 of its row's own draw."""
    spec, before = DATASETS[f"cifar10-{kind}-3"], clients_of("cifar10", root, clients=17)
    after = shifted(spec, before, 4, root)
    for row in np.concatenate([*before.train, *before.test]).tolist():
        random = generator(4, f"shift/{kind}/3", client=row)
        made = corrupt(before.x[row].numpy(), kind, 3, random, PHOTOGRAPHS)
        np.testing.assert_array_equal(after.x[row], made)
        assert (made != before.x[row].numpy()).any()


FROSTY = tuple(f"{name}-{kind}" for name in ("cifar10", "cifar10-half") for kind in ("s", "s-paper", "frost-3"))
FROSTY += ("cifar100-s", "cifar100-s-paper")


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frost.importlib.util, "find_spec", lambda name: None)


def place_photographs(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five files with the expected checksums, which stand for the photographs."""
    folder = root / "frost" / "original"
    folder.mkdir(parents=True)
    for name in frost.PHOTOGRAPHS:
        (folder / name).write_bytes(b"photograph")
    sums = dict.fromkeys(frost.PHOTOGRAPHS, hashlib.sha256(b"photograph").hexdigest())
    monkeypatch.setattr(frost, "PHOTOGRAPHS", sums)
    return folder


def test_which_sets_need_the_photographs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve clients with two images each: half of them meet the first six corruptions."""

    def none(root: Path) -> list:
        raise MissingData("no photographs")

    monkeypatch.setattr("pflrepro.data.shifts.frost_photographs", none)
    found = []
    for name in (name for name, spec in DATASETS.items() if spec.shift.startswith("corrupt")):
        before = clients_of(name, root)
        try:
            shifted(DATASETS[name], replace(before, train=[rows[:1] for rows in before.train]), 1, root)
        except MissingData:
            found.append(name)
    assert sorted(found) == sorted(FROSTY) == sorted(n for n, spec in DATASETS.items() if frost.needed_by(spec.shift))


def test_a_set_without_its_photographs_is_absent(root: Path, no_package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingData, match="pip install --no-deps imagecorruptions-imaug") as caught:
        frost.find_photographs(root)
    for row, checked in zip(status(root, FROSTY), verify(FROSTY, root), strict=True):
        assert row["state"] == checked["state"] == "absent"
        assert row["detail"] == checked["detail"] == missing_data(row["name"], root) == str(caught.value)
    with pytest.raises(MissingData) as again:
        get("cifar10-s", root)
    assert str(again.value) == str(caught.value)
    assert status(root, "cifar10-fog-3")[0]["state"] == "present" and missing_data("cifar10-fog-3", root) is None
    folder = place_photographs(root, monkeypatch)
    assert get("cifar10-s", root)[0]["action"] == "present" and missing_data("cifar10-s", root) is None
    assert {row["state"] for row in status(root, FROSTY)} == {"present"}
    assert {row["state"] for row in verify(FROSTY, root)} == {"ok"}
    (folder / "frost3.png").write_bytes(b"another")
    row = status(root, "cifar10-frost-3")[0]
    assert row["state"] == "corrupt" and "frost3.png is not the photograph" in row["detail"]


def test_all_that_is_lacking_is_said(tmp_path: Path, no_package: None) -> None:
    detail = status(tmp_path, "cifar10-s")[0]["detail"]
    assert detail.startswith("made from cifar10, which is absent: get it with `pflrepro data get cifar10`; without")
    assert "; the corruption" in detail
    assert missing_data("cifar10-s", tmp_path) == "data set cifar10-s not downloaded (pflrepro data get cifar10-s)"


def test_every_shift_is_known() -> None:
    for spec in DATASETS.values():
        assert spec.shift.partition(":")[0] in {*shifts.SHIFTS, ""}
        assert not spec.source or DATASETS[spec.source].files or DATASETS[spec.source].made_of
    with pytest.raises(UserError, match="unknown shift 'rotate'"):
        shifted(replace(DATASETS["mnist"], shift="rotate"), Clients(np.zeros((1, 2, 2)), np.zeros(1), [], []), 1)


@pytest.mark.parametrize("kind", shifts.SHIFTS)
def test_a_set_says_whether_its_clients_are_tested_on_the_official_rows(kind: str, root: Path) -> None:
    values = {"rotate-images": ":1", "corrupt-half": ":code", "corrupt-all": ":contrast,3"}
    spec = replace(DATASETS["rotated-cifar10"], shift=kind + values.get(kind, ""))
    arrays, own = load_arrays(spec.name, root), [torch.arange(10, 14), torch.arange(14, 18)]
    parts = Partition([torch.arange(0, 5), torch.arange(5, 10)], own)
    tested = Federation.of(spec, arrays, parts, root=root).rows["test"]
    assert spec.tested_officially == all(rows.min() >= len(arrays) for rows in tested)
    assert spec.tested_officially or [rows.tolist() for rows in tested] == [rows.tolist() for rows in own]


def test_a_federation_of_a_shifted_set(root: Path) -> None:
    arrays = load_arrays("rotated-mnist", root)
    parts = Partition([torch.arange(0, 20), torch.arange(20, 40)], [torch.arange(40, 44), torch.arange(44, 48)])
    federation = Federation.of(DATASETS["rotated-mnist"], arrays, parts, seed=3, root=root)
    assert federation.clients == 2 and federation.name == "rotated-mnist" and federation.classes == 10
    assert federation.sizes("train").tolist() == [20, 20] and federation.sizes("test").tolist() == [TEST, TEST]
    x, y = federation.batch(torch.tensor([25]), torch.float32)
    expected = torch.from_numpy(turned(arrays.x[25:26], 15)[0]).float() / 255
    torch.testing.assert_close(x[0, 0], expected)
    assert y.item() == arrays.y[25] and federation.seed == 3
    plain = Federation.of(DATASETS["mnist"], load_arrays("mnist", root), parts, root=root)
    assert plain.x.data_ptr() == Federation(plain.x, plain.y, [[0]], [[1]]).x.data_ptr() and len(plain.y) == 68


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["mnist", "rotated-mnist", "rotated-cifar10", "augmented-cifar100", "cifar10-s"])
def test_a_gpu_makes_the_same_samples(root: Path, name: str) -> None:
    arrays = load_arrays(name, root)
    rows = [torch.arange(k, len(arrays), 12) for k in range(12)]
    parts = Partition([part[:-1] for part in rows], [part[-1:] for part in rows])
    expected = Federation.of(DATASETS[name], arrays, parts, root=root)
    found = Federation.of(DATASETS[name], arrays, parts, root=root, device="cuda")
    assert found.x.is_cuda and torch.equal(found.x.cpu(), expected.x) and torch.equal(found.y.cpu(), expected.y)


def test_other_official_tests_are_other_data(root: Path) -> None:
    """A set without a declared fingerprint, whose clients are tested on rows that are not among its own."""
    path = root / "cifar10" / "cifar10.npz"
    names = ("rotated-cifar10", "clean-cifar10", "cifar10")
    before = {name: load_arrays(name, root).fingerprint() for name in names}
    whole = load_arrays("cifar10", root)
    x = whole.x.copy()
    x[TRAIN:] = 0
    save_arrays(path, replace(whole, x=x))
    after = {name: load_arrays(name, root).fingerprint() for name in names}
    assert all(before[name] != after[name] for name in names)


@pytest.mark.parametrize(
    ("name", "count"), [("rotated-mnist", 10), ("augmented-cifar100", 1), ("cifar10-s", None), ("mnist", None)]
)
def test_how_many_test_sets_clients_share(name: str, count: int | None) -> None:
    assert DATASETS[name].test_sets == count
    assert DATASETS[name].tested_officially == (count is not None)
