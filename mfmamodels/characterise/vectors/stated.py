"""How the paper states a test: values of products, permutations, running indices, both signs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

#: A product by its value, or by its operands where the text gives them.
Product = float | tuple[float, float]

INF = math.inf
#: The NaN with the sign bit set that AMD's cores give.
MINUS_NAN = math.copysign(math.nan, -1.0)


@dataclass(frozen=True)
class Stated:
    """One test vector as the text has it, before a format is chosen.

    Attributes
    ----------
    test : str
        What is tested, with the value of the running index.
    p : mapping
        Products by index, counted from 1 as in the paper; those not named are zero.
    c : float
    d : float or None
        Stated output. None where the text says only that the outputs of this test's vectors
        differ among themselves.
    total : float
        A value stated for the sum of products only ...
    over : tuple of int
        ... and the indices over which it may be spread.
    """

    test: str
    p: Mapping[int, Product]
    c: float
    d: float | None
    total: float = 0.0
    over: tuple[int, ...] = ()


def power_sum(first: int, last: int) -> float:
    """2^-first + 2^-(first+1) + ... + 2^-last."""
    return sum(2.0**-e for e in range(first, last + 1))


def _negated(product: Product) -> Product:
    return (-product[0], product[1]) if isinstance(product, tuple) else -product


def both_signs(vector: Stated, negative_d: float | None = None) -> Iterator[Stated]:
    """Yield the vector and its negative; ``negative_d`` where that output is not just -d."""
    yield replace(vector, test=f"{vector.test}, positive")
    assert vector.d is not None
    yield replace(
        vector,
        test=f"{vector.test}, negative",
        p={i: _negated(x) for i, x in vector.p.items()},
        c=-vector.c,
        d=-vector.d if negative_d is None else negative_d,
        total=-vector.total,
    )


def permuted(
    test: str,
    values: Sequence[float],
    places: Sequence[str],
    d: Callable[[dict[str, float]], float | None] | float | None,
) -> Iterator[Stated]:
    """Put values into places ("c", "p1", ...) in every order.

    ``d`` is the output, or a function of what is where.
    """
    for order in sorted(set(permutations(values))):
        where = dict(zip(places, order, strict=True))
        label = ", ".join(f"{place}={value.hex()}" for place, value in where.items())
        yield Stated(
            f"{test}; {label}",
            {int(place[1:]): value for place, value in where.items() if place != "c"},
            where.get("c", 0.0),
            d(where) if callable(d) else d,
        )
