"""Local training, no federation."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Part, as_kind
from pflrepro.algorithms.task import Context, Setup
from pflrepro.trees import Tree


@dataclass(frozen=True)
class Local(Method):
    """Local: every client trains its own model, nothing is sent.

        min_{w_i} (1/n_i) sum_{(x, y)} CE(f(x; w_i), y)

    All clients start from one common model (recommended; no source says otherwise). A client trains only in the rounds in which it is
    drawn [FDA-code]. Tested: w_i. The papers' tables use the model after training; before and after differ by one round.
    """

    def layout(self, setup: Setup) -> dict[str, Part]:
        return as_kind(super().layout(setup), "personal")

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        return Tree()
