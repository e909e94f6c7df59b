"""How objects show themselves: short as text, as HTML in a notebook (tables, facts, what folds away), and tables as LaTeX.

The HTML takes its colours from the page, so that numbers are legible in dark themes, uses neither scripts nor style sheets, and says
all that it means in text: a notebook that is not trusted, and GitHub, strip the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Head = Sequence[tuple[str, ...]]
MOST = 8  # entries of a list that is printed as it is
_NUMBER = re.compile(r"(?!\d+:)(\*\*|<u>|< )?[+-]?[\d.]|none|unknown")


def facts(title: str, rows: Mapping[str, Any]) -> str:
    """A table of names and what they are, under its title; what is empty is left out."""
    lines = (
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{inline(str(value))}</td></tr>'
        for name, value in rows.items()
        if str(value)
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def records(lines: Sequence[Mapping[str, Any]]) -> str:
    """Lines of the same names as a table; columns that are empty everywhere are left out."""
    names = filled(lines)
    return table([(name,) for name in names], [[line[name] for name in names] for line in lines])


def filled(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of lines of the same names, but those that are empty everywhere."""
    return [name for name in lines[0] if any(str(line[name]) for line in lines)] if lines else []


def table(head: Head, lines: Iterable[Sequence[Any]], titles: Mapping[str, str] | None = None) -> str:
    """Texts as a table. Each level of the head is a line, equal neighbours are one cell; numbers stand to the right.

    In a text `**x**` is bold, `<u>x</u>` underlined, `[x](address)` a link.

    Args:
        titles: what a mark at the end of a text means, shown over it.
    """
    texts = [[str(text) for text in line] for line in lines]
    aligns = [_align([line[place] for line in texts]) for place in range(len(head))]
    top = "".join(f"<tr>{_head_line(head, level, aligns)}</tr>" for level in range(len(head[0]) if head else 0))
    cells = [[_td(text, align, titles or {}) for text, align in zip(line, aligns, strict=True)] for line in texts]
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in cells)
    shown = f'<table style="border-collapse:collapse"><thead>{top}</thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto">{shown}</div>'


def folded(summary: str, content: str, opened: bool = False) -> str:
    """HTML that can be folded away under a text."""
    return f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>{content}</details>"


def inline(text: str) -> str:
    """A text with its bold, underlined and linked parts."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text))
    lined = re.sub(r"&lt;u&gt;(.+?)&lt;/u&gt;", r"<u>\1</u>", bold)
    return re.sub(r"\[([^\]]+)\]\((https://[^\s)]+)\)", r'<a href="\2">\1</a>', lined)


def _align(texts: Sequence[str]) -> str:
    return "right" if all(map(_NUMBER.match, filter(None, texts))) else "left"


def _head_line(head: Head, level: int, aligns: Sequence[str]) -> str:
    """The cells of one line of the head: neighbours with the same names down to it are one."""
    cells, place, last = [], 0, level == len(head[0]) - 1
    for names, group in groupby(head, key=lambda names: names[: level + 1]):
        width = len(list(group))
        align = aligns[place] if last else "center"
        rule = ";border-bottom:1px solid" if names[-1] or last else ""
        cells.append(f'<th colspan="{width}" style="text-align:{align}{rule}">{inline(names[-1])}</th>')
        place += width
    return "".join(cells)


def _td(text: str, align: str, titles: Mapping[str, str]) -> str:
    body, gap, mark = text.rpartition(" ")
    if gap and mark in titles:
        shown = f'{inline(body)} <span title="{escape(titles[mark])}">{escape(mark)}</span>'
    else:
        shown = inline(text)
    # Sentences break; numbers and names do not.
    wrap = "normal" if len(text) > 60 else "nowrap"
    return f'<td style="text-align:{align};white-space:{wrap}">{shown}</td>'


def latex(frame: pd.DataFrame) -> str:
    """A data frame of texts as a LaTeX table (booktabs, amssymb), bold, underlined and marked as in the page, without the index.

    Example:
        >>> import pandas as pd
        >>> print(latex(pd.DataFrame({"method": ["A_1"], "%": ["**97.69** ± 0.05 ≈"]})), end="")
        \\begin{tabular}{lr}
        \\toprule
        method & \\% \\\\
        \\midrule
        A\\_1 & \\textbf{97.69} $\\pm$ 0.05 $\\approx$ \\\\
        \\bottomrule
        \\end{tabular}
    """
    import pandas as pd

    shown = frame.map(lambda value: _tex(str(value)))
    names = [tuple(map(_tex, levels(name))) for name in frame.columns]
    several = len(names[0]) > 1
    shown.columns = pd.MultiIndex.from_tuples(names) if several else [name for (name,) in names]
    layout = "l" + "r" * (len(names) - 1)
    return shown.to_latex(index=False, escape=False, column_format=layout, multicolumn_format="c")


# Signs that stand for themselves in a page; what LaTeX takes for a command is escaped first.
_TEX = {"±": r"$\pm$", "≈": r"$\approx$", "≠": r"$\neq$", "↗": r"$\nearrow$", "✓": r"$\checkmark$", "✗": r"$\times$"}
_TEX |= {"–": "--", "≥": r"$\geq$", "≤": r"$\leq$", "<": "$<$", ">": "$>$"}
_TEX |= {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}


def _tex(text: str) -> str:
    """A text with its bold and underlined parts as LaTeX."""
    text = text.replace("\\", r"\textbackslash ")
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", text)
    text = re.sub(r"<u>(.+?)</u>", r"\\underline{\1}", text)
    text = "".join(_TEX.get(sign, sign) for sign in text)
    return f"{{}}{text}" if text[:1] in ("[", "*") else text  # behind a row's end it would be an argument of that


def levels(name: Any) -> tuple[str, ...]:
    """The levels of a column's name in the head of a data frame."""
    return tuple(map(str, name)) if isinstance(name, tuple) else (str(name),)


class Brief:
    """A dataclass (`repr=False`) that is printed by what is not at its default, so that a screen holds many of them."""

    def __repr__(self) -> str:
        shown = (
            f"{each.name}={value!r}"
            for each in fields(self)
            if (value := getattr(self, each.name)) != _default(each) or each.default is each.default_factory is MISSING
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class BriefArrays:
    """A dataclass (`repr=False`) of arrays in a line: its words and numbers, then the shape of each array; a page adds their types."""

    def __repr__(self) -> str:
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        arrays = [f"{name} {shape(value)}" for name, value in held.items() if shape(value)]
        words = [f"{name}={_word(value)}" for name, value in held.items() if not shape(value)]
        return f"{type(self).__name__}({'; '.join(', '.join(part) for part in (words, arrays) if part)})"

    def _repr_html_(self) -> str:
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        return facts(type(self).__name__, {name: _typed(value) for name, value in held.items()})


def shape(value: Any) -> str:
    """`[451, 10]` of an array, `[20]` of a long list of numbers or words; "" of anything else."""
    if isinstance(value, list) and len(value) > MOST:
        return f"[{len(value)}]"
    return str(list(value.shape)) if hasattr(value, "dtype") and value.shape else ""


def _typed(value: Any) -> str:
    kind = f"{value.dtype} ".removeprefix("torch.") if hasattr(value, "dtype") else ""
    return kind + shape(value) if shape(value) else _word(value)


def _word(value: Any) -> str:
    """A value that is no array; of a number its digits, of a function its name."""
    return getattr(value, "__name__", None) or repr(value.item() if hasattr(value, "dtype") else value)


def _default(each: Any) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()
