"""The documentation site: `make docs`. The repository is its source, so that links between its pages hold here and on GitHub alike."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

import pflrepro

project, author, version = "pflrepro", "the pflrepro authors", pflrepro.__version__
copyright = author
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",  # formulas are drawn without a network
]

root_doc = "docs/site/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/**/*.md",
    "docs/site/written/api/*.rst",
    "figures/*.md",
    "figures/**/*.md",
    "benchmarks/README.md",
    "notebooks/**/*.ipynb",
]
exclude_patterns = ["**/.ipynb_checkpoints", "notebooks/**/figures"]

myst_enable_extensions = ["dollarmath", "html_image", "colon_fence"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # `make docs` says which
nb_execution_in_temp = True
nb_execution_excludepatterns = [
    f"notebooks/{paper}/*" for paper in ("dbe", "gpfl", "pfedfda", "fedbr", "grpfed", "results")
]
nb_execution_timeout = 600
nb_execution_raise_on_error = True
# Widgets are shown by the picture and the text that they bring along: their scripts would be loaded from elsewhere.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js: dict[str, object] = {}

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style"), ("Class attributes", "params_style")]
nitpicky = False

html_theme = "furo"
html_title = f"pflrepro {version}"
html_extra_path = ["front"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
templates_path: list[str] = []


class SourceTags(SphinxPostTransform):
    """Gives every source tag in a text its meaning, shown over it."""

    default_priority = 700
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        known = pages.tags()
        for text in list(self.document.findall(nodes.Text)):
            if "[" in text and isinstance(text.parent, (nodes.paragraph, nodes.entry, nodes.strong, nodes.emphasis)):
                shown = pages.explained(str(text), known)
                if "<abbr" in shown:
                    text.parent.replace(text, nodes.raw("", shown, format="html"))


def setup(app: object) -> None:
    """The pages that are written from the code, and docstrings made ready for Sphinx."""
    app.add_post_transform(SourceTags)
    app.connect("builder-inited", pages.write)
    app.connect("autodoc-process-signature", pages.readable)
    app.connect("autodoc-process-docstring", pages.as_markup, priority=400)
