"""Partition specifications: the text a user writes ("dirichlet:0.1") and the checked value it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pflrepro.errors import UserError, check_range, unknown


@dataclass(frozen=True)
class Spec:
    """One way to divide a data set among clients; `str(spec)` is its canonical text.

    kind: the word before the colon. default_min_size: the smallest allowed total of a client where the caller names none.
    """

    kind: ClassVar[str]
    default_min_size: ClassVar[int] = 1

    @property
    def value(self) -> str:
        """The text after the colon; empty for a kind that takes none."""
        return ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" if self.value else self.kind


@dataclass(frozen=True)
class Iid(Spec):
    """Samples in random order, equal numbers a client (they differ by one at most)."""

    kind: ClassVar[str] = "iid"


@dataclass(frozen=True)
class Group(Spec):
    """One client a group of the data set (writer, patient, user, domain), in the order of the group numbers."""

    kind: ClassVar[str] = "group"


@dataclass(frozen=True)
class Dirichlet(Spec):
    """Practical label skew; `alpha` > 0 is the concentration (beta in the papers), smaller is more skewed."""

    kind: ClassVar[str] = "dirichlet"
    default_min_size: ClassVar[int] = 40  # batch/(1 - 0.75) at batch 10 [LIB-era]
    alpha: float

    def __post_init__(self) -> None:
        check_range(f"alpha in {self.kind}:ALPHA", self.alpha, 0, open_low=True)

    @property
    def value(self) -> str:
        return repr(float(self.alpha)).removesuffix(".0")


@dataclass(frozen=True)
class Pathological(Spec):
    """Pathological label skew; every client holds exactly `labels` classes."""

    kind: ClassVar[str] = "pathological"
    default_min_size: ClassVar[int] = 40
    labels: int

    def __post_init__(self) -> None:
        check_range(f"K in {self.kind}:K", self.labels, 1, integer=True)

    @property
    def value(self) -> str:
        return str(self.labels)


@dataclass(frozen=True)
class PapersDirichlet(Dirichlet):
    """As `Dirichlet`, drawn sample by sample as DBE and GPFL drew it."""

    kind: ClassVar[str] = "pfllib-dirichlet"


@dataclass(frozen=True)
class PapersPathological(Pathological):
    """As `Pathological`, drawn sample by sample as DBE and GPFL drew it; clients may hold fewer classes where quotas run out."""

    kind: ClassVar[str] = "pfllib-pathological"


@dataclass(frozen=True)
class Counts(Spec):
    """Given client x class counts: `source` is the name of a published partition, or the path of a csv file."""

    kind: ClassVar[str] = "counts"
    source: str

    @property
    def is_file(self) -> bool:
        return self.source.endswith(".csv") or "/" in self.source or "\\" in self.source

    @property
    def value(self) -> str:
        return self.source


@dataclass(frozen=True)
class File(Spec):
    """Each row's client and side, from the npz file at `path`."""

    kind: ClassVar[str] = "file"
    path: str

    @property
    def value(self) -> str:
        return self.path


PARTITIONS: dict[str, str] = {
    "iid": "iid: equal numbers of randomly drawn samples a client",
    "dirichlet": "dirichlet:ALPHA: practical label skew; each class is shared out by a Dirichlet(ALPHA) draw, smaller is more skewed",
    "pathological": "pathological:K: each client holds K classes; data are disjoint, sizes unequal",
    "pfllib-dirichlet": "pfllib-dirichlet:ALPHA: practical label skew as DBE and GPFL drew it, sample by sample (seed 1)",
    "pfllib-pathological": "pfllib-pathological:K: pathological label skew as DBE and GPFL drew it, sample by sample (seed 1)",
    "counts": "counts:NAME or counts:FILE.csv: replay given client x class counts (a published partition, or client,label,count rows)",
    "group": "group: one client a group of the data set (writer, patient, user, domain)",
    "file": "file:FILE.npz: arrays `client` (-1 = unused) and `is_test`, one entry a row of the data set's array cache",
}


def parse(text: str | Spec) -> Spec:
    """Read a specification such as "dirichlet:0.1"; raises `UserError` for unknown kinds and impossible values."""
    if isinstance(text, Spec):
        return text
    if not isinstance(text, str):
        raise UserError(f"a partition is a text such as 'dirichlet:0.1', not {text!r}")
    kind, colon, value = text.strip().partition(":")
    kind, value = kind.strip(), value.strip()
    if kind not in PARTITIONS:
        raise unknown("partition", kind, PARTITIONS)
    if kind in ("iid", "group"):
        if colon:
            raise UserError(f"partition {kind!r} takes no value, not {text!r}")
        return Iid() if kind == "iid" else Group()
    form = PARTITIONS[kind].split(": ")[0]
    if not value:
        raise UserError(f"partition {text!r} lacks its value; write {form}")
    if kind == "counts":
        return Counts(value)
    if kind == "file":
        return File(value)
    if kind.endswith("dirichlet"):
        alpha = _number(text, value, float, form)
        return Dirichlet(alpha) if kind == "dirichlet" else PapersDirichlet(alpha)
    labels = _number(text, value, int, form)
    return Pathological(labels) if kind == "pathological" else PapersPathological(labels)


def _number(text: str, value: str, convert: Callable[[str], Any], form: str) -> Any:
    try:
        return convert(value)
    except ValueError:
        what = "a whole number" if convert is int else "a number"
        raise UserError(f"partition {text!r} needs {what} after the colon; write {form}") from None
