"""Partition specifications: the text a user writes ("dirichlet:0.1+of=50") and the checked value it stands for."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

from pflrepro.errors import UserError, check_range, check_word, unknown

CHOICES = ("of", "first-of", "last-of")
ALL = "all"  # in place of the number of clients to choose from


@dataclass(frozen=True)
class Spec:
    """One way to divide a data set among clients; `str(spec)` is its canonical text.

    kind: the word before the colon. default_min_size: the smallest allowed total of a client where the caller names none. attempts:
    draws before a minimum size that was never reached is an error. own_minimum: whether that smallest total is the paper's of this
    kind, so that it also holds where a data set's preset has another. counted: whether the data, not the caller, tell how many
    clients there are. own_split: whether a client's split is the papers' too. The options go with every kind that reads no file:
    choice, total: only some clients of a partition among `total` clients are used, or with total None among as many as a counted
    kind has (see `PARTITIONS`, "+of" and its kin); train_share or train_samples: how much of each client's training part is kept;
    stratified: whether each class of a client is split by itself.
    """

    kind: ClassVar[str]
    default_min_size: ClassVar[int] = 1
    own_minimum: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    own_split: ClassVar[bool] = False
    attempts: ClassVar[int] = 1000
    _: KW_ONLY
    choice: str = ""
    total: int | None = None
    train_share: float = 1.0
    train_samples: int | None = None
    stratified: bool = False

    def __post_init__(self) -> None:
        if self.choice or self.total is not None:
            check_word("choice of clients", self.choice, CHOICES)
        if self.total is not None:
            check_range(f"M in +{self.choice}=M", self.total, 1, integer=True)
        elif self.choice and not self.counted:
            counted = ", ".join(sorted(name for name, kind in KINDS.items() if kind.counted))
            raise UserError(
                f"+{self.choice}={ALL} is for partitions whose data tell the number of clients ({counted}); "
                f"with {self.kind!r} name that number: +{self.choice}=M"
            )
        check_range("SHARE in +train-share=SHARE", self.train_share, 0, 1, open_low=True)
        if self.train_samples is not None:
            check_range("N in +train-samples=N", self.train_samples, 1, integer=True)
            if self.train_share != 1:
                raise UserError("+train-share and +train-samples exclude each other")
        if self.stratified and self.own_split:
            raise UserError(f"+stratified is not for {self.kind!r}, whose split is that of the papers")

    @property
    def value(self) -> str:
        """The text after the colon, without the options; empty for a kind that takes none."""
        return ",".join(_text(getattr(self, name)) for name, _ in numbers_of(type(self)))

    @property
    def options(self) -> str:
        """The options that differ from their defaults, as they are written behind the kind; "" for none."""
        text = f"+{self.choice}={ALL if self.total is None else self.total}" if self.choice else ""
        text += f"+train-share={_text(self.train_share)}" if self.train_share != 1 else ""
        text += f"+train-samples={self.train_samples}" if self.train_samples is not None else ""
        return f"{text}+stratified" if self.stratified else text

    def __str__(self) -> str:
        return (f"{self.kind}:{self.value}" if self.value else self.kind) + self.options


@dataclass(frozen=True)
class Iid(Spec):
    """Samples in random order, equal numbers a client (they differ by one at most)."""

    kind: ClassVar[str] = "iid"


@dataclass(frozen=True)
class Group(Spec):
    """One client a group of the data set (writer, patient, user, domain), in the order of the group numbers.

    least: smaller groups are left out, and so are their samples. A group that leaves nothing to train on is refused.
    """

    kind: ClassVar[str] = "group"
    own_minimum: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    least: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(f"LEAST in {self.kind}:LEAST", self.least, 1, integer=True)

    @property
    def value(self) -> str:
        return "" if self.least == 1 else str(self.least)


@dataclass(frozen=True)
class GroupClasses(Spec):
    """Every group is shared out to `parts` clients, each of which takes a block of consecutive classes [FedBR, PACS: 2 blocks]."""

    kind: ClassVar[str] = "group-classes"
    own_minimum: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    parts: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(f"K in {self.kind}:K", self.parts, 1, integer=True)


@dataclass(frozen=True)
class Dirichlet(Spec):
    """Practical label skew; `alpha` > 0 is the concentration (beta in the papers), smaller is more skewed."""

    kind: ClassVar[str] = "dirichlet"
    default_min_size: ClassVar[int] = 40  # batch/(1 - 0.75) at batch 10 [LIB-era]
    alpha: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(f"alpha in {self.kind}:ALPHA", self.alpha, 0, open_low=True)


@dataclass(frozen=True)
class PFedFDADirichlet(Dirichlet):
    """As `Dirichlet`, with pFedFDA's minimum: 62.5 samples, one batch of 50 after its 80/20 split [pFedFDA-code].

    Of CIFAR-10's draws with alpha 0.1 for 100 clients about one in 4,600 has that minimum (13 of 60,000); the paper's code draws
    without a bound.
    """

    kind: ClassVar[str] = "pfedfda-dirichlet"
    own_minimum: ClassVar[bool] = True
    default_min_size: ClassVar[int] = 63
    attempts: ClassVar[int] = 50_000


@dataclass(frozen=True)
class GroupDirichlet(PFedFDADirichlet):
    """Within every group of the data set, equally many clients by `PFedFDADirichlet` [pFedFDA, Digit-5: 4 a domain]."""

    kind: ClassVar[str] = "group-dirichlet"


@dataclass(frozen=True)
class FixedSize(Dirichlet):
    """Exactly `size` samples a client, each of a class drawn from the client's prior ~ Dirichlet(alpha) [pFedFDA-code]."""

    kind: ClassVar[str] = "fixed-size"
    own_minimum: ClassVar[bool] = True
    default_min_size: ClassVar[int] = 1
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(f"SIZE in {self.kind}:ALPHA,SIZE", self.size, 1, integer=True)


@dataclass(frozen=True)
class Lda(Dirichlet):
    """Latent Dirichlet allocation, client after client; `alpha` is the sum of the concentrations [FedBR: MNIST, CIFAR-10]."""

    kind: ClassVar[str] = "lda"
    own_minimum: ClassVar[bool] = True
    default_min_size: ClassVar[int] = 1


@dataclass(frozen=True)
class LdaFlat(Lda):
    """As `Lda`, but `alpha` is the concentration of every single class [FedBR-code: CIFAR-100]."""

    kind: ClassVar[str] = "lda-flat"


@dataclass(frozen=True)
class LongTail(Spec):
    """Long-tailed clients and classes [GRP-FED]; its formula is not printed, so the reading is ours [?].

    rho: size of the last client over that of the first, the sizes fall geometrically. tau: the class at position j of a
    client's random order has a share proportional to tau^j.
    """

    kind: ClassVar[str] = "long-tail"
    own_minimum: ClassVar[bool] = True
    rho: float
    tau: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rho", "tau"):
            check_range(f"{name} in partition {self.kind!r}", getattr(self, name), 0, 1, open_low=True)


@dataclass(frozen=True)
class LongTailGeometric(LongTail):
    """As `LongTail`, with the literal sizes: client m has rho times the samples of client m - 1, but never fewer than `floor`."""

    kind: ClassVar[str] = "long-tail-geometric"
    floor: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(f"FLOOR in {self.kind}:RHO,TAU,FLOOR", self.floor, 1, integer=True)


@dataclass(frozen=True)
class Pathological(Spec):
    """Pathological label skew; every client holds exactly `labels` classes."""

    kind: ClassVar[str] = "pathological"
    default_min_size: ClassVar[int] = 40
    labels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(f"K in {self.kind}:K", self.labels, 1, integer=True)


@dataclass(frozen=True)
class PapersDirichlet(Dirichlet):
    """As `Dirichlet`, drawn sample by sample as DBE and GPFL drew it."""

    kind: ClassVar[str] = "pfllib-dirichlet"
    own_split: ClassVar[bool] = True


@dataclass(frozen=True)
class PapersPathological(Pathological):
    """As `Pathological`, drawn sample by sample as DBE and GPFL drew it; clients may hold fewer classes where quotas run out."""

    kind: ClassVar[str] = "pfllib-pathological"
    own_split: ClassVar[bool] = True


@dataclass(frozen=True)
class Counts(Spec):
    """Given client x class counts: `source` is the name of a published partition, or the path of a csv file."""

    kind: ClassVar[str] = "counts"
    own_minimum: ClassVar[bool] = True
    counted: ClassVar[bool] = True
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


_TYPES: tuple[type[Spec], ...] = (
    *(Iid, Dirichlet, Pathological, PapersDirichlet, PapersPathological, PFedFDADirichlet, FixedSize),
    *(Lda, LdaFlat, LongTail, LongTailGeometric, Counts, Group, GroupClasses, GroupDirichlet, File),
)
KINDS: dict[str, type[Spec]] = {kind.kind: kind for kind in _TYPES}

PARTITIONS: dict[str, str] = {
    "iid": "iid: equal numbers of randomly drawn samples a client",
    "dirichlet": "dirichlet:ALPHA: practical label skew; each class is shared out by a Dirichlet(ALPHA) draw, smaller is more skewed",
    "pathological": "pathological:K: each client holds K classes; data are disjoint, sizes unequal",
    "pfllib-dirichlet": "pfllib-dirichlet:ALPHA: practical label skew as DBE and GPFL drew it, sample by sample (seed 1)",
    "pfllib-pathological": "pfllib-pathological:K: pathological label skew as DBE and GPFL drew it, sample by sample (seed 1)",
    "pfedfda-dirichlet": "pfedfda-dirichlet:ALPHA: as dirichlet, at least 63 samples a client (pFedFDA: a batch of 50 to train)",
    "fixed-size": "fixed-size:ALPHA,SIZE: SIZE samples a client, classes by its Dirichlet(ALPHA) prior (pFedFDA: 63, 50 to train)",
    "lda": "lda:ALPHA: FedBR's split; client by client, classes ~ Dirichlet(ALPHA x distribution of what is left); equal sizes",
    "lda-flat": "lda-flat:ALPHA: as lda with Dirichlet(ALPHA, ..., ALPHA), much milder (FedBR's code on CIFAR-100)",
    "long-tail": "long-tail:RHO,TAU: GRP-FED; sizes fall geometrically to RHO of the first, a client's classes by powers of TAU",
    "long-tail-geometric": "long-tail-geometric:RHO,TAU,FLOOR: as long-tail, each client RHO of the one before, at least FLOOR samples",
    "counts": "counts:NAME or counts:FILE.csv: replay given client x class counts (a published partition, or client,label,count rows)",
    "group": "group or group:LEAST: one client a group of the data set (writer, patient, user, domain) of at least LEAST samples; "
    "a group of one sample has nothing to train on: it is refused, and left out by group:2",
    "group-classes": "group-classes:K: K clients a group, each a block of consecutive classes (PACS: 2, classes 0-3 and 4-6)",
    "group-dirichlet": "group-dirichlet:ALPHA: equally many clients a group, by pfedfda-dirichlet within it (Digit-5: 4 a domain)",
    "file": "file:FILE.npz: arrays `client` (-1 = unused) and `is_test`, one entry a row of the data set's array cache",
    "+of": "+of=M: behind a kind: some clients, drawn at random, of a partition among M (GPFL's N=10|50: 10 clients, +of=50); "
    "M may be `all` behind group, group-classes and counts (1,000 random writers of EMNIST: 1000 clients, group:2+of=all)",
    "+first-of": "+first-of=M: behind a kind: the first clients of a partition among M, which may be `all` as in +of (80 old "
    "clients: +first-of=100; pFedFDA's writers: group:2+first-of=all)",
    "+last-of": "+last-of=M: behind a kind: the last clients of a partition among M, as in +of (20 new clients: +last-of=100)",
    "+train-share": "+train-share=SHARE: behind a kind: keep a random part of each training part (pFedFDA: 0.75, 0.5, 0.25)",
    "+train-samples": "+train-samples=N: behind a kind: keep at most N random training samples of each client",
    "+stratified": "+stratified: behind a kind: each class of a client is split by itself, a single sample trains (GRP-FED)",
}

_OPTION = re.compile(r"\+(?:(of|first-of|last-of|train-share|train-samples)=([^+]*)|(stratified))\s*$")


def parse(text: str | Spec) -> Spec:
    """Read a specification such as "dirichlet:0.1"; raises `UserError` for unknown kinds and impossible values."""
    if isinstance(text, Spec):
        return text
    if not isinstance(text, str):
        raise UserError(f"a partition is a text such as 'dirichlet:0.1', not {text!r}")
    body, options = _options(text)
    kind, colon, value = map(str.strip, body.partition(":"))
    if (stray := re.search(r"\+([a-z-]+)", body)) and kind not in ("counts", "file"):
        raise unknown("option of a partition", f"+{stray[1]}", [name for name in PARTITIONS if name.startswith("+")])
    if kind not in KINDS:
        raise unknown("partition", kind, KINDS)
    if kind == "iid" or (kind == "group" and not value):
        if colon:
            raise UserError(f"partition {kind!r} takes no {'empty ' if kind == 'group' else ''}value, not {text!r}")
        return KINDS[kind](**options)
    form = PARTITIONS[kind].split(": ")[0]
    if not value:
        raise UserError(f"partition {text!r} lacks its value; write {form}")
    if kind in ("counts", "file"):
        spec = KINDS[kind](value, **options)
        if options and (kind == "file" or spec.is_file):
            raise UserError(f"partition {text!r} is read from a file, to which no option applies; change the file")
        return spec
    return KINDS[kind](*_numbers(text, value, KINDS[kind], form), **options)


def new_clients(spec: str | Spec, old: int, new: int) -> tuple[str, str]:
    """The partitions of the clients that train and of those that come later: the first `old` and the last `new` of old + new.

    With the same seed and minimum size they are parts of one partition, so their samples are disjoint. [DBE] has 80 old and 20
    new clients, [pFedFDA] one half and the other. Divide the first among `old` clients, the second among `new`.

    Example:
        >>> new_clients("pfllib-dirichlet:0.1", 80, 20)
        ('pfllib-dirichlet:0.1+first-of=100', 'pfllib-dirichlet:0.1+last-of=100')
    """
    spec = parse(spec)
    if spec.choice:
        raise UserError(f"partition '{spec}' has a choice of clients already")
    total = check_range("old clients", old, 1, integer=True) + check_range("new clients", new, 1, integer=True)
    return str(parse(f"{spec}+first-of={total}")), str(parse(f"{spec}+last-of={total}"))


def numbers_of(kind: type[Spec]) -> list[tuple[str, type]]:
    """Name and type of the numbers after the colon, in their order."""
    types = {"int": int, "float": float}
    return [(field.name, types[field.type]) for field in fields(kind) if not field.kw_only and field.type in types]


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
    form = PARTITIONS[f"+{name}"].split(": ")[0]
    return _number(text, value, float if name == "train-share" else int, form)


def _numbers(text: str, value: str, kind: type[Spec], form: str) -> list[Any]:
    wanted = numbers_of(kind)
    parts = value.split(",") if len(wanted) > 1 else [value]
    if len(parts) != len(wanted):
        raise UserError(f"partition {text!r} needs {len(wanted)} numbers after the colon; write {form}")
    return [_number(text, part.strip(), convert, form) for part, (_, convert) in zip(parts, wanted, strict=True)]


def _number(text: str, value: str, convert: type, form: str) -> Any:
    try:
        return convert(value)
    except ValueError:
        what = "a whole number" if convert is int else "a number"
        after = "in" if form.startswith("+") else "after the colon; write"
        raise UserError(f"partition {text!r} needs {what} {after} {form}") from None


def _text(number: float) -> str:
    return str(number) if isinstance(number, int) else repr(float(number)).removesuffix(".0")
