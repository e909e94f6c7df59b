"""What a run says of how far it is."""

from __future__ import annotations

import io

import numpy as np

from pflrepro.experiments.progress import Progress
from pflrepro.experiments.run import identify, run


def test_progress_is_silent_without_a_terminal(store, fake, make, capfd):
    run(make.experiment(), store=store, simulate=fake)
    assert capfd.readouterr() == ("", "")


def test_progress_counts_the_rounds_of_all_runs(store, fake, make, monkeypatch):
    from tqdm import tqdm

    class Sink:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    sink = Sink()
    bars = []

    def bar(rounds, unit):
        bars.append(tqdm(unit="round", total=rounds, file=sink, mininterval=0, miniters=1, disable=False))
        return bars[-1]

    monkeypatch.setattr("pflrepro.experiments.progress._bar", bar)
    monkeypatch.setattr("pflrepro.experiments.training.LOOK_EVERY", 0.0)
    runs = run([*make.seeds(0, 1), make.experiment("local")], store=store, simulate=fake)
    assert (bars[0].n, bars[0].total) == (8, 8)
    mean = np.mean([one.curve[-1] for one in runs[:2]])
    assert "fedavg on digits, 2 seeds:  50%" in sink.text
    assert f"accuracy {100 * mean:.1f} %" in sink.text
    assert "local on digits, seed 0: 100%" in sink.text


def test_the_bar_starts_where_a_resumed_run_is_and_forgets_rounds_that_are_not_to_come(make, monkeypatch):
    from tqdm import tqdm

    monkeypatch.setattr(
        "pflrepro.experiments.progress._bar", lambda rounds, unit: tqdm(total=rounds, file=io.StringIO())
    )
    with Progress() as progress:
        progress.expect(10)
        progress.start(identify([make.experiment(rounds=6)]), 3)
        assert progress.bar.n == 3
        for done in range(5):
            progress.round(done, [{"accuracy": 0.5}])
        progress.end([])
        assert (progress.bar.n, progress.bar.total) == (4, 8)
        progress.start(identify([make.experiment(rounds=4)]), 0)
        progress.round(4, [])
        progress.end([])
        assert (progress.bar.n, progress.bar.total) == (8, 8)
        progress.start(identify([make.experiment(rounds=4)]), 1)  # of a pack whose seeds are at other rounds
        assert (progress.bar.n, progress.bar.total) == (9, 12)
