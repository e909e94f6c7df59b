"""FedBR's study of local bias: what training on half of the classes does to a model that knows them all [FedBR section 3].

toy = half_of_the_classes(pflrepro.simulate(experiment))
local_bias(toy).seen_after
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pflrepro.data.federation import Federation
from pflrepro.metrics.newcomers import arrived
from pflrepro.simulation.inspection import ClientModel, check_replica, client_models
from pflrepro.simulation.simulation import Simulation


def half_of_the_classes(simulation: Simulation, index: int = 0, **changes: Any) -> Simulation:
    """One client with all training samples of the first half of the classes, and all test samples, that receives the trained model.

    Looked at before local training (`collect`, `client_models`) it is F_g, after it F_1; `local_bias` compares the two, with X_1
    the test samples of the first half of the classes and X_2 those of the other.

    Args:
        simulation: of one model that is trained on all classes: FedAvg with one client is training at one place.
        index: which of its seeds.
        changes: of `Settings`, such as `local_epochs`; else the simulation's own.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", partition="iid", clients=1, rounds=2)
        >>> toy = half_of_the_classes(pflrepro.simulate(experiment, workers=1))
        >>> (toy.federation.counts("train")[0] > 0).tolist()
        [True, True, True, True, True, False, False, False, False, False]
    """
    check_replica(simulation, index)
    whole = simulation.federation
    rows = {split: np.concatenate(whole.rows[split]) for split in ("train", "test")}
    labels = whole.y[torch.as_tensor(rows["train"], device=whole.device)].cpu().numpy()
    held = rows["train"][labels < whole.classes // 2]
    facts = {"classes": whole.classes, "unit": whole.unit, "name": whole.name, "seed": whole.seed}
    federation = Federation(whole.x, whole.y, [held], [rows["test"]], device=whole.device, **facts)
    return arrived(simulation, federation, index, workers=1, rounds=1, **changes)


def before_and_after(toy: Simulation) -> tuple[ClientModel, ClientModel]:
    """F_g and F_1: the model as the client receives it, and after the client's training on half of the classes."""
    return client_models(toy)[0], client_models(toy, after=True)[0]
