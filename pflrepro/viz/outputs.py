"""Write an artefact's outputs: picture, table, and beside them the record of how they were made."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.papers import counted, partitions
from pflrepro.papers.comparing import Result
from pflrepro.papers.evidence import t_needed
from pflrepro.papers.verdicts import ALPHA, VERDICTS
from pflrepro.style import style
from pflrepro.viz import partition, plots, tables
from pflrepro.viz.captions import caption, probability, rule_title
from pflrepro.viz.ranks import critical_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pictures(result: Result) -> dict[str, Figure]:
    """The pictures that the artefact declares, by name, the main one first; curves only where something was run.

    With them `ranks`, the critical difference, where enough was run for ranks (`pflrepro.papers.ranking`).
    """
    made: dict[str, Figure] = {}
    for name in result.artefact.pictures:
        if name == "points":
            made[name] = plots.points(result)
        elif name == "curves" and result.curves:
            made[name] = plots.curves(result)
        elif name == "bubbles":
            made[name] = partition.partition_bubbles(result)
        elif name == "bars":
            made[name] = partition.bars(result)
    if result.ranks is not None:
        made["ranks"] = critical_difference(result.ranks, result.artefact.title)
    return made


def write(result: Result, out: str | Path = "figures", figures: Mapping[str, Figure] | None = None) -> list[Path]:
    """Write `<out>/<paper>/<artefact>.{pdf,png,csv,md}` (more pictures: `<artefact>-<name>.*`); return the paths.

    Outputs of a stand-in are named `<artefact>-smoke`, so that they never replace real ones. Each file is written to
    a temporary name and renamed.
    """
    folder = Path(out) / result.artefact.paper
    folder.mkdir(parents=True, exist_ok=True)
    stem = result.artefact.id.split("/", 1)[1] + ("-smoke" if result.stand_in else "")
    figures = pictures(result) if figures is None else figures
    written = []
    for place, (name, figure) in enumerate(figures.items()):
        for ending in ("pdf", "png"):
            path = folder / (f"{stem}.{ending}" if place == 0 else f"{stem}-{name}.{ending}")
            # No creation date inside: the same numbers give the same file.
            metadata = {"CreationDate": None, "ModDate": None} if ending == "pdf" else {"Software": None}
            with style():
                _atomically(
                    path, lambda target, e=ending, f=figure, m=metadata: f.savefig(target, format=e, metadata=m)
                )
            written.append(path)
    csv, record = folder / f"{stem}.csv", folder / f"{stem}.md"
    frame = partitions.cells(result) if result.artefact.counts else result.frame
    _atomically(csv, lambda target: frame.to_csv(target, index=False, float_format="%.6g"))
    _atomically(
        record,
        lambda target: Path(target).write_text(report(result, [path.name for path in written]), encoding="utf-8"),
    )
    return [*written, csv, record]


def _atomically(path: Path, save: Callable[[str], Any]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        save(name)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def report(result: Result, files: list[str]) -> str:
    """The page beside the outputs: table, verdicts, claimed orderings, provenance; markdown without absolute paths."""
    artefact = result.artefact
    parts = [f"# {artefact.title}", f"{artefact.about}", f"*{caption(result)}*"]
    if artefact.counts:
        parts += _partitions(result)
    elif artefact.sizes:
        parts += _sizes(result)
    else:
        cells = tables.long(result)
        parts += [tables.markdown(cells.drop(columns=["scale"])), _notes(result)]
    if result.claims:
        parts += ["## Claimed orderings", _claims(result)]
    if result.ranks is not None:
        parts += ["## Average ranks", _ranks(result)]
    parts += ["## How it was made", _bullets(provenance(result))]
    if files:
        parts.append("Pictures: " + ", ".join(f"`{name}`" for name in files))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def provenance(result: Result) -> dict[str, str]:
    """Command, scale, data, seeds, selection rule, device and versions behind a result, as short texts."""
    artefact, scale = result.artefact, result.scale
    record = {
        "command": result.command,
        "scale": f"{scale.name}: {scale.note}",
    }
    if artefact.counts:
        read = sorted({f"{panel.column.dataset} {panel.fingerprint}" for panel in result.panels if panel.fingerprint})
        facts = {
            "partition seed": str(partitions.SEED),
            "data fingerprints": "; ".join(read) or "none: class sizes only",
        }
        return record | facts | _versions([])
    if artefact.sizes:
        return record | _versions([])
    runs = [run for found in result.runs.values() for run in found]
    seeds = sorted({run.experiment.seed for run in runs})
    record["seeds"] = ", ".join(map(str, seeds)) or "none run"
    record["partition seed"] = (
        ", ".join(sorted({str(run.experiment.data.partition_seed) for run in runs})) or "none run"
    )
    record["selection rule"] = f"{artefact.selection}: {rule_title(result)}"
    record["spread"] = "population standard deviation over seeds (ours) and trials (papers)"
    record["data fingerprints"] = (
        "; ".join(sorted({f"{run.experiment.data.dataset} {run.fingerprint}" for run in runs})) or "none"
    )
    record["seconds a round"] = _seconds(runs)
    return record | _versions(runs) | {"runs": ", ".join(sorted(run.folder.name[:12] for run in runs)) or "none"}


def _seconds(runs: list) -> str:
    import numpy as np

    spent = [np.sum(run.history["seconds"]) + np.sum(run.history["seconds_evaluation"]) for run in runs]
    rounds = [max(len(run.history["round"]) - 1, 1) for run in runs]
    each = sorted(float(total) / count for total, count in zip(spent, rounds, strict=True))
    return f"{each[0]:.3g} to {each[-1]:.3g} (training and evaluation, as recorded by the runs)" if each else "none"


def _versions(runs: list) -> dict[str, str]:
    """What the runs' environment records agree or differ on; without runs, the versions of this process."""
    if not runs:
        packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "torch", "matplotlib"))
        return {"versions": f"Python {platform.python_version()}, {packages}"}
    return {key: "; ".join(sorted(values)) for key, values in _facts(runs).items()}


def _facts(runs: list) -> dict[str, set[str]]:
    wanted = ("device", "processor", "backend", "workers", "threads", "dtype", "platform", "versions")
    facts: dict[str, set[str]] = {}
    for run in runs:
        for key in wanted:
            value = run.environment.get(key)
            if value is not None:
                text = (
                    ", ".join(f"{name} {version}" for name, version in value.items())
                    if isinstance(value, dict)
                    else str(value)
                )
                facts.setdefault(key, set()).add(text)
    return facts


def _notes(result: Result) -> str:
    used = [verdict for verdict in VERDICTS if verdict in set(result.frame["verdict"])]
    lines = [f"* {verdict}: {VERDICTS[verdict]}." for verdict in used]
    lines.append(
        "* 95 % interval of ours: Student's t over 2 to 9 seeds, the bootstrap over more; with one seed the bootstrap over clients."
    )
    lines.append(f"* Tolerance: two standard errors of the difference, at least {result.artefact.tolerance:g} points.")
    return "\n".join(lines)


def _partitions(result: Result) -> list[str]:
    """The table of the partitions, where the references come from, what the verdicts mean, and the shares behind bars."""
    used = [verdict for verdict in partitions.VERDICTS if verdict in set(result.frame["verdict"])]
    sources = [source for source in dict.fromkeys(result.frame["source"]) if ":" in source]
    notes = [f"{verdict}: {partitions.VERDICTS[verdict]}" for verdict in used]
    notes += [f"reference {source}" for source in sources]
    parts = [tables.markdown(partitions.table(result)), "\n".join(f"* {note}." for note in notes)]
    if result.orderings:
        parts += ["## Claimed orderings", tables.markdown(partitions.orderings(result))]
    if "bars" in result.artefact.pictures:
        shares = partitions.shares(result.drawn[0]).map("{:.2f}".format).reset_index()
        parts.append(f"Percent of the samples; in brackets the total variation to all:\n\n{tables.markdown(shares)}")
    return [*parts, "Every count that is not zero is in the csv."]


def _sizes(result: Result) -> list[str]:
    """The table of sizes, and what its verdicts mean."""
    used = [verdict for verdict in counted.VERDICTS if verdict in set(result.frame["verdict"])]
    notes = [f"* {verdict}: {counted.VERDICTS[verdict]}." for verdict in used]
    return [tables.markdown(counted.table(result)), "\n".join(notes)]


def _claims(result: Result) -> str:
    """The claimed orderings, how many came out how, and how they were decided."""
    seeds, counts = int(result.frame["n"].max()), result.claim_counts
    notes = [
        f"{counts}.",
        f"Two-sided paired tests. An ordering is read by itself: kept or broken where its own p is below {ALPHA:g}, undecided above, "
        "which does not mean equal. *p after Holm* (1979) is corrected over all tests of this table: who reads the table as a whole "
        f"holds to the decisions that are below {ALPHA:g} there too.",
    ]
    if seeds > 1:
        family = (
            f" ({t_needed(seeds, counts.tests):.1f} to stand after the correction, as the clearest of {counts.tests})"
        )
        notes.append(
            f"Paired by seed: the same start and batch orders. Few seeds have little power: over {seeds}, a difference must be "
            f"{t_needed(seeds):.1f} of its standard errors{family if counts.tests > 1 else ''}. *p over clients* is for reading only: "
            "sign flips of the clients' differences, averaged over seeds, uncorrected."
        )
    else:
        notes.append("One seed: the test speaks of other clients like these, not of another seed.")
    return tables.markdown(tables.claims(result)) + "\n" + "\n".join(f"* {note}" for note in notes)


def _ranks(result: Result) -> str:
    found = result.ranks
    over = f"{len(found.datasets)} {found.blocks}"
    left_out = [*found.dropped_methods, *found.dropped_datasets]
    return (
        f"{tables.markdown(tables.mean_ranks(result))}\n"
        f"* Ranks over {over}, 1 the best; p of Friedman's test {probability(found.p)}. Two methods whose mean ranks "
        f"differ by less than {found.critical_difference:.2f} do not differ significantly (Nemenyi, {found.alpha:g})."
        + (f"\n* Left out for missing cells: {', '.join(left_out)}." if left_out else "")
    )


def _bullets(record: Mapping[str, str]) -> str:
    return "\n".join(f"* **{key}:** {value}" for key, value in record.items())
