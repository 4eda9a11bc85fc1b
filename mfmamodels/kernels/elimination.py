"""Many aligned sums against many rows, each record only as far as its first wrong row."""

from __future__ import annotations

import numba
import numpy as np

from mfmamodels.kernels.cache import enable_cache
from mfmamodels.kernels.general_aligned import aligned_dot


def _first_wrong(formats, kinds, order, memory, c, wanted):
    """First row that each record gets wrong, or -1.

    ``kinds`` holds a record's parameters in each row, as :mod:`general_aligned` reads them;
    ``memory`` is address, row stride and stride in k of a, the same of b, and K; ``c`` and
    ``wanted`` are codes.
    """
    found = np.full(kinds.shape[0], -1, np.int64)
    scratch = np.empty((3, 64), np.int64)
    for i in range(kinds.shape[0]):
        kind = kinds[i]
        for n in range(wanted.size):
            place = (
                memory[0] + n * memory[1],
                memory[2],
                memory[3] + n * memory[4],
                memory[5],
                memory[6],
            )
            if aligned_dot(formats, kind, order, place, c[n], scratch) != wanted[n]:
                found[i] = n
                break
    return found


first_wrong = enable_cache(
    numba.njit(error_model="numpy", nogil=True)(_first_wrong), "elimination_first_wrong"
)
