"""Write a study's outputs: pictures, table, and beside them the page that says how they were made; export the runs behind them."""

from __future__ import annotations

import csv
import importlib.metadata as metadata
import logging
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.atomic import replacing
from pflrepro.errors import UserError
from pflrepro.experiments import compact, files
from pflrepro.papers.judging import ALPHA
from pflrepro.papers.notebooks import checkout
from pflrepro.papers.result import VERDICTS, marked
from pflrepro.papers.showing import OWN_CLAIMS, Tables, caption, claims, own_claims
from pflrepro.papers.studied import Studied
from pflrepro.papers.texts import markdown
from pflrepro.places import at_home, check_path
from pflrepro.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pflrepro.experiments.result import Run
    from pflrepro.papers.artefact import Artefact

log = logging.getLogger("pflrepro.papers")


def folder(out: str | Path = "", source: str = "out") -> Path:
    """Where outputs go: `out`, or where nothing is asked for `outputs` of the checkout, else of the current folder.

    `UserError` for what is no name of a folder, of the argument `source`.
    """
    check_path(out, source)
    return at_home(out, source) if str(out) else (checkout() or Path.cwd()) / "outputs"


def write(study: Studied, out: str | Path = "") -> list[Path]:
    """Write `<out>/<paper>/<artefact>.{pdf,png,csv,tex,md}` (more pictures and their numbers: `<artefact>-<name>.*`; `.tex` of what has
    tables); gives the paths.

    Outputs of a stand-in are named `<artefact>-smoke`, so that they never replace real ones; those of one scale replace another's,
    which a warning says. The runs behind what is no stand-in are exported to `<out>/runs`. Each file is written to a temporary name and
    renamed.
    """
    place = folder(out) / study.artefact.paper
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the outputs cannot be written to {place}: {error.strerror or error}") from None
    stand_in = study.scale.stand_in and study.artefact.trains
    stem = study.artefact.id.split("/", 1)[1] + ("-smoke" if stand_in else "")
    there = _scale_in(place, stem)
    if there and there != study.scale.name:
        again = f"pflrepro redraw {study.artefact.id} --scale {there}"
        log.warning(
            "%s at scale %s replaces that of scale %s (%s)", place / f"{stem}.md", study.scale.name, there, again
        )
    written: list[Path] = []
    for name, figure in study.figures().items():
        written += [_picture(place / f"{_joined(stem, name)}.{end}", figure) for end in ("pdf", "png")]
    csvs = [write_csv(place / f"{_joined(stem, name)}.csv", frame) for name, frame in frames(study).items()]
    page = place / f"{stem}.md"
    if tables := study.tables():
        written.append(place / f"{stem}.tex")
        tex = Tables(caption(study), tables).to_latex()
        files.write(written[-1], tex.encode())
    text = report(study, [path.name for path in written])
    files.write(page, text.encode())
    if not stand_in:
        for run in behind(study):
            compact.export(run, folder(out) / "runs", study.store.folder(run.id))
    return [*written, *csvs, page]


def _joined(stem: str, name: str) -> str:
    return f"{stem}-{name}" if name else stem


def frames(study: Studied) -> dict[str, pd.DataFrame]:
    """The numbers behind what is shown: of views by the view's name, and the cells under "" or, where a view has that, `cells`."""
    found = ((view.name, view.frame(study)) for view in study.artefact.views)
    shown = {name: frame for name, frame in found if frame is not None}
    if "" in shown and not study.artefact.trains:
        return shown
    return shown | {"cells" if "" in shown else "": study.frame}


def write_csv(path: Path, frame: pd.DataFrame) -> Path:
    """A frame as a file, its numbers with six digits."""
    with replacing(path) as file:
        frame.to_csv(file, index=False, float_format=_six_digits)
    return path


def _six_digits(value: float) -> str:
    """Of a whole number, such as parameters that are counted, all digits."""
    return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"


def shown_scale(artefact: Artefact, out: str | Path = "") -> str | None:
    """The scale of the outputs that lie there, else of the committed ones; None without any, or where a table says none."""
    folders = [folder(out), *(root / "figures" for root in [checkout()] if root)]
    return next((scale for place in folders if (scale := _scale_in(place, artefact.id))), None)


def _scale_in(place: Path, stem: str) -> str | None:
    """The scale that the cells of the outputs there say (see `frames`); None without any."""
    path = next((path for name in ("cells", "") if (path := place / f"{_joined(stem, name)}.csv").is_file()), None)
    if path is None:
        return None
    with path.open(encoding="utf-8", errors="replace", newline="") as lines:  # a damaged one is about to be replaced
        return next(csv.DictReader(lines), {}).get("scale")


def behind(study: Studied) -> list[Run]:
    """The runs behind a study's cells, each once."""
    return list({run.id: run for cell in study.cells.values() for run in cell.runs.values()}.values())


def _picture(path: Path, figure: Figure) -> Path:
    ending = path.suffix[1:]
    # No creation date inside: the same numbers give the same file.
    metadata = {"CreationDate": None, "ModDate": None} if ending == "pdf" else {"Software": None}
    with style(), replacing(path) as file:
        figure.savefig(file, format=ending, metadata=metadata)
    return path


def report(study: Studied, files: Iterable[str] = ()) -> str:
    """The page beside the outputs: picture, the paper's shape, claims, provenance; markdown without absolute paths."""
    artefact = study.artefact
    parts = [f"# {artefact.title}", artefact.about, f"*{caption(study)}*"]
    parts += [f"![{artefact.title}{_part(artefact, name)}]({name})" for name in files if name.endswith(".png")]
    said: set[str] = set()
    for view in artefact.views:
        table = view.table(study)
        if table is not None:
            parts.append(markdown(table))
        notes = [note for note in view.notes(study) if note not in said]  # views of one kind say the same
        said.update(notes)
        parts.append("\n".join(f"* {note.rstrip('.')}." for note in notes))
    if artefact.trains:
        parts += _verdicts(study)
    if study.outcomes:
        parts += ["## Claims", markdown(claims(study)) + "\n" + _how_decided(study)]
    if study.own_outcomes:
        parts += ["## Own rows", f"{markdown(own_claims(study))}\n* {OWN_CLAIMS}."]
    parts += ["## How it was made", "\n".join(f"* **{key}:** {value}" for key, value in provenance(study).items())]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _part(artefact: Artefact, name: str) -> str:
    """Which of an artefact's pictures a file is, ", part b", or nothing."""
    stem = name.rpartition(".")[0].removeprefix(artefact.id.split("/", 1)[1]).removeprefix("-smoke").removeprefix("-")
    return f", part {stem}" if len(stem) == 1 else f", {stem}" if stem else ""


def _verdicts(study: Studied) -> list[str]:
    counts = study.frame["verdict"].value_counts()
    lines = [f"* {counts[word]} {marked(word)}: {VERDICTS[word]}." for word in VERDICTS if word in counts]
    return ["\n".join(lines)]


def _how_decided(study: Studied) -> str:
    over = "over clients: they say what other clients would give"
    if study.artefact.timed:
        over = "over tested rounds: they say nothing of another machine or hour"
    seeds = {len(cell.runs) for cell in study.cells.values() if cell.runs}
    if max(seeds, default=0) > 1:
        over = f"over seeds where a claim's runs have several in common, else {over}" if 1 in seeds else "over seeds"
    if not study.counts.tests:
        return f"* {study.counts}; there was nothing to test with, as the table says."
    common = " Each is over the seeds that the claim's runs have in common." if len(seeds) > 1 else ""
    signs = "A difference is positive where it is as claimed"
    if any(claim.form == "within" for claim in study.artefact.claims):
        signs += "; of two rows that are to be near it is their distance"
    return (
        f"* {study.counts}.\n* {signs}.{common}\n* Two-sided tests {over}; kept or broken "
        f"where a claim's own p is below {ALPHA:g}, undecided above, which does not mean equal. *p after Holm* (1979) is corrected "
        "over all claims of this page."
    )


def provenance(study: Studied) -> dict[str, str]:
    """Command, scale, data, seeds, device and versions behind a study, as short texts."""
    chosen = {(row.key, column.key) for row in study.trained for column in study.trained_columns}
    others = study.cells.keys() - chosen if study.methods or study.asked_columns else ()
    there = "; the store had the other rows and columns" if any(study.cells[key].runs for key in others) else ""
    record = {"command": f"`{study.command}`{there}", "scale": f"{study.scale.name}: {study.scale.note}"}
    if not study.artefact.trains:
        packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "torch", "matplotlib"))
        return record | {"versions": f"Python {platform.python_version()}, {packages}"}
    runs = behind(study)
    record["seeds"] = _several(run.experiment.seed for run in runs) or "none run"
    record["partition seed"] = _several(run.experiment.data.partition_seed for run in runs) or "none run"
    record["spread"] = _spread(study.artefact)
    record["data fingerprints"] = _several(f"{run.experiment.data.dataset} {run.fingerprint}" for run in runs) or "none"
    record["seconds a round"] = _seconds(runs)
    facts = ("device", "processor", "backend", "workers", "threads", "dtype", "platform")
    record |= {name: _several(run.environment.get(name) for run in runs) for name in facts}
    record["versions"] = _several(_versions(run.environment.get("versions", {})) for run in runs)
    record["runs"] = ", ".join(sorted(f"`{run.id}`" for run in runs)) or "none"
    return {name: value for name, value in record.items() if value}


def _spread(artefact: Artefact) -> str:
    """What the spread is, of ours and, where a paper prints anything, of its numbers."""
    if artefact.spread == "clients":
        where = "printed and in the table; in the csv ours" if artefact.sources else "in the table; in the csv"
        return f"standard deviation over clients, {where} over seeds"
    return "population standard deviation over seeds" + (" (ours) and trials (printed)" if artefact.sources else "")


def _several(values: Iterable[Any]) -> str:
    return "; ".join(sorted({str(value) for value in values if value is not None}))


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _seconds(runs: list[Run]) -> str:
    spent = [np.sum(run.history["seconds"]) + np.sum(run.history["seconds_evaluation"]) for run in runs]
    each = sorted(float(total) / max(run.rounds, 1) for total, run in zip(spent, runs, strict=True))
    return f"{each[0]:.3g} to {each[-1]:.3g} (training and tests, as recorded by the runs)" if each else ""
