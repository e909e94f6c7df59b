"""Curves of runs in TensorBoard, Weights & Biases or MLflow: `pflrepro.run(experiments, callbacks=[TensorBoard("logs")])`.

Each has the numbers of `History.tests` over rounds, from the first one on, also where a run goes on that was begun before. The packages
are extras: `pip install 'pflrepro[tensorboard]'`, `[wandb]`, `[mlflow]`; `UserError` where one is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pflrepro.errors import UserError
from pflrepro.experiments.callbacks import Callback
from pflrepro.experiments.identity import Job
from pflrepro.experiments.result import Run
from pflrepro.experiments.runs import configuration


class TensorBoard(Callback):
    """A folder of events a run, `<folder>/<method>-<data set>-seed<seed>-<id>`, written anew where there is one."""

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        _needs("tensorboard")
        self.folder = Path(folder)
        self._writers: list[Any] = []

    def start(self, jobs: Sequence[Job], round: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # purge_step: what an earlier call wrote is not shown twice
        self._writers = [SummaryWriter(self.folder / _name(job), purge_step=0) for job in jobs]
        for writer, job in zip(self._writers, jobs, strict=True):
            writer.add_text("command", job.experiment.command)

    def round(self, round: int, scores: Sequence[Mapping[str, float]]) -> None:
        for writer, line in zip(self._writers, scores, strict=False):  # no scores where nothing was tested
            for name, value in line.items():
                writer.add_scalar(name, value, round)

    def end(self, runs: Sequence[Run]) -> None:
        for writer in self._writers:
            writer.close()


class WandB(Callback):
    """A W&B run a run, by its id, so that it goes on where this one does; `how`: arguments of `wandb.init` (`entity`, `mode` ...)."""

    def __init__(self, project: str = "pflrepro", **how: Any) -> None:
        _needs("wandb")
        self.how = {"project": project, "resume": "allow", "reinit": "create_new"} | how
        self._runs: list[Any] = []

    def start(self, jobs: Sequence[Job], round: int) -> None:
        import wandb

        self._runs = [
            wandb.init(id=job.id, name=_name(job), config=configuration(job.experiment), **self.how) for job in jobs
        ]

    def round(self, round: int, scores: Sequence[Mapping[str, float]]) -> None:
        for run, line in zip(self._runs, scores, strict=False):
            if round >= run.step:  # what W&B has already it refuses
                run.log(dict(line), step=round)

    def end(self, runs: Sequence[Run]) -> None:
        for run in self._runs:
            run.finish(exit_code=0 if runs else 1)


class MLflow(Callback):
    """An MLflow run a run and call, with the run's id as its tag `pflrepro.run`; `uri`: of the server, default MLflow's own."""

    def __init__(self, experiment: str = "pflrepro", uri: str | None = None) -> None:
        _needs("mlflow")
        self.experiment, self.uri = experiment, uri
        self._client: Any = None
        self._ids: list[str] = []

    def start(self, jobs: Sequence[Job], round: int) -> None:
        from mlflow import MlflowClient

        self._client = client = MlflowClient(self.uri)
        found = client.get_experiment_by_name(self.experiment)
        place = client.create_experiment(self.experiment) if found is None else found.experiment_id
        self._ids = []
        for job in jobs:
            made = client.create_run(place, run_name=_name(job), tags={"pflrepro.run": job.id})
            self._ids.append(made.info.run_id)
            for name, value in configuration(job.experiment).items():
                client.log_param(made.info.run_id, name, value)

    def round(self, round: int, scores: Sequence[Mapping[str, float]]) -> None:
        for run, line in zip(self._ids, scores, strict=False):
            for name, value in line.items():
                self._client.log_metric(run, name, value, step=round)

    def end(self, runs: Sequence[Run]) -> None:
        for run in self._ids:
            self._client.set_terminated(run, "FINISHED" if runs else "KILLED")


def _name(job: Job) -> str:
    experiment = job.experiment
    plain = "".join(each if each.isalnum() or each in "+-." else "_" for each in experiment.algorithm)
    return f"{plain}-{experiment.data.dataset}-seed{experiment.seed}-{job.id[:8]}"


def _needs(package: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"the package {package} is not installed: pip install 'pflrepro[{package}]'")
