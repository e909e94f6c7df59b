"""Short ways to train something and to look at what the store kept of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store

LOOP: dict[str, Any] = {"backend": "loop", "workers": 1, "progress": False}


def quick(experiments: Any, store: Store, fake: type, **how: Any) -> Any:
    """`run` by the engine that costs nothing, with a checkpoint after every round, and in silence."""
    return run(experiments, store=store, simulate=fake, progress=False, **({"checkpoint_every": 0} | how))


def state(store: Store, id: str, round: int) -> dict[str, np.ndarray]:
    """The kept state after a round, but its tests."""
    found = store.state(id, round)
    assert found is not None and found.round == round
    return {name: array for name, array in found.state.items() if not name.startswith("history/")}
