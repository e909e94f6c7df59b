"""Those who take part in a round, as host functions of a method see them."""

from __future__ import annotations

import numpy as np
import torch

from pflrepro.algorithms.task import Task
from pflrepro.randomness import generator
from pflrepro.settings import Settings
from pflrepro.trees import Tree


def participants(task: Task, settings: Settings, seed: int, t: int, ids: np.ndarray, dtype: torch.dtype) -> Tree:
    """The `cohort` of round `t`: one row a client of `ids`; `N` is a number.

    `id`, `n`, `p` (n_i over their sum, or equal: `Settings.weights`), `counts`; `slot`: the places 0..m-1, assigned anew every
    round.
    """
    device = task.info.n.device
    chosen = torch.as_tensor(ids, device=device)
    info = task.info[chosen]
    n = info.n.to(dtype)
    # a cohort without any sample hands its models in unchanged: equal weights leave the server as it is
    shares = torch.ones_like(n) if settings.weights == "uniform" else torch.where(n.sum() > 0, n, 1.0)
    order = np.argsort([generator(seed, "slots", t, int(client)).random() for client in ids])
    slot = torch.as_tensor(np.argsort(order), device=device)
    N = torch.tensor(float(task.clients), dtype=dtype, device=device)
    return Tree(id=chosen, n=n, p=shares / shares.sum(), counts=info.counts, N=N, slot=slot)
