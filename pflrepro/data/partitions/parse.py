"""From the text that a user writes ("dirichlet:0.1+of=50") to the checked value it stands for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pflrepro.checked import domains
from pflrepro.data.partitions.dirichlet import Dirichlet
from pflrepro.data.partitions.fedbr import Lda, LdaFlat
from pflrepro.data.partitions.given import Counts, File
from pflrepro.data.partitions.groups import Group, GroupClasses
from pflrepro.data.partitions.grpfed import LongTail
from pflrepro.data.partitions.iid import Iid
from pflrepro.data.partitions.kind import ALL, CHOICES, Spec
from pflrepro.data.partitions.pathological import Pathological
from pflrepro.data.partitions.pfedfda import FixedSize, GroupDirichlet, PFedFDADirichlet
from pflrepro.data.partitions.pfllib import PapersDirichlet, PapersPathological
from pflrepro.errors import UserError, check_range, unknown

# A new kind is a class in a file of its own and its name here.
_TYPES: tuple[type[Spec], ...] = (
    *(Iid, Dirichlet, Pathological, PapersDirichlet, PapersPathological, PFedFDADirichlet, FixedSize),
    *(Lda, LdaFlat, LongTail, Counts, Group, GroupClasses, GroupDirichlet, File),
)
KINDS: dict[str, type[Spec]] = {kind.kind: kind for kind in _TYPES}
PARTITIONS: dict[str, str] = {name: kind.help() for name, kind in KINDS.items()} | {
    "+of": "+of=M: behind a kind: some clients, drawn at random, of a partition among M (GPFL's N=10|50: 10 clients, +of=50); "
    "M may be `all` behind group, group-classes, counts and file (1,000 random writers of EMNIST: 1000 clients, group:2+of=all)",
    "+first-of": "+first-of=M: behind a kind: the first clients of a partition among M, which may be `all` as in +of (80 old "
    "clients: +first-of=100; pFedFDA's writers: group:2+first-of=all)",
    "+last-of": "+last-of=M: behind a kind: the last clients of a partition among M, as in +of (20 new clients: +last-of=100)",
    "+train-share": "+train-share=SHARE: behind a kind: keep a random part of each training part (pFedFDA: 0.75, 0.5, 0.25)",
    "+train-samples": "+train-samples=N: behind a kind: keep at most N random training samples of each client",
    "+validation": "+validation=SHARE: behind a kind: test on a random part of each training part, which then does not train, in "
    "place of the test part (to choose options by)",
    "+stratified": "+stratified: behind a kind: each class of a client is split by itself, a single sample trains (GRP-FED)",
}

_OPTION = re.compile(r"\+(?:(of|first-of|last-of|train-share|train-samples|validation)=([^+]*)|(stratified))\s*$")


def parse(text: str | Spec) -> Spec:
    """Read a specification such as "dirichlet:0.1"; raises `UserError` for unknown kinds and impossible values."""
    if isinstance(text, Spec):
        return text
    if not isinstance(text, str):
        raise UserError(f"a partition is a text such as 'dirichlet:0.1', not {text!r}")
    if "\0" in text:  # no file has such a name
        raise UserError(f"a partition is written without null bytes, not {text!r}")
    return _parsed(text)


@lru_cache(maxsize=1024)  # a table asks for few partitions, many times each
def _parsed(text: str) -> Spec:
    body, options = _options(text)
    kind, colon, value = map(str.strip, body.partition(":"))
    if (stray := re.search(r"\+([a-z-]+)", body)) and kind not in ("counts", "file"):
        if f"+{stray[1]}" in PARTITIONS:
            raise UserError(
                f"the option +{stray[1]} of a partition is written {_form(f'+{stray[1]}')}, not as in {text!r}"
            )
        raise unknown("option of a partition", f"+{stray[1]}", [name for name in PARTITIONS if name.startswith("+")])
    if kind not in KINDS:
        raise unknown("partition", kind, KINDS)
    if kind == "iid" or (kind == "group" and not value):
        if colon:
            raise UserError(f"partition {kind!r} takes no {'empty ' if kind == 'group' else ''}value, not {text!r}")
        return KINDS[kind](**options)
    if not value:
        raise UserError(f"partition {text!r} lacks its value; write {_form(kind)}")
    if kind in ("counts", "file"):
        return KINDS[kind](value, **options)
    return KINDS[kind](*_numbers(text, value, KINDS[kind]), **options)


def new_clients(spec: str | Spec, old: int, new: int) -> tuple[str, str]:
    """The partitions of the clients that train and of those that come later: the first `old` and the last `new` of old + new.

    With the same seed and minimum size they are parts of one partition, so their samples are disjoint. [DBE] has 80 old and 20
    new clients, [FDA] one half and the other. Divide the first among `old` clients, the second among `new`.

    Example:
        >>> new_clients("pfllib-dirichlet:0.1", 80, 20)
        ('pfllib-dirichlet:0.1+first-of=100', 'pfllib-dirichlet:0.1+last-of=100')
    """
    spec = parse(spec)
    if spec.choice:
        raise UserError(f"partition '{spec}' has a choice of clients already")
    total = check_range("old clients", old, 1, integer=True) + check_range("new clients", new, 1, integer=True)
    return str(parse(f"{spec}+first-of={total}")), str(parse(f"{spec}+last-of={total}"))


def _options(text: str) -> tuple[str, dict[str, Any]]:
    """The text without its options, and the options."""
    options: dict[str, Any] = {}
    body = text.strip()
    while found := _OPTION.search(body):
        body, name = body[: found.start()].strip(), found[1] or found[3]
        value = True if found[3] else _option_value(text, name, found[2].strip())
        named = {"choice": name, "total": value} if name in CHOICES else {name.replace("-", "_"): value}
        if named.keys() & options.keys():
            raise UserError(f"partition {text!r} has the option +{name}, or another of its kind, twice")
        options |= named
    return body, options


def _option_value(text: str, name: str, value: str) -> Any:
    if name in CHOICES and value == ALL:
        return None
    return _number(text, value, float if name in ("train-share", "validation") else int, _form(f"+{name}"))


def _form(name: str) -> str:
    """How a kind or an option is written."""
    return PARTITIONS[name].split(": ")[0]


def _numbers(text: str, value: str, kind: type[Spec]) -> list[Any]:
    form = _form(kind.kind)
    known = domains(kind)
    wanted = [known[name].kind for name in kind.fields()]
    parts = value.split(",") if len(wanted) > 1 else [value]
    if len(parts) != len(wanted):
        raise UserError(f"partition {text!r} needs {len(wanted)} numbers after the colon; write {form}")
    return [_number(text, part.strip(), convert, form) for part, convert in zip(parts, wanted, strict=True)]


def _number(text: str, value: str, convert: type, form: str) -> Any:
    try:
        return convert(value)
    except ValueError:
        what = "a whole number" if convert is int else "a number"
        after = "in" if form.startswith("+") else "after the colon; write"
        raise UserError(f"partition {text!r} needs {what} {after} {form}") from None
