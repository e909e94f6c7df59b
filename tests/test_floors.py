"""The order of the packages: no circle of imports, and a package imports only what the table of packages in docs/design.md allows.

Every import counts, also in functions and under TYPE_CHECKING; with a lazy name the file that it lives in.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[1]
Graph = dict[str, set[str]]  # file -> the files that it imports, "data.arrays" for pflrepro/data/arrays.py


@cache
def imports(root: Path) -> Graph:
    paths = {".".join(path.relative_to(root).with_suffix("").parts): path for path in root.rglob("*.py")}
    trees = {
        f"pflrepro.{name}".removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for name, path in paths.items()
    }
    lazy = {  # a package's names that load on first use
        f"{package}.{name}": resolve_name(place, package)
        for package, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_NAMES"
        for name, place in ast.literal_eval(node.value).items()
    }
    graph = {}
    for file, tree in trees.items():
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{file}: imports inside the package are absolute"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {str(node.module), *(lazy.get(name, name) for name in names)}
        graph[_short(file)] = {_short(name) for name in found & trees.keys() - {file}}
    return graph


def _short(module: str) -> str:
    return module.removeprefix("pflrepro.") if module != "pflrepro" else "__init__"


@cache
def rooms() -> Graph:
    """room -> the rooms whose files it may import: its own, the tools of the first line, and what it reaches over allowed rooms."""
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    lines = [line.split("|") for line in re.search(r"\| package \|.*\n\| ---.*\n((?:\|.*\n)+)", text)[1].splitlines()]
    table = {room: line for line in lines for room in re.findall(r"`(\w+)(?:/|\.py)`", line[1])}
    tools = {room for room, line in table.items() if line is lines[0]}

    def reach(room: str) -> set[str]:
        words = table[room][3]
        return set(table) if words.strip() == "all" else {room} | tools.union(*map(reach, re.findall(r"`(\w+)", words)))

    return {room: reach(room) for room in table}


def faults(graph: Graph) -> list[str]:
    """Imports of a room that is not allowed, and one circle if there is one."""
    may = rooms()
    found = [f"{f} imports {n}" for f, names in graph.items() for n in names if _room(n) not in may[_room(f)]]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("circle: " + " <- ".join(error.args[1]))
    return found


def _room(file: str) -> str:
    return file.partition(".")[0]


def test_imports_keep_the_order_of_the_packages() -> None:
    graph = imports(ROOT / "pflrepro")
    assert {_room(file) for file in graph} == rooms().keys(), "docs/design.md lists every package"
    assert faults(graph) == []


def test_no_import_is_overlooked(tmp_path: Path) -> None:
    sources = {"__init__": "", "errors": "", "data/__init__": '_NAMES = {"read": ".arrays"}', "data/root": ""}
    sources["data/arrays"] = (
        "if TYPE_CHECKING:\n    import pflrepro.data.root\ndef late():\n    from pflrepro import errors"
    )
    sources["models/split"] = "class Late:\n    def late(self):\n        from pflrepro.data import read, root"
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(source)
    graph = imports(tmp_path)
    assert graph["data.arrays"] == {"__init__", "data.root", "errors"}
    assert graph["models.split"] == {"data", "data.arrays", "data.root"}
    assert len(faults(graph)) == 3
    assert faults({"data.root": {"data.arrays"}, "data.arrays": {"data.root"}})[0].startswith("circle: ")
