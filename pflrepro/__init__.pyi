# Written by `python -m pflrepro.stubs` from __all__ and _NAMES.
from pflrepro import algorithms as algorithms
from pflrepro import cli as cli
from pflrepro import conformance as conformance
from pflrepro import data as data
from pflrepro import experiments as experiments
from pflrepro import metrics as metrics
from pflrepro import models as models
from pflrepro import papers as papers
from pflrepro import simulation as simulation
from pflrepro import viz as viz
from pflrepro.algorithms.contract import Method as Method
from pflrepro.algorithms.registry import build_method as build_method
from pflrepro.catalogue import describe as describe
from pflrepro.data.federation import Federation as Federation
from pflrepro.errors import UserError as UserError
from pflrepro.experiments.compare import compare as compare
from pflrepro.experiments.config import DataConfig as DataConfig
from pflrepro.experiments.config import Experiment as Experiment
from pflrepro.experiments.loading import load_federation as load_federation
from pflrepro.experiments.run import run as run
from pflrepro.experiments.simulate import simulate as simulate
from pflrepro.experiments.store import Store as Store
from pflrepro.experiments.sweep import sweep as sweep
from pflrepro.settings import Settings as Settings
from pflrepro.simulation.simulation import Simulation as Simulation
__version__: str
