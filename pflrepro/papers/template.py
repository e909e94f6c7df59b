"""The notebook of an artefact, from one template: only the title, the id and what was found differ.

    python -m pflrepro.papers.template        write the notebooks of all artefacts anew

A test compares every notebook with the template, so that a change is made here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pflrepro.papers.artefact import Artefact
from pflrepro.papers.registry import ARTEFACTS

PARAMETERS = """\
scale: str = "smoke"  # smoke (seconds, stand-in data), fast (real data, less of it), paper (the exact setting)
seeds: int | None = None  # number of seeds; None: the scale's own
methods: list[str] = []  # train only these rows, such as ["fedavg", "fedavg+dbe"]; empty: the scale's own
also: list[str] = []  # own methods beside the paper's, such as ["my_module:MyMethod"]
backend: str = "auto"  # auto, loop, batched or graph
device: str = "cpu"  # cpu or cuda
data_root: str | None = None  # folder of the data; None: $PFLREPRO_DATA, else the user's cache
store: str | None = None  # folder of the runs; None: $PFLREPRO_STORE, else the user's cache
out: str = "figures"  # folder for the outputs"""
STUDY = """\
%matplotlib inline
from pflrepro import papers

where = {{"store": store, "data_root": data_root, "device": device}}
study = papers.study("{id}", scale, seeds=seeds, methods=methods, also=also, **where)
study"""
RUN = """\
# Trains what the store lacks; what was trained once is read, and a broken run goes on where it stopped.
planned = study.run(backend=backend)
print(study)"""
TABLE = "study.table()"
SHOW = "study.show()"
CLAIMS = """\
for path in study.write(out):
    print(path)
print(study.verdict)
assert study.anything_run, "nothing was run"
study.claims()"""
NEXT = (
    "**What to try next.** Another `scale`; only some `methods`; a method of your own with `also`; "
    "`study.frame` is the table as numbers, `study.cells[row, column].runs` the runs behind a cell."
)


def notebook(artefact: Artefact) -> dict[str, Any]:
    """The notebook of an artefact in nbformat 4's form, without outputs."""
    cells = [
        _markdown(_title(artefact)),
        _code(PARAMETERS, tags=["parameters"]),
        _code(STUDY.format(id=artefact.id)),
        _code(RUN),
        _code(TABLE),
        _code(SHOW),
        _code(CLAIMS),
        _markdown("\n\n".join(filter(None, (artefact.found, NEXT)))),
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place + 1}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def text_of(content: dict[str, Any]) -> str:
    """A notebook as the text of its file."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


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
