"""Many aligned sums against many rows, each record only as far as its first wrong row."""

from __future__ import annotations

import numba
import numpy as np

from mfmamodels.kernels.cache import enable_cache
from mfmamodels.kernels.general_aligned import (
    LAST_PRODUCTS,
    add_block,
    first_sum,
    load_block,
)
from mfmamodels.kernels.general_blocks import N_FMA, PADDED_K
from mfmamodels.kernels.general_wide import jit


@jit
def _load_row(formats, n_fma, padded, order, place, terms, found):
    """Decode and multiply a row once for all records."""
    for block in range(padded // n_fma):
        products = load_block(formats, n_fma, order, place, block * n_fma, terms[block])
        found[block, 0], found[block, 1], found[block, 2] = products


@jit
def _row_sum(out, kind, terms, found, c):
    """Code of one record's answer to a row."""
    d = first_sum(kind, c)
    for block in range(found.shape[0]):
        products = (found[block, 0], found[block, 1], found[block, 2])
        c, d = add_block(out, kind, terms[block], products, block * kind[N_FMA], c, d)
    return c if kind[LAST_PRODUCTS] else d


def _first_wrong(formats, kinds, order, memory, c, wanted, terms, found):
    """First row that each record gets wrong, or -1.

    ``kinds`` holds a record's parameters in each row, as :mod:`general_aligned` reads them; they
    have N_FMA, order and K in common. ``memory`` is address, row stride and stride in k of a, the
    same of b, and K; ``c`` and ``wanted`` are codes. ``terms`` (rows, blocks, 4, N_FMA) and
    ``found`` (rows, blocks, 3) are memory for the products.
    """
    n_fma, padded = kinds[0, N_FMA], kinds[0, PADDED_K]
    loaded = 0  # most records fail early, so that few rows are ever needed
    first = np.full(kinds.shape[0], -1, np.int64)
    for i in range(kinds.shape[0]):
        kind = kinds[i]
        for n in range(wanted.size):
            if n == loaded:
                place = (
                    memory[0] + n * memory[1],
                    memory[2],
                    memory[3] + n * memory[4],
                    memory[5],
                    memory[6],
                )
                _load_row(formats, n_fma, padded, order, place, terms[n], found[n])
                loaded += 1
            if _row_sum(formats[2], kind, terms[n], found[n], c[n]) != wanted[n]:
                first[i] = n
                break
    return first


first_wrong = enable_cache(
    numba.njit(error_model="numpy", nogil=True)(_first_wrong), "elimination_first_wrong"
)
