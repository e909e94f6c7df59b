"""The drawings of the design page: `python docs/drawings.py` writes docs/packages.svg and docs/round.svg.

The first is the table of packages in docs/design.md, which a test compares with every import. The second is the contract of a
method: names and captions are those of the functions of `pflrepro.algorithms.contract.Method`.
"""

from __future__ import annotations

import inspect
import re
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import wrap

from pflrepro.algorithms.contract import Method

HERE = Path(__file__).parent
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1b1b1b } .name { font-weight: 600 } .mono { font: 600 13px ui-monospace, monospace }
.small { font-size: 11px; fill: #4d4d4d } rect { fill: #fff; stroke: #5b6770; rx: 6 } .lane { fill: #f1f4f6; stroke: none }
.ground { fill: #e3e8ec } .loop { fill: none; stroke-dasharray: 5 4 } path { stroke: #5b6770; fill: none; marker-end: url(#tip) }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z" style="fill: #5b6770; stroke: none; marker-end: none"/></marker></defs>"""


def svg(width: int, height: int, title: str, parts: list[str]) -> str:
    """A drawing on white, legible on dark pages too."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    back = f'<rect width="{width}" height="{height}" style="stroke: none"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, back, *parts, "</svg>"]) + "\n"


def box(x: float, y: float, width: float, height: float, lines: list[tuple[str, str]], kind: str = "") -> str:
    """A box with lines of text, each with its class."""
    drawn = [f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>']
    top = y + height / 2 - 8 * len(lines) + 12
    for number, (text, style) in enumerate(lines):
        drawn.append(f'<text class="{style}" x="{x + 10:g}" y="{top + 16 * number:g}">{escape(text)}</text>')
    return "".join(drawn)


def wrapped(text: str, width: int) -> list[str]:
    """At most two lines; what is cut ends in an ellipsis."""
    lines = wrap(text, width)
    return lines if len(lines) < 3 else [lines[0], lines[1][: width - 2].rstrip(" ,;:") + " ..."]


# ---- the packages
def table() -> tuple[str, list[tuple[str, str, list[str]]]]:
    """(what the tools are for; of every other line of the table: packages, what they hold, the packages that they may import)."""
    text = (HERE / "design.md").read_text("utf-8")
    lines = re.search(r"\| package \|.*\n\| ---.*\n((?:\|.*\n)+)", text)[1].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    folders = [
        (re.findall(r"`(\w+)/`", package) or [package], what, re.findall(r"`(\w+)", may))
        for package, what, may in cells
    ]
    return cells[0][1], [(", ".join(names), what, may) for names, what, may in folders[1:]]


def packages() -> str:
    """The packages on each other: each stands on those that it may import."""
    tools, others = table()
    level: dict[str, int] = {}
    for name, _, may in others:
        level[name] = 1 + max((level[below] for below in may if below in level), default=0)
    last = others[-1][0]  # the last line of the table may import all
    level[last] = max(level.values()) + 1
    top, width, floor = max(level.values()), 760, 84
    stands_on = {name: [below for below in may if below in level] for name, _, may in others}
    stands_on[last] = [name for name in level if level[name] == top - 1]
    spans: dict[str, tuple[float, float]] = {}
    parts = []
    for name, what, _ in sorted(others, key=lambda package: level[package[0]]):
        spans[name] = left, right = _span(name, level, stands_on, spans, width)
        y = 20 + (top - level[name]) * floor
        lines = wrapped(what.replace("`", ""), int((right - left) / 6.4))
        parts.append(box(left, y, right - left, 58, [(name, "name"), *((line, "small") for line in lines)]))
        for below in stands_on[name]:
            middle = (max(left, spans[below][0]) + min(right, spans[below][1])) / 2
            parts.append(f'<path d="M{middle:g} {y + 58:g}V{20 + (top - level[below]) * floor - 2:g}"/>')
    ground = 20 + top * floor
    parts.append(box(20, ground, width - 40, 40, [(tools, "small")], "ground"))
    return svg(width, ground + 60, "The packages: each imports what lies below it", parts)


def _span(
    name: str, level: dict[str, int], stands_on: dict[str, list[str]], spans: dict[str, tuple[float, float]], width: int
) -> tuple[float, float]:
    """From where to where a package reaches: over all that it stands on, shared with those that stand on the same."""
    below = stands_on[name]
    left = min((spans[package][0] for package in below), default=20)
    right = max((spans[package][1] for package in below), default=width - 20)
    beside = [package for package in level if level[package] == level[name] and stands_on[package] == below]
    each = (right - left - 20 * (len(beside) - 1)) / len(beside)
    left += beside.index(name) * (each + 20)
    return left, left + each


# ---- one round
LANES = ("server, on the host", "each client of the cohort", "tests")
ROUND = (  # lane, functions of the contract in the order in which a round calls them
    (0, ("phases", "send")),
    (1, ("begin",)),
    (1, ("transform", "step", "loss", "correct", "leave")),
    (1, ("finish",)),
    (0, ("serve", "aggregate")),
    (2, ("model", "trained", "predict")),
)


def caption(name: str) -> str:
    """What the contract says of a function, up to its first full stop or semicolon."""
    text = " ".join(inspect.getdoc(getattr(Method, name)).split("\n\n")[0].split())
    return re.split(r"[.;](?: |$)", text.replace("`", ""))[0]


def one_round() -> str:
    """The functions of a method in the order of a round, in lanes by who is at work."""
    wide, parts, y = 300, [], 46
    place: list[tuple[int, tuple[str, ...], float, float]] = []
    for lane, names in ROUND:
        x, start = 20 + lane * (wide + 14), y
        for name in names:
            inset = 12 if len(names) > 3 else 0
            lines = wrapped(caption(name), 42 if inset else 46)
            height = 30 + 16 * len(lines)
            parts.append(
                box(x + inset, y, wide - 2 * inset, height, [(name, "mono"), *((one, "small") for one in lines)])
            )
            y += height + 8
        if len(names) > 3:
            parts.append(f'<rect class="loop" x="{x}" y="{start - 8}" width="{wide}" height="{y - start + 8:g}"/>')
            y += 8
        place.append((lane, names, start, y))
        y += 18
    for (lane, _, _, end), (other, names, start, _) in pairwise(place):
        x, to = 20 + lane * (wide + 14) + wide / 2, 20 + other * (wide + 14) + wide / 2
        tip = start - (10 if len(names) > 3 else 2)
        parts.append(f'<path d="M{x:g} {end - 8:g}V{end + 4:g}H{to:g}V{tip:g}"/>')
    lanes = [
        f'<rect class="lane" x="{20 + lane * (wide + 14) - 6}" y="10" width="{wide + 12}" height="{y - 6:g}"/>'
        f'<text class="name" x="{20 + lane * (wide + 14) + 4}" y="30">{escape(name)}</text>'
        for lane, name in enumerate(LANES)
    ]
    note = "dashed: every phase of the round, batch by batch (loop backend: one client after another; batched: all at once)"
    parts.append(f'<text class="small" x="20" y="{y + 20:g}">{note}</text>')
    return svg(3 * (wide + 14) + 26, int(y + 34), "One round of a method, function by function", [*lanes, *parts])


DRAWINGS = {"packages.svg": packages, "round.svg": one_round}

if __name__ == "__main__":
    for file, draw in DRAWINGS.items():
        (HERE / file).write_text(draw(), "utf-8")
