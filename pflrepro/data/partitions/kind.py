"""What a kind of partition is: a checked value with a text, and a rule that gives every row of a data set to a client."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction
from inspect import cleandoc
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pflrepro.checked import domains
from pflrepro.errors import UserError, check_range, check_word
from pflrepro.markup import facts
from pflrepro.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor

Sides = tuple[list["Tensor"], list["Tensor"]]
CHOICES = ("of", "first-of", "last-of")
ALL = "all"  # in place of the number of clients to choose from
Attempt = Callable[[], np.ndarray]


@dataclass(frozen=True, eq=False)
class Data:
    """What is divided, and how: the arguments of `pflrepro.data.partition.partition`, checked one by one already."""

    labels: Tensor
    groups: Tensor | None
    clients: int | None
    seed: int
    min_size: int
    test_share: float


@dataclass(frozen=True, repr=False)
class Spec(ABC):
    """One way to divide a data set among clients; `str(spec)` is its canonical text, the first lines of its docstring its help.

    Example:
        >>> from pflrepro.data.partitions.parse import parse
        >>> parse("dirichlet:0.10+train-share=0.5")
        parse('dirichlet:0.1+train-share=0.5')

    The last five attributes are options that go with every kind, `stratified` with those that bring no split of their own.

    Attributes:
        kind: the word before the colon.
        numbers: what stands behind it in the help, in the order of the fields.
        default_min_size: the smallest allowed total of a client where the caller names none.
        own_minimum: whether that total is the paper's of this kind, so that it also holds where a data set's preset has another.
        counted: whether the data, not the caller, tell how many clients there are.
        own_rows: whether every row's client and side are given.
        choice, total: only some clients of a partition among `total` clients are used, or with total None among as many as a
            counted kind has (see `PARTITIONS`, "+of" and its kin).
        train_share, train_samples: how much of each client's training part is kept.
        validation: the share of what is kept that is tested on in place of the test part; 0: the test part.
        stratified: whether each class of a client is split by itself.
    """

    kind: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]] = ()
    default_min_size: ClassVar[int] = 1
    own_minimum: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    own_rows: ClassVar[bool] = False
    _: KW_ONLY
    choice: str = ""
    total: int | None = None
    train_share: float = 1.0
    train_samples: int | None = None
    validation: float = 0.0
    stratified: bool = False

    def __post_init__(self) -> None:
        known = domains(type(self))
        for word, name in zip(self.numbers, self.fields(), strict=False):
            known[name].check(f"{word} in {self.form()}", getattr(self, name))
        if self.choice or self.total is not None:
            check_word("choice of clients", self.choice, CHOICES)
        if self.total is not None:
            check_range(f"M in +{self.choice}=M", self.total, 1, integer=True)
        elif self.choice and not self.counted:
            counted = ", ".join(sorted(each.kind for each in _kinds(Spec) if each.counted))
            raise UserError(
                f"+{self.choice}={ALL} is for partitions whose data tell the number of clients ({counted}); "
                f"with {self.kind!r} name that number: +{self.choice}=M"
            )
        check_range("SHARE in +train-share=SHARE", self.train_share, 0, 1, open_low=True)
        if self.train_samples is not None:
            check_range("N in +train-samples=N", self.train_samples, 1, integer=True)
            if self.train_share != 1:
                raise UserError("+train-share and +train-samples exclude each other")
        check_range("SHARE in +validation=SHARE", self.validation, 0, 1, open_high=True)
        if self.stratified and (self.own_rows or isinstance(self, OwnSplit)):
            whose = "the file" if self.own_rows else "the papers"
            raise UserError(f"+stratified is not for {self.kind!r}, whose split is that of {whose}")

    # ---- the text ------------------------------------------------------------------------------------------------------------
    @classmethod
    def fields(cls) -> list[str]:
        """The fields whose values stand behind the colon, in their order."""
        return [field.name for field in fields(cls) if not field.kw_only]

    @classmethod
    def form(cls) -> str:
        """How it is written: `dirichlet:ALPHA`."""
        return f"{cls.kind}:{','.join(cls.numbers)}" if cls.numbers else cls.kind

    @classmethod
    def help(cls) -> str:
        """Form and meaning in one line; the meaning is the first paragraph of the docstring."""
        meaning = cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
        return f"{cls.form()}: {meaning}"

    @property
    def value(self) -> str:
        """The text after the colon, without the options; empty for a kind that takes none."""
        return ",".join(_text(getattr(self, name)) for name in self.fields())

    @property
    def options(self) -> str:
        """The options that differ from their defaults, as they are written behind the kind; "" for none."""
        text = f"+{self.choice}={ALL if self.total is None else self.total}" if self.choice else ""
        text += f"+train-share={_text(self.train_share)}" if self.train_share != 1 else ""
        text += f"+train-samples={self.train_samples}" if self.train_samples is not None else ""
        text += f"+validation={_text(self.validation)}" if self.validation else ""
        return f"{text}+stratified" if self.stratified else text

    def __str__(self) -> str:
        return (f"{self.kind}:{self.value}" if self.value else self.kind) + self.options

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def _repr_html_(self) -> str:
        values = {word: getattr(self, name) for word, name in zip(self.numbers, self.fields(), strict=False)}
        return facts(str(self), {"what it does": self.help(), **values, "options": self.options})

    # ---- the rule ------------------------------------------------------------------------------------------------------------
    @abstractmethod
    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        """(client of every row, -1 where it is unused; number of clients; test rows, where every row's side is given)."""

    def without_smaller(self, least: int) -> str:
        """How to leave out what has fewer than `least` samples, as the beginning of an advice; "" where it cannot."""
        return ""

    def possible(self, data: Data) -> int:
        """The number of clients of a kind that the caller gives it; `UserError` where there are not enough samples."""
        samples, clients = len(data.labels), data.clients
        if clients is None:
            raise UserError(f"partition '{self}' needs the number of clients")
        if clients > samples:
            raise UserError(f"clients must be <= {samples}, the number of samples, not {clients}")
        self.check_minimum(samples, clients, data.min_size)
        return clients

    def check_minimum(self, samples: int, clients: int, min_size: int) -> None:
        """`UserError` where `clients` clients cannot all have `min_size` samples."""
        if min_size * clients > samples:
            raise UserError(
                f"{clients} clients with min_size = {min_size} samples each need {min_size * clients:,} samples; there are {samples:,}"
            )


class OwnSplit(Spec):
    """A partition whose clients' split into training and test rows is the papers' too."""

    @abstractmethod
    def sides(self, data: Data) -> Sides:
        """Training and test rows of each client."""


@dataclass(frozen=True, repr=False)
class Drawn(Spec):
    """A partition whose client x class sizes are drawn on the host, from the sizes of the classes alone; rows are assigned at random.

    Attributes:
        draws: before a minimum size that was never reached is an error; 1 where every draw has the same sizes of clients.
    """

    draws: ClassVar[int] = 1000

    @abstractmethod
    def drawing(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> Attempt:
        """What draws samples of each client and class, int64 [N, C], anew at every call; `UserError` for an impossible request."""

    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        from pflrepro.data.partitions.rows import by_class, class_sizes

        clients = self.possible(data)
        sizes = self.sizes(class_sizes(data.labels), clients, data.seed, data.min_size)
        return by_class(data.labels, sizes, data.seed), clients, None

    def sizes(self, class_sizes: np.ndarray, clients: int, seed: int, min_size: int, *, stream: int = 0) -> np.ndarray:
        """Samples of each client and class, int64 [N, C]; at most `draws` draws until the smallest client has `min_size`.

        Args:
            class_sizes: samples of each class.
            stream: tells draws of one seed apart (groups that are divided one by one).
        """
        attempt = self.drawing(class_sizes, clients, generator(seed, "partition/sizes", client=stream))
        best = -1
        for _ in range(self.draws):
            sizes = attempt()
            smallest = int(sizes.sum(1).min())
            if smallest >= min_size:
                return sizes
            best = max(best, smallest)
        if self.draws == 1:
            raise UserError(
                f"'{self}' among {clients} clients gives the smallest {best} samples, fewer than min_size = {min_size}"
            )
        raise too_small(f"'{self}'", clients, min_size, best, self.draws, alpha="alpha" in self.fields())


def _kinds(base: type[Spec]) -> Iterator[type[Spec]]:
    """All kinds below `base`."""
    for each in base.__subclasses__():
        yield from ((each,) if hasattr(each, "kind") else ())
        yield from _kinds(each)


def train_size(samples: int, test_share: float) -> int:
    """floor((1 - test_share) samples), without rounding error: 0.9 of 10 test samples leave exactly one."""
    return math.floor((1 - Fraction(repr(float(test_share)))) * samples)


def too_small(what: str, clients: int, min_size: int, best: int, draws: int, *, alpha: bool) -> UserError:
    """The error after the last of the bounded draws; `alpha`: whether the partition has one."""
    reached = f"the best had a smallest client of {best}" if best >= 0 else "none was valid"
    return UserError(
        f"{what} among {clients} clients: none of {draws:,} draws gave every client min_size = {min_size} samples ({reached}); "
        f"use a smaller min_size or fewer clients{' or a larger alpha' if alpha else ''}"
    )


def _text(number: float) -> str:
    return str(number) if isinstance(number, int) else repr(float(number)).removesuffix(".0")
