"""Networks of one's own: `my_module:function` in place of a network's name.

    def net(shape, classes):
        width = math.prod(shape)
        return {"fc1": [nn.Flatten(), nn.Linear(width, 64), nn.ReLU()], "logits": [nn.Linear(64, classes)]}

`function(shape, classes)` gives the named layers of a network for samples of stored `shape` (an image [H, W] arrives with a channel,
[1, H, W]), each a list of modules, in the order of the forward pass; the last one gives the logits [B, classes] and is the head,
unless `@layer` cuts elsewhere. Dropout is `pflrepro.models.dropout.Dropout`, whose masks a run can repeat. A run's id has the code of
the function in it, as that of a method of one's own.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pflrepro.errors import UserError
from pflrepro.importing import imported
from pflrepro.models.inputs import arriving

if TYPE_CHECKING:
    from pflrepro.models.layers import Plan


def is_own(name: str) -> bool:
    """Whether a network's name is that of a function of one's own."""
    return ":" in name


def own_function(name: str) -> FunctionType:
    """The function at `module:function`, whose code is part of a run's identity; a user's module may lie in the current folder."""
    module, found = imported(name, "model", "module:function")
    if not isinstance(found, FunctionType):
        raise UserError(
            f"model {name!r} must be a function of {module.__name__}, given samples' shape and the number of classes"
        )
    return found


def own_plan(name: str, shape: tuple[int, ...], classes: int) -> Plan:
    """The layers that the function gives, checked."""
    function = own_function(name)
    try:
        inspect.signature(function).bind(shape, classes)
    except TypeError as error:
        raise UserError(f"model {name!r} must be a function (shape, classes): {error}") from None
    plan = function(shape, classes)
    _check(plan, name)
    return {layer: list(modules) for layer, modules in plan.items()}


def check_logits(name: str, plan: Plan, shape: tuple[int, ...], classes: int) -> None:
    """`UserError` where the layers do not fit the samples or each other, or do not end in `classes` logits."""
    from pflrepro.models.layers import Layers, output_shape

    try:
        found = output_shape(Layers(plan), arriving(shape))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise UserError(f"model {name!r} does not take samples of shape {list(arriving(shape))}: {error}") from None
    if found != (classes,):
        raise UserError(f"model {name!r} gives {list(found)} for a sample; {classes} logits are wanted")


def _check(plan: Any, name: str) -> None:
    from torch import nn
    from torch.nn.modules.dropout import _DropoutNd

    rows = list(plan.values()) if isinstance(plan, dict) else []
    fit = all(
        isinstance(row, (list, tuple)) and row and all(isinstance(each, nn.Module) for each in row) for row in rows
    )
    if len(rows) < 2 or not fit:
        raise UserError(
            f"model {name!r} must give two named layers or more, each a list of modules, such as "
            '{"fc1": [nn.Flatten(), nn.Linear(64, 32), nn.ReLU()], "logits": [nn.Linear(32, 10)]}'
        )
    if any(isinstance(each, _DropoutNd) for row in rows for module in row for each in module.modules()):
        raise UserError(
            f"model {name!r} has torch's dropout, whose masks no run could repeat: pflrepro.models.dropout.Dropout(p)"
        )
