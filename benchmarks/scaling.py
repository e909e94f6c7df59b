"""How a round's time and memory grow with clients, samples, seeds, participation and the network, on one machine in one run.

    python benchmarks/scaling.py [SWEEP ...] [--device auto] [--samples 20000] [--rounds 3] [--out FILE.json] [--picture FILE.png]

FedAvg on made-up images, batch 10, one local epoch; a round is training and aggregation, without tests. Sweeps:

* `clients`: the papers' CNN, `--samples` in all dealt to 20 ... 1,000 clients;
* `samples`: 20 clients with a tenth, a third and all of that;
* `participation`: 100 clients that share it, of whom 10, 30 and all take part in a round;
* `seeds`: 20 clients, one run and three runs together;
* `absent`: 100 clients of 20 samples (8x8, a small CNN) take part in a round, of 100 ... 10,000;
* `networks`: 20 clients with 100 samples of 32x32x3 each: the papers' CNN and ResNet-18;
* `memory`: ResNet-18, 20 ... 100 clients with 10 such samples each, without times.

Every measurement is a process of its own, equal ones are made once: `seconds` is the median of `--rounds` after two that warm up,
`peak_mib` the peak of the process without its workers (`device_mib`: of the device's memory), `samples_mib` the samples alone. `ratio`
is to the first line of the sweep.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import records
import torch

from pflrepro.algorithms.registry import build_method
from pflrepro.device import resolve_device
from pflrepro.experiments.environment import peak_memory
from pflrepro.settings import Settings
from pflrepro.simulation.cost import generated
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.watch import now
from pflrepro.style import new_figure, style


@dataclass(frozen=True)
class Case:
    """One measurement. samples: training samples of a client; part: clients that take part in a round."""

    clients: int
    samples: int
    model: str = "cnn4"
    shape: tuple[int, ...] = (28, 28)
    seeds: int = 1
    part: int | None = None


def sweeps(samples: int, most: int) -> dict[str, list[Case]]:
    """The cases of each sweep, none with more than `most` clients."""

    def up_to(*counts: int) -> list[int]:
        return [count for count in counts if count <= most] or [most]

    twenty, hundred = min(20, most), min(100, most)
    each, pictures = max(10, samples // twenty), {"shape": (3, 32, 32), "samples": min(100, samples)}
    few = pictures | {"samples": 10, "model": "resnet18"}
    return {
        "clients": [Case(n, max(10, samples // n)) for n in up_to(20, 50, 100, 200, 500, 1000)],
        "samples": [Case(twenty, max(10, each // part)) for part in (10, 3, 1)],
        "participation": [Case(hundred, max(10, samples // hundred), part=part) for part in up_to(10, 30, 100)],
        "seeds": [Case(twenty, each, seeds=seeds) for seeds in (1, 3)],
        "absent": [Case(n, 20, "cnn-digits", (8, 8), part=min(100, n)) for n in up_to(100, 1000, 10000)],
        "networks": [Case(twenty, model=model, **pictures) for model in ("cnn4", "resnet18")],
        "memory": [Case(n, **few) for n in up_to(20, 50, 100)],
    }


def measured(case: Case, device: str, rounds: int) -> dict[str, object]:
    """One line of the record."""
    federation = generated(case.shape, case.clients, train=case.samples, test=1).to(device)
    share = 1.0 if case.part is None else case.part / case.clients
    settings = Settings(rounds=10**6, every=10**6, batch_size=10, participation=share)
    simulation = Simulation(build_method("fedavg"), federation, case.model, settings, range(case.seeds), device=device)
    simulation.step()
    simulation.step()
    seconds = []
    for _ in range(rounds):
        started = now(federation.device)
        simulation.step()
        seconds.append(now(federation.device) - started)
    found = {
        "seconds": statistics.median(seconds),
        "backend": simulation.backend.name,
        "samples_mib": federation.x.nbytes / 2**20,
        "peak_mib": peak_memory("cpu") / 2**20,
    }
    if federation.device.type == "cuda":
        found["device_mib"] = torch.cuda.max_memory_allocated() / 2**20
    shown = asdict(case) | {"shape": "x".join(map(str, case.shape)), "part": case.part or case.clients}
    return shown | {name: round(v, 4) if isinstance(v, float) else v for name, v in found.items()}


@cache
def alone(*arguments: object) -> dict[str, object]:
    """`measured`, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        return processes.submit(measured, *arguments).result()


LABELS = {"cnn4": "CNN", "cnn-digits": "small CNN", "resnet18": "ResNet-18"}
AIM = 1.3  # of a round of 1,000 clients to one of 20 with the same samples


def draw(rows: list[dict[str, object]], file: Path) -> None:
    """Seconds of a round over clients, samples and participation, and memory over clients."""

    def of(sweep: str, across: str, up: str) -> tuple[list, list]:
        lines = [row for row in rows if row["sweep"] == sweep]
        return [row[across] for row in lines], [row[up] for row in lines]

    with style():
        figure = new_figure(6.8, 5.0)
        (clients, samples), (part, memory) = figure.subplots(2, 2)
        clients.plot(*of("clients", "clients", "ratio"), "o-", label="the same samples in all")
        clients.axhline(AIM, color="0.4", linestyle="--", linewidth=0.8, label=f"aim, {AIM}")
        clients.set(xlabel="clients", ylabel="a round, 20 clients = 1", xscale="log", ylim=(0, 1.1 * AIM))
        samples.plot(*of("samples", "samples", "seconds"), "o-", label="20 clients")
        samples.set(xlabel="samples a client", ylabel="seconds of a round", xlim=(0, None), ylim=(0, None))
        part.plot(*of("participation", "part", "seconds"), "o-", label="100 clients")
        part.set(xlabel="clients that take part", ylabel="seconds of a round", xlim=(0, None), ylim=(0, None))
        for sweep, marker in (("clients", "o-"), ("absent", "s:"), ("memory", "^--")):
            across, up = of(sweep, "clients", "peak_mib")
            model = next((row["model"] for row in rows if row["sweep"] == sweep), "")
            taking_part = ", 100 take part" if sweep == "absent" else ""
            memory.plot(across, [mib / 1024 for mib in up], marker, label=f"{LABELS.get(model, model)}{taking_part}")
        memory.set(xlabel="clients", ylabel="peak memory, GiB", xscale="log", ylim=(0, None))
        for panel in (clients, samples, part, memory):
            panel.legend(loc="best")
        for panel in (clients, memory):
            panel.xaxis.set_major_formatter("{x:,.0f}")
        figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = tuple(sweeps(1, 1))
    parser.add_argument("sweeps", nargs="*", metavar="SWEEP", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--samples", type=int, default=20_000, help="training samples in all (default: 20000)")
    parser.add_argument("--most", type=int, default=10_000, help="no case with more clients (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path, help="draw the sweeps into this file, which takes all of them")
    arguments = parser.parse_args()
    if arguments.picture and arguments.sweeps:
        parser.error("--picture takes all sweeps: name none")
    if wrong := set(arguments.sweeps) - set(names):
        parser.error(f"no sweep {', '.join(sorted(wrong))}; there are {', '.join(names)}")
    device, rows = resolve_device(arguments.device), []
    for name in arguments.sweeps or names:
        lines = [alone(case, device, arguments.rounds) for case in sweeps(arguments.samples, arguments.most)[name]]
        for line in lines:
            times = {"seconds": line["seconds"], "ratio": round(line["seconds"] / lines[0]["seconds"], 2)}
            sizes = {key: value for key, value in line.items() if key != "seconds"}
            rows.append({"sweep": name} | sizes | ({} if name == "memory" else times))
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    records.write(
        arguments.out,
        "How a round grows",
        "FedAvg on made-up images, a round of training and aggregation without tests: seconds (median), the process's peak "
        "memory without its "
        "workers and the samples alone in MiB; `ratio` to the first line of the sweep. `clients`: the same samples in all; "
        "`seeds`: runs "
        "together; `absent`: 100 clients of 20 samples take part, of ever more; `networks`, `memory`: 32x32x3 images.",
        rows,
        device=device,
        rounds=arguments.rounds,
    )
    if arguments.picture:
        draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
