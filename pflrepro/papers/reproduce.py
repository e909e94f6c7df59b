"""Regenerate an artefact headlessly: check the parameters, run what is missing, execute the notebook."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflrepro.device import BACKENDS, resolve_device
from pflrepro.errors import MissingData, RunFailed, UserError, check_word
from pflrepro.experiments.store import Store
from pflrepro.papers import notebooks
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.outputs import folder
from pflrepro.papers.registry import find
from pflrepro.papers.studies import Study
from pflrepro.places import named_folder

# The parameters of a notebook that a study takes; the others say how it is run (`backend`) and where it is written to (`out`).
CHOICE = ("seeds", "methods", "columns", "also")
OF_STUDY = ("scale", *CHOICE, "device", "data_root", "store")


@dataclass(frozen=True)
class Reproduced:
    """What came out: the artefact's id and scale, the files written, the executed notebook (the log), what could not be trained."""

    artefact: str
    scale: str
    outputs: tuple[Path, ...]
    notebook: Path
    lacks: str = ""


def reproduce(
    artefact: str | Artefact,
    scale: str = "fast",
    parameters: Mapping[str, Any] | None = None,
    figures: str | Path = "",
    *,
    store: str | Path | None = None,
    progress: bool = True,
    workers: int | None = None,
    launcher: str | None = None,
) -> Reproduced:
    """Regenerate one artefact: train what the store lacks (resumable), then execute its notebook on the store.

    The executed notebook goes to a folder of logs in the store, or beside the outputs where the store cannot be written to.

    Raises `UserError` for bad input and `RunFailed` when a cell fails.

    Args:
        parameters: further values for the notebook's parameters cell; unknown names and ill-typed values are refused first.
        figures: outputs go to `<figures>/<paper>/`; default: where a notebook's go (`outputs`), so that the committed ones stay.
        launcher: where what is missing is trained, see `pflrepro.sweep`; default: here.
    """
    artefact, figures = find(artefact), named_folder(folder(figures, "figures"), "figures")
    values = _values(artefact, scale, dict(parameters or {}), figures, store)
    _check_folder(figures / artefact.paper)
    source = notebooks.notebook_path(artefact.notebook)
    study = Study(artefact, **{name: values[name] for name in OF_STUDY if values.get(name)})
    planned = study.run(backend=values.get("backend", "auto"), progress=progress, workers=workers, launcher=launcher)
    target = _executed_path(artefact, scale, study.store, figures)
    del study  # it holds the models that were looked at last
    before = _stamps(figures / artefact.paper)
    _execute(artefact, source, target, values)
    after = _stamps(figures / artefact.paper)
    written = tuple(path for path, stamp in sorted(after.items()) if before.get(path) != stamp)
    return Reproduced(artefact.id, scale, written, target, planned.lacking)


def check_choice(artefact: str | Artefact, values: Mapping[str, Any]) -> None:
    """`UserError` for parameters of an artefact's notebook that a study of it, or its run, would refuse; places are not looked at."""
    artefact, given = find(artefact), {name: values[name] for name in CHOICE if values.get(name)}
    # where a kernel finds a class of the user's own is not known before it has started
    given["also"] = [name for name in given.get("also", ()) if ":" not in name]
    Study(artefact, values["scale"], **given)
    check_word("backend", values["backend"], BACKENDS)
    resolve_device(values["device"])


def _values(
    artefact: Artefact, scale: str, given: dict[str, Any], figures: Path, store: str | Path | None
) -> dict[str, Any]:
    for name, value in (("scale", scale), ("out", str(figures))):
        if given.get(name, value) != value:
            raise UserError(f"parameter {name} is {given[name]!r}, where the call itself says {value!r}; set it there")
    artefact.scale(scale)
    given |= {"scale": scale, "out": str(figures)}
    if store is not None:
        given["store"] = str(store)
    values = notebooks.check_parameters(artefact.notebook, given)
    check_word("backend", values.get("backend", "auto"), BACKENDS)
    if "device" in values:
        values["device"] = resolve_device(values["device"])
    return values


def _check_folder(folder: Path) -> None:
    """`UserError` if outputs cannot be written to `folder`, before anything is trained for them; leaves nothing behind."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=nearest).close()  # permissions do not tell: nobody can make a file in /proc
    except OSError:
        raise UserError(
            f"the outputs cannot be written to {folder}: {nearest} is no folder that can be written to"
        ) from None


def _executed_path(artefact: Artefact, scale: str, store: Store, figures: Path) -> Path:
    """Where the executed notebook goes, in a folder that can be written to."""
    folder = Path(store.root) / "notebooks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        folder = figures / artefact.paper  # a store that cannot be written to still serves
        folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{artefact.id.replace('/', '-')}-{scale}.ipynb"


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    if not folder.is_dir():
        return {}
    stats = {path: path.stat() for path in folder.iterdir() if path.is_file()}
    return {path: (stat.st_mtime_ns, stat.st_ino) for path, stat in stats.items()}


def _execute(artefact: Artefact, source: Path, target: Path, values: dict[str, Any]) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError

    from pflrepro.papers.kernels import execute

    try:
        execute(source, target, values)
    except papermill.PapermillExecutionError as error:
        raise _cell_error(artefact, target, error) from error
    except OSError as error:
        raise RunFailed(
            f"notebook {artefact.notebook} cannot be executed into {target}: {error.strerror or error}"
        ) from error
    except DeadKernelError as error:
        raise RunFailed(f"notebook {artefact.notebook}: its kernel died (out of memory?); log: {target}") from error


def _cell_error(artefact: Artefact, target: Path, error: Any) -> Exception:
    """The cell's error in one line; a user's mistake stays one."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error.evalue)).strip().splitlines()
    message = lines[0] if lines else "no message"
    if error.ename in ("UserError", "MissingData", "CorruptFile"):
        return (MissingData if error.ename == "MissingData" else UserError)(message)
    return RunFailed(
        f"notebook {artefact.notebook}, cell {error.cell_index + 1}: {error.ename}: {message}; log: {target}"
    )
