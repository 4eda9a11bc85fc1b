"""Elimination among the kinds with few parameters: chains, exact sums, pairwise sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mfmamodels.accumulation import Accumulation, Arithmetic, ExactSum, FmaChain, PairwiseSum
from mfmamodels.characterise.probing.elimination import Rows, predict
from mfmamodels.formats import Rounding

_FIRST = 12  # rows that most candidates do not survive


def simple_kinds(arithmetic_out: str) -> Iterator[Accumulation]:
    """All records of the kinds that are not aligned sums."""
    for rounding in Rounding:
        yield FmaChain(rounding)
    if arithmetic_out == "fp64":
        return
    for rounding in Rounding:
        for n in (1, 2, 4, 8, 16, 32, 64):
            for flush in (False, True):
                yield PairwiseSum(n, flush, rounding)
        for n in range(1, 65):
            yield ExactSum(n, rounding)


def consistent(candidates: Sequence[Arithmetic], rows: Sequence[Rows]) -> list[Arithmetic]:
    """Candidates that answer all rows as the box did."""
    return [c for c, row in zip(candidates, refuted_by(candidates, rows), strict=True) if row < 0]


def refuted_by(candidates: Sequence[Arithmetic], rows: Sequence[Rows]) -> list[int]:
    """Position of a row that each candidate gets wrong, counted through all rows; -1 if none."""
    found = []
    for candidate in candidates:
        found.append(_first_wrong(candidate, rows))
    return found


def _first_wrong(candidate: Arithmetic, rows: Sequence[Rows]) -> int:
    done = 0
    for part in rows:
        # A few rows first: almost every candidate fails there.
        for chunk in (slice(0, _FIRST), slice(_FIRST, None)):
            some = part.take(chunk)
            if len(some):
                wrong = np.flatnonzero(predict(candidate, some) != some.d)
                if wrong.size:
                    return done + (chunk.start or 0) + int(wrong[0])
        done += len(part)
    return -1
