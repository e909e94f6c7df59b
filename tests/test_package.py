"""The package as a whole: what importing it does, what it names, what travels in the wheel."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pflrepro
from pflrepro import stubs
from pflrepro.lazy import submodules

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "torchvision", "numpy", "pandas", "scipy", "sklearn", "matplotlib", "papermill", "IPython", "joblib")


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after running `code`."""
    program = (
        f"{code}\nimport sys\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import pflrepro",
        "import pflrepro.cli; pflrepro.cli.build_parser().format_help()",
        "import pflrepro.papers",
        "import pflrepro.errors, pflrepro.doctor",
    ],
)
def test_importing_loads_no_framework(code: str) -> None:
    loaded = loaded_by(code)
    assert "pflrepro" in loaded
    assert not loaded.intersection(HEAVY)


@pytest.mark.slow
def test_a_score_card_that_is_remembered_loads_no_framework(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = "import pflrepro.cli; pflrepro.cli.main(['score', 'demo/digits'])"
    assert "torch" in loaded_by(code)
    assert "torch" not in loaded_by(code)


def test_every_exported_name_resolves() -> None:
    for name in pflrepro.__all__:
        assert getattr(pflrepro, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pflrepro.no_such_name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_code_numbers_style_and_notebooks(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for folder, pattern, target in (
        ("pflrepro", "**/*.py", "pflrepro"),
        ("pflrepro", "**/*.csv", "pflrepro"),
        ("pflrepro", "**/*.mplstyle", "pflrepro"),
        ("pflrepro", "**/*.pyi", "pflrepro"),
        ("pflrepro", "py.typed", "pflrepro"),
        ("notebooks", "**/*.ipynb", "pflrepro/_notebooks"),
    ):
        files = [path for path in (ROOT / folder).glob(pattern) if ".ipynb_checkpoints" not in path.parts]
        expected = {f"{target}/{path.relative_to(ROOT / folder).as_posix()}" for path in files}
        assert expected, f"no {pattern} in {folder}"
        assert expected <= names


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"pflrepro", f"pflrepro-{pflrepro.__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name or ".ipynb_checkpoints" in name]


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {pflrepro.__version__}\n" in citation
    assert f"\n## {pflrepro.__version__} " in changelog


def test_the_example_of_the_readme_runs_as_it_stands_but_smaller(capsys, tmp_path, monkeypatch) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example, study = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    smaller = example.replace("clients=20, rounds=20", 'clients=4, rounds=1, model="mlp"').replace(
        "range(3)", "range(2)"
    )
    assert smaller != example
    names: dict[str, object] = {}
    exec(compile(smaller, "README.md", "exec"), names)
    assert len(names["runs"]) == 2
    assert re.fullmatch(r"\[0\.\d+ 0\.\d+\]\n", capsys.readouterr().out)
    assert re.search(r"\nstudy\.run\(\)\n(.|\n)*\nstudy\.write\(\)", study)
    monkeypatch.setattr("pflrepro.papers.outputs.checkout", lambda: tmp_path)
    exec(compile(study.replace("\nstudy.run()\n", "\n"), "README.md", "exec"), names)  # nothing trained: tables say so


def test_the_first_experiment_of_the_docs_runs_smaller() -> None:
    example = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "start.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    smaller = example.replace("clients=20, rounds=20", 'clients=4, rounds=1, model="mlp"').replace(
        "range(3)", "range(2)"
    )
    assert smaller != example
    names: dict[str, object] = {}
    exec(compile(smaller, "start.md", "exec"), names)
    assert list(names["compared"].table.index) == ["local", "fedavg", "fedavg+dbe", "ditto"]
    assert len(names["compared"].tests) == 6


def test_the_tab_key_finds_names_and_packages_without_loading_them() -> None:
    code = "import pflrepro; print(*dir(pflrepro))"
    assert not loaded_by(code).intersection(HEAVY)
    assert {"Experiment", "describe", "data", "papers", "simulation", "viz"} <= set(dir(pflrepro))
    assert not {"lazy", "atomic", "markup"} & set(dir(pflrepro)), "tools are not what one looks for"
    for name in submodules("pflrepro"):
        assert getattr(pflrepro, name).__name__ == f"pflrepro.{name}"
    assert "mdl" in dir(pflrepro.metrics) and pflrepro.metrics.mdl.online_codelength
    with pytest.raises(AttributeError, match="no attribute 'no_such_module'"):
        _ = pflrepro.metrics.no_such_module


def test_editors_and_type_checkers_read_the_same_names() -> None:
    assert {"pflrepro", "pflrepro.data", "pflrepro.papers"} <= set(stubs.lazy_packages())
    for name in stubs.lazy_packages():
        package = sys.modules[name]
        written = (Path(package.__file__).parent / "__init__.pyi").read_text("utf-8")
        assert written == stubs.stub(name), f"{name}: python -m pflrepro.stubs"
        assert all(re.search(rf"( as {public}$|^{public}: )", written, re.MULTILINE) for public in package.__all__)


def test_the_keywords_of_an_experiment_are_spelt_out() -> None:
    from dataclasses import fields

    from pflrepro.experiments.config import DataConfig, Experiment, Settings
    from pflrepro.experiments.overrides import Overrides

    of = [field.name for kind in (DataConfig, Settings) for field in fields(kind) if field.name != "dataset"]
    assert list(Overrides.__annotations__) == ["model", "seed", "dtype", *of]
    parameters = inspect.signature(Experiment.for_dataset).parameters
    assert list(parameters) == ["algorithm", "dataset", "options", *Overrides.__annotations__]
    assert repr(parameters["rounds"].default) == "<preset>" and parameters["rounds"].annotation is int


@pytest.mark.slow
def test_a_type_checker_agrees_with_the_readme_and_finds_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    others = [
        "torch",
        "torchvision",
        "numpy",
        "pandas",
        "matplotlib",
        "scipy",
        "sklearn",
        "papermill",
        "IPython",
        "joblib",
        "loky",
    ]
    config = (
        f"[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n[mypy-{','.join(f'{o}.*' for o in others)}]\n"
    )
    (tmp_path / "mypy.ini").write_text(f"{config}follow_imports = skip\n")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    good = "\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    wrong = 'pflrepro.Experiment.for_dataset("fedavg", "digits", clientss=20, rounds="ten")\npflrepro.no_such_name\n'
    (tmp_path / "readme.py").write_text(f"{good}\n{wrong}")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "readme.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"MYPYPATH": str(ROOT)}
    )
    first = good.count("\n") + 2
    found = re.findall(r"^readme\.py:(\d+): error: (.*?)  ", done.stdout, re.MULTILINE)
    assert {int(line) for line, _ in found} == {first, first + 1}, done.stdout + done.stderr
    assert "clientss" in done.stdout and '"rounds"' in done.stdout and "no_such_name" in done.stdout


def test_the_readme_names_every_verb() -> None:
    from pflrepro.cli import build_parser

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    verbs = re.findall(r"^    (\w+) ", build_parser().format_help(), re.MULTILINE)
    assert len(verbs) >= 7
    assert all(f"pflrepro {verb}" in readme for verb in verbs)


def test_the_page_of_costs_runs() -> None:
    found = doctest.testfile(str(ROOT / "docs" / "costs.md"), module_relative=False)
    assert found.failed == 0 and found.attempted > 5
