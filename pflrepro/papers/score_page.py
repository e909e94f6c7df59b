"""The score card as one page: coverage of every paper, every artefact's pictures and tables, every cell with its runs and their curves.

Everything is in the file: style, pictures (SVG), curves. It loads nothing, runs no script, and takes light or dark from the reader.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.atomic import replacing
from pflrepro.errors import UserError
from pflrepro.papers.artefact import FIDELITIES, paper_of
from pflrepro.papers.page_parts import as_printed, curve, details, link, small, table, value, verdict
from pflrepro.papers.registry import LINKS, PAPERS
from pflrepro.papers.result import NOT_RUN, VERDICTS, marked
from pflrepro.papers.scoring import EXACT, FULL, LESS, OUTCOMES, SHARES, ScoreCard, by_paper, status
from pflrepro.papers.studies import Study
from pflrepro.papers.texts import probability
from pflrepro.papers.views.lost import LOST
from pflrepro.places import named_folder

if TYPE_CHECKING:
    import pandas as pd

    from pflrepro.experiments.result import Run

SHOWN_ID = 8  # digits of a run's id
LONG = 40  # lines of a table that is folded away
INTRODUCTION = (
    "Published numbers beside ours, cell by cell, at the most exact scale that was run. A cell has its spread (population standard "
    "deviation over seeds), a 95 % interval, the number of seeds n, the scale and fidelity it was made at, a verdict, and its runs "
    "with their curves. What was not run says so."
)
ABOUT_RUNS = (
    "Curves: accuracy pooled over clients, before local training, over rounds, from its smallest to its largest value."
)
BARS = {FULL: "full", LESS: "less", EXACT: "exact", LOST: "none", NOT_RUN: "none"}  # the colour of a part of a bar


def write_page(card: ScoreCard, folder: str | Path) -> Path:
    """Write `<folder>/index.html`, whole or not at all; gives its path. `UserError` where that cannot be written."""
    path = named_folder(folder, "--html") / "index.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror or error}") from None
    with replacing(path) as file:
        file.write(page(card).encode())
    return path


def page(card: ScoreCard) -> str:
    """The page's text; the same card gives the same text."""
    runs, papers = card.runs(), [name for name in PAPERS if any(paper_of(id) == name for id in card.studies)]
    sections = "".join(_paper_section(card, name, runs) for name in papers)
    style = files("pflrepro.papers").joinpath("score_page.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>pflrepro: score card</title><style>{style}</style></head>\n<body>{_contents(card, papers)}"
        f'<main><h1 id="top">Score card</h1><p class="lead">{INTRODUCTION}</p>{_coverage(card)}{_legend()}{sections}'
        f"{_runs(runs)}</main></body></html>\n"
    )


# ---- contents, coverage, legend --------------------------------------------------------------------------------------------------
def _contents(card: ScoreCard, papers: Sequence[str]) -> str:
    parts = []
    for paper in papers:
        ids = [id for id in card.studies if paper_of(id) == paper]
        items = "".join(map(partial(_entry, card), ids))
        parts.append(f"<p>{link(f'#{paper}', _short(paper))}</p><ul>{items}</ul>")
    return f"<nav><p>{link('#top', 'Coverage')}</p>{''.join(parts)}<p>{link('#runs', 'Runs')}</p></nav>"


def _entry(card: ScoreCard, id: str) -> str:
    name = link(f"#{anchor(id)}", escape(id.split("/")[1]))
    return f"<li>{name}</li>" if card.shown(id) else f'<li class="none" title="{NOT_RUN}">{name} –</li>'


def anchor(artefact: str) -> str:
    return artefact.replace("/", "-")


def _short(paper: str) -> str:
    return escape(PAPERS[paper].split(":")[0])


def _coverage(card: ScoreCard) -> str:
    """One line a paper: its cells by what became of them, and its claims."""
    head = [
        "paper",
        "artefacts",
        "cells",
        "",
        *(f'<i class="{BARS[word]}"></i>&nbsp;{marked(word)}' for word in SHARES),
        "claims",
    ]
    lines = []
    for paper, found in by_paper(card).iterrows():
        name = link(f"#{paper}", _short(paper)) if paper in PAPERS else paper
        numbers = [f"{found[word]:,}" if found[word] else "" for word in SHARES]
        claims = ", ".join(f"{found[word]} {verdict(word)}" for word in OUTCOMES if found[word])
        lines.append([name, str(found["artefacts"]), f"{found['cells']:,}", _bar(found), *numbers, claims])
    return table(head, lines, "coverage")


def _bar(found: Mapping[str, int]) -> str:
    parts = [
        f'<i class="{BARS[word]}" style="flex-grow:{found[word]}" title="{found[word]} {escape(word)}"></i>'
        for word in SHARES
        if found[word]
    ]
    return f'<span class="bar">{"".join(parts)}</span>'


def _legend() -> str:
    verdicts = "".join(f"<dt>{verdict(word)}</dt><dd>{escape(said)}</dd>" for word, said in VERDICTS.items())
    fidelities = "".join(f"<dt>{escape(word)}</dt><dd>{escape(said)}</dd>" for word, said in FIDELITIES.items())
    return details(
        "Verdicts and fidelities", f"<h4>Verdicts</h4><dl>{verdicts}</dl><h4>Fidelities</h4><dl>{fidelities}</dl>"
    )


# ---- papers and artefacts --------------------------------------------------------------------------------------------------------
def _paper_section(card: ScoreCard, paper: str, runs: Mapping[str, Run]) -> str:
    links = " \u00b7 ".join(link(address, name) for name, address in LINKS.get(paper, {}).items())
    ids = [id for id in card.studies if paper_of(id) == paper]
    lines = [[link(f"#{anchor(id)}", escape(card.studies[id][0].artefact.title)), _status(card, id)] for id in ids]
    parts = "".join(_artefact_section(card, id, runs) for id in ids)
    about = f"<h2>{escape(PAPERS[paper])}</h2><p>{links}</p>{table(['artefact', 'what became of it'], lines)}"
    return f'<section id="{paper}">{about}{parts}</section>'


def _artefact_section(card: ScoreCard, id: str, runs: Mapping[str, Run]) -> str:
    artefact, shown, cells = card.studies[id][0].artefact, card.shown(id), card.of(id)
    parts = [f"<h3>{escape(artefact.title)}</h3><p>{escape(artefact.about)}</p>"]
    parts.append(
        f'<p class="status">{_status(card, id)} \u00b7 <code>{(shown or card.studies[id])[0].command}</code></p>'
    )
    parts += [_shown(study) for study in shown]
    if not shown and card.studies[id][0].tables():  # nothing of ours: the published numbers in the paper's shape
        parts.append(details("the published table", card.studies[id][0].table()._repr_html_()))
    claims = card.claims[card.claims["artefact"] == id]
    if len(claims):
        counts = "; ".join(f"scale {scale}: {counts}" for (of, scale), counts in card.counts.items() if of == id)
        parts += [f"<h4>Claims</h4><p>{escape(counts)}.</p>", _foldable("claim", len(claims), _claims(claims))]
    parts.append(_foldable("cell", len(cells), _cells(cells, runs), bool(shown)))
    return f'<article id="{anchor(id)}">{"".join(parts)}</article>'


def _foldable(word: str, count: int, content: str, open: bool = True) -> str:
    """A table of so many lines, open where it is not long."""
    return details(f"all {count} {word}s" if count > 1 else f"the {word}", content, open and count <= LONG)


def _status(card: ScoreCard, id: str) -> str:
    said = escape(status(card, id))
    return said if card.shown(id) else f'<span class="none">{said}</span>'


def _shown(study: Study) -> str:
    try:
        pictures, tables = study.show(), study.table()
    except UserError as error:  # a picture of models that nobody has looked into yet
        return f"<p>{escape(str(error))}.</p>"
    drawn = f"<figure>{pictures.html()}</figure>" if pictures.figures else ""
    return drawn + tables._repr_html_()


def _claims(claims: pd.DataFrame) -> str:
    head = ["claimed", "column", "ours, difference", "p", "p after Holm", "outcome", "test", "scale", "source"]
    lines = []
    for each in claims.itertuples():
        numbers = [
            value(each.difference, each.error, sign=True),
            *map(escape, map(probability, (each.p, each.adjusted))),
        ]
        what, ends = (
            map(escape, texts) for texts in ((each.claimed, each.column), (each.test, each.scale, each.source))
        )
        lines.append([*what, *numbers, verdict(each.outcome), *ends])
    return table(head, lines)


# ---- cells and runs ----------------------------------------------------------------------------------------------------------------
def _cells(cells: pd.DataFrame, runs: Mapping[str, Run]) -> str:
    head = ["row", "column", "published", "ours", "95 % interval", "n", "scale", "fidelity", "verdict", "curve", "runs"]
    return table(head, [_cell(cell, runs) for cell in cells.itertuples()], "cells")


def _cell(cell: Any, runs: Mapping[str, Run]) -> list[str]:
    published, ours = as_printed(cell.published, cell.published_std), value(cell.ours, cell.spread)
    interval = "" if math.isnan(cell.low) else f"{value(cell.low)} to {value(cell.high)}{small(cell.interval)}"
    known = [str(cell.n or ""), escape(cell.scale), escape(cell.fidelity)] if cell.scale else ["", "", ""]
    links = " ".join(link(f"#run-{id}", f"<code>{id[:SHOWN_ID]}</code>") for id in cell.runs.split())
    return [
        escape(cell.row),
        escape(cell.column) + small(cell.measure),
        *(number and number + small(cell.unit) for number in (published, ours)),
        interval,
        *known,
        verdict(cell.verdict, VERDICTS.get(cell.verdict, "")) + small(cell.reason),
        curve([runs[id] for id in cell.runs.split()], 84, 22, cell.rounds),
        links,
    ]


def _runs(runs: Mapping[str, Run]) -> str:
    head = ["run", "method, data", "seed", "rounds", "best %", "last %", "curve", "show it"]
    ordered = sorted(runs.values(), key=lambda run: (run.experiment.data.dataset, run.experiment.algorithm, run.id))
    shown = table(head, map(_run, ordered), "runs") if runs else "<p>None.</p>"
    return f'<section id="runs"><h2>Runs</h2><p>{ABOUT_RUNS}</p>{shown}</section>'


def _run(run: Run) -> list[str]:
    experiment, data = run.experiment, run.experiment.data
    what = f"{data.dataset}, {data.partition}, {data.clients} clients, {experiment.model}"
    scores = [f"{100 * run.accuracy(rule):.2f}" for rule in ("best_round", "last_round")]
    name, command = f'<code id="run-{run.id}">{run.id}</code>', f"<code>pflrepro show {run.id[:SHOWN_ID]}</code>"
    numbers = [str(experiment.seed), f"{run.rounds:,}", *scores]
    return [name, escape(experiment.algorithm) + small(what), *numbers, curve([run], 168, 40), command]
