"""Networks of one's own: `my_module:function` in place of a network's name.

    def net(shape, classes):
        width = math.prod(shape)
        return {"fc1": [nn.Flatten(), nn.Linear(width, 64), nn.ReLU()], "logits": [nn.Linear(64, classes)]}

`function(shape, classes)` gives the named layers of a network for samples of stored `shape` (an image [H, W] arrives with a channel,
[1, H, W]), each a list of modules, in the order of the forward pass; the last one gives the logits [B, classes] and is the head,
unless `@layer` cuts elsewhere. Dropout is `pflrepro.models.dropout.Dropout`, whose masks a run can repeat; what no run could repeat or
keep is refused where modules show it, not in the code of their `forward`. A run's id has the code of the function in it, as that of a
method of one's own. `vmap` has no rule for recurrent layers (nn.RNN, GRU, LSTM), spectral_norm, or a change of the samples in place
(nn.ReLU(inplace=True) first): such a network needs the backend `loop`, which `auto` takes on a CPU.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pflrepro.errors import UserError
from pflrepro.importing import imported
from pflrepro.models.inputs import arriving

if TYPE_CHECKING:
    from torch import nn

    from pflrepro.models.layers import Plan

IN_FORWARD = "make it in forward, as torch.arange(n, device=x.device)"


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


def check_cut(name: str, plan: Plan, split: str) -> None:
    """`UserError` where a module with numbers of its own stands on both sides of the cut, which would train two copies of it."""
    layers = list(plan)
    cut = layers.index(split) + 1
    base, head = (
        {
            child: layer
            for layer in part
            for module in plan[layer]
            for child in module.modules()
            if child._parameters or child._buffers
        }
        for part in (layers[:cut], layers[cut:])
    )
    for module in (module for module in base if module in head):
        raise UserError(
            f"model {name!r} has one {type(module).__name__} in base and head (layers {base[module]} and {head[module]}), which would "
            "be trained as two: make a module for each, or cut elsewhere (@layer)"
        )


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

    rows = list(plan.values()) if isinstance(plan, dict) else []
    fit = all(
        isinstance(row, (list, tuple)) and row and all(isinstance(each, nn.Module) for each in row) for row in rows
    )
    if len(rows) < 2 or not fit:
        raise UserError(
            f"model {name!r} must give two named layers or more, each a list of modules, such as "
            '{"fc1": [nn.Flatten(), nn.Linear(64, 32), nn.ReLU()], "logits": [nn.Linear(32, 10)]}'
        )
    modules = list(dict.fromkeys(child for row in rows for module in row for child in module.modules()))
    if found := next(filter(None, map(_unfit, modules)), "") or _tied(modules):
        raise UserError(f"model {name!r} has {found}")


def _unfit(module: nn.Module) -> str:
    """What of a module no run could repeat, or would leave out without a word; "" where there is nothing."""
    from torch import Tensor, nn
    from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
    from torch.nn.modules.dropout import _DropoutNd
    from torch.nn.parameter import is_lazy

    kind, tensors = type(module).__name__, module._parameters | module._buffers
    if isinstance(module, _DropoutNd):
        return "torch's dropout, whose masks no run could repeat: pflrepro.models.dropout.Dropout(p)"
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)) and module.dropout:
        return f"{kind}(dropout={module.dropout}), whose masks no run could repeat: pflrepro.models.dropout.Dropout(p) behind it"
    if isinstance(module, (nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)):
        return f"{kind}, whose random numbers no run could repeat: nn.LeakyReLU or nn.MaxPool2d, for instance"
    if any(map(is_lazy, tensors.values())):
        return (
            f"{kind}, whose weights would not be drawn from the run's seed: give its sizes, which follow from `shape`"
        )
    if isinstance(module, _NormBase) and module.track_running_stats and module.momentum is None:
        return f"{kind}(momentum=None), whose running statistics would never move: a number, such as momentum=0.1"
    if isinstance(module, _BatchNorm) and not module.track_running_stats:
        return f"{kind}(track_running_stats=False), for which padded batches count: running statistics, or nn.GroupNorm"
    for name, value in module._buffers.items():
        if not (value is None or value.is_floating_point() or isinstance(module, _NormBase)):  # which counts batches
            return f"a buffer of {value.dtype}, {kind}.{name}, which no run keeps: {IN_FORWARD}"
    for name, value in vars(module).items():
        if isinstance(value, Tensor) and not module._forward_pre_hooks:  # which may make it anew (nn.utils.weight_norm)
            return f"a tensor that is neither parameter nor buffer, {kind}.{name}, which stays on the CPU: {IN_FORWARD}"
    return ""


def _tied(modules: list[nn.Module]) -> str:
    """A parameter or buffer that has two places, in words: each place would get, and train, numbers of its own."""
    places: dict[int, str] = {}
    for module in modules:
        for name, value in (module._parameters | module._buffers).items():
            place = f"{type(module).__name__}.{name}"
            if value is not None and id(value) in places:
                both = f"{places[id(value)]} and {place}"
                return f"one tensor in two places ({both}): use one module twice, or its weight in another's forward"
            places[id(value)] = place
    return ""
