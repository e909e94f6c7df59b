"""What memory order and library are worth on a CPU, one thread, batch 10: the reasons for `fast_layout` and `products.linear`.

* 2x2 max-pooling behind the papers' first convolution, weights in the usual order or channels-last (the output follows them);
* a linear layer and its gradients by PyTorch's product or ours (`pflrepro.products.linear`): the widest of the papers' CNN on images of
  28x28 and 32x32 and of the one for HAR;
* one whole training gradient of the papers' CNN in both orders.

    python benchmarks/memory_layout.py [--repeat 200] [--out FILE]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import records
import torch
import torch.nn.functional as F

from pflrepro.models import build_model
from pflrepro.models.split import FunctionalModule, parameters_of
from pflrepro.products import linear
from pflrepro.simulation.heap import keep_freed_memory
from pflrepro.simulation.loop import differentiate
from pflrepro.simulation.memory_order import fast_layout
from pflrepro.trees import Tree

SHAPES = (512, 1024), (512, 1600), (1024, 1664)


def cases() -> dict[str, Callable[[], object]]:
    """name -> a call to time."""
    network = build_model("cnn4", (28, 28), 10, 0)
    base, head = FunctionalModule(network.base), FunctionalModule(network.head)
    plain = Tree(base=parameters_of(network.base), head=parameters_of(network.head))
    fast = fast_layout(plain)
    x, y = torch.randn(10, 1, 28, 28), torch.randint(0, 10, (10,))
    conv = {
        name: F.conv2d(x, tree.base["0.weight"], tree.base["0.bias"])
        for name, tree in (("usual", plain), ("fast", fast))
    }

    def dense(shape: tuple[int, int], by: Callable[..., torch.Tensor]) -> Callable[[], object]:
        z, weight, bias = (torch.randn(size).requires_grad_() for size in ((10, shape[1]), shape, shape[:1]))
        gradient = torch.randn(10, shape[0])
        return lambda: torch.autograd.grad(by(z, weight, bias), [z, weight, bias], gradient)

    def whole(tree: Tree) -> Callable[[], object]:
        def loss(params: Tree) -> tuple[torch.Tensor, Tree]:
            hidden, _ = base(params.base, Tree(), x, True)
            return F.cross_entropy(head(params.head, Tree(), hidden, True)[0], y), Tree()

        return lambda: differentiate(loss, tree)

    return {
        "max-pooling, usual": lambda: F.max_pool2d(conv["usual"], 2),
        "max-pooling, channels-last": lambda: F.max_pool2d(conv["fast"], 2),
        **{
            f"linear layer {' x '.join(map(str, shape))}, {name}": dense(shape, by)
            for shape in SHAPES
            for name, by in (("PyTorch's", F.linear), ("ours", linear))
        },
        "whole gradient, usual": whole(plain),
        "whole gradient, fast": whole(fast),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as in training: else fresh pages for each result can take longer than the products
    calls = cases()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(arguments.repeat):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    records.write(
        arguments.out,
        "Memory order and library",
        "Milliseconds on one thread, batch 10, the papers' CNN on 28x28: what the loop does, beside the usual.",
        [
            {"operation": name, "milliseconds": round(1e3 * statistics.median(values), 4)}
            for name, values in seconds.items()
        ],
        repetitions=arguments.repeat,
    )


if __name__ == "__main__":
    main()
