"""The rounds of a federation, several seeds side by side."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.data.federation import Federation
from pflrepro.errors import check_word
from pflrepro.models import build_model
from pflrepro.models.split import SplitModel
from pflrepro.settings import Settings
from pflrepro.simulation.backends import Request, activations, choose_backend
from pflrepro.simulation.computing import computing
from pflrepro.simulation.dispatch import Dispatcher
from pflrepro.simulation.failing import changed
from pflrepro.simulation.heap import keep_freed_memory
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.memory import GIB, TRIED, Kept, Place, chosen_place
from pflrepro.simulation.program import Program
from pflrepro.simulation.replica import Replica
from pflrepro.simulation.schedule import table
from pflrepro.simulation.source import DataSource, Supplies
from pflrepro.simulation.start import (
    check_kinds,
    check_place,
    checked_seeds,
    refuse_empty_splits,
    refuse_lost_adaptation,
    refuse_unfit_norm_batches,
    refuse_unfit_samples,
    setup_of,
    task_of,
)
from pflrepro.simulation.watch import now
from pflrepro.trees import Tree, concatenate

log = logging.getLogger("pflrepro.run")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Simulation:
    """One method on one federation, for several seeds at once.

    Every seed has its own initial weights, cohorts, batch orders and draws; the data and the partition are the same. `step()`
    runs one round of all seeds and tests; with `rounds` done, `finished` is true. `state()`/`restore()` hold all that fixes the
    future, so that a resumed run is bit for bit the uninterrupted one on a CPU.

    Args:
        method: see `pflrepro.algorithms`.
        federation: the clients' data.
        model: a name in `pflrepro.models.MODELS`.
        settings: the protocol.
        seeds: one run each.
        backend: `loop`, `batched`, `graph`, or `auto` (by device and a short timing).
        device: where to work; default: where the federation's samples are.
        workers: processes of the loop backend on a CPU; default: one a core.
        chunk: rows a launch at most; default: what fits `memory`.
        memory: bytes that a launch may use; default: three quarters of what is free.
        dtype: `float32` or `float64`.

    Raises `UserError` for what is none of these, for a federation in which nobody has a training sample, and for a method, network and
    settings that do not go together.
    """

    def __init__(
        self,
        method: Method,
        federation: Federation,
        model: str,
        settings: Settings,
        seeds: Sequence[int],
        backend: str = "auto",
        device: str | torch.device | None = None,
        workers: int | None = None,
        chunk: int | None = None,
        memory: int | None = None,
        dtype: str = "float32",
    ) -> None:
        check_word("number type", dtype, DTYPES)
        check_kinds(method, federation, settings)
        seeds = checked_seeds(seeds)
        refuse_empty_splits(federation, settings)
        refuse_unfit_samples(method, model, federation, settings)
        refuse_lost_adaptation(method, settings)
        self.method, self.model, self.settings, self.seeds = method, model, settings, seeds
        if device is not None and str(device) != str(federation.device):
            federation = federation.to(device)
        self.federation = federation.hold_out(method.holdout)
        self.dtype, self.device = DTYPES[dtype], federation.device
        built = partial(build_model, model, federation.shape, federation.classes)
        networks = [built(seed) for seed in seeds]
        self.task = task_of(self.federation, networks[0], settings)

        def setup(seed: int, network: SplitModel, stream: str = "weights") -> Setup:
            return setup_of(self.task, method, network, seed, self.device, self.dtype, stream)

        def first_model(seed: int, place: int) -> Tree:
            stream = f"weights/slot{place}"
            return setup(seed, built(seed, f"{stream}/model"), stream).pick("shared")

        place = self._place_of_state(networks[0])
        setups = [setup(seed, network) for seed, network in zip(seeds, networks, strict=True)]
        self.replicas = [Replica.start(method, setup, settings.statistics, place) for setup in setups]
        self.dispatcher = Dispatcher(
            method=method,
            task=self.task,
            kinds={name: part.kind for name, part in setups[0].parts.items()},
            settings=settings,
            federation=self.federation,
            dtype=self.dtype,
            replicas=self.replicas,
            supplies={
                seed: Supplies(method, DataSource(self.federation, seed, self.dtype, settings.batch_size))
                for seed in seeds
            },
            first_model=first_model,
        )
        refuse_unfit_norm_batches(self.task, method, settings, self.dispatcher.clock(0))
        self.round = 0
        self._spent = {"seconds": 0.0, "seconds_aggregation": 0.0}  # since the last record
        self.prologue_done = method.prologue() is None
        self.traffic: dict[str, float] = {}
        sample = torch.arange(min(2, len(federation.y)), device=self.device)
        self.activations = activations(networks[0], self.federation.batch(sample, torch.float32)[0].cpu())
        self._asked = Request(backend, workers, chunk, memory)
        self._choose(self._asked)

    def _place_of_state(self, network: SplitModel) -> Place:
        """Where the clients' state lies; `UserError` where it has room nowhere."""
        task, seeds = self.task, self.seeds
        if task.clients <= max(TRIED):
            return Place(self.device)

        def few(clients: int) -> Setup:
            fewer = replace(task, clients=clients, info=task.info[:clients])
            return setup_of(fewer, self.method, network, seeds[0], self.device, self.dtype)

        kept = Kept.of(self.method, few, task.clients, self.settings.statistics)
        who = f"{type(self.method).__name__} with {task.clients:,} clients and {self.model}"
        place = chosen_place(kept, len(seeds), self.device, who)
        if place.folder is not None:
            log.warning(
                "%s: the clients' state, %.1f GiB, lies in files in %s",
                *(who, len(seeds) * kept.clients / GIB, place.folder),
            )
        return place

    def _choose(self, request: Request) -> None:
        if self.device.type == "cpu":
            keep_freed_memory()
        with computing(self.device):
            choice = choose_backend(self.dispatcher, request, self.activations)
        self.backend, self.chunk, self.facts = choice.backend, choice.chunk, choice.facts

    def __repr__(self) -> str:
        seeds = f"seed{'' if len(self.seeds) == 1 else 's'} {', '.join(map(str, self.seeds))}"
        where = f"round {self.round} of {self.settings.rounds}, {self.facts['backend']} on {self.device}"
        return (
            f"Simulation({self.method!r} on {self.federation.name or 'unnamed data'}, {self.model}, {seeds}, {where})"
        )

    # ---- rounds ------------------------------------------------------------------------------------------------------------
    @property
    def finished(self) -> bool:
        return self.round >= self.settings.rounds and bool(self.replicas[0].history["round"])

    def step(self) -> None:
        """The next round of every seed and the tests after it; the first call also tests the untrained models.

        Once everything is finished it does nothing.
        """
        self.begin()
        with computing(self.device):
            self._step()

    def begin(self) -> None:
        """The test of the untrained models, behind the method's prologue; nothing where it has been made."""
        with computing(self.device):
            if not self.replicas[0].history["round"]:
                self._prologue()
                self._evaluate([np.zeros(self.task.clients, bool) for _ in self.replicas])

    def _step(self) -> None:
        if self.round >= self.settings.rounds:
            return
        started = now(self.device)
        clock = self.dispatcher.clock(self.round)
        cohorts = [self.dispatcher.cohort(replica, clock.t) for replica in self.replicas]
        testing = (self.round + 1) % self.settings.every == 0 or self.round + 1 == self.settings.rounds
        self._train(self.method, clock, cohorts, score_after=testing or self.settings.mean_participation < 1)
        self._spent["seconds"] += (now(self.device) - started) / len(self.replicas)  # each seed's share
        self.round += 1
        participated = [np.isin(np.arange(self.task.clients), ids) for ids in cohorts]
        if testing:
            self._evaluate(participated)
            self._spent = dict.fromkeys(self._spent, 0.0)

    def _prologue(self) -> None:
        prologue = self.method.prologue()
        if self.prologue_done or prologue is None:
            return
        everyone = [np.arange(self.task.clients) for _ in self.replicas]
        self._train(prologue, self.dispatcher.clock(-1), everyone, prefix="prologue/")
        self.prologue_done = True

    def _train(
        self, method: Method, clock: Clock, cohorts: list[np.ndarray], *, prefix: str = "", score_after: bool = False
    ) -> None:
        """One round; `score_after`: its participants are tested right after local training, where the run wants it."""
        program = self.dispatcher.program(self.backend, method)
        phases = program.phases(clock)
        launch = self.dispatcher.launch(program, clock, cohorts, phases, prefix)
        launch.score_after = score_after and self.settings.evaluate_after
        started = [replica.server for replica in self.replicas]
        results = self._in_chunks(launch, lambda part: self.backend.participate(program, part))
        trained = now(self.device)
        for s, (replica, ids) in enumerate(zip(self.replicas, cohorts, strict=True)):
            mine = slice(*np.searchsorted(launch.seed_of, [s, s + 1]).tolist())  # they lie together: no copy is made
            self._close_round(
                program, clock, replica, started[s], ids, results[mine], launch.received[s], phases, prefix
            )
        self._spent["seconds_aggregation"] += 0.0 if prefix else (now(self.device) - trained) / len(self.replicas)

    def _in_chunks(self, launch: Launch, work: Callable[[Launch], Tree]) -> Tree:
        """`work` on a launch, cut into parts that fit; where the device has too little memory, all of it anew in parts half as large.

        The smaller parts stay, so that the rest of the run is what it is where they were asked for.
        """
        while True:
            rows = min(self.chunk or len(launch), len(launch))
            try:
                return concatenate([work(part) for part in launch.chunks(self.chunk)])
            except torch.OutOfMemoryError:
                if rows == 1:
                    raise
            # outside of the handler, whose traceback holds the tensors of the attempt
            self._choose(replace(self._asked, backend=self.backend.name, chunk=rows // 2))  # and no captured graphs
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            log.warning(
                "%s has too little memory for %d clients at a time: going on with %d", self.device, rows, rows // 2
            )

    def _close_round(
        self,
        program: Program,
        clock: Clock,
        replica: Replica,
        server: Tree,
        ids: np.ndarray,
        result: Tree,
        received: Tree,
        phases: list[Phase],
        prefix: str,
    ) -> None:
        """Server phases, aggregation, and the clients' rows back into their stores."""
        method = program.method
        cohort_tree = self.dispatcher.participants(replica, ids, clock.t)
        for phase in (phase for phase in phases if phase.where == "server"):
            batches = table(self.federation, phase, self.settings, clock.t, [(replica.seed, 0)], prefix)
            ctx = self._server_context(program, phase, clock, received)
            for k in range(batches.longest):
                draws = {
                    slot: torch.as_tensor(v[0, k], dtype=self.dtype, device=self.device)
                    for slot, v in batches.draws.items()
                }
                changes = method.serve(server, result.upload, Tree(draws), cohort_tree, ctx)
                server = changed(server, changes, method, "serve")
        ctx = self._server_context(program, None, clock, received)
        with torch.no_grad():
            server = changed(server, method.aggregate(server, result.upload, cohort_tree, ctx), method, "aggregate")
            if result.averaged.has_leaves():
                replica.averaged = result.averaged.mix(cohort_tree.p)
        replica.server = server.map(lambda leaf: leaf.detach())
        replica.keep(cohort_tree, result.client, result.kept, result.get("absent", Tree()))
        if "after" in result:
            replica.after[ids] = np.rint(result.after.correct.cpu().numpy()).astype(np.int64)
        if not prefix:
            for name, values in replica.losses.items():
                values[ids] = result.losses[name].double().cpu().numpy()
        if not self.traffic and not prefix:
            common, own = method.send(replica.server, cohort_tree)
            down = method.received(common, own[0]).size()
            self.traffic = {"numbers_down": float(down), "numbers_up": result.upload.size() / max(len(ids), 1)}

    def _server_context(self, program: Program, phase: Phase | None, clock: Clock, received: Tree) -> Context:
        scalars = program.scalars(phase, clock)
        row = Tree(own=Tree(), client=Tree(), info=Tree(), steps=Tree(), buffers=Tree())
        ctx = program.context(received, row, scalars, phase)
        return Context(**(vars(ctx) | {"clock": clock}))

    # ---- tests -------------------------------------------------------------------------------------------------------------
    def _evaluate(self, participated: list[np.ndarray]) -> None:
        started = now(self.device)
        clock = self.dispatcher.clock(self.round)
        program = self.dispatcher.program(self.backend)
        for replica, took_part in zip(self.replicas, participated, strict=True):
            scores = self._scores(program, replica, clock)
            record = {
                "round": np.array(self.round, dtype=np.int64),
                "correct": np.rint(scores.correct.cpu().numpy()).astype(np.int64),
                "loss": scores.loss.double().cpu().numpy(),
                "correct_after": replica.after.copy(),
                **{name: values.copy() for name, values in replica.losses.items()},
                "participated": took_part,
                **{name: np.array(seconds) for name, seconds in self._spent.items()},
            }
            for name, value in record.items():
                replica.history[name].append(value)
        spent = np.array((now(self.device) - started) / len(self.replicas))
        for replica in self.replicas:
            replica.history["seconds_evaluation"].append(spent)

    def _scores(self, program: Program, replica: Replica, clock: Clock) -> Tree:
        """`correct` and `loss` [N] before the next local training.

        With receivers = selected, only the cohort of the next round has received: all others are tested with what they hold,
        and since that does not change, with the scores it had when they last trained.
        """
        ids = np.arange(self.task.clients)
        if self.settings.receivers == "selected" and self.round > 0:
            ids = self.dispatcher.cohort(replica, clock.t)
        launch = self.dispatcher.test_launch(program, replica, clock, ids, reading=True)
        scores = self._in_chunks(launch, lambda part: self.backend.evaluate(program, part))
        if self.settings.receivers == "all":
            return scores
        if self.round == 0:
            replica.absent = scores  # nobody has trained: all have the common start
            return scores
        return replica.absent.put(torch.as_tensor(ids, device=self.device), scores)

    # ---- state -------------------------------------------------------------------------------------------------------------
    def state_of(self, index: int) -> dict[str, np.ndarray]:
        """All that fixes the future of seed number `index`, and its history, as arrays; `UserError` where there is no such seed."""
        check_place(index, self.seeds)
        progress = {
            "progress/round": np.array(self.round),
            "progress/prologue_done": np.array(self.prologue_done),
            "progress/backend": np.array(self.backend.name),
            "progress/chunk": np.array(self.chunk or 0),
            "progress/device": np.array(self.device.type),
        }
        return self.replicas[index].state() | progress

    def restore_seed(self, index: int, arrays: dict[str, np.ndarray]) -> None:
        """Take up seed number `index` where `state_of` left it; all seeds of a simulation must be at the same round.

        A backend or chunk that was left to us is taken over from the state, so that the numbers stay the same to the bit; not from
        another kind of device, which rounds in its own way and has a fastest backend of its own.
        """
        self.replicas[index].restore(arrays)
        self.round = int(arrays["progress/round"])
        self.prologue_done = bool(arrays["progress/prologue_done"])
        name, chunk = str(arrays["progress/backend"]), self._asked.chunk or int(arrays["progress/chunk"]) or None
        ours = self._asked.backend in ("auto", name) and arrays.get("progress/device") == self.device.type
        if ours and (name, chunk) != (self.backend.name, self.chunk):
            self._choose(replace(self._asked, backend=name, chunk=chunk))

    def state(self) -> dict[str, np.ndarray]:
        """`state_of` every seed, keys prefixed `seed{index}/`."""
        return {f"seed{i}/{name}": value for i in range(len(self.seeds)) for name, value in self.state_of(i).items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up all seeds where `state` left them."""
        for i in range(len(self.seeds)):
            prefix = f"seed{i}/"
            self.restore_seed(
                i, {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
            )

    def history(self, index: int) -> dict[str, np.ndarray]:
        """The history of seed number `index` as arrays, to be read; see `pflrepro.experiments.history` for the schema.

        `UserError` where there is no such seed.
        """
        check_place(index, self.seeds)
        arrays = {name: rows.array for name, rows in self.replicas[index].history.items() if rows}
        sizes = {"test_samples": self.federation.sizes("test"), "train_samples": self.federation.sizes("train")}
        return arrays | sizes
