"""Formulas as the docstrings of methods write them, in plain text, as TeX for pages and notebooks.

A docstring's formulas stand in an indented block of their own, one a line: `server: w^{t+1} = sum_i p_i w_i (Eq. 3)`. Words before a
colon and a source in brackets at the end are text; Greek letters go by their names, `mu^_i` wears a hat, `mu~_i` a tilde, `zbar` a bar.
"""

from __future__ import annotations

import re

GREEK = re.compile("alpha|beta|gamma|eta|theta|kappa|lambda|mu|pi|phi|psi|rho|tau|omega|[dD]elta|[sS]igma")
FUNCTIONS = re.compile("min|max|exp|log|cos")
SIGNS = {
    "<-": r"\leftarrow ",
    "||": r"\Vert ",
    "|": r"\vert ",
    "<=": r"\leq ",
    ">=": r"\geq ",
    "!=": r"\neq ",
    "<": r"\langle ",
    ">": r"\rangle ",
    "*": r"\cdot ",
    "..": r"\dots ",
    "->": r"\to ",
    "~": r"\sim ",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
}
WORDS = {"grad": r"\nabla ", "in": r"\in ", "sum": r"\sum ", "R": r"\mathbb{R}", "d": "d"}
_LINE = re.compile(
    r"(?P<label>[A-Za-z][A-Za-z ,.-]*: )?(?P<formula>.*?)(?P<source>(?: (?:\(Eqs?\. [^()]*\)|\[[A-Z?a-z][^\]]*\]))*)"
)
_TOKEN = re.compile(
    r"(?P<option>[a-z]{2,}_[a-z]{2,})|(?P<relation>(?<= )[<>](?= ))|(?P<name>[A-Za-z]+)(?P<accent>[\^~](?![A-Za-z0-9{(*]))?"
    r"|(?P<script>[_^])(?P<of>\{|[A-Za-z]+|\d+|\*)|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<sign><-|->|<=|>=|!=|\|\||\.\.|[|<>*~{}%])|(?P<other>.)"
)
_INLINE = re.compile(
    rf"(?<![\w.$\\`-])(?:{GREEK.pattern}|[A-Za-z])(?:bar)?"
    r"(?:[\^~]?(?:[_^](?:\{[^{}]*\}|[A-Za-z0-9]+))+|[\^~](?![\w{(]))(?![\w`*])"
)
# a blank on either side of a word, but for one before a sign, is a product
_PRODUCT = re.compile(r"(?<=[\w})]) (?=\\mathrm)|(\\mathrm\{[\w\\]+\}) (?=[A-Za-z(\\])")


def formulas(doc: str) -> list[str]:
    """The lines of the indented blocks of a docstring (as `inspect.getdoc` gives it) before its first section; [] without."""
    blocks = [block.splitlines() for block in doc.partition("\nAttributes:\n")[0].split("\n\n")]
    return [line.strip() for block in blocks if all(line.startswith("    ") for line in block) for line in block]


def tex(line: str) -> str:
    """One formula in TeX, without dollar signs: what `formulas` gives, with its label before and its source behind it."""
    match = _LINE.fullmatch(line.strip())
    label = rf"\text{{{match['label']}}}" if match["label"] else ""
    source = rf"\quad\text{{{_plain(match['source'].strip())}}}" if match["source"] else ""
    return f"{label}{_formula(match['formula'])}{source}"


def prose(text: str) -> str:
    """Running text in which letters with an index or exponent (`p_i`, `w^{t+1}`, `mu^_i`) are inline formulas between dollar signs."""
    return _INLINE.sub(lambda match: f"${_formula(match[0])}$", text)


def display(lines: list[str]) -> str:
    """Several formulas below each other, as the body of one display in TeX."""
    if len(lines) == 1:
        return tex(lines[0])
    return "\\begin{aligned}\n" + " \\\\\n".join(f"& {tex(line)}" for line in lines) + "\n\\end{aligned}"


def _formula(text: str) -> str:
    """Translated token by token; a brace behind `_` or `^` groups, any other is printed."""
    parts: list[str] = []
    groups: list[bool] = []  # whether the open braces group
    depth = 0  # of brackets
    for match in _TOKEN.finditer(text):
        if not match["relation"]:
            depth += (match[0] in "([<") - (match[0] in ")]>")
        if match["option"]:
            parts.append(_option(*match["option"].split("_")))
        elif match["relation"]:
            parts.append(match["relation"])
        elif match["name"]:
            parts.append(_name(match["name"], match["accent"]))
        elif match["script"]:
            opens = match["of"] == "{"
            groups += [True] if opens else []
            parts.append(match["script"] + ("{" if opens else "{" + _script(match["of"]) + "}"))
        elif match["sign"] == "{":
            groups.append(False)
            parts.append(SIGNS["{"])
        elif match["sign"] == "}":
            parts.append("}" if groups and groups.pop() else SIGNS["}"])
        elif match["number"]:
            parts.append(_number(match["number"]))
        elif match[0] == "," and not depth and not groups:
            parts.append(r",\quad")
        else:
            parts.append(SIGNS.get(match[0], match[0]))
    return _PRODUCT.sub(r"\1\\, ", re.sub(" +", " ", "".join(parts)).strip())


def _option(first: str, second: str) -> str:
    """Two words with an underscore: an option's name, or a sign or Greek letter with an index."""
    if first in WORDS or GREEK.fullmatch(first) or FUNCTIONS.fullmatch(first):
        return f"{_name(first, None)}_{{{_script(second)}}}"
    return rf"\mathrm{{{first}\_{second}}}"


def _name(name: str, accent: str | None) -> str:
    if accent:
        return rf"\{'hat' if accent == '^' else 'tilde'}{{{_name(name, None)}}}"
    if name in WORDS:
        return WORDS[name]
    if GREEK.fullmatch(name) or FUNCTIONS.fullmatch(name):
        return rf"\{name} "
    if name.endswith("bar") and len(name) > 3:
        return rf"\bar{{{_name(name[:-3], None)}}}"
    return name if len(name) == 1 else rf"\mathrm{{{name}}}"


def _script(text: str) -> str:
    """An index or exponent: a Greek letter, letters one by one (`ij`), or a word (`old`)."""
    return _name(text, None) if GREEK.fullmatch(text) or len(text) > 2 else SIGNS.get(text, text)


def _number(text: str) -> str:
    digits, _, power = text.partition("e")
    factor = "" if digits == "1" else rf"{digits} \cdot "
    return f"{factor}10^{{{power}}}" if power else digits


def _plain(text: str) -> str:
    return text.replace("_", r"\_")
