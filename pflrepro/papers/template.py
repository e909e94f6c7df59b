"""The notebook of an artefact, from one template: only the title, the id and what to try next differ.

    python -m pflrepro.papers.template        write the notebooks of all artefacts anew

A test compares every notebook with the template, so that a change is made here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pflrepro.algorithms.registry import canonical_name
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.registry import ARTEFACTS

PARAMETERS = """\
scale: str = "smoke"  # {scales}
seeds: int = 0  # number of seeds; 0: the scale's own
methods: list[str] = []  # train only these rows{such_rows}; empty: the scale's own
columns: list[str] = []  # train only these columns{such_columns}; empty: the scale's own
also: list[str] = []  # methods beside the paper's, by name ("fedprox") or of your own ("my_module:MyMethod")
backend: str = "auto"  # auto, loop, batched or graph
device: str = "cpu"  # cpu or cuda
data_root: str = ""  # folder of the data; empty: $PFLREPRO_DATA, else the user's cache
store: str = ""  # folder of the runs; empty: $PFLREPRO_STORE, else the user's cache
out: str = ""  # folder for the outputs; empty: outputs/ of the repository, or of the current folder"""
STUDY = """\
%matplotlib inline
from pflrepro import papers

where = {{"store": store, "data_root": data_root, "device": device}}
chosen = {{"seeds": seeds or None, "methods": methods, "columns": columns, "also": also}}
study = papers.study("{id}", scale, **chosen, **where)
study"""
RUN = """\
# Trains what the store lacks; what was trained once is read, and a broken run goes on where it stopped.
planned = study.run(backend=backend)
print(study)"""
TABLE = "study.table()"
SHOW = "study.show()"
CLAIMS = """\
assert study.anything_run, "nothing was run"
study.claims()"""
SUMMARY = "study.summary()"
WRITE = """\
for path in study.write(out):
    print(path)"""
NEXT = "**What to try next.** Each of these lines works in a cell of its own:\n\n```python\n{lines}\n```"
SCALES = {
    "smoke": "seconds, stand-in data",
    "fast": "real data, less of it",
    "paper": "the exact setting",
}
OTHERS = ("fedprox", "fedper", "ditto", "lg-fedavg", "q-ffl")  # a method that the artefact may not have


def notebook(artefact: Artefact) -> dict[str, Any]:
    """The notebook of an artefact in nbformat 4's form, without outputs."""
    cells = [
        _markdown(_title(artefact)),
        _code(_parameters(artefact), tags=["parameters"]),
        _code(STUDY.format(id=artefact.id)),
        _code(RUN),
        _code(TABLE),
        _code(SHOW),
        _code(CLAIMS),
        _code(SUMMARY),
        _code(WRITE),
        _markdown(NEXT.format(lines="\n".join(next_lines(artefact)))),
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place + 1}"
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def text_of(content: dict[str, Any]) -> str:
    """A notebook as the text of its file, as JupyterLab writes it: saving what was not changed changes nothing."""
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def next_lines(artefact: Artefact) -> list[str]:
    """What to try next, as code that works behind the notebook's cells."""
    lines = ["study.frame  # the table as numbers"]
    if artefact.trains:
        column = next(column for column in artefact.columns if column.has(artefact.rows[0]))
        known = {canonical_name(row.algorithm) for row in artefact.rows} | set(artefact.row_keys)
        lines.append(f'study.cells["{artefact.rows[0].key}", "{column.key}"]  # a cell, and the runs behind it')
        other = next((name for name in OTHERS if name not in known), None)
        if other is not None:
            added = f'papers.study("{artefact.id}", scale, also=["{other}"], **where).run()'
            lines.append(f"{added}  # one more method, trained beside the others")
        lines.append(f'import pflrepro; pflrepro.describe("{artefact.rows[-1].algorithm}")  # what a method does')
    return [*lines, "study.artefact  # what the artefact is, with all its scales"]


def _scales(artefact: Artefact) -> str:
    return ", ".join(f"{name} ({SCALES[name]})" for name in artefact.scale_names)


def _parameters(artefact: Artefact) -> str:
    def such_as(keys: tuple[str, ...]) -> str:
        return f", such as {json.dumps(list(keys), ensure_ascii=False)}" if artefact.trains else ""

    rows, columns = such_as(artefact.row_keys[:2]), such_as(artefact.column_keys[:1])
    return PARAMETERS.format(scales=_scales(artefact), such_rows=rows, such_columns=columns)


def _title(artefact: Artefact) -> str:
    costs = [f"* `{scale.name}`: {scale.note}" for scale in artefact.scales]
    plan = "\n\n`study.plan()` says what each scale trains and how long it may take here." if artefact.trains else ""
    return f"# {artefact.title}\n\n{artefact.about}\n\n" + "\n".join(costs) + plan


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text: str, tags: list[str] | None = None) -> dict[str, Any]:
    metadata = {"tags": tags} if tags else {}
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": _lines(text)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write the notebooks of all artefacts into the checkout's `notebooks/`."""
    root = Path(__file__).resolve().parents[2] / "notebooks"
    for artefact in ARTEFACTS.values():
        path = root / artefact.notebook
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(notebook(artefact)), encoding="utf-8")


if __name__ == "__main__":
    main()
