"""Experiments on the embedded digits, and their ids."""

from __future__ import annotations

from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.experiments.identity import identity, identity_digest
from pflrepro.settings import Settings

DATA = DataConfig("digits")


def build(**changes) -> Experiment:
    """FedAvg on the digits, three rounds, with some of its own fields or of its settings changed."""
    own = {name: changes.pop(name) for name in list(changes) if name in Experiment.__dataclass_fields__}
    settings = Settings(**({"rounds": 3} | changes))
    return Experiment(**({"algorithm": "fedavg", "data": DATA, "model": "mlp", "settings": settings} | own))


def digest(experiment: Experiment, fingerprint: str = "f") -> str:
    """The id of the experiment on data of that fingerprint."""
    return identity_digest(identity(experiment, fingerprint))
