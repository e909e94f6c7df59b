"""What is particular to a family of networks: torchvision's numbers, norms, attention, the mean over tokens, initial weights."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from pflrepro.models import build_model
from pflrepro.models.residual import BasicBlock, PaddedShortcut, SharedAffineGroupNorm, norm_layer
from pflrepro.models.text import MeanEmbedding
from pflrepro.models.transformer import Attention, Encoder, SequencePool, Tokens


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    network = build_model(name, shape, classes, 0)
    return nn.Sequential(network.base, network.head)


def take_over(ours: nn.Module, theirs: nn.Module) -> None:
    """The other network's parameters, in their order."""
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    with torch.no_grad():
        for mine, other in pairs:
            assert mine.shape == other.shape
            mine.copy_(other)


@pytest.mark.parametrize(("name", "norm"), [("resnet18", None), ("resnet18-gn", lambda c: nn.GroupNorm(c // 32, c))])
def test_resnet18_is_torchvisions(name: str, norm) -> None:
    ours, theirs = whole(name, (3, 64, 64), 5), torchvision.models.resnet18(num_classes=5, norm_layer=norm)
    take_over(ours, theirs)
    x = normal(3, 3, 64, 64)
    for mode in (True, False):  # training first, so that the running statistics have moved in the test
        with torch.no_grad():
            torch.testing.assert_close(ours.train(mode)(x), theirs.train(mode)(x), rtol=1e-4, atol=1e-5)


def test_vgg11_has_torchvisions_features() -> None:
    network = build_model("vgg11", (3, 32, 32), 5, 0)
    theirs = torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["A"])
    take_over(network.base, theirs)
    x = normal(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(network.base(x), theirs(x).mean((2, 3)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet18", "vgg11", "ecg-resnet", "resnet30"])
def test_convolutions_are_kaiming_normal_by_fan_out(name: str) -> None:
    network = build_model(name, (3, 1, 64) if name == "ecg-resnet" else (3, 32, 32), 4, 0)
    wide = [m for m in network.base.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d)) and m.weight.numel() > 4000]
    assert wide
    for convolution in wide:
        expected = math.sqrt(2 / (convolution.out_channels * math.prod(convolution.kernel_size)))
        assert float(convolution.weight.detach().std()) == pytest.approx(expected, rel=0.05)
        assert convolution.bias is None or not convolution.bias.any()


def test_a_shared_affine_group_norm_by_hand() -> None:
    layer, x = SharedAffineGroupNorm(2, 6).double(), normal(3, 6, 4, 4).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([2.0, 3.0])), layer.bias.copy_(torch.tensor([0.5, -1.0]))
    groups = x.view(3, 2, -1)
    scaled = (groups - groups.mean(2, keepdim=True)) / (groups.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    expected = scaled * torch.tensor([[[2.0], [3.0]]]) + torch.tensor([[[0.5], [-1.0]]])
    torch.testing.assert_close(layer(x), expected.view_as(x).to(torch.float64))


def test_norm_layers_by_name() -> None:
    assert isinstance(norm_layer("batch")(8), nn.BatchNorm2d) and isinstance(norm_layer("batch", 1)(8), nn.BatchNorm1d)
    assert norm_layer("groups:4")(8).num_groups == 4 and norm_layer("each:32")(128).num_groups == 4
    assert norm_layer("shared:32")(512).weight.shape == (16,)


def test_shortcuts() -> None:
    x = normal(2, 3, 5, 5)
    assert torch.equal(PaddedShortcut(2, 2)(x), torch.cat([x[:, :, ::2, ::2], torch.zeros(2, 2, 3, 3)], 1))
    block = BasicBlock(3, 3, 1, norm_layer("groups:1"))
    with torch.no_grad():
        block.norm2.weight.zero_()
        assert torch.equal(block(x), x.relu()), "without the inner way a block is relu(shortcut)"


def test_attention_is_pytorchs() -> None:
    ours, theirs = Attention(12, 3), nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight), theirs.in_proj_bias.zero_()
        theirs.out_proj.weight.copy_(ours.out.weight), theirs.out_proj.bias.copy_(ours.out.bias)
        x = normal(2, 5, 12)
        torch.testing.assert_close(ours(x), theirs(x, x, x, need_weights=False)[0], rtol=1e-5, atol=1e-6)


def test_the_second_residual_of_an_encoder_branches_off_behind_its_norm() -> None:
    encoder, x = Encoder(8, 2, 16), normal(2, 3, 8)
    with torch.no_grad():
        encoder.mlp[2].weight.zero_(), encoder.mlp[2].bias.zero_()
        expected = F.layer_norm(x + encoder.attention(F.layer_norm(x, (8,))), (8,))
        torch.testing.assert_close(encoder(x), expected)


def test_tokens_are_positions_row_by_row_and_their_pool_is_a_weighted_mean() -> None:
    tokens, x = Tokens(6, 4), normal(2, 4, 2, 3)
    with torch.no_grad():
        torch.testing.assert_close((tokens(x) - tokens.position)[:, 5], x[:, :, 1, 2])
        pool, sequence = SequencePool(4), normal(2, 6, 4)
        weights = (sequence @ pool.score.weight[0] + pool.score.bias).softmax(1)
        torch.testing.assert_close(pool(sequence), torch.einsum("bt,btd->bd", weights, sequence))


def test_initial_weights_of_the_transformer() -> None:
    network = build_model("cct-7-3x1", (3, 32, 32), 100, 0)
    linear = [m for part in (network.base, network.head) for m in part.modules() if isinstance(m, nn.Linear)]
    assert len(linear) == 7 * 4 + 2  # qkv, out, two of the MLP; score, head
    for module in linear:
        if module.weight.numel() > 10_000:
            assert float(module.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
        assert module.bias is None or not module.bias.any()
    assert network.base[3].position.shape == (256, 256)
    assert float(network.base[3].position.detach().std()) == pytest.approx(0.2, rel=0.02)
    assert float(network.base[0].weight.detach().std()) == pytest.approx(math.sqrt(2 / 27), rel=0.05)


def test_the_mean_over_all_positions_padding_included() -> None:
    ids, layer = torch.tensor([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]), MeanEmbedding(5, 3)
    torch.testing.assert_close(layer(ids)[0], (layer.table.weight[3] + layer.table.weight[4]) / 4)
    assert not layer(ids)[1].any()


def test_the_padding_row_is_zero_and_never_trained() -> None:
    layer = MeanEmbedding(5, 3)
    layer(torch.tensor([[0.0, 2.0]])).sum().backward()
    assert not layer.table.weight[0].any() and not layer.table.weight.grad[0].any()
    assert layer.table.weight.grad[2].eq(0.5).all()


def test_the_largest_token_id_survives_single_precision() -> None:
    network = build_model("fasttext", (2,), 4, 0)
    x = torch.full((1, 2), 98_634.0)
    with torch.no_grad():
        torch.testing.assert_close(network.base[0](x)[0], network.base[0].table.weight[98_634])
