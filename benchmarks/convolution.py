"""Which way to convolve every client's images with its own weights: measured before the batched backend was fixed.

Three ways to take one training gradient of the papers' CNN for m clients x batch 10, in one process, alternating:

* `vmap`: `torch.func.vmap(grad)` over stacked parameters (PyTorch turns the convolutions into grouped ones);
* `grouped`: one hand-written forward with explicit grouped convolutions over [B, m*C, H, W], and one backward;
* `unfold`: patches laid out by `F.unfold`, then one batched matrix product a layer, and one backward;
* `loop`: one client after another, for scale.

    python benchmarks/convolution.py [--clients 20] [--device cpu] [--repeat 20] [--out FILE]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path

import records
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, vmap

from pflrepro.models import build_model
from pflrepro.models.split import FunctionalModule, parameters_of
from pflrepro.simulation.watch import now
from pflrepro.trees import Tree, repeat


def losses_of(way: str, base: FunctionalModule, head: FunctionalModule) -> Callable[[Tree, Tensor, Tensor], Tensor]:
    """(stacked parameters, x [m, B, 1, 28, 28], y [m, B]) -> the sum over clients of the mean loss."""

    def dense(params: Tree, z: Tensor) -> Tensor:
        hidden = F.relu(torch.baddbmm(params.base["7.bias"][:, None], z, params.base["7.weight"].mT))
        return torch.baddbmm(params.head["bias"][:, None], hidden, params.head["weight"].mT)

    def grouped(params: Tree, x: Tensor) -> Tensor:
        m, b = x.shape[:2]
        z = x.transpose(0, 1).flatten(1, 2)  # [B, m, 28, 28]
        for layer in ("0", "3"):
            weight, bias = params.base[f"{layer}.weight"], params.base[f"{layer}.bias"]
            z = F.relu(F.max_pool2d(F.conv2d(z, weight.flatten(0, 1), bias.flatten(), groups=m), 2))
        return z.view(b, m, -1).transpose(0, 1)

    def unfolded(params: Tree, x: Tensor) -> Tensor:
        m, b = x.shape[:2]
        z = x.flatten(0, 1)
        for layer in ("0", "3"):
            weight, bias = params.base[f"{layer}.weight"], params.base[f"{layer}.bias"]
            side = z.shape[-1] - 4
            patches = F.unfold(z, 5).view(m, b, -1, side * side).permute(0, 2, 1, 3).flatten(2)  # [m, C*25, B*side^2]
            out = torch.baddbmm(bias[..., None], weight.flatten(2), patches)
            z = out.view(m, -1, b, side, side).transpose(1, 2).flatten(0, 1)
            z = F.relu(F.max_pool2d(z, 2))
        return z.view(m, b, -1)

    features = {"grouped": grouped, "unfold": unfolded}[way]

    def loss(params: Tree, x: Tensor, y: Tensor) -> Tensor:
        logits = dense(params, features(params, x))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / y.shape[1]

    return loss


def gradients(way: str, clients: int, device: str) -> Callable[[], list[Tensor]]:
    """A call that takes the gradients of all clients, stacked, in the order of `Tree.leaves`."""
    network = build_model("cnn4", (28, 28), 10, 0)
    base, head = FunctionalModule(network.base), FunctionalModule(network.head)
    single = Tree(base=parameters_of(network.base), head=parameters_of(network.head)).to(device)
    params = repeat(single, clients)
    source = torch.Generator().manual_seed(0)
    x = torch.randn(clients, 10, 1, 28, 28, generator=source).to(device)
    y = torch.randint(0, 10, (clients, 10), generator=source).to(device)

    def one(p: Tree, xb: Tensor, yb: Tensor) -> Tensor:
        z, _ = base(p.base, Tree(), xb, True)
        return F.cross_entropy(head(p.head, Tree(), z, True)[0], yb)

    def by_autograd(loss: Callable[[Tree, Tensor, Tensor], Tensor], p: Tree, xb: Tensor, yb: Tensor) -> list[Tensor]:
        leaves = p.map(lambda v: v.detach().requires_grad_())
        return list(torch.autograd.grad(loss(leaves, xb, yb), list(leaves.leaves())))

    if way == "vmap":
        return lambda: list(vmap(grad(one))(params, x, y).leaves())
    if way == "loop":
        return lambda: [
            torch.stack(g) for g in zip(*(by_autograd(one, params[i], x[i], y[i]) for i in range(clients)), strict=True)
        ]
    loss = losses_of(way, base, head)
    return lambda: by_autograd(loss, params, x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.backends.cudnn.allow_tf32 = False  # as in training
    ways = {way: gradients(way, arguments.clients, arguments.device) for way in ("loop", "vmap", "grouped", "unfold")}
    expected = ways["loop"]()
    for way, call in ways.items():
        error = max(float((a - b).abs().max()) for a, b in zip(expected, call(), strict=True))
        if error > 1e-4:
            raise SystemExit(f"{way} differs from the loop by {error}")
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(arguments.repeat):
        for way, call in ways.items():
            started = now(device)
            call()
            seconds[way].append(now(device) - started)
    vmapped = statistics.median(seconds["vmap"])
    rows = [
        {
            "way": way,
            "milliseconds": [round(1e3 * value, 2) for value in values],
            "times vmap": round(statistics.median(values) / vmapped, 2),
        }
        for way, values in seconds.items()
    ]
    records.write(
        arguments.out,
        "Ways to convolve every client's images with its own weights",
        "One gradient of the papers' CNN (28x28, batch 10 a client) for all clients. On a CPU batching gains nothing for this network; "
        "`batched` keeps `vmap` as long as it is near the best way.",
        rows,
        device=arguments.device,
        clients=arguments.clients,
        repetitions=arguments.repeat,
    )


if __name__ == "__main__":
    main()
