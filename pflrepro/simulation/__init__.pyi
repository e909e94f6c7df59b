# Written by `python -m pflrepro.stubs` from __all__ and _NAMES.
from pflrepro.simulation import backends as backends
from pflrepro.simulation import batched as batched
from pflrepro.simulation import cost as cost
from pflrepro.simulation import dealing as dealing
from pflrepro.simulation import dispatch as dispatch
from pflrepro.simulation import failing as failing
from pflrepro.simulation import graph as graph
from pflrepro.simulation import inspection as inspection
from pflrepro.simulation import launch as launch
from pflrepro.simulation import loop as loop
from pflrepro.simulation import memory_order as memory_order
from pflrepro.simulation import participants as participants
from pflrepro.simulation import program as program
from pflrepro.simulation import replica as replica
from pflrepro.simulation import schedule as schedule
from pflrepro.simulation import simulation as simulation
from pflrepro.simulation import source as source
from pflrepro.simulation import start as start
from pflrepro.simulation import threads as threads
from pflrepro.simulation import watch as watch
from pflrepro.simulation import workers as workers
from pflrepro.simulation.batched import Batched as Batched
from pflrepro.simulation.inspection import client_models as client_models
from pflrepro.simulation.inspection import samples as samples
from pflrepro.simulation.loop import Loop as Loop
from pflrepro.simulation.simulation import Simulation as Simulation
ENGINE_REVISION: int
