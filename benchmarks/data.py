"""How long the data rooms take, and what a federation needs in memory beside its samples.

    python benchmarks/data.py [--repeat 3] [--records DIR] [--out FILE]

* `federation`: 110,000 made-up images of 64x64x3 bytes (Tiny-ImageNet's size) among 100 clients by `pfedfda-dirichlet:0.5`, from arrays
  in memory, and by `load_federation` from the file of a data root, which is written first and may lie in the file system's cache.
* `partition`: `dirichlet:0.5` of 1,000,000 labels of 100 classes among 1,000 clients, without a least size.
* `heartbeats`: the 46 MIT-BIH records with lead MLII cut into windows; `--records`: the folder with PhysioNet's files, else left out.

Every measurement is a process of its own. Memory is the peak of its resident set above what it was before the samples came, in
multiples of the samples' own size, so that the samples themselves are 1 of it; it is read from /proc (Linux). Seconds are those of each
repetition, without the start of the process and without the checksums of the records' files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import records
import torch

import pflrepro
from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.datasets import DATASETS
from pflrepro.data.partition import partition

NAME, IMAGES, CLIENTS = "tiny-imagenet-110k", 110_000, 100
RULE = "pfedfda-dirichlet:0.5"
LABELS, CLASSES, MANY = 1_000_000, 100, 1_000


def images() -> Arrays:
    spec = DATASETS[NAME]
    x = np.random.default_rng(0).integers(0, 256, (IMAGES, *spec.shape), dtype=np.uint8)
    return Arrays(NAME, x, np.arange(IMAGES) % spec.classes)


def resident(peak: bool = False) -> int:
    """Bytes of this process in memory, now or at most so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM" if peak else "VmRSS")).split()[1])


def federation_of_arrays(_: Path) -> dict[str, float]:
    before = resident()
    arrays = images()
    started = time.perf_counter()
    parts = partition(RULE, torch.from_numpy(arrays.y), CLIENTS, test_share=0.2)
    federation = pflrepro.Federation.of(DATASETS[NAME], arrays, parts)
    return measured(federation, started, before)


def federation_of_a_file(root: Path) -> dict[str, float]:
    config = pflrepro.DataConfig(NAME, RULE, clients=CLIENTS, test_share=0.2)
    pflrepro.load_federation(pflrepro.DataConfig("digits"))  # what is imported on first use is not measured
    before, started = resident(), time.perf_counter()
    return measured(pflrepro.load_federation(config, root), started, before)


def measured(federation: Any, started: float, before: int) -> dict[str, float]:
    seconds, size = time.perf_counter() - started, federation.x.numel()
    assert federation.clients == CLIENTS and sum(map(sum, map(federation.sizes, ("train", "test")))) == IMAGES
    return {"seconds": seconds, "memory": (resident(peak=True) - before) / size}


def partition_of_labels(_: Path) -> dict[str, float]:
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, CLASSES, LABELS))
    started = time.perf_counter()
    parts = partition("dirichlet:0.5", labels, MANY, min_size=0)
    seconds = time.perf_counter() - started
    assert sum(parts.sizes()) == LABELS
    return {"seconds": seconds}


def heartbeats(records: Path) -> dict[str, float]:
    from pflrepro.data.readers.ecg import beats

    spec = DATASETS["mitbih"]
    started = time.perf_counter()
    arrays = beats(spec, {file.role: records / file.name for file in spec.files})
    assert len(arrays) == spec.samples
    return {"seconds": time.perf_counter() - started}


def repeated(work: Callable[[Path], dict[str, float]], folder: Path, times: int) -> dict[str, list[float]]:
    """What `work` measures, each time in a fresh process."""
    found = []
    for _ in range(times):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(work, (folder,)))
    return {name: [round(each[name], 3) for each in found] for name in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--records", type=Path, help="the folder with the MIT-BIH records")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = {"federation of arrays in memory": repeated(federation_of_arrays, Path(), arguments.repeat)}
    with tempfile.TemporaryDirectory() as root:
        save_arrays(Path(root) / NAME / f"{NAME}.npz", images())
        found["federation of a data root"] = repeated(federation_of_a_file, Path(root), arguments.repeat)
    found["partition of a million labels"] = repeated(partition_of_labels, Path(), arguments.repeat)
    if arguments.records:
        found["heartbeats of 46 records"] = repeated(heartbeats, arguments.records, arguments.repeat)
    records.write(
        arguments.out,
        "Data",
        f"Seconds, and peak memory in multiples of the samples' own: {IMAGES:,} made-up images of 64x64x3 bytes among "
        f"{CLIENTS} clients; {LABELS:,} labels of {CLASSES} classes by Dirichlet(0.5) among {MANY:,} clients; heartbeats cut out "
        "of the MIT-BIH records.",
        [{"what": name} | values for name, values in found.items()],
    )


if __name__ == "__main__":
    main()
