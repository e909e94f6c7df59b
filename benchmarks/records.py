"""One form for all records of `benchmarks/`, and the page that shows them: `python benchmarks/records.py` writes README.md from them.

A record has a title, how to read it, the command and the day, the commit, the machine, the case, and rows: one flat mapping a line of
its table. A value that was measured several times is a list; the page shows its median and its range.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LOAD = os.getloadavg()[0]  # processes that wanted a core when the script began: more than 0.5 is no idle machine
ORDER = (
    "round",
    "pfllib",
    "pfllib_short",
    "round_parts",
    "sweep",
    "methods",
    "methods_batched",
    "scaling",
    "plan",
    "convolution",
    "memory_layout",
    "heap",
    "mdl",
    "mdl_narrow",
    "data",
)
HEAD = """# Measurements of speed

Ratios measured side by side in one run on one machine. Absolute times say nothing about another machine. This page is made from the
records beside it (`python benchmarks/records.py`); a value measured several times is given as median (least to most).
"""
GPU = """## On a GPU

`make gpu MINUTES=25` does everything that needs one, each part on a clock of its own, and goes on where it was interrupted (`python
benchmarks/gpu_day.py --help`): the tests that need a device, a round beside the plain way, scaling, convolutions, probes, the
methods' rounds, then tables at the papers' own scale until the time is over. Records, logs and the run store lie in `outputs/gpu`.
`python benchmarks/gpu_day.py --tiny --device cpu` tries the same without a GPU, and so do the tests. Scaling, probes and the
methods' rounds have not been measured on one yet.
"""


def write(
    file: Path | None,
    title: str,
    what: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    device: str = "cpu",
    **case: Any,
) -> None:
    """Writes a record, or prints it where there is no file.

    Args:
        what: how its table is read, and what was found where that needs no number of another run.
        case: what was measured: sizes, data, repetitions.
    """
    import torch

    from pflrepro.cores import usable_cores
    from pflrepro.device import processor, product_name
    from pflrepro.experiments.version import commit

    machine = {"processor": processor(), "device": product_name(device), "cores": usable_cores()}
    machine |= {"threads": torch.get_num_threads(), "torch": torch.__version__, "load before": round(LOAD, 2)}
    record = {"title": title, "what": what, "command": command(), "date": datetime.now(UTC).date().isoformat()}
    record |= {"commit": commit(), "machine": machine, "case": case, "rows": [dict(row) for row in rows]}
    text = json.dumps(record, indent=1) + "\n"
    if file is None:
        print(text, end="")
    else:
        file.write_text(text, encoding="utf-8")


def command() -> str:
    """The command that runs, without where it writes and the folders of this machine."""
    script, *words = sys.argv
    words = [word for before, word in pairwise(["", *words]) if not {before, word} & {"--out", "--picture"}]
    shown = ["DIR" if os.path.isabs(word) else word for word in words]
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *shown])


def page(folder: Path = HERE) -> str:
    """README.md, from the records in the folder."""
    return "\n".join([HEAD, *sections(folder, "cpu"), GPU, *sections(folder, "gpu")])


def sections(folder: Path, device: str) -> list[str]:
    """The records of a kind of device, in their order."""
    found = {file.stem.removesuffix(f"_{device}"): file for file in folder.glob(f"*_{device}.json")}
    names = [name for name in ORDER if name in found] + sorted(set(found) - set(ORDER))
    return [section(json.loads(found[name].read_text(encoding="utf-8")), found[name]) for name in names]


def section(record: Mapping[str, Any], file: Path) -> str:
    """A record as text: what, command, machine, table, and its picture if there is one."""
    machine = dict(record["machine"])
    processor = machine.pop("processor")
    device = machine.pop("device", processor)
    names = [device, processor] if file.stem.endswith("_gpu") else [processor]
    made = f"{record['date']}, commit {record['commit']}; "
    made += ", ".join([*names, *(f"{name} {value}" for name, value in machine.items())])
    case = "; ".join(f"{name} {value}" for name, value in record["case"].items())
    parts = [f"## {record['title']}", record["what"], f"`{record['command']}` → [{file.name}]({file.name}): {made}."]
    if case:
        parts.append(f"Case: {case}.")
    picture = file.with_suffix(".png")
    if picture.exists():
        parts.append(f"![{record['title']}]({picture.name})")
    parts.append(table(record["rows"]))
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """In Markdown; a column for each name that a row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names), *([shown(row.get(name, "")) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: Any) -> str:
    """A cell: a list as median (least to most), a number with three digits that count."""
    if isinstance(value, list):
        middle, least, most = statistics.median(value), min(value), max(value)
        return shown(middle) if least == most else f"{shown(middle)} ({shown(least)} to {shown(most)})"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), encoding="utf-8")
