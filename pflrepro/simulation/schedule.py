"""What is fixed before a round starts: who takes part, and in which order each client sees its samples.

Everything here depends on (seed, round, client) and on the phase's stream alone, never on the method or on the backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pflrepro.algorithms.phases import Draw, Phase
from pflrepro.data.federation import Federation
from pflrepro.randomness import generator
from pflrepro.settings import Settings


def cohort(seed: int, t: int, clients: int, settings: Settings) -> np.ndarray:
    """The ids of the clients of round `t`, ascending; see `Settings.participation`, `sampling` and `closing`."""
    share = settings.participation
    if settings.closing and t == settings.rounds - 1:
        return np.arange(clients)
    if settings.participation_low:
        share = generator(seed, "participation", t).uniform(settings.participation_low, share)
    if settings.sampling == "coins":
        draw = generator(seed, "coins", t)
        chosen = np.flatnonzero(draw.random(clients) < share)
        return chosen if len(chosen) else draw.integers(clients, size=1)
    size = max(1, int(np.floor(share * clients + 1e-9)))
    if size == clients:
        return np.arange(clients)
    return np.sort(generator(seed, "cohort", t).permutation(clients)[:size])


AUGMENT = "augment"  # the slot of the draws that augmentation takes
NETWORK = "network"  # and that of the network's own random draws


@dataclass(frozen=True)
class Table:
    """The batches of one phase for some clients, on the host.

    Attributes:
        index: [m, T, B] row numbers (0 where padded).
        mask: [m, T, B] bool, the true rows.
        steps: [m] batches of each client.
        draws: slot -> [m, T, ...] random numbers.
    """

    index: np.ndarray
    mask: np.ndarray
    steps: np.ndarray
    draws: dict[str, np.ndarray]

    @property
    def longest(self) -> int:
        """The largest number of steps."""
        return int(self.steps.max(initial=0))

    def first(self, steps: int) -> Table:
        """Only the first `steps` batches of every row."""
        draws = {slot: values[:, :steps] for slot, values in self.draws.items()}
        return Table(self.index[:, :steps], self.mask[:, :steps], np.minimum(self.steps, steps), draws)

    def part(self, chosen: np.ndarray) -> Table:
        """The rows `chosen`."""
        draws = {slot: values[chosen] for slot, values in self.draws.items()}
        return Table(self.index[chosen], self.mask[chosen], self.steps[chosen], draws)


def batches(
    federation: Federation, phase: Phase, settings: Settings, seed: int, t: int, client: int, stream: str
) -> list[np.ndarray]:
    """The batches of one client in one phase: a list of row-number arrays (empty arrays where the phase has no data)."""
    if phase.data == "none":
        return [np.zeros(0, np.int64)] * phase.steps
    rows = federation.rows[phase.data][client]
    size, end = _sizes(len(rows), phase, settings)
    passes = settings.local_epochs if phase.passes is None else phase.passes
    if phase.scan:
        return [rows[a : a + size] for a in range(0, len(rows), size)]
    draw = generator(seed, stream, t, client)
    if _fixed_steps(phase, settings) and len(rows):
        steps = min(settings.local_steps, phase.steps or settings.local_steps)
        return list(rows[draw.integers(len(rows), size=(steps, size))])
    chosen: list[np.ndarray] = []
    for _ in range(passes):
        order = rows[draw.permutation(len(rows))]
        chosen += [order[a : a + size] for a in range(0, end, size)]
    return chosen[: phase.steps] if phase.steps else chosen


def _sizes(n: int, phase: Phase, settings: Settings) -> tuple[int, int]:
    """(batch size, samples a pass uses) of a client with `n` samples."""
    size = phase.batch or settings.batch_size
    if settings.fit_batch and n:
        size = min(size, n)
    drop = settings.drop_last if phase.drop_last is None else phase.drop_last
    return size, n // size * size if drop else n


def _fixed_steps(phase: Phase, settings: Settings) -> bool:
    return bool(settings.local_steps) and phase.passes is None and phase.data == "train"


def idle_clients(federation: Federation, phases: Sequence[Phase], settings: Settings) -> list[int]:
    """The clients with too few training samples for a step in any of these phases; [] where there is no phase."""

    def steps(n: int, phase: Phase) -> bool:
        return n > 0 and (_fixed_steps(phase, settings) or _sizes(n, phase, settings)[1] > 0)

    sizes = federation.sizes("train").tolist() if phases else []
    return [client for client, n in enumerate(sizes) if not any(steps(n, phase) for phase in phases)]


def pass_numbers(n: int, phase: Phase, settings: Settings, steps: int) -> np.ndarray:
    """The number of the pass over its `n` samples in which a client takes each of its `steps`; 0 in a phase without data."""
    if phase.data == "none" or n == 0:
        return np.zeros(steps, np.int64)
    size, end = _sizes(n, phase, settings)
    if _fixed_steps(phase, settings):
        return np.arange(steps) * size // n
    return np.arange(steps) // max(1, -(-end // size))


def table(
    federation: Federation, phase: Phase, settings: Settings, t: int, keys: list[tuple[int, int]], prefix: str = ""
) -> Table:
    """The table of a phase in round `t` for the (seed, client) pairs `keys`; `prefix` keys a prologue's draws apart."""
    stream = prefix + (phase.stream or f"{phase.where}/{phase.data}")
    chosen = [batches(federation, phase, settings, seed, t, client, stream) for seed, client in keys]
    steps = np.array([len(batch) for batch in chosen], dtype=np.int64)
    longest = int(steps.max(initial=0))
    width = max((len(rows) for batch in chosen for rows in batch), default=0)
    index = np.zeros((len(keys), longest, width), dtype=np.int64)
    mask = np.zeros((len(keys), longest, width), dtype=bool)
    for i, client_batches in enumerate(chosen):
        for k, rows in enumerate(client_batches):
            index[i, k, : len(rows)] = rows
            mask[i, k, : len(rows)] = True
    draws = {}
    wanted = dict(phase.draws)
    if settings.augment != "none" and phase.data == "train" and not phase.scan and width:
        # of a whole batch: what a client draws depends on nobody's who trains along
        wanted[AUGMENT] = Draw("uniform", (max(width, phase.batch or settings.batch_size), 3))
    for slot, draw in wanted.items():
        values = np.zeros((len(keys), longest, *draw.shape), dtype=np.float32)  # half the memory; enough for noise
        for i, (seed, client) in enumerate(keys):
            count = int(steps[i])
            if draw.distribution == "pass":
                values[i, :count] = pass_numbers(len(federation.rows[phase.data][client]), phase, settings, count)
            else:
                purpose, whose = ("common", 0) if draw.common else ("draws", client)
                source = generator(seed, f"{stream}/{purpose}/{slot}", t, whose)  # fewer steps: the first numbers of it
                values[i, :count] = sampled(source, draw, (count, *draw.shape))
        draws[slot] = values
    return Table(index, mask, steps, draws)


def sampled(stream: np.random.Generator, draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Random numbers of `draw`'s distribution in an array of `shape`."""
    if draw.distribution == "uniform":
        return stream.random(shape)
    if draw.distribution == "normal":
        return stream.standard_normal(shape)
    return stream.beta(*draw.parameters, size=shape)
