"""What is run: frozen, typed, validated descriptions of one training run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Unpack

from pflrepro.algorithms.registry import build_method, canonical_name, name_of, options_of
from pflrepro.checked import MOST, domains
from pflrepro.data.datasets import find
from pflrepro.data.own import PRESET, is_own
from pflrepro.data.partitions.kind import Spec
from pflrepro.data.partitions.parse import parse
from pflrepro.errors import OtherVersion, UserError, check_range, check_word, in_short, is_several, plain
from pflrepro.experiments.files import canonical_json
from pflrepro.experiments.overrides import Overrides, spelt_out
from pflrepro.markup import Brief, facts
from pflrepro.models.registry import canonical
from pflrepro.settings import Settings

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method

Options = tuple[tuple[str, Any], ...]
DTYPES = ("float32", "float64")
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, repr=False)
class DataConfig(Brief):
    """Whose data: a data set and how it is spread over clients.

    Attributes:
        dataset: a name in `pflrepro.data.datasets.DATASETS`, or `file:FILE.npz`, see `pflrepro.data.own`.
        partition: `name:argument`, see `pflrepro.data.partition.PARTITIONS`; Dirichlet 0.1 is the papers' practical setting [GPFL].
        clients: N; 20 [DBE, GPFL].
        partition_seed: apart from the run's seed; the papers build one partition, with seed 1, for all trials [LIB].
        min_size: least samples of a client; None: the partition's own rule.
        test_share: of each client's samples; 0.25 [DBE, GPFL].
        proxy: a data set of equally shaped samples that methods may hand to all clients (FedBR's pseudo-data); "" for none.
    """

    dataset: str
    partition: str = "dirichlet:0.1"
    clients: int = 20
    partition_seed: int = 1
    min_size: int | None = None
    test_share: float = 0.25
    proxy: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.partition, Spec):
            _set(self, {"partition": str(self.partition)})
        _check_words(self)
        self._normalise()
        # A file is opened where its samples are needed: a stored run names one that may be gone.
        officially = not is_own(self.dataset) and find(self.dataset).tested_officially
        if self.proxy and not is_own(self.proxy):
            find(self.proxy)
        spec = parse(self.partition)
        if spec.validation and officially:
            raise UserError(
                f"+validation is not for {self.dataset!r}, whose clients are tested on the official test samples"
            )
        _set(self, {"partition": str(spec)})

    @property
    def measured(self) -> str:
        """What an accuracy on it is: with `+validation` one on training samples that are held out."""
        return "validation accuracy" if parse(self.partition).validation else "test accuracy"

    def _normalise(self) -> None:
        checked = {
            "clients": check_range("clients", self.clients, 1, MOST, integer=True),
            "partition_seed": check_range("partition seed", self.partition_seed, 0, _LARGEST_SEED, integer=True),
            "test_share": float(check_range("test share", self.test_share, 0, 1, open_low=True, open_high=True)),
        }
        if self.min_size is not None:
            checked["min_size"] = check_range("least samples of a client", self.min_size, 0, integer=True)
        _set(self, checked)


@dataclass(frozen=True, repr=False)
class Experiment(Brief):
    """One run: a method on data, with one seed. Checked on construction; every wrong value is a one-line `UserError`.

    Attributes:
        algorithm: `fedavg`, `fedavg+dbe`, `my_module:MyMethod`; a class is taken by this name.
        options: the method's own settings, as pairs or a mapping.
        model: a name in `pflrepro.models.MODELS`, with `@layer` cut elsewhere, or `my_module:function`, see `pflrepro.models.own`.
        settings: the protocol.
        seed: of everything but the partition.
        dtype: `float32` or `float64`.
    """

    algorithm: str
    data: DataConfig
    model: str
    settings: Settings = field(default_factory=Settings)
    options: Options = ()
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithm", name_of(self.algorithm))
        _check_words(self)
        self._normalise()
        object.__setattr__(self, "model", canonical(self.model))
        self.method()
        object.__setattr__(self, "algorithm", canonical_name(self.algorithm))

    @classmethod
    @spelt_out(Overrides)
    def for_dataset(
        cls,
        algorithm: str | type[Method],
        dataset: str,
        *,
        options: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        **overrides: Unpack[Overrides],
    ) -> Experiment:
        """An experiment with the data set's preset (network, partition, settings).

        Args:
            overrides: any field of `Settings`, of `DataConfig`, or `model`, `seed`, `dtype`; what is not given is the preset's.

        Example:
            >>> experiment = Experiment.for_dataset("fedavg+dbe", "digits", partition="dirichlet:0.1", clients=5, lr=0.02)
            >>> experiment.algorithm, experiment.model, experiment.data.clients, experiment.settings.lr
            ('fedavg+dbe', 'cnn-digits', 5, 0.02)
        """
        preset = PRESET if is_own(dataset) else find(dataset).preset  # of a file, even where it is gone
        of_data = {f.name for f in fields(DataConfig)} - {"dataset"}
        of_run, of_settings = {"model", "seed", "dtype"}, {f.name for f in fields(Settings)}
        for name, value in overrides.items():
            if name not in of_data | of_run | of_settings and name in options_of(name_of(algorithm)):
                raise UserError(
                    f"{name} is an option of {name_of(algorithm)}, not a setting: options={{{name!r}: {value!r}}}"
                )
            check_word("setting", name, of_data | of_run | of_settings)
        own = parse(overrides.get("partition", preset.partition)).own_minimum
        min_size = None if own else preset.min_size
        preset_data = {name: getattr(preset, name) for name in ("partition", "clients", "test_share")}
        values = preset_data | {"min_size": min_size, "model": preset.model} | overrides
        settings = replace(preset.settings, **_chosen(overrides, of_settings))
        data = DataConfig(dataset, **_chosen(values, of_data))
        return cls(algorithm, data, settings=settings, options=options, **_chosen(values, of_run))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, recorded: Mapping[str, Any] | None = None) -> Experiment:
        """The experiment that `to_dict` describes; `UserError` for unknown or missing fields.

        Args:
            recorded: the identity of a run that was made, whose names were checked then: no method or module is looked up. It may have
                been made by another version: a field that is lacking is at its default, and one that is not known here was, where it
                is no part of the identity; `OtherVersion` where it is.
        """
        parts = {"data": DataConfig, "settings": Settings}
        if not isinstance(values, Mapping) or not all(isinstance(values.get(part), Mapping) for part in parts):
            raise UserError("an experiment is described by its fields, `data` and `settings` by their own")
        if recorded is None:
            return _from_fields(cls, {**values, **{part: _from_fields(parts[part], values[part]) for part in parts}})
        inner = {part: _recorded(kind, values[part], recorded.get(part)) for part, kind in parts.items()}
        return _recorded(cls, {**values, **inner}, recorded)

    def to_dict(self) -> dict[str, Any]:
        """All fields in JSON's types; options as an object."""
        return asdict(self) | {"options": dict(self.options)}

    def canonical(self) -> str:
        """Canonical JSON: equal experiments, and only these, have equal texts."""
        return canonical_json(self.to_dict())

    def changed(self, **fields: Any) -> Experiment:
        """The same with other fields; names are not looked up again, so that it works for a run of a module that is gone.

        A setting (`rounds`, say) is no field: see `with_settings`; `UserError` for what is none.
        """
        _check_fields(Experiment, fields)
        made = object.__new__(Experiment)
        _set(made, vars(self) | fields)
        made._normalise()
        return made

    def with_settings(self, **changes: Any) -> Experiment:
        """The same with other settings; `UserError` for what is none."""
        _check_fields(Settings, changes)
        return self.changed(settings=replace(self.settings, **changes))

    @property
    def command(self) -> str:
        """The command that runs it."""
        preset = Experiment.for_dataset("fedavg", self.data.dataset)
        words = ["pflrepro", "run", "--algorithm", self.algorithm, "--dataset", self.data.dataset]
        words += ["--model", self.model] if self.model != preset.model else []
        words += ["--dtype", self.dtype] if self.dtype != preset.dtype else []
        data = preset.data
        if self.data.partition != data.partition:
            words += ["--partition", self.data.partition]  # one that is named may bring its own least size of a client
            data = Experiment.for_dataset("fedavg", self.data.dataset, partition=self.data.partition).data
        for own, usual in ((self.data, data), (self.settings, preset.settings)):
            for name, value in vars(own).items():
                words += _option(name, value) if value != getattr(usual, name) else []
        for name, value in self.options:
            words += ["--option", f"{name}={value}"]
        words += ["--first-seed", str(self.seed)] if self.seed else []
        return shlex.join(words)

    def method(self) -> Method:
        """The method with its options."""
        return build_method(self.algorithm, dict(self.options))

    def _repr_html_(self) -> str:
        data = {name: value for name, value in vars(self.data).items() if name != "dataset" and value not in (None, "")}

        def listed(values: Mapping[str, Any]) -> str:
            return ", ".join(f"{name}={value}" for name, value in values.items())

        return facts(
            "experiment",
            {
                "method": self.algorithm,
                "options": listed(dict(self.options)) or "the method's own",
                "data": f"{self.data.dataset}, {listed(data)}",
                "network": f"{self.model}, {self.dtype}",
                "protocol": f"{listed(self.settings.differing()) or 'the default'} (.settings has all)",
                "seed": self.seed,
            },
        )

    def _normalise(self) -> None:
        seed = check_range("seed", self.seed, 0, _LARGEST_SEED, integer=True)
        _set(self, {"seed": seed, "options": _sorted_options(self.options)})
        for name, kind in (("data", DataConfig), ("settings", Settings)):
            if not isinstance(getattr(self, name), kind):
                raise UserError(f"{name} must be a {kind.__name__}, not {getattr(self, name)!r}")
        check_word("number type", self.dtype, DTYPES)


def check_experiment(experiment: Any, taken: str) -> None:
    """`UserError` for what is no experiment; `taken` says what the caller takes."""
    if not isinstance(experiment, Experiment):
        raise UserError(f"{taken}, not {type(experiment).__name__} {in_short(experiment)}")


def _chosen(values: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def _check_fields(cls: type, given: Iterable[Any]) -> set[str]:
    """The names of all fields; `UserError` for one in `given` that is none."""
    names = {f.name for f in fields(cls)}
    for name in given:
        check_word(f"field of {cls.__name__}", str(name), names)
    return names


def _recorded(cls: type, values: Mapping[str, Any], identity: Any) -> Any:
    """What a run was made with, nothing looked up; `identity`: the part of its identity that holds these fields, if any."""
    known = {f.name: f for f in fields(cls)}
    for name in set(values) - set(known):
        if isinstance(identity, Mapping) and name in identity:
            raise OtherVersion(f"its {name} is not known to this version of pflrepro")
    values = {name: value for name, value in values.items() if name in known}
    if cls is Settings:
        return _from_fields(cls, values)
    given = {name: f.default for name, f in known.items() if f.default is not MISSING} | values
    lacking = sorted(set(known) - set(given))
    if lacking:
        raise UserError(f"{cls.__name__} lacks {lacking[0]}")
    made = object.__new__(cls)
    _set(made, given)
    _check_words(made)
    made._normalise()
    return made


def _from_fields(cls: type, values: Mapping[str, Any]) -> Any:
    _check_fields(cls, values)
    try:
        return cls(**values)
    except TypeError as error:
        raise UserError(f"{cls.__name__}: {error}") from None


def _check_words(config: Any) -> None:
    """`UserError` for a field that is no text where one belongs: names are looked up, or recorded, as texts."""
    for name, domain in domains(type(config)).items():
        if domain.kind is str:
            domain.check(name, getattr(config, name))


def _sorted_options(options: Any) -> Options:
    if not is_several(options):
        raise UserError(f"options are pairs of a name and a value, not {options!r}")
    checked: list[tuple[str, Any]] = []
    for pair in options.items() if isinstance(options, Mapping) else options:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise UserError(f"options are pairs of a name and a value, not {pair!r}")
        name, value = pair[0], plain(pair[1])
        if not name.isidentifier():
            raise UserError(f"no option has the name {name!r}")
        if not isinstance(value, (bool, int, float, str)):
            raise UserError(f"option {name} must be a number, a word, true or false, not {value!r}")
        if isinstance(value, float):
            check_range(f"option {name}", value)
        checked.append((name, _positive_zero(value)))
    names = [name for name, _ in checked]
    if len(set(names)) != len(names):
        raise UserError(f"each option can be given once, not {', '.join(names)}")
    return tuple(sorted(checked))


def _positive_zero(value: Any) -> Any:
    """-0.0 as 0.0: they train alike and must not have two identities."""
    return value + 0.0 if isinstance(value, float) else value


def _set(target: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)


def _option(name: str, value: Any) -> list[str]:
    """A setting as `pflrepro run` takes it."""
    flag = name.replace("_", "-")
    if name == "min_size" and value is None:
        return ["--min-size", "own"]
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [] if value is None or value == "" else [f"--{flag}", str(value)]
