"""A round of ours against the plain way, as `pflrepro bench` measures it, as a record.

python benchmarks/round.py [METHOD ...] [--rounds 3] [--share 0.4] [--device cpu] [--data-root DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import records

from pflrepro.benchmark import CASES, compare


def row(found: dict[str, Any]) -> dict[str, Any]:
    """A line of the record."""
    seconds = {f"{who} (s)": [round(each, 3) for each in found["rounds"][who]] for who in ("ours", "naive")}
    rates = {f"{who} (GFLOP/s)": round(found["gflops_per_second"][who], 1) for who in ("ours", "naive")}
    rates["large convolution (GFLOP/s)"] = round(found["peak_gflops_per_second"], 1)
    return {"method": found["case"], "times faster": round(found["ratio"], 2)} | seconds | rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", metavar="METHOD", default=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.4, help="of each client's samples (default: 0.4)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = compare(asked.methods, asked.rounds, device=asked.device, data_root=asked.data_root, share=asked.share)
    first = found[0]
    records.write(
        asked.out,
        "A round beside the plain way",
        "Training and one test of all clients: ours, and a deep-copied module and a `DataLoader` a client, one client after "
        "another (naive). "
        "Operations are those of the network's passes; a large convolution shows what the machine can do.",
        [row(each) for each in found],
        device=asked.device,
        data=first["data"],
        backend=first["backend"],
        workers=first["workers"],
        threads_of_naive=first["threads_of_naive"],
    )


if __name__ == "__main__":
    main()
