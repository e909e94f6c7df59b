"""Trees: arithmetic, merging, paths, and their life as pytrees."""

from __future__ import annotations

import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given
from hypothesis import strategies as st
from torch.func import grad, vmap

from pflrepro.trees import Tree, concatenate, repeat, select, stack


def tree(scale: float = 1.0) -> Tree:
    return Tree(
        w=scale * torch.tensor([1.0, 2.0]), inner=Tree(b=scale * torch.tensor([3.0]), a=scale * torch.tensor([[4.0]]))
    )


def lists(value: Tree) -> dict:
    return {path: leaf.tolist() for path, leaf in value.flat().items()}


def test_arithmetic_works_leaf_by_leaf() -> None:
    assert lists(tree() + 2 * tree()) == {"w": [3.0, 6.0], "inner/b": [9.0], "inner/a": [[12.0]]}
    assert lists(tree() - tree(0.5)) == {"w": [0.5, 1.0], "inner/b": [1.5], "inner/a": [[2.0]]}
    assert lists(tree() * tree() / 2) == {"w": [0.5, 2.0], "inner/b": [4.5], "inner/a": [[8.0]]}
    assert lists(tree() * torch.tensor(3.0)) == lists(3.0 * tree())


def test_interpolation_is_exact_at_both_ends() -> None:
    a, b = tree(0.1), tree(0.7)
    assert lists(a.lerp(b, 0.0)) == lists(a) and lists(a.lerp(b, torch.tensor(1.0))) == lists(b)
    assert lists(tree().lerp(tree(3.0), 0.25)) == {"w": [1.5, 3.0], "inner/b": [4.5], "inner/a": [[6.0]]}
    with pytest.raises(KeyError, match="trees differ"):
        a.lerp(b.only(["w"]), 0.5)


def test_operands_are_left_alone() -> None:
    a, b = tree(), tree(2.0)
    a + b, a | b, a | Tree(new=torch.ones(1)), a.only(["w"]), a.without(["w"]), a.put(torch.tensor([0]), a[:1])
    assert lists(a) == lists(tree()) and lists(b) == lists(tree(2.0))


@pytest.mark.parametrize("other", [Tree(w=torch.ones(2)), Tree(w=torch.ones(2), inner=Tree(b=torch.ones(1)))])
def test_arithmetic_of_trees_with_unequal_keys_raises(other: Tree) -> None:
    with pytest.raises(KeyError, match="trees differ"):
        tree() + other
    with pytest.raises(KeyError, match="trees differ"):
        tree().dot(other)


def test_a_tree_is_printed_by_names_and_shapes_in_a_line() -> None:
    assert repr(tree()) == "Tree(w [2], inner/b [1], inner/a [1, 1]; 4 numbers)" and repr(Tree()) == "Tree()"
    large = Tree({f"layer{number}": torch.zeros(100, 100) for number in range(9)})
    assert repr(large).endswith("layer5 [100, 100], 3 more; 90,000 numbers)") and "\n" not in repr(large)
    html = large._repr_html_()
    assert html.count("<tr>") == 1 + 9 and "layer8" in html and html.startswith("<details><summary>")


def test_merging_is_deep_and_the_right_side_wins() -> None:
    merged = tree() | Tree(inner=Tree(b=torch.tensor([9.0]), new=torch.tensor([1.0])))
    assert lists(merged) == {"w": [1.0, 2.0], "inner/b": [9.0], "inner/a": [[4.0]], "inner/new": [1.0]}
    assert lists(tree() | Tree(inner=torch.tensor([5.0]))) == {"w": [1.0, 2.0], "inner": [5.0]}
    assert type(tree() | {}) is Tree


def test_entries_by_name_by_attribute_and_rows_by_index() -> None:
    value = tree()
    assert value.inner.b is value["inner"]["b"]
    with pytest.raises(AttributeError, match=r"no entry 'v'; it has: inner, w"):
        _ = value.v
    assert lists(stack([tree(), tree(2.0)])[1]) == lists(tree(2.0))
    assert not hasattr(Tree(), "anything")


def test_only_and_without_split_a_tree() -> None:
    assert list(tree().only(["w", "absent"])) == ["w"]
    assert list(tree().without(["w", "absent"])) == ["inner"]


def test_inner_product_norm_and_size() -> None:
    assert tree().dot(tree(2.0)).item() == 2 * (1 + 4 + 9 + 16)
    assert tree().squared_norm().item() == 30
    assert tree().size() == 4 and tree().has_leaves()
    assert Tree().size() == 0 and not Tree(inner=Tree()).has_leaves()


def test_leaves_come_in_key_order_whatever_the_order_of_insertion() -> None:
    assert [leaf.item() for leaf in Tree(b=torch.tensor(1.0), a=Tree(z=torch.tensor(2.0))).leaves()] == [2.0, 1.0]


def test_put_replaces_rows_and_keeps_the_number_type() -> None:
    store = Tree(a=torch.zeros(3, 2), n=torch.zeros(3, dtype=torch.int64))
    new = store.put(torch.tensor([2, 0]), Tree(a=torch.tensor([[1.0, 1.0], [2.0, 2.0]]), n=torch.tensor([5.0, 6.0])))
    assert new.a.tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    assert new.n.tolist() == [6, 0, 5] and new.n.dtype == torch.int64


def test_mix_takes_weighted_sums_over_rows() -> None:
    rows = stack([tree(), tree(3.0)])
    assert lists(rows.mix(torch.tensor([0.25, 0.75]))) == lists(tree(2.5))
    matrix = rows.mix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert lists(matrix[0]) == lists(tree()) and lists(matrix[1]) == lists(tree(2.0))


def test_project_takes_the_inner_product_with_every_row() -> None:
    rows = Tree(w=torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [0.0, 0.0]]]), b=torch.tensor([[1.0], [2.0]]))
    other = Tree(w=torch.tensor([[1.0, 0.0], [2.0, 1.0]]), b=torch.tensor([10.0]))
    assert rows.project(other).tolist() == [1 + 6 + 4 + 10, 20]
    turned = rows | Tree(w=rows.w.transpose(1, 2).contiguous().transpose(1, 2))  # another memory order
    assert turned.project(other).tolist() == [21, 20]


def test_select_stack_concatenate_repeat() -> None:
    assert lists(select(torch.tensor(True), tree(), tree(2.0))) == lists(tree())
    assert lists(select(torch.tensor(False), tree(), tree(2.0))) == lists(tree(2.0))
    both = concatenate([stack([tree(), tree(2.0)]), stack([tree(3.0)])])
    assert [lists(both[i]) for i in range(3)] == [lists(tree(s)) for s in (1.0, 2.0, 3.0)]
    copies = repeat(tree(), 2)
    copies.w[0] += 1
    assert copies.w[1].tolist() == [1.0, 2.0], "copies share no memory"


@pytest.mark.parametrize("weights", [[0.2, 0.8, 0.0], [[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]]])
def test_mixing_keeps_values_and_memory_order_of_the_rows(weights) -> None:
    plain = Tree(matrix=torch.randn(3, 4, 5), kernel=torch.randn(3, 2, 3, 4, 5), vector=torch.randn(3, 7))
    moved = Tree(
        matrix=plain.matrix.mT.contiguous().mT,
        kernel=plain.kernel.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3),
        vector=plain.vector,
    )
    weights = torch.tensor(weights)
    expected, found = plain.mix(weights), moved.mix(weights)
    for name in plain:
        torch.testing.assert_close(found[name], expected[name])
        torch.testing.assert_close(
            vmap(lambda w, name=name: moved.only([name]).mix(w))(weights[None])[name][0], found[name]
        )
    single = torch.randn(3, 2, 4, 5, 1).permute(0, 1, 4, 2, 3)  # one channel, channels-last
    assert Tree(k=single).mix(weights).k.stride()[-4:] == single.stride()[-4:] == (20, 1, 5, 1)
    assert found.matrix.stride()[-2:] == (1, 4) and found.kernel.stride()[-4:] == moved.kernel.stride()[-4:]


def test_flat_gives_paths() -> None:
    assert list(tree().flat()) == ["w", "inner/b", "inner/a"]
    assert list(tree().flat("p/")) == ["p/w", "p/inner/b", "p/inner/a"]
    again = Tree.of_paths(tree().flat())
    assert again.keys() == tree().keys() and again.inner.keys() == tree().inner.keys()
    assert all(torch.equal(a, b) for a, b in zip(again.leaves(), tree().leaves(), strict=True))


keys = st.sampled_from("abcd")
shapes = st.recursive(st.just(None), lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=6)


def build(shape: dict | None) -> Tree | torch.Tensor:
    if shape is None:
        return torch.ones(2)
    return Tree({name: build(value) for name, value in shape.items()})


@given(st.dictionaries(keys, shapes, max_size=3))
def test_a_tree_is_a_pytree(shape: dict) -> None:
    value = build(shape)
    leaves, spec = pytree.tree_flatten(value)
    again = pytree.tree_unflatten(leaves, spec)
    assert type(again) is Tree and lists(again) == lists(value)
    assert len(leaves) == len(list(value.leaves())) == len(value.flat())


@given(st.dictionaries(keys, shapes, max_size=3), st.dictionaries(keys, shapes, max_size=3))
def test_merging_keeps_every_path_of_the_right_side(a: dict, b: dict) -> None:
    merged, right = build(a) | build(b), build(b)
    assert set(right.flat()) <= set(merged.flat())
    assert lists(merged | right) == lists(merged), "merging twice changes nothing"


def test_trees_differentiate_and_vectorise() -> None:
    gradients = grad(lambda t: t.squared_norm())(tree())
    assert lists(gradients) == lists(2 * tree())
    rows = stack([tree(), tree(2.0)])
    assert vmap(lambda t: (t | Tree(extra=t.w)).squared_norm())(rows).tolist() == [35.0, 140.0]
