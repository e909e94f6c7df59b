"""What this installation is and what is wrong with it; every check stands alone, so that one broken part hides no other."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from pflrepro import __version__
from pflrepro.cores import usable_cores
from pflrepro.data.root import data_root as data_folder
from pflrepro.errors import UserError

PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "matplotlib",
    "papermill",
    "jupyterlab",
    "ipykernel",
    "ipywidgets",
    "itables",
)


def examine(
    data_root: str | Path | None = None, store: str | Path | None = None, *, mend: bool = False
) -> dict[str, Any]:
    """A report with `versions`, `devices`, `data_root`, `data`, `store` and `problems` (one line each, empty if healthy).

    Args:
        mend: put the store in order first (`pflrepro.experiments.pruning.repair`); what was done is in the report's `store`,
            `repaired`.
    """
    problems: list[str] = []
    found = versions()
    problems += [f"{name} is not installed: pip install {name}" for name, version in found.items() if version is None]
    return {
        "versions": found,
        "devices": _guarded(devices, problems, []),
        "data_root": str(_guarded(lambda: data_folder(data_root), problems, data_root or "unknown")),
        "data": _guarded(lambda: _data(data_root, problems), problems, []),
        "store": _guarded(
            lambda: _store(store, problems, mend),
            problems,
            {
                "root": str(store or "unknown"),
                "finished": 0,
                "unfinished": 0,
                "damaged": [],
                "leftovers": 0,
                "repaired": [],
            },
        ),
        "problems": problems,
    }


def versions() -> dict[str, str | None]:
    """The versions that matter for a result; None for a package that is not installed."""
    found: dict[str, str | None] = {"pflrepro": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def devices() -> list[dict[str, str]]:
    """The processor and every CUDA device."""
    import torch

    found = [
        {"name": "cpu", "about": f"{platform.machine()}, {usable_cores()} cores, {torch.get_num_threads()} threads"}
    ]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            {"name": f"cuda:{index}", "about": f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"}
        )
    return found


def _guarded(check: Callable[[], Any], problems: list[str], otherwise: Any) -> Any:
    """The check's answer; an error of the environment becomes a problem of the report instead of ending it."""
    try:
        return check()
    except (UserError, OSError, ImportError) as error:
        problems.append(" ".join(str(error).split()))
        return otherwise


def _data(root: str | Path | None, problems: list[str]) -> list[dict[str, Any]]:
    from pflrepro.data.download import status

    rows = status(root)
    corrupt = {row["name"]: row for row in rows if row["state"] == "corrupt"}
    problems += [  # each file once, not again for the sets that are made from it
        f"data set {name} is corrupt: {row['detail']}" for name, row in corrupt.items() if row["source"] not in corrupt
    ]
    return rows


def _store(root: str | Path | None, problems: list[str], mend: bool) -> dict[str, Any]:
    from pflrepro.experiments.pruning import leftovers, repair
    from pflrepro.experiments.store import Store

    store = Store(root)
    repaired = repair(store) if mend else []
    found = store.health()
    problems += [f"damaged run folder {folder}: {reason}" for folder, reason in found.damaged]
    problems += found.unreadable
    return {
        "root": str(store.root),
        "finished": len(found.finished),
        "unfinished": len(store.unfinished()),
        "damaged": [str(folder) for folder, _ in found.damaged],
        "leftovers": len(leftovers(store)),
        "repaired": repaired,
    }
