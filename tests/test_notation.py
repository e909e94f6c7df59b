"""Formulas of docstrings as TeX."""

from __future__ import annotations

import inspect

import pytest
from matplotlib.mathtext import MathTextParser

from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS, VARIANTS
from pflrepro.algorithms.registry import build_method, load_plugin
from pflrepro.notation import display, formulas, prose, tex


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("w^{t+1} = sum_{i in S_t} p_i w_i", r"w^{t+1} = \sum _{i \in S_{t}} p_{i} w_{i}"),
        ("server: q <- q + 1 (Eq. 2) [GRP]", r"\text{server: }q \leftarrow q + 1\quad\text{(Eq. 2) [GRP]}"),
        ("mu~_i = mu^_i, x~ + Z^T Z^", r"\tilde{\mu }_{i} = \hat{\mu }_{i},\quad \tilde{x} + Z^{T} \hat{Z}"),
        ("<v, grad l(vbar)> > 0", r"\langle v, \nabla l(\bar{v})\rangle > 0"),
        ("theta_i^old - p_ij, f(a, b)", r"\theta _{i}^{\mathrm{old}} - p_{ij},\quad f(a, b)"),
        ("eta grad_theta L", r"\eta \nabla _{\theta } L"),
        (
            "server_rate F(sigma_old + 1e-4) 3e2",
            r"\mathrm{server\_rate}\, F(\sigma _{\mathrm{old}} + 10^{-4}) 3 \cdot 10^{2}",
        ),
        (
            "argmin_{beta in [0, 1]} ||w||^2 * |P|",
            r"\mathrm{argmin}_{\beta \in [0, 1]} \Vert w\Vert ^{2} \cdot \vert P\vert",
        ),
    ],
)
def test_a_line_in_tex(written: str, expected: str) -> None:
    assert tex(written) == expected


def test_formulas_are_the_indented_blocks_before_the_attributes() -> None:
    doc = "A method.\n\n    a = b\n    c = d\n\nText.\n\n    e\n\nAttributes:\n    mu: 1.\n\n    no formula"
    assert formulas(doc) == ["a = b", "c = d", "e"]
    assert formulas("A method.\n\nAttributes:\n    mu: 1.") == []
    assert display(["a", "b"]) == "\\begin{aligned}\n& a \\\\\n& b\n\\end{aligned}" and display(["a"]) == "a"


@pytest.mark.parametrize("name", [*ALGORITHMS, *PLUGINS])
def test_every_method_has_a_rule_that_can_be_drawn(name: str) -> None:
    kind = load_plugin(name) if name in PLUGINS else type(build_method(name))
    drawn = MathTextParser("path")
    found = formulas(inspect.getdoc(kind) or "")
    assert found
    for line in found:
        drawn.parse(f"${tex(line)}$")


def test_formulas_of_variants_can_be_drawn() -> None:
    drawn = MathTextParser("path")
    lines = [line for name in VARIANTS for line in formulas(inspect.getdoc(type(build_method(name))) or "")]
    assert len(lines) > 5
    for line in lines:
        drawn.parse(f"${tex(line)}$")


def test_letters_with_an_index_are_formulas_in_running_text() -> None:
    text = "C^ and c_i stay (mu^_i) as in w^{t+1}, theta_i^old; one-hot_x and weight_step stay text"
    shown = "$\\hat{C}$ and $c_{i}$ stay ($\\hat{\\mu }_{i}$) as in $w^{t+1}$, $\\theta _{i}^{\\mathrm{old}}$; "
    shown += "one-hot_x and weight_step stay text"
    assert prose(text) == shown
