"""What the site writes from the code: pages of the interface, the methods and the gallery; and docstrings as Sphinx reads them."""

from __future__ import annotations

import re
from html import escape
from importlib import import_module
from pathlib import Path

from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS, VARIANTS, Entry
from pflrepro.catalogue import section
from pflrepro.papers.registry import PAPERS, select

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = Path(__file__).parent / "written"
PACKAGES = {
    "pflrepro": "The package itself",
    "pflrepro.papers": "Papers",
    "pflrepro.data": "Data",
    "pflrepro.models": "Networks",
    "pflrepro.algorithms": "Methods and their contract",
    "pflrepro.metrics": "Measures",
    "pflrepro.experiments": "Experiments and runs",
    "pflrepro.viz": "Drawing",
    "pflrepro.conformance": "The conformance suite",
}
_CODE = re.compile(r"(``.+?``|`[^`]+`)")
_SPECIAL = re.compile(r"(?<!\\)([*|_])")
_HEAD = re.compile(r"^(\s+\w+(?:, \w+)*: |\s*[*-] |\s*>>> )")


def write(app: object) -> None:
    """Write all pages that follow from the code, into a folder that git ignores."""
    seen: dict[int, str] = {}
    for name, title in PACKAGES.items():
        _save(f"api/{name}.rst", _package(name, title, seen))
    facts = _facts()
    for entry in (ALGORITHMS | PLUGINS).values():
        _save(f"methods/{entry.name}.md", _method(entry, facts))
    _save("methods.md", _methods())
    _save("gallery.md", _gallery())
    _save("notebooks.md", _notebooks())


def _save(path: str, text: str) -> None:
    """A file that already has this text stays as it is, so that Sphinx does not read it again."""
    file = WRITTEN / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text("utf-8") != text:
        file.write_text(text, "utf-8")


def _package(name: str, title: str, seen: dict[int, str]) -> str:
    """A package's page. A name that two packages offer is described once; `seen` knows where."""
    module = import_module(name)
    public = {public: getattr(module, public) for public in module.__all__ if not public.startswith("_")}
    again = {public: seen[id(value)] for public, value in public.items() if id(value) in seen}
    seen |= {id(value): f"{name}.{public}" for public, value in public.items() if public not in again}
    lines = [title, "=" * len(title), "", f".. automodule:: {name}", "   :members:", "   :imported-members:"]
    if again:
        where = ", ".join(f":py:obj:`{place}`" for place in again.values())
        lines += [f"   :exclude-members: {', '.join(again)}", "", f"Also here: {where}."]
    return "\n".join(lines) + "\n"


def _facts() -> dict[str, dict[str, str]]:
    """What the tables of docs/methods.md say of each method: name -> head of the column -> cell."""
    found: dict[str, dict[str, str]] = {}
    text = (ROOT / "docs" / "methods.md").read_text("utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()]
        if head[0] == "method" or head[0] == "name":
            for row in rows:
                found.setdefault(row[0].strip(" `"), {}).update(zip(head[1:], row[1:], strict=True))
    return found


def _method(entry: Entry, facts: dict[str, dict[str, str]]) -> str:
    """A method's page: rule, options, who keeps what, what a round costs; the variants of it."""
    plugin = entry.name in PLUGINS
    known = facts.get(f"fedavg+{entry.name}" if plugin else entry.name, {})
    name, module = entry.name, entry.path.partition(":")[0].replace(".", "/")
    text = section(entry).lstrip().replace("### ", "# ", 1)
    paper = f"[{entry.paper}]({entry.link})" if entry.link else entry.paper
    rows = {"paper": paper, "source": f"[{module}.py](../../../../pflrepro/algorithms/{module}.py)"}
    rows |= {key: value for key, value in known.items() if key not in ("method", "paper")}
    if plugin:
        rows["the papers add it to"] = ", ".join(f"`{host}`" for host in entry.hosts)
    text += "\n## Who has what, and what a round costs\n\n"
    text += f"[What the numbers mean](../../../methods.md){', here of `fedavg+' + name + '`' if plugin else ''}.\n\n"
    text += "|  |  |\n| --- | --- |\n" + "".join(f"| {key} | {value} |\n" for key, value in rows.items())
    variants = [variant for variant in VARIANTS.values() if variant.name.startswith(f"{name}/")]
    return text + ("\n## Variants\n" + "".join(map(section, variants)) if variants else "")


def _methods() -> str:
    """The list of the methods' pages."""
    text = "# One page a method\n\nRule, options with their sources, who keeps what, what a round costs, variants.\n"
    for title, entries in {"Methods": ALGORITHMS, "Plug-ins": PLUGINS}.items():
        pages = "\n".join(f"{entry.title} <methods/{entry.name}>" for entry in entries.values())
        text += f"\n```{{toctree}}\n:caption: {title}\n:maxdepth: 1\n\n{pages}\n```\n"
    return text


def _gallery() -> str:
    """A card for every committed page of figures: its picture where it has one, its title, what is shown."""
    text = "# Gallery\n\nWhat was regenerated and committed; [all artefacts](../../../figures/README.md) says what became of each.\n"
    figures = ROOT / "figures"
    for folder in sorted(path for path in figures.iterdir() if any(path.glob("*.md"))):
        text += f"\n## {PAPERS.get(folder.name, folder.name)}\n\n::::{{grid}} 1 2 2 3\n:gutter: 3\n\n"
        for page in sorted(folder.glob("*.md")):
            title, _, about, *_ = page.read_text("utf-8").lstrip("# ").splitlines()
            picture = re.search(r"!\[.*?\]\((.*?\.png)\)", page.read_text("utf-8"))
            image = f":img-top: ../../../figures/{folder.name}/{picture[1]}\n" if picture else ""
            link = f":link: /figures/{folder.name}/{page.stem}\n:link-type: doc\n"
            text += f":::{{grid-item-card}} {title}\n{link}{image}:class-img-top: thumbnail\n\n{about.split('. ')[0]}\n:::\n\n"
        text += "::::\n"
    pages = "\n".join(f"/{page.relative_to(ROOT).with_suffix('')}" for page in sorted(figures.glob("*/*.md")))
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def _notebooks() -> str:
    """The list of the notebooks of all tables and figures."""
    text = "# The notebooks\n\nOne a table or figure, all from one template; `pflrepro reproduce` executes them.\n"
    for paper, title in PAPERS.items():
        pages = "\n".join(f"{each.id} </notebooks/{each.notebook.removesuffix('.ipynb')}>" for each in select(paper))
        if paper != "demo":
            text += f"\n## {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n{pages}\n```\n"
    return text


def tags() -> dict[str, str]:
    """Source tag -> meaning, from the glossary."""
    text = (
        (ROOT / "docs" / "glossary.md")
        .read_text("utf-8")
        .partition("## Where a value comes from")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, flags=re.MULTILINE)[2:]
    return {tag: meaning for names, meaning in rows for tag in names.split(", ")}


def explained(text: str, known: dict[str, str]) -> str:
    """Text as HTML in which a source tag in brackets says over it what it means."""
    pattern = rf"\[((?:{'|'.join(map(re.escape, sorted(known, key=len, reverse=True)))})(?![\w-])[^\]]*)\]"

    def shown(match: re.Match[str]) -> str:
        found = re.findall(r"[\w-]+|\?", match[1])
        meaning = "; ".join(dict.fromkeys(f"{word}: {known[word]}" for word in found if word in known))
        return f'<abbr class="source" title="{escape(meaning)}">[{match[1]}]</abbr>'

    return re.sub(pattern, shown, escape(text, quote=False))


def readable(
    app: object, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> object:
    """A dataclass's signature without module names, and with dots for a default that is made anew."""
    if signature and "<factory>" in signature:
        return re.sub(r"~[\w.]+\.", "", signature).replace("<factory>", "..."), returned
    return None


def as_markup(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with code in backticks: signs that reStructuredText would read (`w_i`, `|x|`, `*`) are escaped."""
    lines[:] = [_escaped(line) for line in lines]


def _escaped(line: str) -> str:
    head = _HEAD.match(line)
    start = head.end() if head else 0
    if line.lstrip().startswith(">>>"):
        return line
    text = re.sub(r"^(\w+)([.)])(?=\s|$)", r"\1\\\2", line[start:])  # `N.` begins no list
    parts = _CODE.split(text)
    parts[::2] = [_SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    return line[:start] + "".join(parts)
