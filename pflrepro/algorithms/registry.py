"""Methods and plug-ins by name, and their composition: `scaffold+dbe` is the type (DBE, Scaffold)."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pflrepro.checked import Domain, domains
from pflrepro.errors import UserError, check_word, unknown

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method


@dataclass(frozen=True)
class Entry:
    """A registered method or plug-in.

    name: as typed. title: as printed in the papers. paper: where it comes from. path: `module:Class`.
    tested: which model its number is taken from. hosts: for a plug-in, the methods that a paper combines it with.
    differs: for a variant, what it does otherwise than the method before the slash of its name.
    """

    name: str
    title: str
    paper: str
    path: str
    tested: str = "global model"
    hosts: tuple[str, ...] = ()
    differs: str = ""


def _methods(*entries: Entry) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


ALGORITHMS: dict[str, Entry] = _methods(
    # one global model
    Entry("fedavg", "FedAvg", "McMahan et al., AISTATS 2017", "fedavg:FedAvg"),
    Entry("fedprox", "FedProx", "Li et al., MLSys 2020", "fedprox:FedProx"),
    Entry("scaffold", "SCAFFOLD", "Karimireddy et al., ICML 2020", "scaffold:Scaffold"),
    Entry("moon", "MOON", "Li et al., CVPR 2021", "moon:Moon"),
    Entry("fedgen", "FedGen", "Zhu et al., ICML 2021", "fedgen:FedGen"),
    Entry("fedcm", "FedCM", "Xu et al., 2021", "fedcm:FedCM"),
    Entry("feddecorr", "FedDecorr", "Shi et al., ICLR 2023", "feddecorr:FedDecorr"),
    Entry("fedntd", "FedNTD", "Lee et al., NeurIPS 2022", "fedntd:FedNTD"),
    # fairness and robustness
    Entry("afl", "AFL", "Mohri et al., ICML 2019", "afl:AFL"),
    Entry("q-ffl", "q-FFL", "Li et al., ICLR 2020", "qffl:QFFL"),
    Entry("groupdro", "GroupDRO", "Sagawa et al., ICLR 2020", "groupdro:GroupDRO"),
    # mixing and alignment
    Entry("fedmix", "FedMix", "Yoon et al., ICLR 2021", "fedmix:FedMix"),
    Entry("dann", "DANN", "Ganin et al., JMLR 2016", "dann:DANN"),
    Entry("vhl", "VHL", "Tang et al., ICML 2022", "vhl:VHL"),
    # personalised
    Entry("local", "Local", "no federation", "local:Local", "own model"),
    Entry(
        "fedavgft",
        "FedAvgFT",
        "McMahan et al., AISTATS 2017, fine-tuned",
        "fedavgft:FedAvgFT",
        "global model after local fine-tuning",
    ),
    Entry(
        "per-fedavg",
        "Per-FedAvg",
        "Fallah et al., NeurIPS 2020",
        "perfedavg:PerFedAvg",
        "global model after one local step",
    ),
    Entry("pfedme", "pFedMe", "Dinh et al., NeurIPS 2020", "pfedme:PFedMe", "personal model"),
    Entry("ditto", "Ditto", "Li et al., ICML 2021", "ditto:Ditto", "personal model"),
    Entry("apfl", "APFL", "Deng et al., 2020", "apfl:APFL", "mixture of own and global model"),
    Entry("fedphp", "FedPHP", "Li et al., ECML-PKDD 2021", "fedphp:FedPHP", "historical private model"),
    Entry("fedper", "FedPer", "Arivazhagan et al., 2019", "fedper:FedPer", "global base, own head"),
    Entry("fedrep", "FedRep", "Collins et al., ICML 2021", "fedrep:FedRep", "global base, own head"),
    Entry("lg-fedavg", "LG-FedAvg", "Liang et al., 2020", "lgfedavg:LGFedAvg", "own base, global head"),
    Entry("fedrod", "FedRoD", "Chen and Chao, ICLR 2022", "fedrod:FedRoD", "global base, sum of global and own head"),
    Entry("fedbabu", "FedBABU", "Oh et al., ICLR 2022", "fedbabu:FedBABU", "global model after local fine-tuning"),
    Entry("fedfomo", "FedFomo", "Zhang et al., ICLR 2021", "fedfomo:FedFomo", "own model"),
    Entry("apple", "APPLE", "Luo and Wu, IJCAI 2022", "apple:Apple", "own mixture of all core models"),
    Entry("fedpac", "FedPAC", "Xu et al., ICLR 2023", "fedpac:FedPAC", "global base, own combined head"),
    Entry("fedproto", "FedProto", "Tan et al., AAAI 2022", "fedproto:FedProto", "own base, nearest global prototype"),
    # the papers' own; DBE and FedBR are plug-ins on FedAvg
    Entry("gpfl", "GPFL", "Zhang et al., ICCV 2023", "gpfl:GPFL", "global base and valve, own head"),
    Entry(
        "pfedfda",
        "pFedFDA",
        "McLaughlin and Su, NeurIPS 2024",
        "pfedfda:PFedFDA",
        "global base, own Gaussian classifier",
    ),
    Entry("grp-fed", "GRP-FED", "Chou et al., 2021", "grpfed:GRPFED", "own extractor under the global classifier"),
)

_MR_HOSTS = ("fedavg", "ditto", "apfl", "fedper", "fedrep", "fedrod", "fedbabu", "fedfomo")
_FEDBR_HOSTS = ("fedavg", "fedcm", "feddecorr", "fedntd")
_MIXUP_HOSTS = ("fedavg", "moon", "fedcm", "feddecorr", "fedntd", "groupdro", "vhl")
# In the order in which they are put on a host.
PLUGINS: dict[str, Entry] = _methods(
    Entry("mixup", "Mixup", "Zhang et al., ICLR 2018", "mixup:Mixup", "", _MIXUP_HOSTS),
    Entry(
        "fedbr",
        "FedBR",
        "Guo et al., ICML 2023",
        "fedbr:FedBR",
        "",
        _FEDBR_HOSTS + tuple(f"{host}+mixup" for host in _FEDBR_HOSTS),
    ),
    Entry(
        "dbe", "DBE", "Zhang et al., NeurIPS 2023", "dbe:DBE", "", ("fedavg", "fedprox", "scaffold", "moon", "fedgen")
    ),
    Entry("prbm", "PRBM", "Zhang et al., NeurIPS 2023", "dbe:PRBM", "", ("fedavg",)),
    Entry("mr", "MR", "Zhang et al., NeurIPS 2023", "dbe:MR", "", _MR_HOSTS),
)

METHOD_PLUGINS = ("dbe", "fedbr", "mixup")  # methods of their own in the papers' tables, where they stand on FedAvg
ALIASES = {name: f"fedavg+{name}" for name in PLUGINS}

_NOT_PLAIN = "its local steps are not plain SGD on one loss [DBE section 5.2.3]"
_NO_MODEL = "its server holds no model to take the feature means with, and no paper defines it"
_LABELS = "it sorts samples by their label, and a mixed sample has two"
_TWO_BASES = "its clients train two bases, and no paper says behind which one the personal bias stands"
_HALVES = "it splits every batch in halves of its own"
_OWN_BASES = "its clients keep their bases, and FedBR is about the one that they share"
_OWN_STEPS = "its local steps are not plain SGD on one loss, and no paper says where FedBR's two steps go"
_OWN_DATA = "it hands data of its own to the clients"
# (plug-in, host) -> why no such combination is made.
_REFUSED = (
    {("mr", host): _NOT_PLAIN for host in ("per-fedavg", "pfedme", "apple")}
    | {(plugin, host): _NO_MODEL for plugin in ("mr", "dbe") for host in ("fedpac", "pfedfda")}
    | {(plugin, "apple"): _NO_MODEL for plugin in ("prbm", "dbe")}
    | {("mixup", host): _LABELS for host in ("fedgen", "fedproto", "fedpac", "gpfl", "pfedfda")}
    | {("mixup", "per-fedavg"): _HALVES}
    | {(plugin, "grp-fed"): _TWO_BASES for plugin in ("prbm", "dbe")}
    | {("fedbr", host): _OWN_BASES for host in ("local", "lg-fedavg", "fedfomo", "fedproto", "apple", "grp-fed")}
    | {("fedbr", host): _OWN_STEPS for host in ("per-fedavg", "pfedme", "dann")}
    | {("fedbr", host): _OWN_DATA for host in ("fedmix", "vhl")}
)


# A departure from a method that a printed number needs: a subclass in `variants/`, named `method/departure`.
VARIANTS: dict[str, Entry] = _methods()


def names() -> list[str]:
    """All method names."""
    return sorted(ALGORITHMS)


def build_method(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """The method called `name` ("fedavg", "scaffold+dbe", "my_module:MyMethod") with `options` for its hyper-parameters.

    Raises `UserError` for unknown names or options, values of the wrong type, equal hyper-parameter names of two parts, and
    combinations that no paper defines.
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


def revision(name: str) -> int:
    """The sum of the revisions of the parts of `name`; it grows whenever the numbers of one of them change."""
    return sum(part.revision for part in _parts(name))


def load_plugin(name: str) -> type[Method]:
    """The class of the plug-in `name`."""
    return _load(f"pflrepro.algorithms.{PLUGINS[check_word('plug-in', name, PLUGINS)].path}")


def canonical_name(name: str) -> str:
    """`name` with aliases resolved and plug-ins in their order: "fedbr+mixup" is "fedavg+mixup+fedbr"."""
    first, *plugins = name.split("+")
    host, *implied = ALIASES.get(first, first).split("+")
    order = {plugin: position for position, plugin in enumerate(PLUGINS)}
    return "+".join([host, *sorted(implied + plugins, key=lambda plugin: order.get(plugin, len(order)))])


def _composed(name: str) -> type[Method]:
    """The class of `name`; a composition's bases are the plug-ins and the host, so that `super()` reaches the next one in."""
    host, *plugins = _parts(name)
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


def _parts(name: str) -> list[type[Method]]:
    if not isinstance(name, str) or not name:
        raise unknown("algorithm", str(name), ALGORITHMS)
    host, *plugins = canonical_name(name).split("+")
    if len(set(plugins)) != len(plugins):
        raise UserError(f"{name}: a plug-in can be added once")
    for plugin in plugins:
        check_word("plug-in", plugin, PLUGINS)
        reason = _REFUSED.get((plugin, host.split("/")[0]))
        if reason:
            raise UserError(f"{name}: {plugin} is not defined for {host}: {reason}")
    return [_host(host), *map(load_plugin, plugins)]


def _host(name: str) -> type[Method]:
    if ":" in name:
        return _load(name)
    if name not in ALGORITHMS and name not in VARIANTS:
        raise unknown("algorithm", name, [*ALGORITHMS, *VARIANTS, *ALIASES])
    return _load(f"pflrepro.algorithms.{(ALGORITHMS | VARIANTS)[name].path}")


def _load(path: str) -> type[Method]:
    """The class at `module:Class`; a user's module may lie in the current folder."""
    from pflrepro.algorithms.contract import Method

    module_name, _, class_name = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")) or not class_name.isidentifier():
        raise UserError(f"an own algorithm is given as module:Class, not {path!r}")
    if "" not in sys.path:
        sys.path.append("")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise UserError(f"module {module_name!r} needs {error.name!r}, which is not installed") from None
        raise UserError(
            f"no module {module_name!r} for algorithm {path!r}; give module:Class, importable from here"
        ) from None
    except Exception as error:
        if module_name.startswith("pflrepro."):
            raise
        raise UserError(f"module {module_name!r} fails when imported: {type(error).__name__}: {error}") from None
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Method)):
        classes = [
            n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, Method) and v is not Method
        ]
        raise unknown(f"method in {module_name}", class_name, classes)
    return found
