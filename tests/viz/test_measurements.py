"""Pictures of measurements: what is drawn and where, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.pictures import check_print, labels
from matplotlib.colors import to_rgba_array

from pflrepro.errors import UserError
from pflrepro.metrics.leakage import Attack, Observation, Recovered
from pflrepro.metrics.mdl import Curve
from pflrepro.metrics.representations import Features
from pflrepro.metrics.theory import Setting, best_beta, risk
from pflrepro.trees import Tree
from pflrepro.viz import embedding, leakage, mdl, theory


def drawn(figure) -> None:
    """The whole picture, as it would be saved."""
    figure.savefig("/dev/null", format="png")


def test_learning_curves_and_layers() -> None:
    one, two = (Curve(np.array([10, 40]), np.array([[2.0, level]]), 45) for level in (1.0, 0.5))
    figure = mdl.learning_curves({"FedAvg": [one, None, two], "none": [None]}, "probes")
    panel = figure.axes[0]
    assert [line.get_ydata()[-1] for line in panel.lines] == pytest.approx([1.0, 0.5, 0.75])
    drawn(figure)
    layers = mdl.by_layer({"a": {"conv1": 3.0, "fc1": 1.0}, "b": {"fc1": 2.0}})
    np.testing.assert_array_equal([line.get_ydata() for line in layers.axes[0].lines], [[3, 1], [np.nan, 2]])
    check_print(layers)
    with pytest.raises(UserError, match="no learning curve"):
        mdl.learning_curves({"none": [None]})
    with pytest.raises(UserError, match="no codelength"):
        mdl.by_layer({})


def found(channels: int = 1) -> Recovered:
    x = torch.rand(3, 2, channels, 4, 4)
    tree = Tree(w=torch.zeros(3, 1))
    seen = Observation(lambda p, x: x, tree, tree, x, (1,), [0, 1, 2], [0, 0, 0], "model")
    guessed = x + 0.1
    guessed[1] = float("nan")
    return Recovered(guessed, torch.zeros(3), guessed[:, None], torch.zeros(3, 1), seen, Attack())


@pytest.mark.parametrize("channels", [1, 3])
def test_recovered_images_beside_the_originals(channels: int) -> None:
    figure = leakage.recovered(found(channels), rows=2, columns=5)
    panels = figure.axes
    assert len(panels) == 2 * 2 * 2 and all(len(panel.images) == 1 for panel in panels)
    # Each picture is stretched to its own range: a shifted one looks the same.
    np.testing.assert_allclose(panels[0].images[0].get_array(), panels[2].images[0].get_array(), atol=1e-6)
    assert panels[2].get_ylabel() == "24.8 dB"  # 20 + 10 log10(3)
    drawn(figure)


def test_leakage_refuses_what_is_no_image_and_draws_bars() -> None:
    wrong = found(2)
    with pytest.raises(UserError, match="only images"):
        leakage.recovered(wrong)
    figure = leakage.psnr_bars({"extractor": 7.0, "model": 5.0})
    assert [bar.get_width() for bar in figure.axes[0].patches] == [5.0, 7.0]
    drawn(figure)
    with pytest.raises(UserError, match="no PSNR"):
        leakage.psnr_bars({})


def snapshot(round: int, after: bool = False) -> Features:
    return Features(torch.zeros(4, 2), np.array([0, 1, 1, 2]), np.array([0, 0, 1, 3]), "features", round, after, 4)


def test_planes_share_their_limits_and_move(tmp_path) -> None:
    points = [np.arange(8.0).reshape(4, 2), -np.arange(8.0).reshape(4, 2)]
    snapshots = [snapshot(1), snapshot(2, True)]
    for colour in ("class", "client"):
        figure = embedding.planes(snapshots, points, colour=colour)
        left, right, bar = figure.axes
        count = 3 if colour == "class" else 4
        assert (bar.get_ylabel(), bar.get_ylim()) == (colour, (-0.5, count - 0.5))
        key = snapshots[0].labels if colour == "class" else snapshots[0].clients
        hues = to_rgba_array(embedding.TEN[:count])[:, :3]
        shown = np.concatenate([dots.get_facecolor()[:, :3] for dots in left.collections])
        np.testing.assert_allclose(shown, hues[key])  # the clients ascend
        np.testing.assert_allclose(bar.collections[-1].get_cmap()(np.arange(count))[:, :3], hues)
        assert left.get_xlim() == right.get_xlim() and left.get_xlim()[0] < -6 < 6 < left.get_xlim()[1]
        assert right.get_title(loc="left") == "round 2, after local training"
        assert [len(dots.get_offsets()) for dots in left.collections] == [2, 1, 1]
        check_print(figure)
    named = embedding.planes(snapshots[:1], points[:1], names=("World", "Sports", "Business"))
    check_print(named)
    assert [tick.get_text() for tick in named.axes[-1].get_yticklabels()] == ["World", "Sports", "Business"]
    path = embedding.animation(snapshots, points, tmp_path / "moving.gif", seconds=0.2)
    assert path.read_bytes()[:3] == b"GIF" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(UserError, match="one plane a snapshot is needed"):
        embedding.planes(snapshots, points[:1])
    with pytest.raises(UserError, match="as many points as it has samples"):
        embedding.planes(snapshots[:1], [points[0][:2]])
    with pytest.raises(UserError, match="by class or by client, not 'round'"):
        embedding.planes(snapshots, points, colour="round")


def test_prediction_map() -> None:
    shares = np.array([[1.0, 0.0], [0.25, 0.75]])
    figure = embedding.predictions(shares, np.array([[True, False], [False, True]]))
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), shares)
    assert figure.axes[0].collections[0].get_offsets().tolist() == [[0, 0], [1, 1]]
    drawn(figure)
    with pytest.raises(UserError, match="tables"):
        embedding.predictions(shares, np.ones((2, 3)))


def test_the_trade_off() -> None:
    setting = Setting.of_shift(1.0, 10)
    figure = theory.trade_off({"shift 1": setting}, draws=50)
    exact, independent, *others = (line.get_xydata() for line in figure.axes[0].lines)
    np.testing.assert_allclose(exact[50], [0.5, risk(setting, 0.5).total])
    assert len(independent) == 101 and 11 in map(len, others)
    assert labels(figure) == ["shift 1", theory.INDEPENDENT, theory.BEST], "settings before what helps to read them"
    drawn(figure)
    figure = theory.best_betas([0.0, 1.0], [5, 50])
    assert figure.axes[0].lines[1].get_ydata()[0] == pytest.approx(best_beta(Setting.of_shift(1.0, 5, others=50)))
    drawn(figure)
    with pytest.raises(UserError, match="no setting"):
        theory.trade_off({})
    with pytest.raises(UserError, match="number of shifts"):
        theory.best_betas([], [5])
