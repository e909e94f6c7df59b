"""Which modules are the user's, and how those that a function imports are found."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import torch  # noqa: F401, its modules are asked about

from pflrepro import own_modules
from pflrepro.experiments.source import code_of

USER = """
class Mine:
    def step(self, x):
        from . import part
        import package_of_mine.broken, this, no_such_module, package_of_mine.part as same

        return part.f(x)
"""


def test_whose_modules_are_whose(tmp_path, monkeypatch):
    def made(name: str, file: Path | None, **attributes) -> str:
        module = ModuleType(name)
        vars(module).update(attributes, **({} if file is None else {"__file__": str(file)}))
        monkeypatch.setitem(sys.modules, name, module)
        return name

    own = ["__main__", "not_registered", made("in_a_folder", tmp_path / "in_a_folder.py")]
    own += [made("spread", None, __path__=[str(tmp_path / "spread")]), made("spread.part", tmp_path / "part.py")]
    installed = Path(np.__file__).parents[1]
    others = ["pflrepro", "pflrepro.trees", "sys", "builtins", "os", "json.decoder", "numpy", "torch.nn", "torch.ops"]
    others += [made("put_there", installed / "put_there.py"), made("elsewhere", Path("/opt/dist-packages/x.py"))]
    others += [made("numpy.added", tmp_path / "added.py"), made("without_file", None)]
    assert [name for name in own + others if own_modules.is_own(name)] == own


def test_a_link_to_an_installed_folder_is_installed(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(Path(np.__file__).parents[1])
    module = ModuleType("linked")
    module.__file__ = str(tmp_path / "link" / "linked.py")
    monkeypatch.setitem(sys.modules, "linked", module)
    assert not own_modules.is_own("linked")


def test_imports_inside_functions(tmp_path, monkeypatch):
    """The user's modules are loaded for it, others are not, and what fails is left out."""
    package = tmp_path / "package_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("def f(x):\n    return x\n")
    (package / "broken.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "this", raising=False)

    def load() -> str:
        space = {"__name__": "package_of_mine.user", "__package__": "package_of_mine"}
        exec(USER, space)
        return code_of(space["Mine"])

    first = load()
    part = sys.modules["package_of_mine.part"]
    assert first == load()
    assert "this" not in sys.modules
    exec("def f(x):\n    return x + 1\n", vars(part))
    assert load() != first
    for name in ("package_of_mine", "package_of_mine.part"):
        monkeypatch.delitem(sys.modules, name)
