"""Matrices whose entries spread over many decades, and errors against exact products."""

from fractions import Fraction

import numpy as np


def graded(rows, n, decades, seed=0):
    """Entries of random sign whose magnitudes spread over a number of decades."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], (rows, n)) * 10 ** (decades * (rng.random((rows, n)) - 0.5))


def exact_product(a, b):
    rows = [[Fraction(float(x)) for x in row] for row in a]
    columns = [[Fraction(float(x)) for x in column] for column in b.T]
    return [[sum(map(lambda x, y: x * y, r, c), Fraction()) for c in columns] for r in rows]


def normwise_error(c, a, b):
    """Error in the infinity norm against the rational product, as a float."""
    difference = max(
        sum(abs(Fraction(float(x)) - exact) for x, exact in zip(row, exact_row, strict=True))
        for row, exact_row in zip(c, exact_product(a, b), strict=True)
    )
    norm = Fraction(float(np.abs(a).sum(axis=1).max())) * Fraction(
        float(np.abs(b).sum(axis=1).max())
    )
    return float(difference / norm)
