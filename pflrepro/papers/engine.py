"""A papermill engine that looks at a notebook's parameters before it starts a kernel:

    papermill --engine pflrepro notebooks/demo/digits.ipynb out.ipynb -p scale fast -p methods fedavg,ditto

Without it papermill only warns of a parameter that it does not know, and takes every value. The values of an artefact's notebook must
be those of a study of it, too. Papermill finds the engine by the entry point `papermill.engine`, and loads it whenever it is imported
itself: so nothing is imported here before the class is asked for.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "CheckedEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import click
    from papermill.engines import NBClientEngine
    from papermill.parameterize import parameterize_notebook

    from pflrepro.errors import UserError
    from pflrepro.papers.notebooks import artefact_shown, check_values, declared_in

    class Refused(click.ClickException, UserError):
        """A wrong parameter; papermill's command prints it as one line."""

        exit_code = 2

    class CheckedEngine(NBClientEngine):
        """Papermill's own engine, which refuses unknown parameters and wrong values first."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, *more: Any, **how: Any) -> Any:
            given = nb_man.nb.metadata.get("papermill", {}).get("parameters", {})
            try:
                declared = declared_in(nb_man.nb, "the notebook")
                checked = check_values("the notebook", declared, given)
                if checked and (artefact := artefact_shown(nb_man.nb)):
                    from pflrepro.papers.reproduce import check_choice  # which loads a framework

                    check_choice(artefact, {name: each.default for name, each in declared.items()} | checked)
            except UserError as error:
                raise Refused(str(error)) from None
            if checked != given:  # a list that was given as a text
                injected = parameterize_notebook(deepcopy(nb_man.nb), checked)
                for cell, again in zip(nb_man.nb.cells, injected.cells, strict=True):
                    cell.source = again.source
            return super().execute_managed_notebook(nb_man, kernel_name, *more, **how)

    globals()[name] = CheckedEngine
    return CheckedEngine
