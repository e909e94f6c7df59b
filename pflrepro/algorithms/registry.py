"""Methods and plug-ins by name, and their composition: `scaffold+dbe` is the type (DBE, Scaffold)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pflrepro.algorithms.entries import ALGORITHMS, ALIASES, PLUGINS, REFUSED, VARIANTS, Entry
from pflrepro.algorithms.own import check_own
from pflrepro.checked import Domain, domains
from pflrepro.errors import UserError, check_word, unknown
from pflrepro.importing import imported

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method


def names() -> list[str]:
    """All method names."""
    return sorted(ALGORITHMS)


def build_method(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """The method called `name` ("fedavg", "scaffold+dbe", "my_module:MyMethod") with `options` for its hyper-parameters.

    Raises `UserError` for unknown names or options, values of the wrong type, equal hyper-parameter names of two parts, and
    combinations that no paper defines.

    Example:
        >>> build_method("fedprox", {"mu": 0.1})
        FedProx(mu=0.1)
        >>> build_method("fedavg+dbe").kappa
        50.0
    """
    method_class = _composed(name)
    given, known = dict(options or {}), domains(method_class)
    for option, value in given.items():
        check_word(f"option of {name}", option, known)
        known[option].check(f"option {option} of {name}", value)
    return method_class(**given)


def parse_options(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """["kappa=5", "mr_momentum=0.1"] as {"kappa": 5.0, ...}, in the types of the method's hyper-parameters."""
    known = options_of(name)
    options: dict[str, Any] = {}
    for text in texts:
        option, equals, value = text.partition("=")
        option = option.strip()
        if not equals:
            raise UserError(f"an option is NAME=VALUE, not {text!r}")
        check_word(f"option of {name}", option, known)
        if option in options:
            raise UserError(f"option {option} of {name} is given twice")
        options[option] = known[option].parse(f"option {option} of {name}", value.strip())
    return options


def options_of(name: str) -> Mapping[str, Domain]:
    """Hyper-parameter -> what it may be, of the method called `name`."""
    return domains(_composed(name))


def hyperparameters(name: str) -> dict[str, Any]:
    """Hyper-parameter -> default of the method called `name`."""
    return {field.name: field.default for field in dataclasses.fields(_composed(name))}


def about(name: str) -> Entry:
    """What is known of anything that `build_method` takes: of a combination the titles together, and its last plug-in's paper.

    Example:
        >>> about("scaffold+dbe").title, about("dbe").title, about("fedprox+dbe").tested
        ('SCAFFOLD+DBE', 'DBE', 'global model, plus the own bias')
    """
    host, *added = canonical_name(name).split("+")
    known = ALGORITHMS | VARIANTS
    own = Entry(host, host.rpartition(":")[2], "a method of one's own", host, "as its class says")
    entries = [known.get(host, own), *(PLUGINS[check_word("plug-in", each, PLUGINS)] for each in added)]
    title = entries[-1].title if name in PLUGINS else "+".join(entry.title for entry in entries)
    bias = ", plus the own bias" if {"dbe", "prbm"} & set(added) else ""
    link = entries[-1].link or getattr(ALGORITHMS.get(plain_parts(name)[-1]), "link", "")
    return dataclasses.replace(entries[-1], name=name, title=title, tested=entries[0].tested + bias, link=link)


def revision(name: str) -> int:
    """The sum of the revisions of the parts of `name`; it grows whenever the numbers of one of them change."""
    return sum(part.revision for part in parts(name))


def load_plugin(name: str) -> type[Method]:
    """The class of the plug-in `name`."""
    return _load(f"pflrepro.algorithms.{PLUGINS[check_word('plug-in', name, PLUGINS)].path}")


def name_of(method: Any) -> Any:
    """`module:Class` for a class; anything else as it is, but `UserError` for an object of a method, whose options stand apart.

    Example:
        >>> from fractions import Fraction
        >>> name_of(Fraction), name_of("fedavg")
        ('fractions:Fraction', 'fedavg')
    """
    if isinstance(method, type):
        return f"{method.__module__}:{method.__qualname__}"
    if dataclasses.is_dataclass(method):
        from pflrepro.algorithms.contract import Method

        if isinstance(method, Method):
            options = {
                f.name: value for f in dataclasses.fields(method) if (value := getattr(method, f.name)) != f.default
            }
            said = f"{type(method).__name__}{f' with options={options!r}' if options else ''}"
            raise UserError(f"a method is given by its name or its class, not as an object: {said}, not {method!r}")
    return method


def canonical_name(name: str) -> str:
    """`name` with aliases resolved and plug-ins in their order: "fedbr+mixup" is "fedavg+mixup+fedbr"."""
    first, *plugins = name.split("+")
    host, *implied = ALIASES.get(first, first).split("+")
    order = {plugin: position for position, plugin in enumerate(PLUGINS)}
    return "+".join([host, *sorted(implied + plugins, key=lambda plugin: order.get(plugin, len(order)))])


def plain_parts(name: str) -> list[str]:
    """The host and the plug-ins of `name`, a variant by its method: "moon/fedbr+mixup" is ["moon", "mixup"]."""
    return [part.split("/")[0] for part in canonical_name(name).split("+")]


def _composed(name: str) -> type[Method]:
    """The class of `name`; a composition's bases are the plug-ins and the host, so that `super()` reaches the next one in."""
    host, *plugins = parts(name)
    if not plugins:
        return host
    _check_apart(name, host, plugins)
    return _composition(name, host, *plugins)


@cache  # equal parts make one class
def _composition(name: str, host: type[Method], *plugins: type[Method]) -> type[Method]:
    seen: dict[str, str] = {}
    for part in (host, *plugins):
        for field in dataclasses.fields(part):
            if field.name in seen:
                raise UserError(
                    f"{name}: {seen[field.name]} and {part.__name__} both have a hyper-parameter {field.name!r}"
                )
            seen[field.name] = part.__name__
    bases = (*reversed(plugins), host)
    return dataclass(frozen=True)(type("+".join(part.__name__ for part in (host, *plugins)), bases, {}))


def _check_apart(name: str, host: type[Method], plugins: list[type[Method]]) -> None:
    """`UserError` where one part of `name` is built from another one (DBE from PRBM and MR): it would act twice."""
    for plugin in plugins:
        for part in (host, *(other for other in plugins if other is not plugin)):
            if issubclass(part, plugin):
                raise UserError(
                    f"{name}: {part.__name__} has {plugin.__name__} in it already, which would act twice: "
                    f"leave out +{plugin.__name__.lower()}"
                )


def parts(name: str) -> list[type[Method]]:
    """The classes that `name` is made of, the host's first."""
    if not isinstance(name, str) or not name:
        raise unknown("algorithm", str(name), ALGORITHMS)
    _check_order(name)
    host, *plugins = canonical_name(name).split("+")
    if len(set(plugins)) != len(plugins):
        raise UserError(f"{name}: a plug-in can be added once")
    for plugin in plugins:
        if ":" in plugin:
            raise UserError(
                f"{name}: a class of your own stands first or alone, where it is FedAvg with its change: {plugin}"
            )
        check_word("plug-in", plugin, PLUGINS)
        reason = REFUSED.get((plugin, host)) or REFUSED.get((plugin, plain_parts(name)[0]))
        if reason:
            raise UserError(f"{name}: {plugin} is not defined for {host}: {reason}")
    return [_host(host), *map(load_plugin, plugins)]


def _check_order(name: str) -> None:
    """`UserError` where a part is lacking, or a method stands where only a plug-in may."""
    names = name.split("+")
    if not all(names):
        raise UserError(
            f"{name!r} lacks a name beside its +; it is written as fedavg+dbe; plug-ins: {', '.join(PLUGINS)}"
        )
    methods = [each for each in names if each in ALGORITHMS or each in VARIANTS]
    added = [each for each in names if each in PLUGINS]
    if set(names[1:]) & set(methods):
        if len(methods) == 1 and len(added) == len(names) - 1:
            raise UserError(f"{name}: the method stands first; did you mean {'+'.join(methods + added)}?")
        raise UserError(
            f"{name}: {next(each for each in names[1:] if each in methods)} is a method, and one method is trained at a time; "
            f"what can be added to one: {', '.join(PLUGINS)}"
        )


def _host(name: str) -> type[Method]:
    if ":" in name:
        return _load(name)
    if name not in ALGORITHMS and name not in VARIANTS:
        raise unknown("algorithm", name, [*ALGORITHMS, *VARIANTS, *ALIASES], "a method of your own: module:Class")
    return _load(f"pflrepro.algorithms.{(ALGORITHMS | VARIANTS)[name].path}")


def _load(path: str) -> type[Method]:
    """The class at `module:Class`; a user's module may lie in the current folder."""
    from pflrepro.algorithms.contract import Method

    module, found = imported(path, "algorithm", "module:Class")
    module_name, _, class_name = path.partition(":")
    if not (isinstance(found, type) and issubclass(found, Method)):
        classes = [
            n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, Method) and v is not Method
        ]
        raise unknown(f"method in {module_name}", class_name, classes)
    if not module_name.startswith("pflrepro."):
        check_own(found)
    return found
