"""What each method is, for a reader: `describe` one, or `docs/methods.md` with all: `python -m pflrepro.catalogue > docs/methods.md`.

Who holds what, the options with the sources of their defaults, and what a round costs a client. Everything is read from the classes or
counted in a round that is run, so that neither can say anything else than the code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from html import escape
from textwrap import fill

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.entries import ALGORITHMS, ALIASES, PLUGINS, VARIANTS, Entry
from pflrepro.algorithms.own import check_own
from pflrepro.algorithms.registry import about, build_method, load_plugin, parts
from pflrepro.checked import domains
from pflrepro.errors import UserError, check_word
from pflrepro.markup import facts, records
from pflrepro.notation import display, formulas, prose
from pflrepro.simulation.cost import SAMPLES, Cost, cost_of_default, holders

HEAD = f"""\
# The methods

Written from the registry by `python -m pflrepro.catalogue > docs/methods.md`; do not edit it by hand.

There are {len(ALGORITHMS)} methods, and {len(PLUGINS)} plug-ins that combine with them; three of the combinations with FedAvg
(Mixup, FedBR, DBE) stand in the papers as methods of their own. A tag such as [DBE-code] or [?] says where a value comes from:
[the tags](glossary.md#where-a-value-comes-from).

## Which method when

What the five papers claim, and the artefacts in which they show it. No paper compares all methods, and none of the five compares
itself with another of the five. Each claim is tested on our runs where there are any: see [the gallery](../figures/README.md) and
[what was found](findings.md).

* **A model for each client, whose classes differ:** `fedavg+dbe` is the best of twelve methods in every column of `dbe/table5`, `gpfl`
  the best of eleven in every column of `gpfl/table1`, on the same data.
* **One model for all, though classes differ:** `fedbr` is the best of ten methods, with Mixup and without, and needs fewer rounds
  (`fedbr/table1`, `fedbr/table5`).
* **A method that is there already:** `+dbe` improves SCAFFOLD, FedProx, MOON and FedGen (`dbe/table4`), `+mr` seven personalised
  methods (`dbe/table6`), `+fedbr` FedAvg, FedCM, FedDecorr and FedNTD (`fedbr/table3`).
* **Few samples a client, or images that look different:** `pfedfda` gains most where samples are fewest, and `fedpac` is second there
  (`pfedfda/table1`, `pfedfda/table3`).
* **Clients that come after the training:** `pfedfda` is the best on them (`pfedfda/table4`); `fedavg+dbe` is above FedAvg and FedRep
  (`dbe/table8`).
* **Rare classes, and fairness over clients:** `grp-fed` has the best global model and the best balance of personal and global
  (`grpfed/table1`), `gpfl` the least variation over clients (`gpfl/table3`).
* **Many clients, or changing participation:** `gpfl` is the best from 30 to 500 clients and at every participation (`gpfl/table2`,
  `gpfl/table4`).
* **A curious server:** of five methods `gpfl` leaks the least, though all the printed values are about those of no information
  (`gpfl/table5`).

What a round costs is counted [below](#what-a-round-costs-a-client). `local` belongs beside whatever is tried: without it a table
does not show how much there was to gain ([an example](findings.md#beside-the-papers)).

## At a glance

`shared` parts are trained by the clients and aggregated, `personal` ones never leave their client, `frozen` and `received` ones
come from the server and are not trained. `also kept`: what a client holds from round to round beside its personal parts.
"""
PLUGGED = """
Plug-ins are added with `+`, as in `scaffold+dbe`. Combinations that make no sense are refused with the reason.

"""
VARIED = """
A plain name is the method as its own paper states it; where the paper leaves a choice open, as its authors' code has it. For the
five papers' own methods it is the code that printed their tables, where one was found. Two plain names are less than their
papers', as in the platform behind DBE's and GPFL's tables, since no printed number needs more: `moon` has no projection, `fedgen`
the simplified generator. Any other departure that a printed number needs, such as the form that a comparing paper's script
trains, is a variant with a name of its own, and the row of the table names it:

"""
COSTS = """
## What a round costs a client

Counted in the second round of a client with {samples} training samples, batch 10, one local epoch, default options, the papers'
CNN for 28x28 images ({model:,} parameters, {features} features), {clients} clients. `down`, `up`: numbers received and sent; `data`:
numbers in the data handed to all clients; `kept`: numbers a client keeps between rounds; all in multiples of the network.
`backward`: passes through the base forward and backward, `forward`: without a gradient of it, `head only`: through the head alone,
in multiples of the training samples. `products`: operations in matrix products and convolutions of the training, in multiples of
one epoch of FedAvg's; derivatives of derivatives (FedMix) and other modules show there alone. `before a test`: backward and forward
passes on a copy that is then tested. Frozen parts are sent anew every round, data once or when they are made anew.

| method | down | up | data | kept | backward | forward | head only | products | before a test | server steps |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""

WIDTH = 100  # columns of a terminal


@dataclass(frozen=True)
class Option:
    """A hyper-parameter: its default, what its class says of it, and what it may be."""

    name: str
    default: object
    text: str
    valid: str


@dataclass(frozen=True)
class Description:
    """A method by name, as `describe` gives it.

    Attributes:
        entry: title, paper, link, and which model is tested.
        rules: class -> what it does, the host's first, with what it is built from.
        formulas: class -> its update rule, a formula a line, as its docstring writes it (`notation.tex` reads one).
        holders: group of parameters -> its kind (`shared`, `personal`, `frozen`, `received`, `server`).
        kept: what a client keeps besides from round to round.
        options: with their defaults and sources.
        values: the options that are not at their defaults.
    """

    entry: Entry
    rules: Mapping[str, str]
    formulas: Mapping[str, list[str]]
    holders: Mapping[str, str]
    kept: tuple[str, ...]
    options: tuple[Option, ...]
    values: Mapping[str, object]

    def held(self, *kinds: str) -> str:
        """The groups of parameters of these kinds, or a dash."""
        return ", ".join(name for name, kind in self.holders.items() if kind in kinds) or "-"

    @property
    def others(self) -> str:
        """The groups that are neither shared nor personal, with their kinds."""
        found = (f"{name} ({kind})" for name, kind in self.holders.items() if kind not in ("shared", "personal"))
        return ", ".join(found) or "-"

    @property
    def facts(self) -> dict[str, str]:
        """Everything but rules and options, by name."""
        return {
            "paper": linked(self.entry),
            "shared": self.held("shared"),
            "personal": self.held("personal"),
            "other parts": self.others,
            "a client also keeps": ", ".join(self.kept) or "-",
            "tested": self.entry.tested,
            "otherwise than its paper": self.entry.differs,
        }

    def _repr_html_(self) -> str:
        rules = "".join(f"<p>{escape(rule)}</p>{self._shown(name)}" for name, rule in self.rules.items())
        options = [
            {
                "option": option.name,
                "here": self.values.get(option.name, ""),
                "default": option.default,
                "may be": option.valid,
                "meaning and source": option.text,
            }
            for option in self.options
        ]
        return (
            facts(f"{self.entry.title} ({self.entry.name})", self.facts) + rules + (records(options) if options else "")
        )

    def _shown(self, name: str) -> str:
        """The formulas of a class, which a notebook draws as mathematics."""
        return f"<div>$${escape(display(self.formulas[name]))}$$</div>" if self.formulas[name] else ""

    def __repr__(self) -> str:
        lines = [f"{self.entry.title} ({self.entry.name})"]
        for name, rule in self.rules.items():
            lines += [rule, *(f"    {formula}" for formula in self.formulas[name])]
        lines += [f"{name}: {value}" for name, value in self.facts.items() if value]
        lines += [f"{o.name} = {self.values.get(o.name, o.default)}: {o.text}" for o in self.options]
        return "\n".join(fill(line, WIDTH, subsequent_indent="    ", break_long_words=False) for line in lines)


def describe(method: str | type[Method] | Method, **options: object) -> Description:
    """What a method is: update rule, what is shared and personal, options with their sources, the paper.

    `UserError` for an unknown one.

    Args:
        method: as `build_method` takes it (`fedavg+dbe`, `my_module:MyMethod`), a class of one's own, or a method with its options.

    Example:
        >>> described = describe("fedper")
        >>> described.held("shared"), described.held("personal"), described.entry.link
        ('base', 'head', 'https://arxiv.org/abs/1912.00818')
    """
    if isinstance(method, str):
        name, made = method, build_method(method, options)
        kinds = parts(name)
    else:
        kind = method if isinstance(method, type) else type(method)
        if not issubclass(kind, Method):
            raise UserError(f"describe takes a method by its name, its class or an object of it, not {method!r}")
        if isinstance(method, type):
            check_own(kind)
        for option in options:
            check_word(f"option of {kind.__name__}", option, domains(kind))
        made = method(**options) if isinstance(method, type) else replace(method, **options)
        name, kinds = type(made).__name__, [type(made)]
    kinds_of, kept = holders(made)
    known = tuple(option for kind in kinds for option in options_of(kind))
    values = {o.name: value for o in known if (value := getattr(made, o.name)) != o.default}
    entry = (
        about(name) if isinstance(method, str) else Entry(name, name, "a method of one's own", "", "as its class says")
    )
    classes = [each for kind in kinds for each in registered_bases(kind)]
    rules = {each.__name__: summary_of(each) for each in classes}
    written = {each.__name__: formulas(inspect.getdoc(each) or "") for each in classes}
    return Description(entry, rules, written, kinds_of, tuple(kept), known, values)


def page() -> str:
    """The whole page."""
    rows = "".join(_glance(describe(name)) for name in ALGORITHMS)
    glance = (
        "\n| name | method | paper | shared | personal | also kept | other | tested |\n" + "| --- " * 8 + "|\n" + rows
    )
    names = "".join(f"* `{alias}` is `{name}`.\n" for alias, name in ALIASES.items())
    variants = "".join(f"* `{entry.name}` ({entry.title}): {entry.differs}.\n" for entry in VARIANTS.values())
    plugins = "".join(_plugin(entry) for entry in PLUGINS.values())
    costs = {name: cost_of_default(name) for name in ALGORITHMS}
    costs |= {f"fedavg+{name}": cost_of_default(f"fedavg+{name}") for name in PLUGINS}
    any_cost = costs["fedavg"]
    table = COSTS.format(**vars(any_cost), samples=SAMPLES) + "".join(_cost(name, cost) for name, cost in costs.items())
    options = "".join(section(entry) for entry in (ALGORITHMS | PLUGINS).values())
    return f"{HEAD}{glance}{PLUGGED}{plugins}{names}{VARIED}{variants}{table}\n## Rules and options\n{options}"


def registered_bases(kind: type[Method]) -> list[type[Method]]:
    """A class, and those of its bases that are methods by name: DBE is PRBM and MR, a variant is its method."""
    places = {f"pflrepro.algorithms.{entry.path}" for entry in (ALGORITHMS | PLUGINS).values()}
    return [kind, *(base for base in kind.__mro__[1:] if f"{base.__module__}:{base.__name__}" in places)]


def options_of(kind: type[Method]) -> list[Option]:
    """The hyper-parameters of a method's class, with the texts of the `Attributes:` sections of it and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        texts |= dict(_attributes(inspect.getdoc(base) or "" if base.__doc__ else ""))
    valid = domains(kind)
    return [Option(f.name, f.default, texts.get(f.name, ""), str(valid[f.name])) for f in fields(kind)]


def summary_of(kind: type[Method]) -> str:
    """What a class's docstring says before its attributes, but for its formulas, as one paragraph."""
    paragraphs = (inspect.getdoc(kind) or "").partition("Attributes:\n")[0].split("\n\n")
    return " ".join(" ".join(paragraph for paragraph in paragraphs if not paragraph.startswith("    ")).split())


def section(entry: Entry) -> str:
    """A method's rule as formulas, what its docstring says of it, and its options, in Markdown."""
    kind = load_plugin(entry.name) if entry.name in PLUGINS else type(build_method(entry.name))
    lines = [f"\n### {entry.title} (`{entry.name}`)\n"]
    for paragraph in (inspect.getdoc(kind) or "").partition("Attributes:\n")[0].strip().split("\n\n"):
        if paragraph.startswith("    "):
            lines.append(f"```math\n{display(formulas(paragraph))}\n```\n")
        else:
            lines.append(f"{_escaped(' '.join(paragraph.split()))}\n")
    if options := options_of(kind):
        lines.append("| option | default | meaning and source |\n| --- | --- | --- |")
        lines += [f"| `{o.name}` | {o.default} | {_escaped(o.text)} |" for o in options]
    return "\n".join(lines).rstrip("\n") + "\n"


def _escaped(text: str) -> str:
    """Plain text as Markdown: signs that it would read otherwise, but for what stands in backticks, get a backslash."""
    parts = re.split("(`[^`]*`)", text)
    parts[::2] = [_marked(prose(part)) for part in parts[::2]]
    return "".join(parts)


def _marked(text: str) -> str:
    parts = re.split(r"(\$[^$]*\$)", text)
    parts[::2] = [re.sub(r"(?<!\w)([*_])|([*<|~])", r"\\\1\2", part) for part in parts[::2]]
    return "".join(parts)


def _attributes(doc: str) -> Iterator[tuple[str, str]]:
    _, _, section = doc.partition("Attributes:\n")
    body = re.split(r"\n(?=\S)", section, maxsplit=1)[0]
    for entry in re.split(r"\n(?=    \S)", "\n" + body):
        match = re.match(r"\s*(\w+(?:, \w+)*): (.*)", entry, flags=re.DOTALL)
        if match:
            text = " ".join(match[2].split())
            yield from ((name, text) for name in match[1].split(", "))


def _glance(described: Description) -> str:
    entry = described.entry
    memory = ", ".join(described.kept) or "-"
    cells = (
        f"`{entry.name}`",
        entry.title,
        linked(entry),
        described.held("shared"),
        described.held("personal"),
        memory,
        described.others,
        entry.tested,
    )
    return f"| {' | '.join(cells)} |\n"


def linked(entry: Entry) -> str:
    """The paper of an entry, with its link where there is one."""
    return f"[{entry.paper}]({entry.link})" if entry.link else entry.paper


def _plugin(entry: Entry) -> str:
    return f"* `+{entry.name}` ({entry.title}, {linked(entry)}): the papers add it to {', '.join(f'`{h}`' for h in entry.hosts)}.\n"


def _cost(name: str, cost: Cost) -> str:
    counts = cost.relative()
    sizes = [f"{counts[part]:.3f}" for part in ("down", "up", "supplied", "memory")]
    training = [f"{counts[part]:.3g}" for part in ("backward", "forward", "head_only", "products")]
    tests = ", ".join(f"{counts[part]:.3g}" for part in ("test_backward", "test_forward"))
    return f"| `{name}` | {' | '.join([*sizes, *training, tests, str(cost.server_steps)])} |\n"


if __name__ == "__main__":
    print(page(), end="")
