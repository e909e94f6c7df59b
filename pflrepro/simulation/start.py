"""What a simulation starts from: the task, each seed's initial weights, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Part, phases_of
from pflrepro.algorithms.task import Setup, Task
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError, check_range, in_short, is_several
from pflrepro.models.registry import find
from pflrepro.models.split import FunctionalModule, SplitModel, buffers_of, parameters_of
from pflrepro.models.text import VOCABULARY
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import idle_clients

log = logging.getLogger("pflrepro.run")


def task_of(federation: Federation, network: SplitModel, settings: Settings) -> Task:
    """The problem: the clients as a method may know them, and the network as functions."""
    return Task(
        clients=federation.clients,
        classes=federation.classes,
        features=network.features,
        info=federation.info(),
        base=FunctionalModule(network.base),
        head=FunctionalModule(network.head),
        largest=int(federation.sizes("train").max()),
        local_epochs=settings.local_epochs,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size,
        momentum=settings.momentum,
        rounds=settings.rounds,
        participation=settings.mean_participation,
    )


def setup_of(
    task: Task,
    method: Method,
    network: SplitModel,
    seed: int,
    device: torch.device,
    dtype: torch.dtype,
    stream: str = "weights",
) -> Setup:
    """The task with one seed's initial weights; its parts are the method's layout. `stream`: see `Setup`."""

    def part(module: torch.nn.Module) -> Part:
        return Part("shared", parameters_of(module).to(device, dtype), buffers_of(module).to(device, dtype))

    parts = {"base": part(network.base), "head": part(network.head)}
    setup = Setup(**vars(task), parts=parts, seed=seed, dtype=dtype, device=device, stream=stream)
    return replace(setup, parts=method.layout(setup))


def check_kinds(method: Any, federation: Any, settings: Any) -> None:
    """`UserError` for what a simulation is not made of: names, classes, mappings."""
    kinds = {
        "method": (method, Method, "pflrepro.build_method('fedavg')"),
        "federation": (federation, Federation, "pflrepro.load_federation(pflrepro.DataConfig('digits'))"),
        "settings": (settings, Settings, "pflrepro.Settings(rounds=10)"),
    }
    for name, (given, kind, such) in kinds.items():
        if not isinstance(given, kind):
            raise UserError(f"{name} must be a {kind.__name__}, such as {such}, not {in_short(given)}")


def checked_seeds(seeds: Any) -> list[int]:
    """The seeds as a list; `UserError` unless they are whole numbers, one at least, each once."""
    given = seeds if is_several(seeds) else ()
    listed = [check_range("seed", seed, 0, integer=True) for seed in given]
    if not listed or len({*listed}) < len(listed):
        raise UserError(f"seeds must be one or more different numbers, not {in_short(seeds)}")
    return listed


def check_place(index: int, seeds: Sequence[int]) -> None:
    """`UserError` unless `index` is the number of one of the seeds, 0..S-1."""
    if index not in range(len(seeds)):
        raise UserError(f"the index of a seed must lie in 0..{len(seeds) - 1} (seeds {seeds}), not {index!r}")


def refuse_empty_splits(federation: Federation, settings: Settings) -> None:
    """`UserError` where nobody has a sample to train on, though rounds are asked for; a warning where nobody is tested."""
    if settings.rounds and not federation.sizes("train").any():
        raise UserError(f"no client has a training sample: {settings.rounds} rounds would train nothing")
    if not federation.sizes("test").any():
        log.warning("no client has a test sample: nothing will be measured")


def refuse_unfit_norm_batches(task: Task, method: Method, settings: Settings, clock: Clock) -> None:
    """`UserError` where batch norm would train on one sample, or on incomplete batches, which are padded side by side."""
    if not (task.base.has_buffers or task.head.has_buffers):
        return
    training = [phase for phase in phases_of(method, clock) if not phase.scan]
    if not settings.drop_last or settings.fit_batch or any(phase.drop_last is False for phase in training):
        raise UserError(
            "a network with batch norm needs drop_last=True and fit_batch=False: an incomplete batch has other statistics when padded"
        )
    if settings.batch_size == 1:
        raise UserError("a network with batch norm needs batch_size >= 2, not 1: one sample has no variance")


def refuse_lost_adaptation(method: Method, settings: Settings) -> None:
    """`UserError` where clients adapt before the last test only, and some are absent then or the run may end before it."""
    before, after = (phases_of(method, Clock.of(settings, t)) for t in (0, settings.rounds))
    late = {phase.name for phase in after if phase.where == "adapt"} - {phase.name for phase in before}
    if late and settings.receivers == "selected" and settings.mean_participation < 1:
        raise UserError(
            f"receivers=selected would leave clients that are absent at the end without {' and '.join(sorted(late))}, which comes "
            "before the last test only (tune_when=end): receivers=all, or tune_when=always"
        )
    if late and settings.patience:
        raise UserError(
            f"patience={settings.patience} may end the run early, without {' and '.join(sorted(late))}, which comes before the test "
            f"after round {settings.rounds} only (tune_when=end): patience=0, or tune_when=always"
        )


def refuse_unfit_samples(method: Method, model: str, federation: Federation, settings: Settings) -> None:
    """`UserError` for tokens that are none or are to be mixed, and where samples that are no images would be cropped and flipped."""
    takes = find(model)[0].takes.kind
    if method.mixes_samples and takes == "tokens":
        names = [kind.__name__ for kind in type(method).__mro__ if kind.__dict__.get("mixes_samples")]
        raise UserError(
            f"{' and '.join(names)} cannot be used with {model}: the mean of two token numbers is the number of an unrelated word"
        )
    if takes == "tokens" and len(federation.shape) == 1:  # another shape is refused by the network
        _check_tokens(model, federation)
    if settings.augment != "none" and (takes in ("signal", "tokens") or len(federation.shape) not in (2, 3)):
        kind = {"signal": "signals", "tokens": "texts"}.get(takes, "samples")
        raise UserError(f"augment={settings.augment} is for images, not for {kind} of shape {list(federation.shape)}")


def _check_tokens(model: str, federation: Federation) -> None:
    """`UserError` unless all numbers have a row in the table of words; on a GPU one without ends the process's work there."""
    x = federation.x if federation.x.dtype.is_signed else federation.x.long()  # some unsigned types have no order
    low, high = (bound.item() for bound in x.aminmax())
    whole = not x.is_floating_point() or bool((x == x.floor()).all())
    if low < 0 or high >= VOCABULARY or not whole or federation.unit != (1.0, 0.0):
        found = f"{low}..{high}{'' if whole else ', with fractions'}, unit {federation.unit}"
        raise UserError(f"{model} takes whole token numbers in 0..{VOCABULARY - 1} as they are, not {found}")


def refuse_idle_clients(method: Method, federation: Federation, settings: Settings) -> None:
    """`UserError` where nobody has a batch to train on, which would leave every number at that of the first model.

    For runs: a simulation by itself may stand still, as the conformance suite asks of it.
    """
    federation = federation.hold_out(method.holdout)
    phases = [phase for phase in phases_of(method, Clock.of(settings, 0)) if phase.local and phase.data == "train"]
    idle = idle_clients(federation, phases, settings)
    batch = min((phase.batch or settings.batch_size for phase in phases), default=0)
    facts = f"fewer than a batch of {batch}; a smaller batch_size, or fit_batch, lets small clients train"
    if len(idle) == federation.clients:
        raise UserError(
            f"no client would train: the largest has {federation.sizes('train').max()} training samples, {facts}"
        )
    if idle:
        log.warning("%d of %d clients never train: each has %s", len(idle), federation.clients, facts)
