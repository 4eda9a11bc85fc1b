"""Elimination of aligned sums by answers: each record only as far as its first wrong row.

The arithmetic is that of :mod:`mfmamodels.kernels.general`; what this module adds is that a
record's fields are columns of an array, so a grid of a hundred thousand records is a second's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    LastC,
    LateC,
    SecondRounding,
)
from mfmamodels.formats import Rounding
from mfmamodels.kernels import general
from mfmamodels.kernels import general_aligned as aligned
from mfmamodels.kernels.elimination import first_wrong
from mfmamodels.kernels.general_blocks import N_FMA, OUT_FRACTION, PADDED_K, ROUNDING
from mfmamodels.kernels.general_wide import DIRECTIONS, NO_LIMIT

#: Fields that can be varied in a grid, by name, with their position in the kernel's parameters.
#: A prefix names the record of c ("late", "last"); no prefix, the sum itself.
COLUMNS: dict[str, int] = {
    "rounding": ROUNDING,
    "out_frac_bits": OUT_FRACTION,
    "frac_bits": aligned.FRAC_BITS,
    "align_rounding": aligned.ALIGN_ROUNDING,
    "join_rounding": aligned.JOIN_ROUNDING,
    "product_limit": aligned.PRODUCT_LIMIT,
    "e_min": aligned.E_MIN,
    "normalised_products": aligned.NORMALISED,
    "late.c_frac_bits": aligned.C_FRAC_BITS,
    "late.sum_frac_bits": aligned.SUM_FRAC_BITS,
    "late.rounding": aligned.LATE_ROUNDING,
    "late.c_max_shift": aligned.C_MAX_SHIFT,
    "late.second": aligned.SECOND,
    "late.second_frac_bits": aligned.SECOND_FRAC_BITS,
    "late.zero_exponent": aligned.ZERO_EXPONENT,
    "last.rounding": aligned.LAST_ROUNDING,
}


NOT_TRIED = 1 << 60


@dataclass(frozen=True)
class Rows:
    """Queries of one length with their answers.

    Attributes
    ----------
    a, b : ndarray of unsigned int, shape (rows, K), C-contiguous
    c, d : ndarray of unsigned int, shape (rows,)
        Codes of the operands and of the box's answers.
    """

    a: NDArray
    b: NDArray
    c: NDArray
    d: NDArray

    def __len__(self) -> int:
        return len(self.d)

    def joined(self, other: Rows) -> Rows:
        """These rows and others of the same length."""
        names = ("a", "b", "c", "d")
        return Rows(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))

    def take(self, index: NDArray) -> Rows:
        """The rows of an index or a mask."""
        a, b = (np.ascontiguousarray(x[index]) for x in (self.a, self.b))
        return Rows(a, b, self.c[index].copy(), self.d[index].copy())


def predict(arithmetic: Arithmetic, rows: Rows) -> NDArray:
    """What a record answers to the rows."""
    d = np.empty_like(rows.d)
    general.dots(arithmetic, rows.a, rows.b, rows.c, d)
    return d


def field_value(arithmetic: Arithmetic, name: str) -> object:
    """Value of a field by its grid name."""
    kind = arithmetic.accumulation
    owner, _, field = name.rpartition(".")
    return getattr(kind.c if owner else kind, field)


def with_fields(arithmetic: Arithmetic, values: Mapping[str, object]) -> Arithmetic:
    """A sibling with some fields changed, by their grid names."""
    kind = arithmetic.accumulation
    own = {k: v for k, v in values.items() if "." not in k}
    of_c = {k.partition(".")[2]: v for k, v in values.items() if "." in k}
    if of_c:
        own["c"] = replace(kind.c, **of_c)
    return replace(arithmetic, accumulation=replace(kind, **own))


def fields_of(arithmetic: Arithmetic) -> list[str]:
    """Grid names that mean something for a record."""
    kind = arithmetic.accumulation
    assert isinstance(kind, AlignedSum)
    owner = {LateC: "late", LastC: "last"}.get(type(kind.c), "")
    names = [n for n in COLUMNS if "." not in n or n.partition(".")[0] == owner]
    if kind.interleave == 1:
        names.remove("join_rounding")
    if isinstance(kind.c, LateC) and kind.c.second is SecondRounding.NONE:
        names.remove("late.second_frac_bits")
    return names


def first_mismatches(
    base: Arithmetic,
    grid: Mapping[str, Sequence[object]],
    rows: Sequence[Rows],
    allowed: Callable[..., NDArray] | None = None,
) -> tuple[NDArray, NDArray]:
    """Try every combination of values of some fields.

    Parameters
    ----------
    base : Arithmetic
        An aligned sum; the other fields are its own.
    grid : mapping of field name to values
        See :data:`COLUMNS`.
    rows : sequence of Rows
        In the order in which they are tried.
    allowed : callable, optional
        As in :func:`eliminate`.

    Returns
    -------
    choices : ndarray of int, shape (combinations, fields)
        Which value of each field.
    first : ndarray of int, shape (combinations,)
        Position, counted through all rows, of the first row that a combination gets wrong; -1 if
        none, :data:`NOT_TRIED` for a combination that is not allowed.
    """
    trial = _Trial(base, grid)
    first = np.full(len(trial.choices), -1, np.int64)
    if allowed is not None:
        first[~allowed(base, *trial.columns(grid))] = NOT_TRIED
    done = 0
    for part in rows:
        alive = np.flatnonzero(first < 0)
        if alive.size == 0:
            break
        found = trial.first_wrong(alive, part)
        first[alive] = np.where(found < 0, -1, found + done)
        done += len(part)
    return trial.choices, first


class _Trial:
    """A grid of records as the kernel's parameters."""

    def __init__(self, base: Arithmetic, grid: Mapping[str, Sequence[object]]) -> None:
        sizes = [len(values) for values in grid.values()]
        self.choices = (
            np.indices(sizes).reshape(len(sizes), -1).T if sizes else np.zeros((1, 0), int)
        )
        self._formats, kind, self._order, self._run = general._parameters(base)
        shared = np.array((*kind[:PADDED_K], 0, *kind[PADDED_K:]), np.int64)
        self._kinds = np.tile(shared, (len(self.choices), 1))
        for i, (name, values) in enumerate(grid.items()):
            encoded = np.array([_encode(base, name, v) for v in values], np.int64)
            self._kinds[:, COLUMNS[name]] = encoded[self.choices[:, i]]

    def columns(self, names: Iterable[str]) -> list[NDArray]:
        """Values of some fields as the kernel's integers."""
        return [self._kinds[:, COLUMNS[name]] for name in names]

    def first_wrong(self, which: NDArray, rows: Rows) -> NDArray:
        """First row that each of some records gets wrong, or -1."""
        if len(rows) == 0 or which.size == 0:
            return np.full(which.size, -1, np.int64)
        k = rows.a.shape[1]
        kinds = self._kinds[which]
        padded, n_fma = -(-k // self._run) * self._run, int(kinds[0, N_FMA])
        kinds[:, PADDED_K] = padded
        shape = len(rows), padded // n_fma
        room = np.empty((*shape, 4, n_fma), np.int64), np.empty((*shape, 3), np.int64)
        memory = (rows.a.ctypes.data, *rows.a.strides, rows.b.ctypes.data, *rows.b.strides, k)
        codes = rows.c.astype(np.int64), rows.d.astype(np.int64)
        return first_wrong(self._formats, kinds, np.asarray(self._order), memory, *codes, *room)


def eliminate(
    base: Arithmetic,
    grid: Mapping[str, Sequence[object]],
    rows: Rows,
    most: int = 6,
    allowed: Callable[..., NDArray] | None = None,
) -> list[Arithmetic]:
    """Records of a grid that answer all rows as the box did.

    Parameters
    ----------
    base, grid
        As in :func:`first_mismatches`.
    rows : Rows
    most : int
        How many are wanted.
    allowed : callable, optional
        Called with ``base`` and, per field, an array of the kernel's integers: which combinations
        to try.

    Returns
    -------
    list of Arithmetic
        At most ``most``, spread over the grid with its ends. What survives a few hundred rows in
        great number is alike, and thinned out before the remaining rows are tried.
    """
    trial = _Trial(base, grid)
    values = [list(v) for v in grid.values()]
    alive = np.arange(len(trial.choices))
    if allowed is not None:
        alive = np.flatnonzero(allowed(base, *trial.columns(grid)))
    for start, end in ((0, 12), (12, 250), (250, None)):
        part = rows.take(slice(start, end))
        alive = alive[trial.first_wrong(alive, part) < 0]
        limit = 16 * most
        if end is not None and end > 12 and alive.size > limit:
            alive = alive[np.linspace(0, alive.size - 1, limit).astype(int)]
    records = (
        with_fields(base, {name: v[n] for name, v, n in zip(grid, values, pick, strict=True)})
        for pick in trial.choices[alive]
    )
    distinct = list(dict.fromkeys(records))  # fields that mean nothing beside another one coincide
    if len(distinct) <= most:
        return distinct
    return [distinct[i] for i in np.linspace(0, len(distinct) - 1, most).astype(int)]


def _encode(base: Arithmetic, name: str, value: object) -> int:
    """A field's value as the kernel's integer."""
    if isinstance(value, SecondRounding):
        return general._SECOND[value]
    if isinstance(value, Rounding):
        return DIRECTIONS[value]
    if name == "out_frac_bits":
        own = base.out.fraction_bits
        return own if value == UNLIMITED else min(own, int(value))  # type: ignore[call-overload]
    if value == UNLIMITED:
        return -NO_LIMIT if name == "e_min" else NO_LIMIT
    return int(value)  # type: ignore[call-overload]
