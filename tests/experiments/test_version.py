"""What is said of the code that made the numbers: a commit, or a version; never a place, never an error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pflrepro import __version__
from pflrepro.experiments import version
from pflrepro.experiments.run import run

WHEEL = f"wheel {__version__}"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="the repositories of these tests are made with git")
PROJECT = '[project]\nname = "pflrepro"\n'


@pytest.fixture(autouse=True)
def _not_remembered():
    version.commit.cache_clear()
    yield
    version.commit.cache_clear()


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
    return subprocess.run(
        ["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A repository with one commit, in the place of the one that the package is imported from."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    monkeypatch.setattr(version, "_FOLDER", tmp_path)
    return tmp_path


def test_a_checkout_is_its_commit(checkout):
    assert version.commit() == git(checkout, "rev-parse", "--short", "HEAD")


def test_an_edit_of_a_tracked_file_makes_it_dirty(checkout):
    (checkout / "notes.txt").write_text("untracked files are no edit")
    assert not version.commit().endswith("-dirty")
    version.commit.cache_clear()
    (checkout / "pyproject.toml").write_text(PROJECT + "# edited\n")
    assert version.commit() == git(checkout, "rev-parse", "--short", "HEAD") + "-dirty"


def test_an_edit_while_a_run_trains_is_none_of_the_run(checkout, store, fake, make):
    def edited_meanwhile(*args, **how):
        (checkout / "pyproject.toml").write_text(PROJECT + "# edited\n")
        return fake(*args, **how)

    made = run(make.experiment(), store=store, simulate=edited_meanwhile, progress=False)
    assert made.environment["versions"]["commit"] == git(checkout, "rev-parse", "--short", "HEAD")


def test_asking_writes_nothing_into_the_repository(checkout):
    os.utime(checkout / "pyproject.toml", (10**9, 10**9))  # what git would note in its index
    before = (checkout / ".git" / "index").read_bytes()
    assert not version.commit().endswith("-dirty")
    assert (checkout / ".git" / "index").read_bytes() == before


def test_a_tag_is_told_unless_it_looks_like_a_path(checkout):
    git(checkout, "tag", "-a", "v1.2", "-m", "tag")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    git(checkout, "tag", "-a", "home/user", "-m", "tag")
    assert version.commit() == f"v1.2-1-g{git(checkout, 'rev-parse', '--short', 'HEAD')}"


def test_it_is_asked_once_a_process(checkout, monkeypatch):
    first = version.commit()
    (checkout / "pyproject.toml").write_text(PROJECT + "# edited\n")
    monkeypatch.setattr(subprocess, "run", None)
    assert version.commit() == first


def test_a_work_tree_is_a_checkout(checkout, tmp_path_factory, monkeypatch):
    """Its `.git` is a file."""
    folder = tmp_path_factory.mktemp("worktrees") / "other"
    git(checkout, "worktree", "add", "-q", str(folder))
    monkeypatch.setattr(version, "_FOLDER", folder)
    assert (folder / ".git").is_file()
    assert version.commit() == git(folder, "rev-parse", "--short", "HEAD")


def test_a_repository_named_in_the_environment_is_not_the_packages(checkout, tmp_path_factory, monkeypatch):
    expected = git(checkout, "rev-parse", "--short", "HEAD")
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "another")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert version.commit() == expected


@pytest.mark.parametrize(
    "text", [None, '[project]\nname = "another"\n', "[tool]\n", "project = 1\n", "not toml", b"\xff\xfe", "a folder"]
)
def test_another_projects_repository_is_no_checkout(checkout, text):
    """An environment often lies inside the repository of the project that uses the package."""
    path = checkout / "pyproject.toml"
    path.unlink()
    if text == "a folder":
        path.mkdir()
    elif text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert version.commit() == WHEEL


def test_no_repository(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.setattr(version, "_FOLDER", tmp_path)
    assert version.commit() == WHEEL
    version.commit.cache_clear()
    monkeypatch.setattr(version, "_FOLDER", tmp_path / "archive.zip")
    assert version.commit() == WHEEL


def test_no_commit_yet(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    git(tmp_path, "init", "-q")
    monkeypatch.setattr(version, "_FOLDER", tmp_path)
    assert version.commit() == WHEEL


@pytest.mark.parametrize("script", [None, "exit 3", "exec sleep 60", "printf '\\377'"])
def test_no_git_or_one_that_fails(checkout, tmp_path_factory, monkeypatch, script):
    programs = tmp_path_factory.mktemp("bin")
    if script is not None:
        (programs / "git").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(version, "_SECONDS", 0.5)
    assert version.commit() == WHEEL


def test_the_one_in_use_names_no_place():
    assert re.fullmatch(r"[\w.+-]+|wheel [\w.+]+", version.commit())
    assert Path(version.__file__).is_relative_to(version._FOLDER)
