"""What makes two runs the same run: the method and its options, the data, the network, the protocol, the seed, the code.

How much of a run is asked for (rounds, stop rule, how often it is tested) is no part of it, except where a method or the protocol
knows the number of rounds. So a longer run is the shorter one gone on, and `fast` is the beginning of `paper`. What is at its default
is left out: an option that is added later, at a default that changes nothing, leaves every run its identity. Whoever changes what a
default means raises the method's `revision`, or the engine's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.algorithms.registry import build_method, revision
from pflrepro.data.own import is_own, without_folder
from pflrepro.data.partitions.given import Counts, File, read_rows
from pflrepro.data.partitions.parse import parse
from pflrepro.data.published import published_counts, read_counts
from pflrepro.experiments.config import DataConfig, Experiment, check_experiment
from pflrepro.experiments.files import canonical_json
from pflrepro.experiments.fingerprints import remembered_fingerprint
from pflrepro.experiments.loading import Stamp, arrays_of, place_of
from pflrepro.experiments.source import code_of
from pflrepro.models.own import is_own as is_own_network
from pflrepro.models.own import own_function
from pflrepro.models.registry import find as find_network
from pflrepro.settings import RUN_LENGTH
from pflrepro.simulation import ENGINE_REVISION

if TYPE_CHECKING:
    import numpy as np

ID_LENGTH = 16  # hex digits: 64 bits, a chance of 1e-10 of two equal ids among 50,000 runs
_fingerprints: dict[tuple[str, str, Stamp], str] = {}


@dataclass(frozen=True)
class Job:
    """One run to be made: its id, what is run, and the identity that the id is the digest of."""

    id: str
    experiment: Experiment
    identity: dict[str, Any]

    @property
    def pack(self) -> str:
        """Equal for jobs that differ only in the seed."""
        return replace(self.experiment, seed=0).canonical()


def identity(experiment: Experiment, fingerprint: str) -> dict[str, Any]:
    """All that decides the numbers of a run, in JSON's types; `fingerprint`: of its data."""
    data, content = _differing(experiment.data), partition_content(experiment.data.partition)
    if content is not None:
        data["partition"] = content
    data |= {
        name: "file" for name in ("dataset", "proxy") if is_own(data.get(name, ""))
    }  # whose content is the fingerprint
    found = {
        "algorithm": experiment.algorithm,
        "options": _differing(experiment.method()),
        "model": experiment.model,
        "data": data,
        "settings": lasting_settings(experiment),
        "seed": experiment.seed,
        "dtype": experiment.dtype,
        "fingerprint": fingerprint,
        "engine_revision": ENGINE_REVISION,
        "method_revision": revision(experiment.algorithm),
    }
    if (source := user_source(experiment.algorithm)) is not None:
        found["source"] = source
    if is_own_network(experiment.model):
        found["model_source"] = code_of(own_function(find_network(experiment.model)[0].name))
    return found


def lasting_settings(experiment: Experiment) -> dict[str, Any]:
    """The settings that decide numbers: those not at their defaults, without how much of the run is asked for.

    Of a run with a horizon the number of rounds is among them, given or not.
    """
    lasting = {name: value for name, value in experiment.settings.differing().items() if name not in RUN_LENGTH}
    return lasting | {"rounds": experiment.settings.rounds} if has_horizon(experiment) else lasting


def has_horizon(experiment: Experiment) -> bool:
    """Whether the numbers of the first rounds depend on how many rounds there are: such a run neither grows nor is cut."""
    return experiment.settings.closing or experiment.method().knows_rounds


def identity_digest(identity: Mapping[str, Any]) -> str:
    """The id that belongs to an identity: the first hex digits of the SHA-256 of its canonical text."""
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()[:ID_LENGTH]


def run_id(experiment: Experiment, data_root: str | Path | None = None) -> str:
    """The id of the experiment's run with the data of this data root; `MissingData` if they are not there."""
    check_experiment(experiment, "a run is found by its experiment")
    return identity_digest(identity(experiment, fingerprint_of(experiment.data, data_root)))


def fingerprint_of(data: DataConfig, data_root: str | Path | None = None) -> str:
    """The fingerprint of the data set, and behind a `+` that of the proxy data where there are some."""
    names = [data.dataset, data.proxy] if data.proxy else [data.dataset]
    return "+".join(data_fingerprint(name, data_root) for name in names)


def data_fingerprint(dataset: str, data_root: str | Path | None = None) -> str:
    """`Arrays.fingerprint` of a data set, remembered as long as its file does not change."""
    place = place_of(dataset, data_root)
    if place not in _fingerprints:
        _fingerprints[place] = remembered_fingerprint(*place, lambda: arrays_of(dataset, data_root).fingerprint())
    return _fingerprints[place]


def _differing(described: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their defaults, by name; those without a default always."""
    values = {field.name: (getattr(described, field.name), field.default) for field in fields(described)}
    return {name: value for name, (value, default) in values.items() if value != default}


def partition_content(text: str) -> str | None:
    """`kind:sha256:...` of the decoded arrays, and the options, for a partition that is read from a file; None for one drawn."""
    spec = parse(text)
    if isinstance(spec, Counts):
        counts = read_counts(spec.source) if spec.is_file else published_counts(spec.source)
        return f"counts:sha256:{_hash([counts])}{spec.options}"
    if isinstance(spec, File):
        return f"file:sha256:{_hash(_read_partition(Path(spec.path)))}{spec.options}"
    return None


def written_down(experiment: Experiment) -> dict[str, Any]:
    """The experiment as a store keeps it: without the folder of a file, so that it names no place on this machine."""
    described = experiment.to_dict()
    described["data"]["partition"] = without_path(experiment.data.partition)
    described["data"] |= {name: without_folder(getattr(experiment.data, name)) for name in ("dataset", "proxy")}
    return described


def without_path(text: str) -> str:
    """A partition's text with a file's folder left out."""
    spec = parse(text)
    if isinstance(spec, File) or (isinstance(spec, Counts) and spec.is_file):
        return f"{spec.kind}:{Path(spec.value.replace(chr(92), '/')).name}{spec.options}"
    return text


def user_source(algorithm: str) -> str | None:
    """The digest of the code in use of a user's own method (`module:Class`), see `code_of`; None for the package's methods.

    A method under development has no revision that anyone keeps: its code stands in for it, as it is when a run is asked for.
    """
    host = algorithm.split("+")[0]
    return code_of(type(build_method(host))) if ":" in host else None


def _read_partition(path: Path) -> list[np.ndarray]:
    """`client` and `is_test` of a partition file in one number type, so that equal partitions have one identity."""
    client, is_test = read_rows(path)
    return [client.astype("<i8"), is_test.astype("u1")]


def _hash(arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
