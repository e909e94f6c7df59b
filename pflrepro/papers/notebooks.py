"""The notebooks as files: where they are, what their parameters cell declares, and whether given values fit it."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflrepro.errors import CorruptFile, UserError, unknown

TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "None": (type(None),),
    "list[str]": (str,),
    "list[int]": (int,),
}


@dataclass(frozen=True)
class Parameter:
    """One name of a parameters cell: its declared type (`int | None`), default and comment."""

    name: str
    type: str
    default: Any
    comment: str


def notebook_path(notebook: str) -> Path:
    """The notebook file: in the checkout's `notebooks/` where there is one, else as shipped in the package."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "notebooks" / notebook
    if (package.parent / "pyproject.toml").exists() and checkout.exists():
        return checkout
    shipped = package / "_notebooks" / notebook
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
    tagged = [cell for cell in read_notebook(path)["cells"] if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise CorruptFile(f"{path.name} must have exactly one cell tagged `parameters`, not {len(tagged)}")
    return parse_parameters_cell("".join(tagged[0]["source"]))


def parse_parameters_cell(source: str) -> dict[str, Parameter]:
    """The annotated assignments of a parameters cell: `name: type = default  # comment`."""
    lines = source.splitlines()
    found: dict[str, Parameter] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.value is None:
            raise CorruptFile(f"line {node.lineno} of a parameters cell is not `name: type = value`")
        name, declared = node.target.id, ast.unparse(node.annotation)
        if any(part.strip() not in TYPES for part in declared.split("|")):
            raise CorruptFile(f"the parameter {name} has the type {declared}; known types: {', '.join(TYPES)}")
        comment = lines[node.end_lineno - 1][node.end_col_offset :].strip().removeprefix("#").strip()
        found[name] = Parameter(name, declared, ast.literal_eval(node.value), comment)
    return found


def check_parameters(notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, if every name is declared and every value has its type; else `UserError`."""
    declared = parameters(notebook)
    for name, value in values.items():
        if name not in declared:
            raise unknown(f"parameter of {notebook}", name, declared)
        if not fits(value, declared[name].type):
            raise UserError(f"parameter {name} of {notebook} must be {declared[name].type}, not {value!r}")
    return dict(values)


def fits(value: Any, declared: str) -> bool:
    """Whether a value has a declared type. True and False are no numbers.

    Example:
        >>> fits(3, "int | None"), fits(True, "int"), fits(["a"], "list[str]"), fits("a", "list[str]")
        (True, False, True, False)
    """
    for part in (part.strip() for part in declared.split("|")):
        if part.startswith("list["):
            if isinstance(value, list) and all(_is(item, part) for item in value):
                return True
        elif _is(value, part):
            return True
    return False


def _is(value: Any, part: str) -> bool:
    return isinstance(value, TYPES[part]) and (not isinstance(value, bool) or part == "bool")


def read_values(notebook: str, pairs: Mapping[str, str]) -> dict[str, Any]:
    """Values given as text (`seeds` -> `3`), read by their declared types; `UserError` names what does not fit.

    A list is written with commas (`fedavg,ditto`), nothing as `none`.
    """
    declared = parameters(notebook)
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        if name not in declared:
            raise unknown(f"parameter of {notebook}", name, declared)
        values[name] = _read_value(notebook, declared[name], text)
    return values


def _read_value(notebook: str, parameter: Parameter, text: str) -> Any:
    # None before text: every text is a string, so `str | None` would never read "none" as nothing.
    for part in sorted((part.strip() for part in parameter.type.split("|")), key=lambda part: part != "None"):
        try:
            return _convert(part, text)
        except (KeyError, ValueError):
            continue
    raise UserError(f"parameter {parameter.name} of {notebook} must be {parameter.type}, not {text!r}")


def _convert(part: str, text: str) -> Any:
    if part == "None":
        return {"none": None}[text.strip().lower()]
    if part == "bool":
        return {"true": True, "false": False}[text.strip().lower()]
    if part.startswith("list["):
        return [_convert(part[5:-1], item.strip()) for item in text.split(",") if item.strip()]
    return {"str": str, "int": int, "float": float}[part](text)
