"""Runs of several methods on one setting beside each other: table, curves, paired tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.algorithms.registry import about
from pflrepro.data.datasets import find
from pflrepro.data.own import is_own
from pflrepro.errors import UserError, in_short, is_several
from pflrepro.experiments.files import canonical_json
from pflrepro.experiments.history import moment
from pflrepro.experiments.result import Run
from pflrepro.experiments.runs import Runs
from pflrepro.markup import latex, records
from pflrepro.metrics.accuracy import spread
from pflrepro.metrics.comparison import TURNS, holm, one_number, paired
from pflrepro.metrics.intervals import Interval, over_seeds, over_weighted_clients
from pflrepro.metrics.selection import Selected, check_enough, check_rule
from pflrepro.notebook import display
from pflrepro.style import picture
from pflrepro.viz.lines import Line, LinePanel, at_common_rounds, line_figure, mean_and_spread
from pflrepro.viz.looks import looks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pflrepro.experiments.config import Experiment

ROW_COLUMNS = ("accuracy", "spread", "low", "high", "interval", "seeds", "rounds")
TEST_COLUMNS = ("one", "other", "difference", "p", "adjusted", "test", "pairs")


def compare(runs: Iterable[Run] | Mapping[str, Sequence[Run]], rule: str = "best_round") -> Compared:
    """Runs beside each other, those that differ only in the seed as one line; or as they are grouped, label -> runs, one a seed.

    A run alone stands for a list of it. Raises `UserError` where there are no runs, other things, or two runs of one seed in a group.

    Args:
        rule: what is taken from a curve (`pflrepro.metrics.selection`).

    Example:
        >>> import pflrepro
        >>> methods = [pflrepro.Experiment.for_dataset(name, "digits", clients=5, rounds=2) for name in ("local", "fedavg")]
        >>> compared = compare(pflrepro.run(methods, progress=False))  # three seeds each would be better
        >>> list(compared.table.index), list(compared.table.columns)[:4]
        (['local', 'fedavg'], ['accuracy', 'spread', 'low', 'high'])
    """
    return Compared(runs, rule)


class Compared:
    """What `compare` gives. Accuracies are in per cent.

    Attributes:
        runs: label -> runs, one a seed. A label, where none was given, is the method, and what else of the configuration is not the
            same in all lines.
    """

    def __init__(self, runs: Iterable[Run] | Mapping[str, Sequence[Run]], rule: str = "best_round") -> None:
        self.rule = check_rule(rule)
        self._named = isinstance(runs, Mapping)
        groups = runs if isinstance(runs, Mapping) else _lines(_listed(runs))
        self.runs = {str(label): _listed(group) for label, group in groups.items()}
        for label, each in self.runs.items():
            for run in each:
                check_run(run)
            seeds = [run.experiment.seed for run in each]
            if len({*seeds}) < len(seeds):
                raise UserError(
                    f"{label!r} has several runs of one seed ({', '.join(map(str, seeds))}): they are no group"
                )
        if not self.runs or not all(self.runs.values()):
            raise UserError("there are no runs to compare")
        check_enough(self.rule, min(len(run.curve) for each in self.runs.values() for run in each))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One line a label: mean and population standard deviation over seeds, 95 % interval and of what kind it is, seeds, rounds."""
        import pandas as pd

        return pd.DataFrame([self._line(runs) for runs in self.runs.values()], index=list(self.runs))

    @cached_property
    def tests(self) -> pd.DataFrame:
        """One line a pair of labels: mean difference, its p and Holm's over all pairs, and what was tested.

        Over the seeds that both have, Student's paired t; with one such seed, signs of the clients' differences flipped at random. NaN,
        with the reason, where there is no such seed, where the clients' test samples are not the same, or where all clients share one
        test set and one model, or turns of it, so that they are no sample of clients.
        """
        import pandas as pd

        lines = [self._test(one, other) for one, other in combinations(self.runs, 2)]
        adjusted = holm([line["p"] for line in lines]).tolist() if lines else []
        rows = [line | {"adjusted": p} for line, p in zip(lines, adjusted, strict=True)]
        return pd.DataFrame(rows, columns=list(TEST_COLUMNS))

    def curves(self, after: bool = False) -> Figure:
        """Test accuracy over rounds, mean over seeds with a band of one standard deviation; `after`: right after local training.

        Of seeds that stopped or were tested at different rounds it has the rounds of all.
        """
        lines, drawn = [], looks([runs[0].experiment.algorithm for runs in self.runs.values()])
        for look, (label, runs) in zip(drawn, self.runs.items(), strict=True):
            rounds = [run.history["round"] for run in runs]
            curves = [100 * (run.curve_after_training if after else run.curve) for run in runs]
            values, x = at_common_rounds(rounds, curves, rounds)
            mean, spread = mean_and_spread(values)
            lines.append(Line(label, x[0], mean, look, spread))
        return line_figure([LinePanel("", "round", f"{self.measured} {moment(after)} (%)", tuple(lines))], wide=True)

    def to_latex(self) -> str:
        """The table as LaTeX, two decimals, its rule and what the numbers are as comments; it wants the package booktabs.

        Methods are called as the papers print them, where no labels were given.
        """
        import pandas as pd

        lines = [
            {
                "": label,
                "accuracy (%)": " ± ".join(filter(None, (_said(line["accuracy"], 2), _said(line["spread"], 2)))),
                "95 % interval": " to ".join(filter(None, (_said(line["low"], 2), _said(line["high"], 2)))),
                "seeds": line["seeds"],
                "rounds": line["rounds"],
            }
            for label, (_, line) in zip(self._in_print(), self.table.iterrows(), strict=True)
        ]
        kinds = "; ".join(dict.fromkeys(self.table["interval"]))
        said = [f"{self._said_of_rule}; mean and population standard deviation over seeds; interval: {kinds}"]
        return "\n".join([*(f"% {line}" for line in (*said, *self.diverged)), latex(pd.DataFrame(lines))])

    def _in_print(self) -> list[str]:
        """The labels with the methods' titles, but where one was given, or would stand twice, as of `apfl` and `apfl/platform`."""
        methods = {label: runs[0].experiment.algorithm for label, runs in self.runs.items()}
        titled = [about(method).title + label.removeprefix(method) for label, method in methods.items()]
        return list(methods) if self._named or len({*titled}) < len(titled) else titled

    def _line(self, runs: Sequence[Run]) -> dict[str, Any]:
        values = [100 * self._selected(run).value for run in runs]
        found, interval = spread(values), self._interval(runs, values)
        numbers = (found.mean, found.std if found.n > 1 else math.nan, interval.low, interval.high)
        kind = f"{interval.method}, {len(runs)} seeds" if len(runs) > 1 else f"bootstrap, {interval.n} clients"
        kind = "none: one seed" if math.isnan(interval.low) else kind
        return dict(zip(ROW_COLUMNS, (*numbers, kind, len(runs), max(run.rounds for run in runs)), strict=True))

    def _interval(self, runs: Sequence[Run], values: Sequence[float]) -> Interval:
        """In per cent: over seeds, within the 0 to 100 of an accuracy, with one of them over clients."""
        if len(runs) > 1:
            found = over_seeds(values)
            return replace(found, low=max(found.low, 0.0), high=min(found.high, 100.0))
        shares, samples = self._of_clients(runs[0])
        found = over_weighted_clients(shares, samples)
        return replace(found, low=math.nan, high=math.nan) if _turned(runs[0]) or one_number(shares) else found

    def _test(self, one: str, other: str) -> dict[str, Any]:
        runs = {label: {run.experiment.seed: run for run in self.runs[label]} for label in (one, other)}
        seeds = sorted(runs[one].keys() & runs[other].keys())
        pairs = [(runs[one][seed], runs[other][seed]) for seed in seeds]
        line = {"one": one, "other": other, "p": math.nan, "pairs": len(seeds)}
        if not pairs:
            return line | {"difference": math.nan, "test": "none: no common seed"}
        values = np.array([[100 * self._selected(run).value for run in pair] for pair in pairs])
        difference = values[:, 0] - values[:, 1]
        line["difference"] = float(difference.mean())
        if not all(_same_clients(*pair) for pair in pairs):
            return line | {"test": "none: other clients"}
        if len(pairs) > 1:
            found = paired(values[:, 0], values[:, 1], "t")
            name = "paired t" if found.test == "t" else "sign flips"
            return line | {"p": found.p, "test": f"{name} over {len(pairs)} seeds"}
        if _turned(pairs[0][0]):
            return line | {"test": f"none: one seed, and {TURNS}"}
        clients = [self._of_clients(run) for run in pairs[0]]
        if all(one_number(shares) for shares, _ in clients):
            return line | {"test": "none: one seed, and one number for all clients"}
        found = paired(*(shares * samples for shares, samples in clients), "permutation")
        return line | {"p": found.p, "pairs": found.pairs, "test": f"sign flips over {found.pairs} clients"}

    @property
    def measured(self) -> str:
        """What the accuracies are, see `Runs.measured`."""
        return Runs(run for runs in self.runs.values() for run in runs).measured

    @property
    def _said_of_rule(self) -> str:
        title, comma, tested_on = self.rule.title.partition(",")
        return f"{self.measured} in %, {title}" + (comma + tested_on if self.measured == "test accuracy" else "")

    def _selected(self, run: Run) -> Selected:
        return self.rule(run.curve)

    def _of_clients(self, run: Run) -> tuple[np.ndarray, np.ndarray]:
        """(accuracy in per cent, mean of the tests that the rule takes; test samples) of each client that has some."""
        correct = run.history["correct"][list(self._selected(run).places)].mean(0)
        samples = run.history["test_samples"]
        return 100 * correct[samples > 0] / samples[samples > 0], samples[samples > 0]

    @property
    def diverged(self) -> list[str]:
        """Which runs came apart, and when, in words."""
        found = [(label, run) for label, runs in self.runs.items() for run in runs if run.diverged]
        return [f"{label}, seed {run.experiment.seed}: {run.diverged}" for label, run in found]

    def __repr__(self) -> str:
        table = self.table.to_string(float_format="%.2f")
        return "\n".join([f"Compared({', '.join(self.runs)}; {self.rule.name})", table, *self.diverged])

    def _repr_html_(self) -> str:
        """The tables: what was reached, and the tests."""
        rows = [{"": label, **dict(line)} for label, line in self.table.iterrows()]
        tests = self.tests.to_dict("records")
        shown = [records([{name: _said(value, 2) for name, value in row.items()} for row in rows])]
        shown += [records([{name: _said(value, 3) for name, value in test.items()} for test in tests])] if tests else []
        shown += [f"<p>{escape(line)}</p>" for line in self.diverged]
        return f"<p>{escape(self._said_of_rule)}</p>{''.join(shown)}"

    def _ipython_display_(self) -> None:
        display({"text/html": self._repr_html_(), "text/plain": repr(self)})
        display(picture(self.curves(), f"{self.measured} over rounds"))


def _said(value: Any, digits: int) -> str:
    """A number with two decimals, or (`digits` 3) three digits; nothing for NaN."""
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.2f}" if digits == 2 else f"{value:.3g}"


def _listed(runs: Any) -> list[Any]:
    """What is given in place of a list of runs as one: a run stands for a list of it, and so does what is no list of anything."""
    return [runs] if isinstance(runs, Mapping) or not is_several(runs) else list(runs)


def _lines(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Label -> runs that differ only in the seed, by their seeds; the same asked for of other code or data is another line."""
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        check_run(run)
        made = canonical_json({name: value for name, value in run.identity.items() if name != "seed"})
        groups.setdefault(run.experiment.changed(seed=0).canonical() + made, {})[run.experiment.seed] = run
    firsts = [next(iter(group.values())) for group in groups.values()]
    labels = _labels([run.experiment for run in firsts])
    labels = [
        f"{label} ({run.id[:6]})" if labels.count(label) > 1 else label
        for label, run in zip(labels, firsts, strict=True)
    ]
    return {
        label: [group[seed] for seed in sorted(group)] for label, group in zip(labels, groups.values(), strict=True)
    }


def check_run(run: Any, taken: str = "compare takes finished runs") -> None:
    """`UserError` for what is no run; `taken` says what the caller takes."""
    if not isinstance(run, Run):
        raise UserError(f"{taken}, not {type(run).__name__} {in_short(run)}")


def _same_clients(one: Run, other: Run) -> bool:
    """Whether two runs are tested on the same samples of the same clients."""
    tested = [
        (
            {name: value for name, value in run.identity["data"].items() if name != "proxy"},
            run.fingerprint.split("+")[0],
        )
        for run in (one, other)
    ]
    return tested[0] == tested[1]


def _turned(run: Run) -> bool:
    """Whether its clients are tested on turns of one test set, which rise and fall together."""
    dataset = run.experiment.data.dataset
    return not is_own(dataset) and find(dataset).turned


def _labels(experiments: Sequence[Experiment]) -> list[str]:
    """The method, the settings that are not the same in all lines, and the options that are not in all lines of that method."""
    shared = [vars(one.settings) | vars(one.data) | {"model": one.model, "dtype": one.dtype} for one in experiments]
    labels = []
    for one, settings in zip(experiments, shared, strict=True):
        apart = {name: value for name, value in settings.items() if any(other[name] != value for other in shared)}
        peers = [dict(other.options) for other in experiments if other.algorithm == one.algorithm]
        options = {n: v for n, v in one.options if any(n not in other or other[n] != v for other in peers)}
        parts = [f"{name}={value}" for name, value in (*apart.items(), *options.items())]
        labels.append(", ".join([one.algorithm, *parts]))
    return labels
