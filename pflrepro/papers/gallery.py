"""`figures/README.md`, the gallery of what is committed: `python -m pflrepro.papers.gallery > figures/README.md`.

It is the score card of the committed runs alone, without anybody's store or data, with the committed pictures and pages beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.registry import ARTEFACTS, LINKS, PAPERS, select
from pflrepro.papers.result import marked
from pflrepro.papers.scoring import OUTCOMES, SHARES, ScoreCard, by_paper, score_card, status

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 260  # of a picture, in pixels
HEAD = """\
# The gallery

Written from the committed runs by `python -m pflrepro.papers.gallery > figures/README.md`; do not edit it by hand.

Every table and figure of the papers, and what became of it here. A title with a link has a page with the picture, the table in the
paper's shape, the claims with their tests and how it was made; the notebook makes it anew. It was written without any data set: a
partition that must be read from one says `– not run` here, and its page may have it. `pflrepro score --html DIR` writes one page with
every cell, of your own runs too.

Marks: ✓ a test shows what the paper claims, ✗ it shows the reverse, ? no test decides, ↗ a curve still rises and may turn it,
≈ within the tolerance of the printed number, ≠ outside, = counted and equal, – not run.
"""


def page(figures: Path) -> str:
    """The page of a folder of figures; what it links to is there."""
    nothing = figures / "no-such-folder"  # neither runs of one's own nor data
    card = score_card(store=Store(nothing, behind=figures / "runs"), data_root=nothing)
    sections = [_section(card, paper, figures) for paper in PAPERS]
    return "\n".join([HEAD, _coverage(card), *sections])


def _coverage(card: ScoreCard) -> str:
    lines = []
    for paper, found in by_paper(card).iterrows():
        counts = [f"{found[name]:,}" if found[name] else "" for name in ("artefacts", "cells", *SHARES)]
        claims = ", ".join(f"{found[word]} {marked(word)}" for word in OUTCOMES if found[word])
        lines.append([PAPERS.get(paper, paper).split(":")[0], *counts, claims])
    return _table(["paper", "artefacts", "cells", *map(marked, SHARES), "claims"], lines)


def _section(card: ScoreCard, paper: str, figures: Path) -> str:
    links = [f"[{name}]({address})" for name, address in LINKS.get(paper, {}).items()]
    notes = f"docs/papers/{paper}.md"
    links += [f"[what is settled, what is doubtful](../{notes})"] if (ROOT / notes).exists() else []
    lines = [_line(card, artefact, figures) for artefact in select(paper)]
    head = ["artefact", "what became of it", "notebook", "picture"]
    if not any(picture for *_, picture in lines):
        head, lines = head[:-1], [line[:-1] for line in lines]
    return "\n".join(
        filter(None, [f"## {PAPERS[paper]}\n", " · ".join(links) + "\n" if links else "", _table(head, lines)])
    )


def _line(card: ScoreCard, artefact: Artefact, figures: Path) -> list[str]:
    own, shown = f"{artefact.id}.md", picture(artefact, figures)
    there = (figures / own).exists()
    title = f"[{artefact.title}]({own})" if there else artefact.title
    notebook = f"[{Path(artefact.notebook).name}](../notebooks/{artefact.notebook})"
    drawn = f'<img src="{shown}" width="{WIDTH}" alt="{artefact.title}">' if shown else ""
    return [title, status(card, artefact.id), notebook, f"[{drawn}]({own})" if drawn and there else drawn]


def picture(artefact: Artefact, figures: Path) -> str:
    """The committed picture of an artefact below `figures`, the main one where it has several; "" where there is none."""
    main = figures / f"{artefact.id}.png"
    others = sorted(path for path in main.parent.glob(f"{main.stem}-*.png") if "-smoke" not in path.stem)
    mine = [path for path in others if _owner(f"{artefact.paper}/{path.stem}") == artefact.id]
    return next((f"{artefact.paper}/{path.name}" for path in [main, *mine] if path.exists()), "")


def _owner(stem: str) -> str:
    """The artefact that a picture belongs to: the longest id that its name begins with (`fedbr/table7-times` before `fedbr/table7`)."""
    return max((id for id in ARTEFACTS if f"{stem}-".startswith(f"{id}-")), key=len, default="")


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    print(page(ROOT / "figures"), end="")
