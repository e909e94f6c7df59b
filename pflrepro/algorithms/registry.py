"""Methods and plug-ins by name, and their composition: `scaffold+dbe` is the type (DBE, Scaffold)."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    differs: for a variant, what it does otherwise than the method before the slash of its name. link: to the paper.
    """

    name: str
    title: str
    paper: str
    path: str
    tested: str = "global model"
    hosts: tuple[str, ...] = ()
    differs: str = ""
    link: str = ""


def _methods(*entries: Entry) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


ALGORITHMS: dict[str, Entry] = _methods(
    # one global model
    Entry("fedavg", "FedAvg", "McMahan et al., AISTATS 2017", "fedavg:FedAvg", link="https://arxiv.org/abs/1602.05629"),
    Entry("fedprox", "FedProx", "Li et al., MLSys 2020", "fedprox:FedProx", link="https://arxiv.org/abs/1812.06127"),
    Entry(
        "scaffold",
        "SCAFFOLD",
        "Karimireddy et al., ICML 2020",
        "scaffold:Scaffold",
        link="https://arxiv.org/abs/1910.06378",
    ),
    Entry("moon", "MOON", "Li et al., CVPR 2021", "moon:Moon", link="https://arxiv.org/abs/2103.16257"),
    Entry(
        "fedgen",
        "FedGen",
        "Zhu et al., ICML 2021",
        "fedgen:FedGen",
        link="https://proceedings.mlr.press/v139/zhu21b.html",
    ),
    Entry("fedcm", "FedCM", "Xu et al., 2021", "fedcm:FedCM", link="https://arxiv.org/abs/2106.10874"),
    Entry(
        "feddecorr",
        "FedDecorr",
        "Shi et al., ICLR 2023",
        "feddecorr:FedDecorr",
        link="https://arxiv.org/abs/2210.00226",
    ),
    Entry("fedntd", "FedNTD", "Lee et al., NeurIPS 2022", "fedntd:FedNTD", link="https://arxiv.org/abs/2106.03097"),
    # fairness and robustness
    Entry("afl", "AFL", "Mohri et al., ICML 2019", "afl:AFL", link="https://arxiv.org/abs/1902.00146"),
    Entry("q-ffl", "q-FFL", "Li et al., ICLR 2020", "qffl:QFFL", link="https://arxiv.org/abs/1905.10497"),
    Entry(
        "groupdro", "GroupDRO", "Sagawa et al., ICLR 2020", "groupdro:GroupDRO", link="https://arxiv.org/abs/1911.08731"
    ),
    # mixing and alignment
    Entry("fedmix", "FedMix", "Yoon et al., ICLR 2021", "fedmix:FedMix", link="https://arxiv.org/abs/2107.00233"),
    Entry("dann", "DANN", "Ganin et al., JMLR 2016", "dann:DANN", link="https://arxiv.org/abs/1505.07818"),
    Entry("vhl", "VHL", "Tang et al., ICML 2022", "vhl:VHL", link="https://arxiv.org/abs/2206.02465"),
    # personalised
    Entry("local", "Local", "no federation", "local:Local", "own model"),
    Entry(
        "fedavgft",
        "FedAvgFT",
        "McMahan et al., AISTATS 2017, fine-tuned",
        "fedavgft:FedAvgFT",
        "global model after local fine-tuning",
        link="https://arxiv.org/abs/1602.05629",
    ),
    Entry(
        "per-fedavg",
        "Per-FedAvg",
        "Fallah et al., NeurIPS 2020",
        "perfedavg:PerFedAvg",
        "global model after one local step",
        link="https://arxiv.org/abs/2002.07948",
    ),
    Entry(
        "pfedme",
        "pFedMe",
        "Dinh et al., NeurIPS 2020",
        "pfedme:PFedMe",
        "personal model",
        link="https://arxiv.org/abs/2006.08848",
    ),
    Entry(
        "ditto",
        "Ditto",
        "Li et al., ICML 2021",
        "ditto:Ditto",
        "personal model",
        link="https://arxiv.org/abs/2012.04221",
    ),
    Entry(
        "apfl",
        "APFL",
        "Deng et al., 2020",
        "apfl:APFL",
        "mixture of own and global model",
        link="https://arxiv.org/abs/2003.13461",
    ),
    Entry(
        "fedphp",
        "FedPHP",
        "Li et al., ECML-PKDD 2021",
        "fedphp:FedPHP",
        "historical private model",
        link="https://doi.org/10.1007/978-3-030-86486-6_36",
    ),
    Entry(
        "fedper",
        "FedPer",
        "Arivazhagan et al., 2019",
        "fedper:FedPer",
        "global base, own head",
        link="https://arxiv.org/abs/1912.00818",
    ),
    Entry(
        "fedrep",
        "FedRep",
        "Collins et al., ICML 2021",
        "fedrep:FedRep",
        "global base, own head",
        link="https://arxiv.org/abs/2102.07078",
    ),
    Entry(
        "lg-fedavg",
        "LG-FedAvg",
        "Liang et al., 2020",
        "lgfedavg:LGFedAvg",
        "own base, global head",
        link="https://arxiv.org/abs/2001.01523",
    ),
    Entry(
        "fedrod",
        "FedRoD",
        "Chen and Chao, ICLR 2022",
        "fedrod:FedRoD",
        "global base, sum of global and own head",
        link="https://openreview.net/forum?id=I1hQbx10Kxn",
    ),
    Entry(
        "fedbabu",
        "FedBABU",
        "Oh et al., ICLR 2022",
        "fedbabu:FedBABU",
        "global model after local fine-tuning",
        link="https://arxiv.org/abs/2106.06042",
    ),
    Entry(
        "fedfomo",
        "FedFomo",
        "Zhang et al., ICLR 2021",
        "fedfomo:FedFomo",
        "own model",
        link="https://arxiv.org/abs/2012.08565",
    ),
    Entry(
        "apple",
        "APPLE",
        "Luo and Wu, IJCAI 2022",
        "apple:Apple",
        "own mixture of all core models",
        link="https://doi.org/10.24963/ijcai.2022/301",
    ),
    Entry(
        "fedpac",
        "FedPAC",
        "Xu et al., ICLR 2023",
        "fedpac:FedPAC",
        "global base, own combined head",
        link="https://openreview.net/forum?id=SXZr8aDKia",
    ),
    Entry(
        "fedproto",
        "FedProto",
        "Tan et al., AAAI 2022",
        "fedproto:FedProto",
        "own base, nearest global prototype",
        link="https://ojs.aaai.org/index.php/AAAI/article/view/20819",
    ),
    # the papers' own; DBE and FedBR are plug-ins on FedAvg
    Entry(
        "gpfl",
        "GPFL",
        "Zhang et al., ICCV 2023",
        "gpfl:GPFL",
        "global base and valve, own head",
        link="https://arxiv.org/abs/2308.10279",
    ),
    Entry(
        "pfedfda",
        "pFedFDA",
        "McLaughlin and Su, NeurIPS 2024",
        "pfedfda:PFedFDA",
        "global base, own Gaussian classifier",
        link="https://arxiv.org/abs/2411.00329",
    ),
    Entry(
        "grp-fed",
        "GRP-FED",
        "Chou et al., 2021",
        "grpfed:GRPFED",
        "own extractor under the global classifier",
        link="https://arxiv.org/abs/2108.13858",
    ),
)

_MR_HOSTS = ("fedavg", "ditto", "apfl", "fedper", "fedrep", "fedrod", "fedbabu", "fedfomo")
_FEDBR_HOSTS = ("fedavg", "fedcm", "feddecorr", "fedntd")
_MIXUP_HOSTS = ("fedavg", "moon", "fedcm", "feddecorr", "fedntd", "groupdro", "vhl")
# In the order in which they are put on a host.
PLUGINS: dict[str, Entry] = _methods(
    Entry(
        "mixup",
        "Mixup",
        "Zhang et al., ICLR 2018",
        "mixup:Mixup",
        "",
        _MIXUP_HOSTS,
        link="https://arxiv.org/abs/1710.09412",
    ),
    Entry(
        "fedbr",
        "FedBR",
        "Guo et al., ICML 2023",
        "fedbr:FedBR",
        "",
        _FEDBR_HOSTS + tuple(f"{host}+mixup" for host in _FEDBR_HOSTS),
        link="https://arxiv.org/abs/2205.13462",
    ),
    Entry(
        "dbe",
        "DBE",
        "Zhang et al., NeurIPS 2023",
        "dbe:DBE",
        "",
        ("fedavg", "fedprox", "scaffold", "moon", "fedgen"),
        link="https://arxiv.org/abs/2311.14975",
    ),
    Entry(
        "prbm",
        "PRBM",
        "Zhang et al., NeurIPS 2023",
        "dbe:PRBM",
        "",
        ("fedavg",),
        link="https://arxiv.org/abs/2311.14975",
    ),
    Entry("mr", "MR", "Zhang et al., NeurIPS 2023", "dbe:MR", "", _MR_HOSTS, link="https://arxiv.org/abs/2311.14975"),
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
VARIANTS: dict[str, Entry] = _methods(
    Entry(
        "apfl/platform",
        "APFL",
        "Deng et al., 2020",
        "variants.apfl:PlatformAPFL",
        "mixture of own and global model",
        differs="own and global model each on their own loss, mixed for good at the end of the round, a share that adapts from 1 [LIB]",
    ),
    Entry(
        "dann/fedbr",
        "DANN",
        "Guo et al., ICML 2023",
        "variants.dann:FedBRDANN",
        differs="its labels are places in the cohort, and later rounds begin with a step of the discriminator [BR-code]",
    ),
    Entry(
        "fedcm/fedbr",
        "FedCM",
        "Guo et al., ICML 2023",
        "variants.fedcm:FedBRFedCM",
        differs="the direction is mixed into the momentum buffer itself, and divided by the run's number of steps [BR-code]",
    ),
    Entry(
        "fedmix/fedbr",
        "FedMix",
        "Guo et al., ICML 2023",
        "variants.fedmix:FedBRFedMix",
        differs="new averages at every step, the same for all clients; the third term over the batch's size once more [BR-code]",
    ),
    Entry(
        "fedphp/platform",
        "FedPHP",
        "Li et al., ECML-PKDD 2021",
        "variants.fedphp:PlatformFedPHP",
        "mixture of last own and global model",
        differs="training starts from the mixture that is tested, the teacher is the received model, the regulariser the MMD [LIB]",
    ),
    Entry(
        "gpfl/without-cov",
        "GPFL w/o CoV",
        "Zhang et al., ICCV 2023",
        "variants.gpfl:WithoutCoV",
        "global base, own head",
        differs="no conditional valve: both routes have the features themselves",
    ),
    Entry(
        "gpfl/without-gce",
        "GPFL w/o GCE",
        "Zhang et al., ICCV 2023",
        "variants.gpfl:WithoutGCE",
        "global base and valve, own head",
        differs="no category embeddings, so no guidance; the valve's condition is p = (1..1)",
    ),
    Entry(
        "gpfl/without-mlg",
        "GPFL w/o L_mlg",
        "Zhang et al., ICCV 2023",
        "variants.gpfl:WithoutMLG",
        "global base and valve, own head",
        differs="no magnitude guidance, as with guidance=0",
    ),
    Entry(
        "gpfl/without-pci",
        "GPFL w/o PCI",
        "Zhang et al., ICCV 2023",
        "variants.gpfl:WithoutPCI",
        "global base and valve, own head",
        differs="no personalised conditions: p = (1..1) and g = (0..0) for all clients",
    ),
    Entry(
        "groupdro/fedbr",
        "GroupDRO",
        "Guo et al., ICML 2023",
        "variants.groupdro:FedBRGroupDRO",
        differs="weights and momentum belong to places in the cohort, and the momentum goes on from round to round [BR-code]",
    ),
    Entry(
        "moon/fedbr",
        "Moon",
        "Guo et al., ICML 2023",
        "variants.moon:FedBRMoon",
        differs="the head reads a projection, which is compared; the base of the previous model stays the initial one [BR-code]",
    ),
    Entry(
        "vhl/fedbr",
        "VHL",
        "Guo et al., ICML 2023",
        "variants.vhl:FedBRVHL",
        differs="no further outputs; logits are aligned, in all epochs, and real samples with real ones alone [BR-code]",
    ),
)


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


def options_of(name: str) -> dict[str, Domain]:
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
