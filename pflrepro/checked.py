"""Fields that say by their types what they may hold, and are checked from that.

    @dataclass(frozen=True)
    class Decay:
        rate: NonNegative = 0.1
        steps: Count = 5
        form: Literal["step", "cosine"] = "step"

        def __post_init__(self) -> None:
            check_fields(self)

The types are plain ones with a note (`typing.Annotated`), so editors and type checkers read them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from inspect import get_annotations
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pflrepro.errors import UserError, bounded, check_range, check_word


@dataclass(frozen=True)
class Between:
    """The note on a number's type: it lies in [low, high], without an end that is open; None: no bound there."""

    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False


NonNegative = Annotated[float, Between(0)]
Positive = Annotated[float, Between(0, open_low=True)]
Share = Annotated[float, Between(0, 1)]
MOST = 1_000_000  # rounds, passes, samples of a batch: more are a slip of the finger, which would never end
Count = Annotated[int, Between(0, MOST)]  # a whole number, 0 too
AtLeastOne = Annotated[int, Between(1, MOST)]


@dataclass(frozen=True)
class Domain:
    """What a field may hold.

    Attributes:
        kind: float, int, bool, str, or object for any other type, which is not checked.
        words: the valid ones of a word.
        bounds: of a number.
    """

    kind: type
    words: tuple[str, ...] = ()
    bounds: Between = Between()

    def __str__(self) -> str:
        if self.words:
            return " or ".join(self.words)
        if self.kind in (float, int):
            return f"{'a whole number' if self.kind is int else 'a number'}{bounded(**vars(self.bounds))}"
        return {bool: "true or false", str: "a word"}.get(self.kind, "anything")

    def check(self, name: str, value: Any) -> Any:
        """`value` in the field's own type, so that 1 and 1.0, -0.0 and 0.0 are one; `UserError` that says what `name` may be."""
        if self.words:
            return check_word(name, value, self.words)
        if self.kind in (float, int):
            checked = check_range(name, value, **vars(self.bounds), integer=self.kind is int)
            return checked if self.kind is int else float(checked) + 0.0
        if not isinstance(value, self.kind):
            raise UserError(f"{name} must be {'true or false' if self.kind is bool else 'a word'}, not {value!r}")
        return value

    def parse(self, name: str, text: str) -> Any:
        """`check` of what was typed; `UserError` for a field whose type says nothing of how to read it, such as `int | None`."""
        if self.kind is object:
            raise UserError(f"{name} is no number, no word and not true or false: it can be given in Python alone")
        value: Any = text
        try:
            if self.kind is bool:
                value = {"true": True, "false": False}[text.lower()]
            elif self.kind in (float, int):
                value = self.kind(text)
        except (KeyError, ValueError):
            pass  # `check` names the text as it was typed
        return self.check(name, value)


@cache  # types are worked out once, not for every object that is checked
def domains(checked: type) -> Mapping[str, Domain]:
    """Field of a dataclass -> what it may hold, from its type: a number, a bool, a `Literal` of words, or one with a `Between`."""
    hints = get_type_hints(checked, include_extras=True)
    return MappingProxyType({field.name: _domain(hints[field.name]) for field in fields(checked)})


def check_fields(checked: Any, titles: Mapping[str, str] | None = None) -> None:
    """Check every field of a frozen dataclass by its type and store it in it; `UserError` for the first that is wrong.

    Args:
        titles: what an error calls each field; by default with the class that declares it: "mu of FedProx".
    """
    titles = _titles(type(checked)) if titles is None else titles
    for name, domain in domains(type(checked)).items():
        object.__setattr__(checked, name, domain.check(titles[name], getattr(checked, name)))


def _domain(hint: Any) -> Domain:
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if get_origin(hint) is Literal:
        return Domain(str, get_args(hint))
    kind = hint if hint in (float, int, bool, str) else object
    return Domain(kind, (), next((note for note in notes if isinstance(note, Between)), Between()))


@cache
def _titles(checked: type) -> Mapping[str, str]:
    """Each field with the nearest base that declares it, so that a plug-in's fields are told from its host's."""
    declares = {name: base.__name__ for base in reversed(checked.__mro__) for name in get_annotations(base)}
    return MappingProxyType({name: f"{name} of {declares[name]}" for name in domains(checked)})
