"""`pflrepro.explore()`: choose data, partition, method and rounds, run it, and lay what was run over each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import numpy as np

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS, VARIANTS
from pflrepro.algorithms.lists import words
from pflrepro.algorithms.registry import hyperparameters, options_of
from pflrepro.checked import Between, Domain, domains
from pflrepro.data.datasets import DATASETS, find
from pflrepro.data.heterogeneity import heterogeneity
from pflrepro.data.partitions.kind import Spec
from pflrepro.data.partitions.parse import KINDS, parse
from pflrepro.data.picture import bubbles
from pflrepro.data.root import cache_path
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import UserError
from pflrepro.experiments.compare import Compared
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.loading import arrays_of, partition_of
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import open_store
from pflrepro.experiments.store import Store
from pflrepro.explorer import pictures
from pflrepro.explorer.controls import Displayed, code, control, image, note, slider, values
from pflrepro.explorer.training import Training, check_how
from pflrepro.settings import Settings
from pflrepro.viz.lines import Line, LinePanel, line_figure
from pflrepro.viz.looks import look

PROTOCOL = ("rounds", "local_epochs", "participation", "lr")  # what can be set of `Settings`
NONE = "nothing"  # in place of a plug-in
FIRST = {"float": 0.1, "int": 2}  # where a number of a partition starts
MOST_CLIENTS, MOST_ROUNDS = 100, 20
MOST_SAMPLES = 50_000  # of a set whose size is not known beforehand
LOOK_EVERY = 0.3  # seconds between looks at what is training
ROW = widgets.Layout(flex_flow="row wrap", align_items="center")


def explore(
    dataset: str = "digits",
    algorithm: str = "fedavg",
    *,
    also: str | type[Method] | Sequence[str | type[Method]] = (),
    store: Store | str | Path | None = None,
    data_root: str | Path | None = None,
    **how: Any,
) -> Explorer:
    """Widgets to try a federation: its data as bubbles, a method with its options, a run with its curve.

    `UserError` for unknown names, a device or backend that there is not, and for data that are not at hand.

    Args:
        dataset, algorithm: what it starts with.
        also: a method of your own, a class or `my_module:MyMethod`, or several.
        store, data_root, how (backend, device, workers, memory, checkpoint_every, keep, callbacks): see `pflrepro.run`.

    Example, the same without a screen:
        explorer = pflrepro.explore("digits")
        explorer.partition_numbers["alpha"].value = 0.5
        explorer.run(), explorer.wait()
        explorer.runs
    """
    own = words("also", also)
    for name in own:
        options_of(name)  # refuses what there is not
    return Explorer(dataset, algorithm, also=own, store=store, data_root=data_root, how=how)


class Explorer(Displayed):
    """What `explore` gives. `experiment`: what the controls say; `runs`: what was run with it; `widget`: what a notebook shows.

    Every control can be set from Python: `dataset`, `kind`, `partition_numbers`, `clients`, `least`, `method`, `plugin`, `options`,
    `protocol`, `seed`, `chosen`, `after`.
    """

    def __init__(
        self, dataset: str, algorithm: str, *, also: Sequence[str], store: Any, data_root: Any, how: Any
    ) -> None:
        self.store, self.data_root, self.how = open_store(store), data_root, how
        self.runs: list[Run] = []
        self.training: Training | None = None
        self._lines: dict[str, list[Run]] = {}  # label -> runs, one a seed
        self._settling, self._drawn, self._dealt = False, 1, False
        check_how(how)
        Experiment.for_dataset(algorithm, dataset)  # refuses what there is not
        arrays_of(dataset, data_root)
        self._make_data(dataset)
        self._make_method(algorithm, also)
        self._make_results()
        self.widget = widgets.VBox([self._data_box(), self._method_box(), self._results_box()])
        self._preset()
        self._new_method()

    # ---- the controls --------------------------------------------------------------------------------------------------------
    def _make_data(self, dataset: str) -> None:
        at_hand = [name for name, spec in DATASETS.items() if self._at_hand(name) or spec.embedded]
        self.dataset = widgets.Dropdown(description="data", options=list(dict.fromkeys([dataset, *at_hand])))
        self.kind = widgets.Dropdown(description="partition", options=["iid"])
        self.clients = widgets.IntSlider(description="clients", min=2, max=MOST_CLIENTS, value=20)
        about = "the fewest samples that a client may have, training and test together"
        self.least = control("samples at least", Domain(int, (), Between(0)), 0, about)
        self.partition_numbers: dict[str, widgets.ValueWidget] = {}
        self._numbers_box, self._meaning, self._bubbles = widgets.HBox(layout=ROW), widgets.HTML(), widgets.HTML()
        self.dataset.observe(lambda _: self._preset(), "value")
        self.kind.observe(lambda _: self._new_kind(), "value")
        for each in (self.clients, self.least):
            each.observe(lambda _: self._redraw(), "value")

    def _make_method(self, algorithm: str, also: Sequence[str]) -> None:
        host, _, plugin = algorithm.partition("+")
        hosts, plugins = [*ALGORITHMS, *VARIANTS, *also], [NONE, *PLUGINS]
        self.method = widgets.Dropdown(description="method", options=list(dict.fromkeys([*hosts, host])), value=host)
        self.plugin = widgets.Dropdown(description="with", options=list(dict.fromkeys([*plugins, plugin or NONE])))
        self.plugin.value = plugin or NONE
        self.options: dict[str, widgets.ValueWidget] = {}
        known, usual = domains(Settings), {field.name: field for field in fields(Settings)}
        self.protocol = {
            name: control(said, known[name], usual[name].default, usual[name].metadata["help"])
            for name in PROTOCOL
            if (said := usual[name].metadata["title"] or name)
        }
        self.seed = control("seed", Domain(int, (), Between(0)), 0, "of everything but the partition")
        self._options_box, self._command = widgets.HBox(layout=ROW), widgets.HTML()
        self.start = widgets.Button(description="Run", icon="play", button_style="primary")
        self.halt = widgets.Button(description="Stop", icon="stop", disabled=True)
        self._bar = widgets.IntProgress(min=0, max=1, layout={"display": "none"})
        self._state, self._live = widgets.HTML(), widgets.HTML()
        self.start.on_click(lambda _: self.run())
        self.halt.on_click(lambda _: self.stop())
        for each in (self.method, self.plugin):
            each.observe(lambda _: self._new_method(), "value")
        for each in (*self.protocol.values(), self.seed):
            each.observe(lambda _: self._tell(), "value")

    def _make_results(self) -> None:
        self.chosen = widgets.SelectMultiple(rows=5, layout={"width": "40em", "max_width": "100%"})
        self.after = widgets.ToggleButtons(options=[("before local training", False), ("after local training", True)])
        self.after.style.button_width = "max-content"
        self._curves, self._clients = widgets.HTML(), widgets.HTML()
        for each in (self.chosen, self.after):
            each.observe(lambda _: self._show_results(), "value")

    def _data_box(self) -> widgets.Widget:
        first, second = [self.dataset, self.kind, self._numbers_box], [self.clients, self.least]
        return widgets.VBox(
            [widgets.HBox(first, layout=ROW), widgets.HBox(second, layout=ROW), self._meaning, self._bubbles]
        )

    def _method_box(self) -> widgets.Widget:
        rows = [[self.method, self.plugin, self._options_box], [*self.protocol.values(), self.seed]]
        rows.append([self.start, self.halt, self._bar, self._state])
        return widgets.VBox([*(widgets.HBox(row, layout=ROW) for row in rows), self._command, self._live])

    def _results_box(self) -> widgets.Widget:
        head = widgets.HTML(note("Runs, to be laid over each other (Ctrl or Shift and a click chooses several):"))
        self._results = widgets.VBox([head, self.chosen, self.after, self._curves, self._clients])
        self._results.layout.display = "none"
        return self._results

    # ---- data ----------------------------------------------------------------------------------------------------------------
    def _at_hand(self, name: str) -> bool:
        return cache_path(DATASETS[name].stored_as, self.data_root).exists()

    @property
    def _spec(self) -> DatasetSpec:
        return find(self.dataset.value)

    def _preset(self) -> None:
        """Partition, clients and protocol as the data set's preset has them; few rounds."""
        preset = self._spec.preset
        try:
            grouped = arrays_of(self.dataset.value, self.data_root).group is not None
        except UserError as error:  # a file that went or broke since the list was made
            self._bubbles.value, self.start.disabled = note(str(error), wrong=True), True
            return
        spec = parse(preset.partition)
        self._settling = True
        try:
            offered = [kind for kind, each in KINDS.items() if _offered(each, grouped)]
            self.kind.options = offered
            self.kind.value = spec.kind if spec.kind in offered else "dirichlet"
            self.clients.value = min(preset.clients, MOST_CLIENTS)
            for name in PROTOCOL:
                self.protocol[name].value = getattr(preset.settings, name)
            self.protocol["rounds"].value = min(preset.settings.rounds, MOST_ROUNDS)
            self._new_kind()
        finally:
            self._settling = False
        self._redraw()

    def _new_kind(self) -> None:
        """Controls for the numbers of the partition's kind, and its own least size; as in the preset where it has that kind."""
        kind, spec = KINDS[self.kind.value], self._spec
        preset = spec.preset
        known, usual = domains(kind), parse(preset.partition)
        starts = {name: FIRST[known[name].kind.__name__] for name in kind.fields()}
        self._partition_options = ""
        if usual.kind == kind.kind:
            starts, self._partition_options = {name: getattr(usual, name) for name in kind.fields()}, usual.options
        # whole numbers count classes, but for a client's samples
        most = dict.fromkeys(("size", "least", "floor"), (spec.samples or MOST_SAMPLES) // self.clients.value)
        self.partition_numbers = {
            name: slider(name, known[name], value, most.get(name, spec.classes)) for name, value in starts.items()
        }
        for each in self.partition_numbers.values():
            each.observe(lambda _: self._redraw(), "value")
        self._numbers_box.children = tuple(self.partition_numbers.values())
        self._meaning.value = note(kind.help())
        was, self._settling = self._settling, True
        self.least.value = kind.default_min_size if kind.own_minimum else preset.min_size
        self._settling = was
        self._redraw()

    @property
    def partition(self) -> str:
        """The partition as it is written: `dirichlet:0.1`."""
        numbers = (round(value, 4) for value in values(self.partition_numbers).values())
        return f"{KINDS[self.kind.value](*numbers)}{self._partition_options}"

    def _redraw(self) -> None:
        """The bubbles of the partition; a line that says why there is none."""
        if self._settling:
            return
        try:
            self._bubbles.value, self._dealt = self._picture(), True
        except UserError as error:
            self._bubbles.value, self._dealt = note(str(error), wrong=True), False
        self._tell()

    def _picture(self) -> str:
        parts = partition_of(self._for_method("fedavg").data, self.data_root)
        counts = parts.counts(classes=self._spec.classes).cpu().numpy()
        sizes, held = counts.sum(1), (counts > 0).sum(1)
        line = (
            f"{len(sizes)} clients with {sizes.min():,} to {sizes.max():,} samples and {held.min()} to {held.max()} classes; "
            f"label distributions differ from the pooled one by {heterogeneity(counts):.2f} (mean total variation, 0 to 1)"
        )
        return note(line) + image(lambda: bubbles(counts), f"samples of each client and class, {self.partition}")

    # ---- method --------------------------------------------------------------------------------------------------------------
    @property
    def algorithm(self) -> str:
        """The method as it is written: `fedavg+dbe`."""
        return self.method.value if self.plugin.value == NONE else f"{self.method.value}+{self.plugin.value}"

    @property
    def experiment(self) -> Experiment:
        """What the controls say; `UserError` for what cannot be."""
        usual = hyperparameters(self.algorithm)
        options = {name: value for name, value in values(self.options).items() if value != usual[name]}
        return self._for_method(self.algorithm, options=tuple(options.items()))

    def _for_method(self, algorithm: str, **more: Any) -> Experiment:
        how = {"partition": self.partition, "clients": self.clients.value, "seed": self.seed.value}
        kind, preset = KINDS[self.kind.value], self._spec.preset
        if self.least.value != (kind.default_min_size if kind.own_minimum else preset.min_size):
            how["min_size"] = self.least.value
        return Experiment.for_dataset(algorithm, self.dataset.value, **how, **values(self.protocol), **more)

    def _new_method(self) -> None:
        """Controls for the options of the method."""
        try:
            known, usual = options_of(self.algorithm), hyperparameters(self.algorithm)
        except UserError as error:
            self.options, self._options_box.children = {}, ()
            self._command.value = note(str(error), wrong=True)
            self.start.disabled = True
            return
        self.options = {name: control(name, domain, usual[name]) for name, domain in known.items()}
        for each in self.options.values():
            each.observe(lambda _: self._tell(), "value")
        self._options_box.children = tuple(self.options.values())
        self._tell()

    def _tell(self) -> None:
        """The command of what the controls say; whether it can be run."""
        if self._settling:
            return
        try:
            self._command.value, wrong = code(self.experiment.command), False
        except UserError as error:
            self._command.value, wrong = note(str(error), wrong=True), True
        self.start.disabled = wrong or not self._dealt or self.training is not None

    # ---- a run ---------------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Train what the controls say, in a thread of its own; a second call while it trains does nothing."""
        if self.training is not None:
            return
        try:
            experiment = self.experiment
        except UserError as error:
            self._state.value = note(str(error), wrong=True)
            return
        self.training = Training(experiment, store=self.store, data_root=self.data_root, **self.how)
        self.start.disabled, self.halt.disabled = True, False
        self._bar.value, self._bar.max, self._bar.layout.display = 0, max(experiment.settings.rounds, 1), ""
        self._drawn = 1  # tests in the picture that is shown: a single one makes no curve
        self._follow()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # nobody's messages are waited for: whoever runs it calls `wait`
            return
        self._watching = loop.create_task(self._watch())

    async def _watch(self) -> None:
        while self.training is not None and self.training.running:
            self._follow()
            await asyncio.sleep(LOOK_EVERY)
        self._finish()

    def stop(self) -> None:
        """Stop before the next round; `run` goes on from there."""
        if self.training is not None:
            self.training.stop()
            self._state.value = note("stopping after this round")

    def wait(self) -> None:
        """Return when nothing trains any more, and everything shows it."""
        if self.training is not None:
            self.training.wait()
            self._finish()

    def _follow(self) -> None:
        training = self.training
        curve = np.array(training.curve).reshape(-1, 2)
        self._bar.value = training.done
        said = f", accuracy {100 * curve[-1, 1]:.1f} %" if len(curve) else ""
        self._state.value = note(f"round {training.done} of {training.experiment.settings.rounds}{said}")
        if len(curve) > self._drawn:
            self._drawn = len(curve)
            name = training.experiment.algorithm
            line = Line(name, curve[:, 0], 100 * curve[:, 1], look(name))
            panel = LinePanel("", "round", f"{training.experiment.data.measured} (%)", (line,))
            self._live.value = image(lambda: line_figure([panel]), "the curve so far")

    def _finish(self) -> None:
        training, self.training = self.training, None
        if training is None:
            return
        self.halt.disabled, self._bar.value, self._live.value = True, training.done, ""
        self._tell()
        if training.run is None:
            self._state.value = note(training.message, wrong=not training.stopped)
            return
        self._bar.layout.display = "none"
        found = training.run
        self._state.value = note(f"{found.rounds} rounds, best {100 * found.accuracy():.1f} %, run {found.id[:8]}")
        self.runs = [*(run for run in self.runs if run.experiment != found.experiment), found]
        self._settling, shown = True, [run.experiment for name in self.chosen.value for run in self._lines[name]]
        self._lines = Compared(self.runs).runs
        self.chosen.options = list(self._lines)
        shown.append(found.experiment)
        self.chosen.value = [name for name, each in self._lines.items() if any(run.experiment in shown for run in each)]
        self._settling, self._results.layout.display = False, ""
        self._show_results()

    # ---- what was run --------------------------------------------------------------------------------------------------------
    def _show_results(self) -> None:
        names = self.chosen.value
        if self._settling:
            return
        if not names:
            self._curves.value = self._clients.value = ""
            return
        runs, after = {name: self._lines[name] for name in names}, self.after.value
        self._curves.value = pictures.curves(runs, after)
        self._clients.value = pictures.clients(runs, after)

    # ---- where there is no screen ----------------------------------------------------------------------------------------------
    def still(self) -> str:
        told = self._state.value + self._curves.value + self._clients.value if self.runs else ""
        return self._bubbles.value + self._command.value + told

    def __repr__(self) -> str:
        said = f"Explorer({self.algorithm} on {self.dataset.value}, {self.partition}, {self.clients.value} clients"
        return f"{said}; {len(self.runs)} run{'s' if len(self.runs) != 1 else ''})"


def _offered(kind: type[Spec], grouped: bool) -> bool:
    """Whether a partition's kind has nothing but numbers, and the data have the groups that it may need."""
    numbers = all(domains(kind)[name].kind in (int, float) for name in kind.fields())
    return numbers and (grouped or not kind.kind.startswith("group"))
