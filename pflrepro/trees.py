"""Trees of tensors: the one container for parameters, states, messages and batches.

A `Tree` is a dictionary of tensors or of trees with attribute access, leaf-wise arithmetic and deep merging. It is a pytree, so
`torch.func` maps and differentiates it. Every operation is functional: it returns a new tree and leaves its operands alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from pflrepro.markup import folded, records

MOST = 6  # entries that a tree is printed with


class Tree(dict):
    """A dictionary of tensors or trees.

    * `tree.name` and `tree["name"]` give an entry; `tree[rows]` indexes the first dimension of every leaf.
    * `+ - * /` work leaf by leaf; the other operand is a tree with the same keys (else `KeyError`) or a scalar.
    * `a | b` merges deeply: entries of `b` replace those of `a`, trees are merged key by key.

    Example:
        >>> a = Tree(w=torch.ones(2), b=Tree(c=torch.zeros(1)))
        >>> (a + 2 * a).w.tolist(), sorted(a | Tree(b=Tree(d=torch.ones(1))))
        ([3.0, 3.0], ['b', 'w'])
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return dict.__getitem__(self, name)
        except KeyError:
            raise AttributeError(
                f"this tree has no entry {name!r}; it has: {', '.join(sorted(self)) or '(nothing)'}"
            ) from None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict.__getitem__(self, key)
        return self.map(lambda leaf: leaf[key])

    def map(self, function: Callable[..., Any], *others: Any) -> Tree:
        """Apply `function` to every leaf and the matching leaves of `others` (trees with equal keys, or plain values)."""
        result = Tree()
        if not others:  # the way of most calls, and a training step makes many
            for name, value in self.items():
                result[name] = value.map(function) if isinstance(value, Tree) else function(value)
            return result
        for other in others:
            if isinstance(other, Tree) and other.keys() != self.keys():
                raise KeyError(f"trees differ: {sorted(self)} and {sorted(other)}")
        for name, value in self.items():
            matching = [dict.__getitem__(o, name) if isinstance(o, Tree) else o for o in others]
            result[name] = value.map(function, *matching) if isinstance(value, Tree) else function(value, *matching)
        return result

    def __add__(self, other: Any) -> Tree:
        return self.map(operator.add, other)

    def __sub__(self, other: Any) -> Tree:
        return self.map(operator.sub, other)

    def __mul__(self, other: Any) -> Tree:
        return self.map(operator.mul, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tree:
        return self.map(operator.truediv, other)

    def __or__(self, other: Mapping[str, Any]) -> Tree:
        merged = Tree(self)
        for name, value in other.items():
            mine = merged.get(name)
            merged[name] = mine | value if isinstance(mine, Tree) and isinstance(value, Tree) else value
        return merged

    def only(self, names: Iterable[str]) -> Tree:
        """The entries called `names`, those that exist."""
        return Tree({name: dict.__getitem__(self, name) for name in names if name in self})

    def without(self, names: Iterable[str]) -> Tree:
        """All entries but those called `names`."""
        dropped = set(names)
        return Tree({name: value for name, value in self.items() if name not in dropped})

    def leaves(self) -> Iterator[Tensor]:
        """All tensors, depth first, in key order."""
        for name in sorted(self):
            value = dict.__getitem__(self, name)
            if isinstance(value, Tree):
                yield from value.leaves()
            else:
                yield value

    def refill(self, leaves: Iterator[Tensor]) -> Tree:
        """A tree of the same keys with the next tensors of `leaves`, in the order of `leaves()`."""
        filled = {}
        for name in sorted(self):
            value = dict.__getitem__(self, name)
            filled[name] = value.refill(leaves) if isinstance(value, Tree) else next(leaves)
        return Tree(filled)

    def has_leaves(self) -> bool:
        """Whether there is any tensor in the tree."""
        return next(self.leaves(), None) is not None

    def dot(self, other: Tree) -> Tensor:
        """The inner product of two trees with equal keys: the sum over all entries of the products."""
        return reduce(operator.add, (leaf.sum() for leaf in self.map(operator.mul, other).leaves()))

    def squared_norm(self) -> Tensor:
        """The squared Euclidean norm over all entries."""
        return self.dot(self)

    def put(self, rows: Tensor, values: Tree) -> Tree:
        """A copy whose `rows` (first dimension of every leaf) are replaced by `values`."""
        return self.map(lambda old, new: old.index_copy(0, rows, new.to(old.dtype)), values)

    def mix(self, weights: Tensor) -> Tree:
        """The weighted sums over the rows: sum_j weights[..., j] * leaf[j] for every leaf."""
        return self.map(lambda leaf: _mixed(weights.to(leaf.dtype), leaf))

    def lerp(self, other: Tree, weight: Tensor | float) -> Tree:
        """self + weight (other - self) for every leaf: exactly `self` at 0 and `other` at 1 (`torch.lerp`)."""
        return self.map(lambda a, b: torch.lerp(a, b, weight), other)

    def project(self, other: Tree) -> Tensor:
        """The inner products of every row with `other`: [rows], sum over all entries of leaf[j] * other."""
        return reduce(operator.add, self.map(_projected, other).leaves())

    def to(self, *args: Any, **kwargs: Any) -> Tree:
        """`Tensor.to` on every leaf."""
        return self.map(lambda leaf: leaf.to(*args, **kwargs))

    def size(self) -> int:
        """The number of scalars."""
        return sum(leaf.numel() for leaf in self.leaves())

    def flat(self, prefix: str = "") -> dict[str, Tensor]:
        """All leaves by their path, keys joined with "/"."""
        result: dict[str, Tensor] = {}
        for name, value in self.items():
            if isinstance(value, Tree):
                result |= value.flat(f"{prefix}{name}/")
            else:
                result[f"{prefix}{name}"] = value
        return result

    def __repr__(self) -> str:
        """The first entries with their shapes, and how many numbers they all have."""
        shapes = [f"{path} {_shape(leaf)}" for path, leaf in self.flat().items()]
        more = [f"{len(shapes) - MOST} more"] if len(shapes) > MOST else []
        numbers = sum(leaf.numel() for leaf in self.leaves() if isinstance(leaf, Tensor))
        said = f"{', '.join(shapes[:MOST] + more)}; {numbers:,} numbers" if shapes else ""
        return f"{type(self).__name__}({said})"

    def _repr_html_(self) -> str:
        leaves = self.flat()
        lines = [{"entry": path, "shape": _shape(leaf)} for path, leaf in leaves.items()]
        return folded(repr(self), records(lines), opened=len(leaves) <= MOST)

    @classmethod
    def of_paths(cls, leaves: Mapping[str, Tensor]) -> Tree:
        """The tree that has these leaves: `Tree.of_paths(tree.flat())` is `tree`."""
        tree = cls()
        for path, leaf in leaves.items():
            *folders, name = path.split("/")
            place = tree
            for folder in folders:
                place = place.setdefault(folder, cls())
            place[name] = leaf
        return tree


def _shape(leaf: Any) -> str:
    return str(list(leaf.shape)) if isinstance(leaf, Tensor) else repr(leaf)


def _mixed(weights: Tensor, leaf: Tensor) -> Tensor:
    """sum_j weights[..., j] * leaf[j], in the memory order that the rows of `leaf` have."""
    order = _memory_order(leaf)
    if order == list(range(1, leaf.ndim)):
        return torch.tensordot(weights, leaf, 1)
    mixed = torch.tensordot(weights, leaf.permute(0, *order), 1)
    kept = weights.ndim - 1
    back = [kept + order.index(dimension) for dimension in range(1, leaf.ndim)]
    return mixed.permute(*range(kept), *back)


def _projected(rows: Tensor, leaf: Tensor) -> Tensor:
    """<rows[j], leaf> for every j, read in the memory order of `rows`."""
    order = _memory_order(rows)
    return rows.permute(0, *order).flatten(1) @ leaf.permute([axis - 1 for axis in order]).flatten()


def _memory_order(rows: Tensor) -> list[int]:
    """The axes of `rows` but the first, from the largest stride to the smallest."""
    # a channel axis of length 1 has no order of its own: it goes last, as the channels-last layout has it
    return sorted(range(1, rows.ndim), key=lambda axis: (rows.stride(axis), rows.shape[axis]), reverse=True)


def _flatten(tree: Tree) -> tuple[list[Any], list[str]]:
    names = sorted(tree)
    return [dict.__getitem__(tree, name) for name in names], names


pytree.register_pytree_node(
    Tree,
    _flatten,
    lambda values, names: Tree(zip(names, values, strict=True)),
    serialized_type_name="pflrepro.trees.Tree",
)


class WholeBatch(Tree):
    """A batch without padding: every row is a true one, so that a mean needs no mask. Merged with anything it is a plain tree."""


def select(condition: Tensor, chosen: Tree, otherwise: Tree) -> Tree:
    """`chosen` where the scalar `condition` holds, `otherwise` elsewhere; both must be finite."""
    return chosen.map(lambda a, b: torch.where(condition, a, b), otherwise)


def stack(trees: list[Tree]) -> Tree:
    """Equal trees as one tree with a new first dimension."""
    return trees[0].map(lambda *leaves: torch.stack(leaves), *trees[1:])


def concatenate(trees: list[Tree]) -> Tree:
    """Stacked trees, one after the other along the first dimension."""
    return trees[0].map(lambda *leaves: torch.cat(leaves), *trees[1:]) if len(trees) > 1 else trees[0]


def repeat(tree: Tree, rows: int) -> Tree:
    """`rows` equal copies of a tree along a new first dimension."""
    return tree.map(lambda leaf: leaf.expand(rows, *leaf.shape).clone())
