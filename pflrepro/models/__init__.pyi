# Written by `python -m pflrepro.stubs` from __all__ and _NAMES.
from pflrepro.models import dropout as dropout
from pflrepro.models import initialise as initialise
from pflrepro.models import inputs as inputs
from pflrepro.models import layers as layers
from pflrepro.models import networks as networks
from pflrepro.models import own as own
from pflrepro.models import registry as registry
from pflrepro.models import residual as residual
from pflrepro.models import split as split
from pflrepro.models import stylegan2 as stylegan2
from pflrepro.models import text as text
from pflrepro.models import transformer as transformer
from pflrepro.models.layers import layer_outputs as layer_outputs
from pflrepro.models.registry import ModelEntry as ModelEntry
from pflrepro.models.registry import build_model as build_model
from pflrepro.models.registry import canonical as canonical
from pflrepro.models.registry import check_shape as check_shape
from pflrepro.models.registry import find as find
from pflrepro.models.registry import splits as splits
MODELS: dict
