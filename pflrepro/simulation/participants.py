"""Those who take part in a round, as host functions of a method see them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from pflrepro.algorithms.phases import Draw
from pflrepro.algorithms.task import Task
from pflrepro.randomness import generator
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import sampled
from pflrepro.trees import Tree


def participants(
    task: Task, settings: Settings, seed: int, t: int, ids: np.ndarray, draws: Mapping[str, Draw], dtype: torch.dtype
) -> Tree:
    """The `cohort` of round `t`: one row a client of `ids`; `N` and `t` are numbers.

    `id`, `n`, `p` (n_i over their sum, or equal: `Settings.weights`), `counts`; `slot`: the places 0..m-1, dealt out anew every
    round; and the method's `draws`, keyed by round and client, so that they do not depend on who else takes part.
    """
    device = task.info.n.device
    chosen = torch.as_tensor(ids, device=device)
    info = task.info[chosen]
    n = info.n.to(dtype)
    # a cohort without any sample hands its models in unchanged: equal weights leave the server as it is
    shares = torch.ones_like(n) if settings.weights == "uniform" else torch.where(n.sum() > 0, n, 1.0)
    order = np.argsort([generator(seed, "slots", t, int(client)).random() for client in ids])

    def scalar(value: float) -> torch.Tensor:
        return torch.tensor(float(value), dtype=dtype, device=device)

    cohort = Tree(id=chosen, n=n, p=shares / shares.sum(), counts=info.counts, N=scalar(task.clients), t=scalar(t))
    cohort["slot"] = torch.as_tensor(np.argsort(order), device=device)
    for slot, draw in draws.items():
        rows = np.zeros((len(ids), *draw.shape))
        for place, client in enumerate(ids):
            rows[place] = sampled(generator(seed, f"cohort/{slot}", t, int(client)), draw, draw.shape)
        cohort[slot] = torch.as_tensor(rows, dtype=dtype, device=device)
    return cohort
