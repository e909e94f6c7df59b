"""The table of methods, plug-ins and variants by name, and which combinations no paper defines."""

from __future__ import annotations

from dataclasses import dataclass

ARXIV = "https://arxiv.org/abs/"


@dataclass(frozen=True)
class Entry:
    """A registered method or plug-in.

    Attributes:
        name: as typed.
        title: as printed in the papers.
        paper: where it comes from.
        path: `module:Class`.
        tested: which model its number is taken from.
        hosts: for a plug-in, the methods that a paper combines it with.
        differs: for a variant, what it does otherwise than the method before the slash of its name.
        link: to the paper.
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
    Entry("fedavg", "FedAvg", "McMahan et al., AISTATS 2017", "fedavg:FedAvg", link=ARXIV + "1602.05629"),
    Entry("fedprox", "FedProx", "Li et al., MLSys 2020", "fedprox:FedProx", link=ARXIV + "1812.06127"),
    Entry("scaffold", "SCAFFOLD", "Karimireddy et al., ICML 2020", "scaffold:Scaffold", link=ARXIV + "1910.06378"),
    Entry("moon", "MOON", "Li et al., CVPR 2021", "moon:Moon", link=ARXIV + "2103.16257"),
    Entry(
        "fedgen",
        "FedGen",
        "Zhu et al., ICML 2021",
        "fedgen:FedGen",
        link="https://proceedings.mlr.press/v139/zhu21b.html",
    ),
    Entry("fedcm", "FedCM", "Xu et al., 2021", "fedcm:FedCM", link=ARXIV + "2106.10874"),
    Entry("feddecorr", "FedDecorr", "Shi et al., ICLR 2023", "feddecorr:FedDecorr", link=ARXIV + "2210.00226"),
    Entry("fedntd", "FedNTD", "Lee et al., NeurIPS 2022", "fedntd:FedNTD", link=ARXIV + "2106.03097"),
    # fairness and robustness
    Entry("afl", "AFL", "Mohri et al., ICML 2019", "afl:AFL", link=ARXIV + "1902.00146"),
    Entry("q-ffl", "q-FFL", "Li et al., ICLR 2020", "qffl:QFFL", link=ARXIV + "1905.10497"),
    Entry("groupdro", "GroupDRO", "Sagawa et al., ICLR 2020", "groupdro:GroupDRO", link=ARXIV + "1911.08731"),
    # mixing and alignment
    Entry("fedmix", "FedMix", "Yoon et al., ICLR 2021", "fedmix:FedMix", link=ARXIV + "2107.00233"),
    Entry("dann", "DANN", "Ganin et al., JMLR 2016", "dann:DANN", link=ARXIV + "1505.07818"),
    Entry("vhl", "VHL", "Tang et al., ICML 2022", "vhl:VHL", link=ARXIV + "2206.02465"),
    # personalised
    Entry("local", "Local", "no federation", "local:Local", "own model"),
    Entry(
        "fedavgft",
        "FedAvgFT",
        "McMahan et al., AISTATS 2017, fine-tuned",
        "fedavgft:FedAvgFT",
        "global model after local fine-tuning",
        link=ARXIV + "1602.05629",
    ),
    Entry(
        "per-fedavg",
        "Per-FedAvg",
        "Fallah et al., NeurIPS 2020",
        "perfedavg:PerFedAvg",
        "global model after one local step",
        link=ARXIV + "2002.07948",
    ),
    Entry(
        "pfedme", "pFedMe", "Dinh et al., NeurIPS 2020", "pfedme:PFedMe", "personal model", link=ARXIV + "2006.08848"
    ),
    Entry("ditto", "Ditto", "Li et al., ICML 2021", "ditto:Ditto", "personal model", link=ARXIV + "2012.04221"),
    Entry(
        "apfl", "APFL", "Deng et al., 2020", "apfl:APFL", "mixture of own and global model", link=ARXIV + "2003.13461"
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
        link=ARXIV + "1912.00818",
    ),
    Entry(
        "fedrep",
        "FedRep",
        "Collins et al., ICML 2021",
        "fedrep:FedRep",
        "global base, own head",
        link=ARXIV + "2102.07078",
    ),
    Entry(
        "lg-fedavg",
        "LG-FedAvg",
        "Liang et al., 2020",
        "lgfedavg:LGFedAvg",
        "own base, global head",
        link=ARXIV + "2001.01523",
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
        link=ARXIV + "2106.06042",
    ),
    Entry("fedfomo", "FedFomo", "Zhang et al., ICLR 2021", "fedfomo:FedFomo", "own model", link=ARXIV + "2012.08565"),
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
        link=ARXIV + "2308.10279",
    ),
    Entry(
        "pfedfda",
        "pFedFDA",
        "McLaughlin and Su, NeurIPS 2024",
        "pfedfda:PFedFDA",
        "global base, own Gaussian classifier",
        link=ARXIV + "2411.00329",
    ),
    Entry(
        "grp-fed",
        "GRP-FED",
        "Chou et al., 2021",
        "grpfed:GRPFED",
        "own extractor under the global classifier",
        link=ARXIV + "2108.13858",
    ),
)

_MR_HOSTS = ("fedavg", "ditto", "apfl", "fedper", "fedrep", "fedrod", "fedbabu", "fedfomo")
_FEDBR_HOSTS = ("fedavg", "fedcm", "feddecorr", "fedntd")
_MIXUP_HOSTS = ("fedavg", "moon", "fedcm", "feddecorr", "fedntd", "groupdro", "vhl")
# In the order in which they are put on a host.
PLUGINS: dict[str, Entry] = _methods(
    Entry("mixup", "Mixup", "Zhang et al., ICLR 2018", "mixup:Mixup", "", _MIXUP_HOSTS, link=ARXIV + "1710.09412"),
    Entry(
        "fedbr",
        "FedBR",
        "Guo et al., ICML 2023",
        "fedbr:FedBR",
        "",
        _FEDBR_HOSTS + tuple(f"{host}+mixup" for host in _FEDBR_HOSTS),
        link=ARXIV + "2205.13462",
    ),
    Entry(
        "dbe",
        "DBE",
        "Zhang et al., NeurIPS 2023",
        "dbe:DBE",
        "",
        ("fedavg", "fedprox", "scaffold", "moon", "fedgen"),
        link=ARXIV + "2311.14975",
    ),
    Entry("prbm", "PRBM", "Zhang et al., NeurIPS 2023", "dbe:PRBM", "", ("fedavg",), link=ARXIV + "2311.14975"),
    Entry("mr", "MR", "Zhang et al., NeurIPS 2023", "dbe:MR", "", _MR_HOSTS, link=ARXIV + "2311.14975"),
)

METHOD_PLUGINS = ("dbe", "fedbr", "mixup")  # methods of their own in the papers' tables, where they stand on FedAvg
ALIASES = {name: f"fedavg+{name}" for name in PLUGINS}

_NOT_PLAIN = "its local steps are not plain SGD on one loss [DBE section 5.2.3]"
_NO_MODEL = "its server holds no model to take the feature means with, and no paper defines it"
_LABELS = "it sorts samples by their label, and a mixed sample has two"
_TWO_BASES = "its clients train two bases, and no paper says behind which one the personal bias stands"
_SENDS_MODELS = "its server hands clients' whole models to others, and the personal bias never leaves its client"
_NOT_SENT = "its clients keep their bases, and mean regularisation acts on the one that they send"
_NOT_BETWEEN = (
    "the round before the first one, which gives the mean of the features, trains base and head alone, without the {} that this "
    "method puts between them"
)
_BIASED_MEANS = "its clients send the means of the features that its head reads, and with the bias in them it would leave its client"
_HEADLESS = "its prediction compares the features themselves with prototypes, and the bias acts on the head alone"
_HALVES = "it splits every batch in halves of its own"
_OWN_BASES = "its clients keep their bases, and FedBR is about the one that they share"
_OWN_STEPS = "its local steps are not plain SGD on one loss, and no paper says where FedBR's two steps go"
_OWN_DATA = "it hands data of its own to the clients"
# (plug-in, host) -> why no such combination is made; what a method refuses, its variants refuse, too.
REFUSED = (
    {(plugin, host): _NOT_PLAIN for plugin in ("mr", "dbe") for host in ("per-fedavg", "pfedme", "apple")}
    | {(plugin, host): _NO_MODEL for plugin in ("mr", "dbe") for host in ("fedpac", "pfedfda")}
    | {(plugin, host): _NOT_SENT for plugin in ("mr", "dbe") for host in ("local", "lg-fedavg", "fedproto")}
    | {(plugin, "gpfl"): _NOT_BETWEEN.format("valve") for plugin in ("mr", "dbe")}
    | {(plugin, "moon/fedbr"): _NOT_BETWEEN.format("projection") for plugin in ("mr", "dbe")}
    | {("prbm", "apple"): _NO_MODEL, ("prbm", "pfedfda"): _BIASED_MEANS, ("prbm", "fedproto"): _HEADLESS}
    | {(plugin, "fedfomo"): _SENDS_MODELS for plugin in ("prbm", "dbe")}
    | {("mixup", host): _LABELS for host in ("fedgen", "fedproto", "fedpac", "gpfl", "pfedfda")}
    | {("mixup", host): _HALVES for host in ("per-fedavg", "dann")}
    | {(plugin, host): _TWO_BASES for plugin in ("prbm", "dbe") for host in ("ditto", "apfl", "grp-fed")}
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
