"""How long a row is, and which products of it share a block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import AlignedSum, Arithmetic, FmaChain, LastC


def run_length(core: Arithmetic) -> int:
    """Products after which the pattern of blocks repeats (those of one instruction, at least)."""
    kind = core.accumulation
    if isinstance(kind, AlignedSum):
        last = kind.c.products if isinstance(kind.c, LastC) else 1
        return max(kind.n_fma, len(kind.order), last)
    return kind.n_fma


def default_k(core: Arithmetic) -> int:
    """Products in a validation row: the largest k of the instruction, where the paper has one.

    5.1.1 to 5.1.4: 16 for fp16, bf16 and the 8-bit formats, but 8 for CDNA1's bf16 and for xf32.
    That is two blocks and more on all but CDNA3's 8-bit cores. Other cores: two runs of blocks.
    """
    kind = core.accumulation
    if isinstance(kind, FmaChain):
        return 4
    if getattr(core, "vendor", "") == "AMD":
        short = core.a.name == "xf32" or (core.a.name == "bf16" and core.arch == "CDNA1")  # type: ignore[attr-defined]
        return 8 if short else 16
    return 2 * run_length(core)


def block_slots(core: Arithmetic, k: int) -> NDArray[np.int64]:
    """Positions in a row of the products of each whole block, shape (blocks, n_fma).

    A row shorter than a block has one block, of all its positions.
    """
    n_fma = core.accumulation.n_fma
    order = core.accumulation.order if isinstance(core.accumulation, AlignedSum) else ()
    pattern = np.array(order or range(n_fma))
    whole = k // pattern.size
    if whole == 0:
        return np.arange(k)[None, :]
    starts = np.arange(whole) * pattern.size
    return (starts[:, None] + pattern).reshape(-1, n_fma)
