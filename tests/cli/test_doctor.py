"""What `doctor` finds, repairs, and reports."""

from __future__ import annotations

from pathlib import Path

from helpers.commands import answer

from pflrepro import cli
from pflrepro.errors import UserError


def test_doctor_finds_a_healthy_house(capsys) -> None:
    report = answer(capsys, "doctor")
    assert report["problems"] == []
    assert report["devices"][0]["name"] == "cpu"
    assert report["versions"]["torch"]
    assert report["versions"]["ipykernel"]
    assert (report["store"]["finished"], report["store"]["unfinished"]) == (0, 0)


def test_doctor_repairs_a_store_on_request(capsys, tmp_path: Path) -> None:
    import pflrepro

    made = pflrepro.run(
        pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=0, model="mlp"), store=tmp_path
    )
    (made.folder / ".done.1.ab.tmp").write_bytes(b"half")
    place = ("--store", str(tmp_path))
    assert answer(capsys, "doctor", *place)["store"]["leftovers"] == 1
    (made.folder / "config.json").write_bytes(b"{}")
    assert answer(capsys, "doctor", *place, code=1)["store"]["damaged"] == [str(made.folder)]
    report = answer(capsys, "doctor", "--repair", *place)
    assert report["store"]["repaired"] == [
        f"run folder {made.id} was damaged (config.json is not what was written) and is set aside"
    ]
    assert report["problems"] == [] and report["store"]["finished"] == 0


def test_doctor_never_says_none_for_a_folder(capsys, monkeypatch) -> None:
    monkeypatch.setenv("PFLREPRO_STORE", "/dev/null")
    monkeypatch.setenv("PFLREPRO_DATA", "/dev/null")
    report = answer(capsys, "doctor", code=1)
    assert (report["store"]["root"], report["data_root"]) == ("unknown", "unknown") and len(report["problems"]) > 1


def test_doctor_reports_what_is_broken_and_goes_on(capsys, monkeypatch, tmp_path: Path) -> None:
    from pflrepro import doctor

    def broken() -> list[dict[str, str]]:
        raise UserError("the device is on fire")

    monkeypatch.setattr(doctor, "devices", broken)
    monkeypatch.setattr(doctor, "PACKAGES", ("torch", "no-such-package"))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist.npz").write_bytes(b"not an archive")
    report = answer(capsys, "doctor", "--data-root", str(tmp_path), code=1)
    missing, fire, corrupt = report["problems"]
    assert missing == "no-such-package is not installed: pip install no-such-package"
    assert fire == "the device is on fire"
    assert corrupt.startswith("data set mnist is corrupt")
    assert {row["name"]: row["state"] for row in report["data"]}["mnist"] == "corrupt"
    assert cli.main(["doctor", "--data-root", str(tmp_path)]) == 1
    assert "on fire" in capsys.readouterr().out
