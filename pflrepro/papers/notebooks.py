"""The notebooks as files: where they are, what their parameters cell declares, and whether given values fit it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflrepro.algorithms.lists import listed
from pflrepro.errors import CorruptFile, UserError, unknown

TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "list[str]": (str,),
}


@dataclass(frozen=True)
class Parameter:
    """One name of a parameters cell: its declared type, default and comment."""

    name: str
    type: str
    default: Any
    comment: str


PACKAGE = Path(__file__).resolve().parents[1]


def checkout() -> Path | None:
    """The repository that the package lies in, or None where it is installed without one."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").exists() and (root / "notebooks").is_dir() else None


def notebook_path(notebook: str) -> Path:
    """The notebook file: in the checkout's `notebooks/` where there is one, else as shipped in the package."""
    root = checkout()
    if root is not None and (root / "notebooks" / notebook).exists():
        return root / "notebooks" / notebook
    shipped = PACKAGE / "_notebooks" / notebook
    if shipped.exists():
        return shipped
    raise CorruptFile(f"the notebook {notebook} is missing from the installation; install pflrepro again")


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as a dictionary; `CorruptFile` if it is not one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptFile(f"{path.name} cannot be read as a notebook ({error}); restore it") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise CorruptFile(f"{path.name} is not a notebook: it has no list of cells; restore it")
    return content


def parameters(notebook: str) -> dict[str, Parameter]:
    """What the one cell tagged `parameters` declares, in its order."""
    path = notebook_path(notebook)
    return declared_in(read_notebook(path), path.name)


def declared_in(content: Mapping[str, Any], name: str) -> dict[str, Parameter]:
    """`parameters` of a notebook that was read; `name`: what an error calls it."""
    tagged = [cell for cell in content["cells"] if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise CorruptFile(f"{name} must have exactly one cell tagged `parameters`, not {len(tagged)}")
    return parse_parameters_cell("".join(tagged[0]["source"]))


def parse_parameters_cell(source: str) -> dict[str, Parameter]:
    """The annotated assignments of a parameters cell: `name: type = default  # comment`.

    Types are those that papermill reads too, so that its `--help-notebook` lists every parameter: no unions; nothing is "" or 0.
    """
    lines = source.splitlines()
    found: dict[str, Parameter] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.value is None:
            raise CorruptFile(f"line {node.lineno} of a parameters cell is not `name: type = value`")
        name, declared = node.target.id, ast.unparse(node.annotation)
        if declared not in TYPES:
            raise CorruptFile(f"the parameter {name} has the type {declared}; known types: {', '.join(TYPES)}")
        comment = lines[node.end_lineno - 1][node.end_col_offset :].strip().removeprefix("#").strip()
        found[name] = Parameter(name, declared, ast.literal_eval(node.value), comment)
    return found


def check_parameters(notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, if every name is declared and every value has its type; else `UserError`."""
    return check_values(notebook, parameters(notebook), values)


def check_values(notebook: str, declared: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of declared parameters; a list may be a text, as the command line gives it (see `listed`)."""
    checked = {}
    for name, value in values.items():
        if name not in declared:
            raise unknown(f"parameter of {notebook}", name, declared)
        kind = declared[name].type
        read = kind == "list[str]" and isinstance(value, str)
        checked[name] = listed(f"parameter {name} of {notebook}", value) if read else value
        if not fits(checked[name], kind):
            raise UserError(f"parameter {name} of {notebook} must be {kind}, not {value!r}")
    return checked


def fits(value: Any, declared: str) -> bool:
    """Whether a value has a declared type. True and False are no numbers.

    Example:
        >>> fits(3, "int"), fits(True, "int"), fits(["a"], "list[str]"), fits("a", "list[str]")
        (True, False, True, False)
    """
    if declared == "list[str]":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, TYPES[declared]) and (not isinstance(value, bool) or declared == "bool")


def read_values(notebook: str, pairs: Mapping[str, str]) -> dict[str, Any]:
    """Values given as text (`seeds` -> `3`), read by their declared types; `UserError` names what does not fit.

    A list is written as `listed` reads it.
    """
    declared = parameters(notebook)
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        if name not in declared:
            raise unknown(f"parameter of {notebook}", name, declared)
        if declared[name].type == "list[str]":
            values[name] = listed(f"parameter {name} of {notebook}", text)
            continue
        try:
            values[name] = _convert(declared[name].type, text)
        except (KeyError, ValueError):
            raise UserError(f"parameter {name} of {notebook} must be {declared[name].type}, not {text!r}") from None
    return values


def artefact_shown(content: Mapping[str, Any]) -> str:
    """The id of the artefact that a notebook makes a study of, with the parameters of its cell; "" for other notebooks."""
    code = "\n".join("".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code")
    found = re.search(r'papers\.study\("([^"]+)", scale, \*\*chosen', code)
    return found[1] if found else ""


def _convert(kind: str, text: str) -> Any:
    if kind == "bool":
        return {"true": True, "false": False}[text.strip().lower()]
    return {"str": str, "int": int, "float": float}[kind](text)
