"""The settings of a run: everything about the protocol that is not the method, the data or the network.

A setting is declared once, here: its default with its source, its bounds, and the words that `pflrepro run --help` shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal

from pflrepro.checked import AtLeastOne, Between, Count, NonNegative, check_fields
from pflrepro.errors import UserError, check_range
from pflrepro.markup import Brief, facts

RUN_LENGTH = ("rounds", "patience", "every")  # how much of a run is asked for, not what it is


def knob(default: Any, help: str, title: str = "") -> Any:
    """A field with its help text; `title`: what an error calls it, where its name is short for something."""
    return field(default=default, metadata={"help": help, "title": title})


@dataclass(frozen=True, repr=False)
class Settings(Brief):
    """How a federation trains; the defaults are the protocol of DBE and GPFL. Bad values are a one-line `UserError`.

    Attributes:
        rounds: communication rounds (at most: `patience` may stop earlier); 2,000 [GPFL 4.1; DBE-code run script;
            GPFL-code's default is 1,000].
        participation: rho, the share of clients a round.
        participation_low: if not 0, rho is drawn anew every round, uniformly from participation_low to participation (0.5 to 1 and
            0.1 to 1 [GPFL Table 4]).
        sampling: `number`: floor(rho * N) clients drawn without replacement, at least one [LIB]; `coins`: each client with
            probability rho, independently [FDA]; if no coin falls, one client drawn at random [inferred].
        closing: everybody takes part in the last round [FDA].
        local_epochs: passes over the client's data a round; 1 [DBE, GPFL].
        local_steps: if not 0, in place of passes: so many steps on full batches drawn with replacement; 50 [BR, BR-code]. Phases
            that a method gives passes of their own keep them.
        first_steps: if not 0, local_steps of round 0; 1 [BR-code, by where its loop averages]. What methods know as the run's number
            of steps stays `local_steps`.
        first_weights: `common`: all clients start from the server's model; `slots`: in round 0 each from a draw of its own, v_k at
            place k, as though it had received that; the server takes their mean update, w^1 = w^0 + sum_k p_k (w_k - v_k), where the
            method's rule is FedAvg's [BR-code, where an intended copy is lost]. Groups that are not shared, and clients that first
            come later, start as ever.
        batch_size: 10 [DBE, GPFL].
        lr: local learning rate; 0.005 for the papers' CNN [GPFL, code default].
        momentum, weight_decay: of the local SGD; 0 [code].
        drop_last: drop an incomplete last batch; True [DBE, code].
        fit_batch: a client with fewer samples than a batch has batches of its size [FDA-code]; else, with drop_last, it takes no step.
        augment: of images in training batches: `crop-flip`, a random crop after padding by 4 black pixels and a flip left to right
            half of the time, drawn anew for every sample and step; `none`.
        receivers: who gets the broadcast: `all` clients [LIB since 2023, code] or the `selected` ones [DBE App. A.1, GPFL Alg. 1].
        statistics: batch-norm statistics stay `personal` [LIB: only parameters are averaged] or are `averaged` with weights p_i.
        weights: p_i, by which a method averages what the cohort hands in, where its own rule names no other: `sizes`, n_i / sum n_j
            [LIB; BR eq. 1], or `uniform`, 1/m [BR Alg. 1; BR-code; FedRep's paper].
        every: test after every so many rounds, and after the last. What is trained does not depend on it.
        evaluate_after: also test right after local training (up to one more test pass, in the time of the round).
        patience: stop after so many tests without a new best; 0: never; 100 [DBE-code: auto-stop].
    """

    rounds: Count = knob(2000, "communication rounds, at most")
    participation: Annotated[float, Between(0, 1, open_low=True)] = knob(1.0, "share of the clients a round, in ]0, 1]")
    participation_low: NonNegative = knob(0.0, "the share is drawn anew every round between this and --participation")
    sampling: Literal["number", "coins"] = knob("number", "a fixed number of clients, or each with that probability")
    closing: bool = knob(False, "everybody takes part in the last round")
    local_epochs: AtLeastOne = knob(1, "passes over a client's data a round")
    local_steps: Count = knob(0, "steps a round in place of epochs (0: epochs)")
    first_steps: Count = knob(0, "steps of round 0 in place of --local-steps (0: the same)")
    first_weights: Literal["common", "slots"] = knob(
        "common", "what round 0 starts from: the server's model, or a draw for each place"
    )
    batch_size: AtLeastOne = knob(10, "samples a step")
    lr: NonNegative = knob(0.005, "local learning rate", "learning rate")
    momentum: Annotated[float, Between(0, 1, open_high=True)] = knob(0.0, "of the local SGD")
    weight_decay: NonNegative = knob(0.0, "of the local SGD")
    drop_last: bool = knob(True, "drop an incomplete last batch")
    fit_batch: bool = knob(False, "smaller batches for clients with fewer samples than one")
    augment: Literal["none", "crop-flip"] = knob("none", "of image batches", "augmentation")
    receivers: Literal["all", "selected"] = knob("all", "who gets the broadcast")
    statistics: Literal["personal", "averaged"] = knob(
        "personal", "where batch-norm statistics are kept", "batch-norm statistics"
    )
    weights: Literal["sizes", "uniform"] = knob(
        "sizes", "of clients in averages: by their training samples, or equal", "weights of the average"
    )
    every: AtLeastOne = knob(1, "test after every so many rounds")
    evaluate_after: bool = knob(True, "also test right after local training")
    patience: Count = knob(0, "stop after so many tests without a new best; 0: never")

    def __post_init__(self) -> None:
        check_fields(self, _titles())
        if self.participation_low > self.participation:
            check_range("lowest participation", self.participation_low, 0, self.participation)
        if self.first_steps > self.local_steps:
            raise UserError(f"first_steps is at most local_steps, {self.local_steps}, not {self.first_steps}")

    def _repr_html_(self) -> str:
        """Every setting; in bold what is not at its default."""
        own = self.differing()
        return facts("protocol", {n: f"**{value}**" if n in own else value for n, value in vars(self).items()})

    def at(self, t: int) -> Settings:
        """The settings by which clients train in round `t`."""
        return replace(self, local_steps=self.first_steps) if self.first_steps and t == 0 else self

    @property
    def mean_participation(self) -> float:
        """The share of clients that a round is expected to have."""
        return (self.participation_low + self.participation) / 2 if self.participation_low else self.participation

    def differing(self) -> dict[str, Any]:
        """The settings that are not at their defaults, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}


@cache
def _titles() -> dict[str, str]:
    """What an error calls each setting."""
    return {each.name: each.metadata["title"] or each.name.replace("_", " ") for each in fields(Settings)}
