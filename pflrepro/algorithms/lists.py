"""Lists of methods, and of other names, as users give them: a list, a text with commas, a class."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pflrepro.algorithms.registry import name_of
from pflrepro.errors import UserError

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method


def listed(name: str, text: str) -> list[str]:
    """The words of a text with commas, or of a list as a parameters cell has it; `UserError`, which calls it `name`, for neither.

    Example:
        >>> listed("methods", "fedavg, ditto"), listed("methods", '["fedavg", "ditto"]')
        (['fedavg', 'ditto'], ['fedavg', 'ditto'])
    """
    if not text.lstrip().startswith("["):
        return [word.strip() for word in text.split(",") if word.strip()]
    try:
        found = ast.literal_eval(text.strip())
    except (SyntaxError, ValueError):
        found = None
    if not (isinstance(found, list) and all(isinstance(word, str) for word in found)):
        raise UserError(f'{name} must be a list of words, fedavg,ditto or ["fedavg", "ditto"], not {text!r}')
    return found


def words(name: str, given: str | Sequence[str | type[Method]]) -> tuple[str, ...]:
    """A list of words, given as one or as a text (see `listed`), a class by its name; `UserError` for anything else.

    Example:
        >>> words("methods", "fedavg, ditto"), words("methods", ["fedavg"]), words("methods", "")
        (('fedavg', 'ditto'), ('fedavg',), ())
    """
    if isinstance(given, str):
        return tuple(listed(name, given))
    names = [name_of(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
    if not all(isinstance(word, str) for word in names):
        raise UserError(
            f"{name} must be a list of words, such as ['fedavg', 'ditto'], or a text: fedavg,ditto, not {given!r}"
        )
    return tuple(names)
