"""Blocks inside one instruction whose c is added last: told apart by three products.

There c never meets a block, so two products are not enough: a third one takes the place of c. If
it lies in the first block, two others share a block exactly if they show one certain relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mfmamodels.characterise.probing.rows import Bench, Queries, Term

Ask = Callable[[Queries], NDArray]
Partition = list[list[int]]


class Triples:
    """Relations between positions j and k beside a large product at z."""

    def __init__(self, bench: Bench, ask: Ask, top: int, products: int, k: int) -> None:
        self.ask, self.products, self.k = ask, products, k
        depth = min(60, top - bench.lowest)
        t = np.repeat(np.arange(1, depth + 1), 4)
        s, s2 = np.tile([1, 1, -1, -1], depth), np.tile([1, -1, 1, -1], depth)
        high, low = np.full(t.size, top), top - t
        patterns = [  # half units together; a cancellation with a small product left
            ((high, s), (low, s2), (low, s2)),
            ((high, s), (high, -s), (low, s2)),
            ((high, s), (low, s2), (high, -s)),
        ]
        terms = [
            Term(i, *(np.concatenate([p[i][n] for p in patterns]) for n in range(2)))
            for i in range(3)
        ]
        self._a, self._b, self._c = bench.rows(3, terms, np.zeros(3 * t.size))
        self._chosen = np.arange(self._c.size)
        sample = [(0, j, k) for j in (1, products // 2, products - 1) for k in range(products)]
        sample += [(products - 1, 0, k) for k in range(products)]
        answers = self.of([x for x in sample if len(set(x)) == 3])
        self._chosen = _distinct_columns(answers)

    def of(self, triples: list[tuple[int, int, int]]) -> NDArray:
        """Answers to all chosen patterns on each triple of positions."""
        one = self._chosen.size
        if one == 0 or not triples:
            return np.zeros((len(triples), 0), np.int64)
        a, b = (np.zeros((len(triples) * one, self.k), x.dtype) for x in (self._a, self._b))
        for n, triple in enumerate(triples):
            part = slice(n * one, (n + 1) * one)
            a[part, triple] = self._a[self._chosen]
            b[part, triple] = self._b[self._chosen]
        return self.ask((a, b, np.tile(self._c[self._chosen], len(triples)))).reshape(-1, one)

    def partitions(self, z: int) -> Iterator[Partition]:
        """Classes that the relations beside z make, if they are classes at all."""
        rest = [j for j in range(self.products) if j != z]
        first = self.of([(z, rest[0], k) for k in rest[1:]])
        for label in dict.fromkeys(x.tobytes() for x in first):
            partition = self._classes(z, rest, label)
            if partition is not None:
                yield partition

    def _classes(self, z: int, rest: list[int], label: bytes) -> Partition | None:
        classes: Partition = []
        left = list(rest)
        while left:
            j, others = left[0], left[1:]
            mates = [k for k, x in zip(others, self.of([(z, j, k) for k in others]), strict=True)
                     if x.tobytes() == label]  # fmt: skip
            classes.append([j, *mates])
            left = [k for k in others if k not in mates]
        return classes


def instruction_orders(triples: Triples) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Sizes of blocks within an instruction, and the order in which products enter them."""
    products = triples.products
    if products < 3:
        yield products, ()
        yield 1, ()
        return
    best: dict[int, list[list[int]]] = {}
    for z in range(products):
        for classes in triples.partitions(z):
            n = products // len(classes)
            short = [c for c in classes if len(c) == n - 1]
            others = [c for c in classes if len(c) == n]
            if len(short) == 1 and len(others) == len(classes) - 1:
                best.setdefault(n, [sorted([z, *short[0]]), *others])
            if n == 1 and len(classes) == products - 1:
                best.setdefault(1, [[z], *classes])
        if best and (z >= 3 or min(best) < products):
            break
    for n, blocks in sorted(best.items()):
        sequence = _in_order(triples, blocks) if n < products else blocks
        order = tuple(k for block in sequence for k in sorted(block))
        yield n, () if order == tuple(range(products)) else order
    if products not in best:
        yield products, ()


def _in_order(triples: Triples, blocks: Partition) -> Partition:
    """Blocks in the order in which they are added.

    A large product in a later block lets those of all earlier ones pass as one class, so the number
    of distinct relations shrinks along the order.
    """
    seen = []
    for block in blocks:
        z = block[0]
        heads = [b[0] if b is not block else b[-1] for b in blocks]
        pairs = [(z, j, k) for j in heads for k in heads if len({z, j, k}) == 3]
        same = _same_label(triples, block, blocks)
        seen.append(sum(x.tobytes() == same for x in triples.of(pairs)))
    return [b for _, b in sorted(zip(seen, blocks, strict=True), key=lambda pair: pair[0])]


def _same_label(triples: Triples, block: list[int], blocks: Partition) -> bytes:
    """Relation of two positions of one block, beside a large product in the first block."""
    other = next(b for b in blocks if b is not block)
    pair = other if len(other) > 1 else block
    if len(pair) < 2 or len({block[0], *pair[:2]}) < 3:
        return b""
    return triples.of([(block[0], pair[0], pair[1])])[0].tobytes()


def _distinct_columns(answers: NDArray) -> NDArray:
    """A few columns of every way in which columns group the rows."""
    columns: dict[bytes, list[int]] = {}
    for n in np.flatnonzero((answers != answers[:1]).any(axis=0)):
        groups = np.unique(answers[:, n], return_inverse=True)[1].astype(np.int16)
        columns.setdefault(groups.tobytes(), []).append(int(n))
    kept = [n for alike in columns.values() for n in alike[:2]]
    return np.array(sorted(kept), np.int64)
