"""Which products are added together: blocks, their order, and even and odd apart.

A pair of positions is known by its *relation*: the answers to rows with one product at either
position and c, over many distances of exponents and all signs. Positions that stand in one
relation to each other give one tuple of answers, whatever the core's widths and roundings are; so
blocks appear as classes before any width is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfmamodels.characterise.probing.instructions import Triples, instruction_orders
from mfmamodels.characterise.probing.rows import Bench, Queries, Term

Ask = Callable[[Queries], NDArray]
Relation = bytes


@dataclass(frozen=True)
class Structure:
    """A hypothesis on how positions form blocks.

    Attributes
    ----------
    n_fma : int
    interleave : int
    order : tuple of int
        Empty if products enter as they come.
    products : int
        Products of one instruction, where c is added last; else 0.
    """

    n_fma: int
    interleave: int = 1
    order: tuple[int, ...] = ()
    products: int = 0


def pair_patterns(
    bench: Bench, top: int
) -> list[tuple[NDArray, NDArray, NDArray, NDArray, NDArray]]:
    """Rows of two products and c, as (sign x, exponent x, sign y, exponent y, c).

    Half units of c in both products; a small product against one that cancels c; a small c against
    products that cancel.
    """
    depth = min(60, top - bench.lowest)
    t = np.repeat(np.arange(0, depth + 1), 4)
    s1, s2 = np.tile([1, 1, -1, -1], depth + 1), np.tile([1, -1, 1, -1], depth + 1)
    unit = np.ldexp(1.0, top)
    high, low = np.full(t.size, top), top - t
    small_c = np.ldexp(1.0, np.maximum(low, bench.out.emin)) * s2
    zero = np.zeros(t.size)
    return [
        (s2, low, s2, low, s1 * unit),
        (s1, high, s2, low, -s1 * unit),
        (s2, low, s1, high, -s1 * unit),
        (s1, high, -s1, high, small_c),
        (s1, high, s2, low, zero),
        (s2, low, s1, high, zero),
    ]


class Relations:
    """Relations between positions, asked for as they are needed."""

    def __init__(self, bench: Bench, ask: Ask, top: int, k: int, *, fixed: bool = False) -> None:
        self.bench, self.top, self.k, self.fixed = bench, top, k, fixed
        self._ask = ask
        sx, ex, sy, ey, c = (
            np.concatenate(x) for x in zip(*pair_patterns(bench, top), strict=True)
        )
        self._a, self._b, self._c = bench.rows(2, [Term(0, ex, sx), Term(1, ey, sy)], c)
        self._chosen = np.arange(self._c.size)
        self._known: dict[tuple[int, int], Relation] = {}
        self._choose()

    def _rows(self, pairs: list[tuple[int, int]]) -> Queries:
        """All chosen patterns on each pair of positions."""
        one = self._chosen.size
        a, b = (np.zeros((len(pairs) * one, self.k), x.dtype) for x in (self._a, self._b))
        for n, pair in enumerate(pairs):
            part = slice(n * one, (n + 1) * one)
            a[part, pair] = self._a[self._chosen]
            b[part, pair] = self._b[self._chosen]
        return a, b, np.tile(self._c[self._chosen], len(pairs))

    def _choose(self) -> None:
        """Keep the patterns that tell some sample of pairs apart."""
        last = self.k - 1
        near = [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64]
        sample = [(0, j) for j in near if j < last] + [(0, last), (last, 0)]
        sample += [(last - 1, 1), (5 % self.k, 4 % self.k), (4 % self.k, 5 % self.k)]
        sample = list(dict.fromkeys((i, j) for i, j in sample if i != j and min(i, j) >= 0))
        answers = self._ask_all(sample)
        varied = np.flatnonzero((answers != answers[0]).any(axis=0))
        # Equal columns tell nothing new; a few of each survive.
        columns: dict[bytes, list[int]] = {}
        for n in varied:
            columns.setdefault(_partition(answers[:, n]), []).append(n)
        kept = [n for alike in columns.values() for n in alike[:3]]
        self._chosen = np.array(sorted(kept), np.int64)

    def ask(self, queries: Queries) -> NDArray:
        """Answers, with +0 for zeros: blocks of zeros at a row's end may change their sign."""
        d = self._ask(queries)
        minus_zero = d.dtype.type(self.bench.out.sign_mask)
        return np.where(d == minus_zero, d.dtype.type(0), d)

    def _ask_all(self, pairs: list[tuple[int, int]]) -> NDArray:
        return self.ask(self._rows(pairs)).reshape(len(pairs), -1)

    @property
    def any_differ(self) -> bool:
        """Whether any two pairs of positions behave differently."""
        return self._chosen.size > 0

    def of(self, i: int, others: range | list[int]) -> list[Relation]:
        """Relations of i to other positions."""
        if not self.any_differ:
            return [b""] * len(others)
        missing = [(i, j) for j in others if j != i and (i, j) not in self._known]
        if missing:
            for pair, answer in zip(missing, self._ask_all(missing), strict=True):
                self._known[pair] = answer.tobytes()
        return [self._known[i, j] if i != j else b"self" for j in others]


def _partition(column: NDArray) -> bytes:
    """How a column groups the pairs, whatever the values are."""
    return np.unique(column, return_inverse=True)[1].astype(np.int16).tobytes()


def hypotheses(relations: Relations) -> Iterator[Structure]:
    """Structures of aligned sums that the relations allow, likeliest first."""
    seen: set[Structure] = set()
    for structure in _all_hypotheses(relations):
        if structure not in seen:
            seen.add(structure)
            yield structure


def _all_hypotheses(relations: Relations) -> Iterator[Structure]:
    k = relations.k
    if relations.any_differ:
        yield from _from_relations(relations)
    else:
        yield Structure(1)
    if relations.fixed:
        # The whole row may be one block, or one instruction; then no pair lies apart.
        yield Structure(k)
        if k % 2 == 0:
            yield Structure(k, 2)
        triples = Triples(relations.bench, relations.ask, relations.top, k, k)
        for n, order in instruction_orders(triples):
            yield Structure(n, 1, order, k)


def _from_relations(relations: Relations) -> Iterator[Structure]:
    k = relations.k
    of_zero = relations.of(0, range(1, k))
    # A pair far apart lies in different runs of blocks: what it shows is no sign of a common block.
    later = of_zero[-1]
    earlier = relations.of(k - 1, [0])[0]
    apart = {later, earlier}
    labels = list(dict.fromkeys(x for x in of_zero[: k // 2] if x not in apart))
    yield from _candidates(relations, labels)


def _candidates(relations: Relations, labels: list[Relation]) -> Iterator[Structure]:
    run = relations.k // 2
    inside = 1 + max(
        (j for j, x in enumerate(relations.of(0, range(run))) if x in labels), default=0
    )
    subsets = [tuple(labels)] + [(x,) for x in labels]
    if len(labels) > 2:
        subsets += [(x, y) for i, x in enumerate(labels) for y in labels[i + 1 :]]
    for same in dict.fromkeys(subsets):
        blocks = _blocks(relations, set(same), run)
        if blocks is None:
            continue
        n = len(blocks[0])
        yield from _ordered(relations, blocks, same, n)
    if not labels:
        yield Structure(1)
        return
    # Within one instruction whose c comes last, two products show no blocks: three are needed.
    triples = Triples(relations.bench, relations.ask, relations.top, inside, relations.k)
    for n, order in instruction_orders(triples):
        yield Structure(n, 1, order, inside)


def _blocks(relations: Relations, same: set[Relation], run: int) -> list[list[int]] | None:
    """Classes of positions under "in the same block", if it is an equivalence of equal classes."""
    first = [0] + [j for j, x in enumerate(relations.of(0, range(run))) if x in same]
    n = len(first)
    if run % n and n > run // 2:
        return None
    if first == list(range(n)):
        # Contiguous: the next block must look alike, and then all do.
        second = relations.of(n, range(min(2 * n + 1, relations.k)))
        expected = [j for j, x in enumerate(second) if x in same]
        if expected == list(range(n + 1, 2 * n)):
            return [list(range(i, i + n)) for i in range(0, run - n + 1, n)]
        return None
    blocks, assigned = [], set()
    for i in range(run):
        if i in assigned:
            continue
        mates = [j for j, x in enumerate(relations.of(i, range(run))) if x in same]
        block = sorted({i, *mates})
        if len(block) != n:
            break  # a run that the length cuts off
        if assigned & set(block):
            return None
        blocks.append(block)
        assigned |= set(block)
    return blocks


def _ordered(
    relations: Relations, blocks: list[list[int]], same: tuple[Relation, ...], n: int
) -> Iterator[Structure]:
    """Structures with these blocks: order of the blocks, parity classes."""
    period = _period(blocks, n)
    if period is None:
        return
    run_blocks = [b for b in blocks if max(b) < period]
    sequence = _sequence(relations, run_blocks)
    contiguous = sequence == [list(range(i, i + n)) for i in range(0, period, n)]
    if len(same) == 1:
        order = () if contiguous else tuple(k for b in sequence for k in b)
        yield Structure(n, 1, order)
        if n % 2 == 0:
            yield Structure(n, 2, order)
        return
    for label in same:
        halves = [_halves(relations, b, label) for b in sequence]
        if all(h is not None for h in halves):
            order = tuple(k for h in halves for pair in zip(*h, strict=True) for k in pair)  # type: ignore[misc]
            natural = order == tuple(range(period))
            yield Structure(n, 2, () if natural else order)


def _period(blocks: list[list[int]], n: int) -> int | None:
    """Shortest run of whole blocks that repeats."""
    end = max(max(b) for b in blocks) + 1
    known = {tuple(b) for b in blocks}
    for period in range(n, end + 1, n):
        inside = [b for b in blocks if max(b) < period]
        if len(inside) * n != period:
            continue
        shifted = {tuple(x + s for x in b) for b in inside for s in range(0, end, period)}
        if all(b in shifted for b in known):
            return period
    return None


def _sequence(relations: Relations, blocks: list[list[int]]) -> list[list[int]]:
    """Blocks of a run in the order in which they are added.

    Two blocks of a run are told by the relation between positions certainly in that order: one in
    this run and one in the next.
    """
    if len(blocks) < 2:
        return blocks
    last = relations.k - 1
    earlier = relations.of(last, [0])[0]

    def before(x: list[int], y: list[int]) -> bool:
        return relations.of(y[0], [x[0]])[0] == earlier

    places = [sum(before(other, b) for other in blocks if other is not b) for b in blocks]
    return [b for _, b in sorted(zip(places, blocks, strict=True), key=lambda pair: pair[0])]


def _halves(
    relations: Relations, block: list[int], label: Relation
) -> tuple[list[int], list[int]] | None:
    """Split a block by a relation that holds within either half."""
    own = [block[0]] + [j for j in block[1:] if relations.of(block[0], [j])[0] == label]
    other = [j for j in block if j not in own]
    return (own, other) if len(own) == len(other) else None
