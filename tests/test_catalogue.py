"""The page of methods: what it reads from the classes, and that the committed page is the one it writes."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

import pflrepro
from pflrepro import catalogue
from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS, VARIANTS
from pflrepro.algorithms.finetuning import FineTuning
from pflrepro.algorithms.registry import build_method, load_plugin
from pflrepro.checked import Between, Domain
from pflrepro.errors import UserError
from pflrepro.notation import tex

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


@pytest.mark.slow
def test_the_committed_page_is_what_the_registry_says() -> None:
    if not PAGE.exists():
        pytest.skip("the documentation lies beside the source only")
    assert catalogue.page() == PAGE.read_text(encoding="utf-8"), "run: python -m pflrepro.catalogue > docs/methods.md"


def test_the_texts_count_methods_and_plug_ins() -> None:
    root, plugins = Path(__file__).parents[1], {5: "five"}[len(PLUGINS)]
    for name, words in (("README.md", f"methods and {plugins} plug-ins"), ("docs/learning_check.md", "methods")):
        assert f" {len(ALGORITHMS)} {words}" in (root / name).read_text("utf-8"), name


def test_every_method_has_a_link_to_its_paper() -> None:
    links = {name: entry.link for name, entry in (ALGORITHMS | PLUGINS).items()}
    assert [name for name, link in links.items() if not link.startswith("https://")] == ["local"], "no paper has it"


def test_the_drawings_are_those_of_the_code() -> None:
    docs = Path(__file__).parents[1] / "docs"
    drawings = runpy.run_path(str(docs / "drawings.py"))["DRAWINGS"]
    assert {path.name for path in docs.glob("*.svg")} == set(drawings)
    for name, draw in drawings.items():
        assert (docs / name).read_text("utf-8") == draw(), f"{name} is old: python docs/drawings.py"


# ---- one method --------------------------------------------------------------------------------------------------------------------
def test_a_combination_is_described_part_by_part() -> None:
    described = pflrepro.describe("scaffold+dbe", kappa=5.0)
    assert list(described.rules) == ["Scaffold", "DBE", "PRBM", "MR"]
    assert (described.held("shared"), described.held("personal")) == ("base, head", "bias")
    assert "control" in described.kept
    assert described.values == {"kappa": 5.0}
    assert {"server_rate", "kappa", "mr_momentum"} <= {option.name for option in described.options}
    html = described._repr_html_()
    for text in (
        "SCAFFOLD+DBE",
        "https://arxiv.org/abs/2311.14975",
        "eta_g; 1.0 [LIB]",
        "a number &gt;= 0",
        r"y \leftarrow y - \eta",
    ):
        assert text in html, text
    assert max(map(len, repr(described).splitlines())) <= catalogue.WIDTH and "kappa = 5.0" in repr(described)


@pytest.mark.parametrize("name", [*ALGORITHMS, *PLUGINS, *VARIANTS])
def test_every_method_describes_itself_with_the_pages_own_words(name: str) -> None:
    described = pflrepro.describe(name)
    assert described.entry.title and described.entry.paper and described.entry.tested
    assert described.entry.link.startswith("https://") or name == "local"
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for of_class in described.formulas.values() for line in of_class]
    assert name in VARIANTS or (lines and all(tex(line) in text for line in lines)), "the page says the same"
    assert described.holders and described._repr_html_()


def test_a_class_of_ones_own_and_a_made_method_are_described_too() -> None:
    described = catalogue.describe(Pulled, pull=0.25)
    assert described.entry.title == "Pulled" and described.rules["Pulled"].startswith("Pulled: w is pulled back")
    assert described.values == {"pull": 0.25}
    assert catalogue.describe(build_method("fedprox", {"mu": 0.5})).values == {"mu": 0.5}
    assert catalogue.describe(build_method("fedprox"), mu=7.0).values == {"mu": 7.0}
    for pulled in (Pulled, Pulled()):
        with pytest.raises(UserError, match="unknown option of Pulled 'push'; valid: pull"):
            catalogue.describe(pulled, push=1.0)
    with pytest.raises(
        UserError, match=r"unknown algorithm 'fedavgg' \(a method of your own: module:Class\); valid: fedavg,"
    ):
        pflrepro.describe("fedavgg")
    with pytest.raises(UserError, match="unknown option of fedprox 'nu'"):
        pflrepro.describe("fedprox", nu=1)


def test_what_is_no_method_is_not_described() -> None:
    for wrong in (5, int):
        with pytest.raises(UserError, match="describe takes a method by its name, its class or an object of it, not "):
            catalogue.describe(wrong)


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        (Domain(float, (), Between(0, 1, open_low=True)), "a number > 0 and <= 1"),
        (Domain(int, (), Between(1)), "a whole number >= 1"),
        (Domain(str, ("code", "paper")), "code or paper"),
        (Domain(bool), "true or false"),
    ],
)
def test_what_an_option_may_be_is_said(domain: Domain, said: str) -> None:
    assert str(domain) == said
