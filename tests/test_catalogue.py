"""The page of methods: what it reads from the classes, and that the committed page is the one it writes."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

from pflrepro import catalogue
from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS
from pflrepro.algorithms.finetuning import FineTuning
from pflrepro.algorithms.registry import build_method, load_plugin

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"


@dataclass(frozen=True)
class Pulled(FineTuning):
    """Pulled: w is pulled back.

    Tested: as it is.

    Attributes:
        pull: how hard; 0.5 [off],
            as everybody takes it.
        near, far: two distances; 1 [?].
    """

    pull: float = 0.5
    near: float = 1.0
    far: float = 1.0


def test_options_have_the_texts_of_the_class_and_of_those_it_builds_on() -> None:
    options = {option.name: option for option in catalogue.options_of(Pulled)}
    assert (options["pull"].default, options["pull"].text) == (0.5, "how hard; 0.5 [off], as everybody takes it.")
    assert options["near"].text == options["far"].text == "two distances; 1 [?]."
    assert options["tune_epochs"].text.startswith("5 [FDA]")
    assert catalogue.summary_of(Pulled) == "Pulled: w is pulled back. Tested: as it is."


@pytest.mark.parametrize("name", [*ALGORITHMS, *PLUGINS])
def test_every_option_of_every_method_is_described(name: str) -> None:
    kind: type[Method] = type(build_method(name)) if name in ALGORITHMS else load_plugin(name)
    assert [option.name for option in catalogue.options_of(kind) if not option.text] == []


def test_the_committed_page_is_what_the_registry_says() -> None:
    if not PAGE.exists():
        pytest.skip("the documentation lies beside the source only")
    assert catalogue.page() == PAGE.read_text(encoding="utf-8"), "run: python -m pflrepro.catalogue > docs/methods.md"


def test_every_method_has_a_link_to_its_paper() -> None:
    links = {name: entry.link for name, entry in (ALGORITHMS | PLUGINS).items()}
    assert [name for name, link in links.items() if not link.startswith("https://")] == ["local"], "no paper has it"


def test_the_drawings_are_those_of_the_code() -> None:
    docs = Path(__file__).parents[1] / "docs"
    drawings = runpy.run_path(str(docs / "drawings.py"))["DRAWINGS"]
    assert {path.name for path in docs.glob("*.svg")} == set(drawings)
    for name, draw in drawings.items():
        assert (docs / name).read_text("utf-8") == draw(), f"{name} is old: python docs/drawings.py"
