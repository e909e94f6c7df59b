"""What `Experiment.for_dataset` may be given beside method and data set, spelt out for editors, type checkers and the Tab key."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


class Overrides(TypedDict, total=False):
    """The fields of `DataConfig` and of `Settings`, where each is explained, and what else an experiment has; a test compares them."""

    model: str
    seed: int
    dtype: Literal["float32", "float64"]
    # whose data
    partition: str
    clients: int
    partition_seed: int
    min_size: int | None
    test_share: float
    proxy: str
    # how they train
    rounds: int
    participation: float
    participation_low: float
    sampling: Literal["number", "coins"]
    closing: bool
    local_epochs: int
    local_steps: int
    first_steps: int
    first_weights: Literal["common", "slots"]
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    drop_last: bool
    fit_batch: bool
    augment: Literal["none", "crop-flip"]
    receivers: Literal["all", "selected"]
    statistics: Literal["personal", "averaged"]
    weights: Literal["sizes", "uniform"]
    every: int
    evaluate_after: bool
    patience: int


class _Preset:
    """The default of what a preset decides."""

    def __repr__(self) -> str:
        return "<preset>"


PRESET = _Preset()


def spelt_out(keywords: type) -> Callable[[Function], Function]:
    """Give a function that takes `**keywords` a signature that names them, as a notebook's Shift-Tab and Tab read it."""

    def with_signature(function: Function) -> Function:
        plain = inspect.signature(function)
        kept = [each for each in plain.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=PRESET, annotation=hint)
            for name, hint in get_type_hints(keywords).items()
        ]
        function.__signature__ = plain.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
        return function

    return with_signature
