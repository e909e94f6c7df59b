# Written by `python -m pflrepro.stubs` from __all__ and _NAMES.
from pflrepro.data.picture import bubbles as bubbles
from pflrepro.viz import bars as bars
from pflrepro.viz import counts as counts
from pflrepro.viz import dots as dots
from pflrepro.viz import embedding as embedding
from pflrepro.viz import leakage as leakage
from pflrepro.viz import lines as lines
from pflrepro.viz import looks as looks
from pflrepro.viz import mdl as mdl
from pflrepro.viz import panels as panels
from pflrepro.viz import spread as spread
from pflrepro.viz import theory as theory
from pflrepro.viz.bars import bar_figure as bar_figure
from pflrepro.viz.bars import share_figure as share_figure
from pflrepro.viz.counts import count_figure as count_figure
from pflrepro.viz.dots import dot_figure as dot_figure
from pflrepro.viz.lines import line_figure as line_figure
