"""Phases, parts and clocks: what a method says about a round, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pflrepro.errors import UserError, check_range, check_word, in_short
from pflrepro.settings import Settings
from pflrepro.trees import Tree

Kind = Literal["shared", "personal", "frozen", "received", "server"]
KINDS = frozenset(get_args(Kind))
Where = Literal["clients", "server", "adapt"]
Samples = Literal["train", "valid", "test", "none"]
Optimiser = Literal["sgd", "plain"]
WORDS = {"where": get_args(Where), "data": get_args(Samples), "optimiser": get_args(Optimiser)}  # of a phase


@dataclass(frozen=True)
class Part:
    """One named group of parameters (`base`, `head`, an extra module) and who holds it.

    * `shared`: the server's; trained by the clients, uploaded and aggregated.
    * `personal`: the client's own; outlives the round, never sent.
    * `frozen`: the server's; sent, never trained.
    * `received`: computed by `Method.model` from what was sent; not trained, not stored, not uploaded.
    * `server`: the server's; sent, trained by the server only (a generator).

    `buffers` are the running statistics of the group's norm layers; the engine keeps them (see `Settings.statistics`).
    """

    kind: Kind
    params: Tree
    buffers: Tree = field(default_factory=Tree)

    def __post_init__(self) -> None:
        check_word("kind of group", self.kind, KINDS)
        for name in ("params", "buffers"):
            if not isinstance(getattr(self, name), Tree):
                raise UserError(f"{name} of a group must be a Tree, not {in_short(getattr(self, name))}")


def as_kind(parts: Mapping[str, Part], kind: Kind, *groups: str) -> dict[str, Part]:
    """`parts` with these groups (all, where none is named) of another kind; `UserError` for a group or kind that there is not."""
    check_word("kind of group", kind, KINDS)
    for name in groups:
        check_word("group", name, parts)
    return {name: replace(part, kind=kind) if not groups or name in groups else part for name, part in parts.items()}


@dataclass(frozen=True)
class Draw:
    """A table of numbers, one entry of `shape` a step: `uniform` in [0, 1), `normal`, or `beta` with (a, b).

    One is not random: `pass`, the number of the pass over the client's data in which the step is, from 0 (with a fixed number of
    steps: as many passes as fit into the samples drawn before).

    Attributes:
        common: a phase's table is drawn once for all clients, step by step; else each client has numbers of its own.
    """

    distribution: Literal["uniform", "normal", "beta", "pass"]
    shape: tuple[int, ...] = ()
    parameters: tuple[float, ...] = ()
    common: bool = False


@dataclass(frozen=True)
class Phase:
    """One part of a round: who works, on which data, for how long, and which parts train.

    Attributes:
        name: key of the phase in `ctx.steps` and in messages.
        where: `clients` (local training), `server` (after all uploads), `adapt` (a copy, before it is tested).
        data: `train`, `valid` (the held-out share of the training part), or `none` (only drawn tables); `test` is the engine's.
        passes: passes over the data; None = the run's local epochs.
        steps: number of steps where `data` is `none`; for client data a cap on the steps (0 = no cap).
        batch: batch size; 0 = the run's.
        drop_last: drop an incomplete last batch; None = as the run. Scan passes never drop.
        train: groups that train; None = all shared and personal ones.
        rate: learning rate of a group; groups not named use the run's.
        decay: weight decay (adds decay * w to the gradient) of a group; default the run's.
        draws: slot of the batch -> table of random numbers.
        scan: no training: `observe` gives sums, the engine adds them, `leave` uses them.
        stream: key of the batch order and draws; default where and data, so that two methods draw the same.
        optimiser: `sgd` with the run's momentum, or `plain` (no momentum, no weight decay of the run).

    `UserError` for a word or number that is none of these.
    """

    name: str = "train"
    where: Where = "clients"
    data: Samples = "train"
    passes: int | None = None
    steps: int = 0
    batch: int = 0
    drop_last: bool | None = None
    train: tuple[str, ...] | None = None
    rate: Mapping[str, float] = field(default_factory=dict)
    decay: Mapping[str, float] = field(default_factory=dict)
    draws: Mapping[str, Draw] = field(default_factory=dict)
    scan: bool = False
    stream: str = ""
    optimiser: Optimiser = "sgd"

    def __post_init__(self) -> None:
        for name, words in WORDS.items():
            check_word(f"{name} of the phase {self.name!r}", getattr(self, name), words)
        for name in ("passes", "steps", "batch"):
            value = getattr(self, name)
            if value is not None or name != "passes":
                whole = check_range(f"{name} of the phase {self.name!r}", value, 0, integer=True)
                object.__setattr__(self, name, whole)
        if isinstance(self.train, str):
            raise UserError(
                f"train of the phase {self.name!r} must be names of groups, ({self.train!r},), not {self.train!r}"
            )

    @property
    def local(self) -> bool:
        """Whether clients train in it for the round, and not on a copy to be tested."""
        return self.where == "clients" and not self.scan

    def drawing(self, **draws: Draw) -> Phase:
        """The same phase with more tables of random numbers."""
        return replace(self, draws={**self.draws, **draws})

    def joined(self, group: str, *others: str) -> Phase:
        """The same phase, in which `group` trains, too, if clients train one of `others` in it by name (without names all train)."""
        named = self.local and self.data != "none" and self.train is not None and not {*others}.isdisjoint(self.train)
        return replace(self, train=(*self.train, group)) if named else self


@dataclass(frozen=True)
class Clock:
    """Round t (from 0; negative in a prologue) of `rounds`, and the run's local work; for host functions only."""

    t: int
    rounds: int
    local_epochs: int = 1
    batch_size: int = 10
    local_steps: int = 0

    @classmethod
    def of(cls, settings: Settings, t: int) -> Clock:
        """Round `t` of a run with these settings."""
        return cls(t, settings.rounds, settings.local_epochs, settings.batch_size, settings.local_steps)

    @property
    def last(self) -> bool:
        return self.t == self.rounds - 1


def phases_of(method: Any, clock: Clock, groups: Collection[str] = ()) -> list[Phase]:
    """The phases of the round of `clock` by a method; `UserError` for what is none, and for a phase on the test data.

    Args:
        groups: those of the method's layout; where they are given, `UserError` for another one in a phase.
    """
    phases, whose = method.phases(clock), type(method).__name__
    if not isinstance(phases, (list, tuple)) or not phases or not all(isinstance(each, Phase) for each in phases):
        raise UserError(f"{whose}.phases must return a list of one Phase or more, not {in_short(phases)}")
    for phase in phases:
        if phase.data == "test":
            raise UserError(
                f"the phase {phase.name!r} of {whose} reads the test data, which no method may; valid: train, valid, none"
            )
        for name in (*(phase.train or ()), *phase.rate, *phase.decay) if groups else ():
            check_word(f"group in the phase {phase.name!r} of {whose}", name, groups)
    return list(phases)
