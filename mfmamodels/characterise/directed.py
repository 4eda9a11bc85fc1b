"""Rows built to show rare faults: sums near the midpoint of two results.

Uniform samplers almost never bring a sum within 2**-8 of a unit of a rounding boundary; these do in
most rows. Values are made as float64, in which every operand format is exact, from integers and
powers of two only, so the rows are the same on every host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    Bits,
    FmaChain,
    LateC,
)
from mfmamodels.characterise.dimensions import block_slots
from mfmamodels.formats import Format, Rounding, Specials, encode
from mfmamodels.fpenv import ieee_environment

Rows = tuple[NDArray, NDArray, NDArray]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """Exponents of powers of two, both ends included."""

    low: int
    high: int


def operand_span(fmt: Format) -> Span:
    """Powers of two of a format."""
    return Span(fmt.emin - fmt.fraction_bits, fmt.emax)


def product_span(core: Arithmetic) -> Span:
    """Exponents of products of two powers of two."""
    a, b = operand_span(core.a), operand_span(core.b)
    return Span(a.low + b.low, a.high + b.high)


def result_fraction_bits(core: Arithmetic) -> int:
    """Fraction bits of a block's result."""
    kind = core.accumulation
    limited = isinstance(kind, AlignedSum) and kind.out_frac_bits != UNLIMITED
    return int(kind.out_frac_bits) if limited else core.out.fraction_bits


def _cutting_positions(core: Arithmetic, *, under_c: bool) -> Ints:
    """Fraction positions around which the core cuts what lies under c, or under its products."""
    kind = core.accumulation
    widths: list[Bits] = [core.out.fraction_bits + 1]
    if isinstance(kind, AlignedSum):
        widths = [kind.frac_bits]
        if isinstance(kind.c, LateC) and under_c:
            widths = [kind.c.sum_frac_bits, kind.c.second_frac_bits]
        elif isinstance(kind.c, LateC):
            widths += [kind.c.c_frac_bits, kind.c.c_max_shift]
    finite = {int(w) for w in widths if w != UNLIMITED}
    return np.array(sorted({w + step for w in finite for step in (-1, 0, 1)} or {32}))


class _Builder:
    """Rows of terms, each a power of two times a small odd integer, put where the core adds them.

    Terms without a product of their own (because no exponent fits) vanish: the row is then only a
    little less pointed.
    """

    def __init__(self, core: Arithmetic, rows: int, k: int, rng: Generator) -> None:
        self.core, self.rows, self.k, self.rng = core, rows, k, rng
        self.a, self.b = np.zeros((rows, k)), np.zeros((rows, k))
        self.c = np.zeros(rows)
        self._slots = self._places()
        self._used = np.zeros(rows, np.int64)

    def _places(self) -> Ints:
        """Positions for the terms, the first n of a row in one block (in most rows)."""
        blocks = block_slots(self.core, self.k)
        anywhere = self._shuffled(np.broadcast_to(np.arange(self.k), (self.rows, self.k)))
        if blocks.shape[1] < 2:  # a chain: every term is a block of its own
            return anywhere
        chosen = self._shuffled(blocks[self.rng.integers(0, len(blocks), self.rows)])
        outside = np.ones((self.rows, self.k), bool)
        np.put_along_axis(outside, chosen, False, axis=1)
        rest = np.broadcast_to(np.arange(self.k), outside.shape)[outside]
        together = np.hstack([chosen, rest.reshape(self.rows, -1)])
        return np.where(self.rng.random((self.rows, 1)) < 0.85, together, anywhere)

    def _shuffled(self, rows: Ints) -> Ints:
        return self.rng.permuted(rows, axis=1)

    def product(self, use: NDArray, sign: Ints, ua: Ints, ub: Ints, x: Ints) -> None:
        """Add ``sign * ua * ub * 2**x`` as a product to the rows where ``use`` is true."""
        (low_a, high_a), (low_b, high_b) = (
            _exponents(fmt, np.frexp(u.astype(float))[1])
            for fmt, u in ((self.core.a, ua), (self.core.b, ub))
        )
        low, high = np.maximum(low_a, x - high_b), np.minimum(high_a, x - low_b)
        possible = use & (low <= high) & (self._used < self.k)
        xa = self.rng.integers(np.where(possible, low, 0), np.where(possible, high, 0) + 1)
        # Factors of one size are the likelier, as half of all splits are lopsided.
        balanced = np.clip((low_a + x - low_b) // 2, low, high)
        xa = np.where(self.rng.random(self.rows) < 0.5, xa, balanced)[possible]
        row = np.flatnonzero(possible)
        slot = self._slots[row, self._used[row]]
        flip = self.rng.choice([-1, 1], row.size)
        self.a[row, slot] = np.ldexp((flip * sign[row] * ua[row]).astype(float), xa)
        self.b[row, slot] = np.ldexp((flip * ub[row]).astype(float), x[row] - xa)
        self._used[row] += 1

    def addend(self, use: NDArray, value: NDArray) -> None:
        """Make ``value`` the c of the rows where ``use`` is true."""
        self.c[use] = value[use]

    def zeros_of_products(self) -> None:
        """Give some of the unused products one factor that is not zero."""
        unused = (self.a == 0) & (self.b == 0) & (self.rng.random(self.a.shape) < 0.3)
        span = operand_span(self.core.a)
        x = self.rng.integers(span.low, span.high + 1, self.a.shape)
        self.a[unused] = np.ldexp(1.0, x)[unused]

    def codes(self) -> Rows:
        """Codes of what was built."""
        c = encode(self.c, self.core.out, overflow="saturate")
        return (
            encode(self.a, self.core.a, overflow="saturate"),
            encode(self.b, self.core.b, overflow="saturate"),
            c,
        )


def _exponents(fmt: Format, bits: NDArray) -> tuple[int, Ints]:
    """Lowest and highest x for which a format has ``u * 2**x``, for odd u of so many bits."""
    missing = (fmt.specials is Specials.FN) & (bits >= fmt.precision)  # the top significand is NaN
    return fmt.emin - fmt.fraction_bits, fmt.emax - missing - (bits - 1)


def signs(rng: Generator, rows: int) -> Ints:
    """Random signs, 1 and -1."""
    return rng.choice(np.array([-1, 1]), rows)


def _odd(rng: Generator, rows: int, precision: int) -> Ints:
    """Odd integers of few bits: 1, small ones, 2**i + 1 and 2**i - 1."""
    i = rng.integers(2, max(precision, 3), rows)
    small = 2 * rng.integers(0, 1 << min(precision - 1, 3), rows) + 1
    choices = np.stack([np.ones(rows, np.int64), small, (1 << i) - 1, (1 << (i - 1)) + 1])
    return choices[rng.choice(4, rows, p=[0.55, 0.25, 0.1, 0.1]), np.arange(rows)]


def significands(rng: Generator, rows: int, bits: int) -> Ints:
    """Integers of exactly ``bits`` bits: any, lowest, highest, their neighbours, few ones."""
    low, high = 1 << (bits - 1), (1 << bits) - 1
    near = rng.integers(0, min(4, low), rows)
    few = low | (1 << rng.integers(0, bits, rows)) | (1 << rng.integers(0, bits, rows))
    choices = np.stack([rng.integers(low, high, rows, endpoint=True), low + near, high - near, few])
    return choices[rng.choice(4, rows, p=[0.4, 0.25, 0.25, 0.1]), np.arange(rows)]


# --- near ties --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """What the rows of a near-tie draw are about; arrays of one entry per row."""

    role: Ints  #: of c: main, half, tail, zero
    exponent: Ints  #: of the main term
    sign: Ints  #: of the main term
    crossing: Ints  #: the sum lies in the main term's binade, or one below, or one above
    half: Ints  #: exponent of the unit of the half term


_MAIN, _HALF, _TAIL = range(3)
_SAME, _DOWN, _UP = range(3)


def near_tie(core: Arithmetic, rows: int, k: int, rng: Generator) -> Rows:
    """Sums that lie a tail away from the midpoint of two results, or from a result.

    A *main* term holds a result's significand, a *half* term an odd multiple of half its last unit
    (of a whole unit, where the core does not round to nearest), and up to three *tails* lie at the
    fraction positions where the core cuts, between 24 and 36 (for fp32), or far below. One of them
    is c, or c is zero. In many rows the sum leaves the main term's binade.
    """
    with ieee_environment():
        build = _Builder(core, rows, k, rng)
        plan = _plan(core, rows, rng)
        build.addend(plan.role == _MAIN, plan.sign * _main_addend(core, rng, plan))
        _half_terms(build, plan)
        _tails(build, plan)
        _main_products(build, plan)
        _cancelling_pair(build, rng.random(rows) < 0.1, plan.half)
        build.zeros_of_products()
        return build.codes()


def _plan(core: Arithmetic, rows: int, rng: Generator) -> _Plan:
    role = rng.choice(4, rows, p=[0.52, 0.12, 0.2, 0.16])
    crossing = rng.choice(3, rows, p=[0.4, 0.35, 0.25])
    exponent = _main_exponents(core, rng, role == _MAIN)
    nearest = core.accumulation.rounding is Rounding.RNE
    on_tie = rng.random(rows) < (0.9 if nearest else 0.3)
    binade = np.array([0, -1, 1])[crossing]
    half = exponent + binade - result_fraction_bits(core) - on_tie
    half = np.maximum(half, core.out.emin - core.out.fraction_bits - on_tie)
    return _Plan(role, exponent, signs(rng, rows), crossing, half)


def _main_exponents(core: Arithmetic, rng: Generator, is_c: NDArray) -> Ints:
    """Exponents of the main terms, so that the products below them exist."""
    products, out = product_span(core), core.out
    below = result_fraction_bits(core) + 1
    room = min(14, (products.high - products.low) // 2)  # for the tails
    lowest = out.emin - out.fraction_bits
    low = np.where(is_c, max(lowest, products.low + below + room), max(lowest, products.low))
    high = np.where(is_c, min(out.emax, products.high + below), min(out.emax + 1, products.high))
    low = np.minimum(low, high)
    # Where no exponent is as low as that, the lowest there are matter instead.
    subnormal = rng.random(is_c.size) < 0.7
    near_low = rng.integers(lowest, np.where(subnormal, out.emin, out.emin + 26))
    near_high = rng.integers(out.emax - 2, out.emax + 2, is_c.size)
    uniform = rng.integers(low, high + 1)
    mode = rng.choice(3, is_c.size, p=[0.64, 0.28, 0.08])
    return np.choose(mode, [uniform, np.clip(near_low, low, high), np.clip(near_high, low, high)])


def _main_addend(core: Arithmetic, rng: Generator, plan: _Plan) -> NDArray:
    """Magnitudes of c; a core of fewer result bits gets some of so many bits."""
    out, bits, rows = core.out, result_fraction_bits(core) + 1, plan.role.size
    full = significands(rng, rows, out.precision)
    short = significands(rng, rows, bits) << (out.precision - bits)
    m = np.where(rng.random(rows) < 0.5, short, full)
    m = np.where(plan.crossing == _DOWN, 1 << (out.precision - 1), m)
    # 2 or 4 units below the next power of two, which the half term's 5 or 7 halves overcome.
    top = (1 << bits) - 1 - rng.choice(np.array([1, 3]), rows)
    m = np.where(plan.crossing == _UP, top << (out.precision - bits), m)
    m >>= np.clip(out.emin - plan.exponent, 0, out.precision - 1)  # subnormal: fewer bits
    exponent = np.clip(plan.exponent, out.emin, out.emax)
    return np.ldexp(m.astype(float), exponent - out.fraction_bits)


def _half_terms(build: _Builder, plan: _Plan) -> None:
    core, rng, rows = build.core, build.rng, build.rows
    ua, ub = (_odd(rng, rows, fmt.precision) for fmt in (core.a, core.b))
    either = rng.choice(3, rows)  # both factors of several bits in a third of the rows
    ua, ub = np.where(either == 1, 1, ua), np.where(either == 2, 1, ub)
    half = plan.half
    if isinstance(core.accumulation, FmaChain):
        # A chain rounds after each product: the tail must lie in the same product.
        half = half - np.frexp((ua * ub).astype(float))[1] + 1
    else:
        up = plan.crossing == _UP
        ua, ub = np.where(up, rng.choice(np.array([5, 7]), rows), ua), np.where(up, 1, ub)
    sign = np.choose(plan.crossing, [signs(rng, rows), -plan.sign, plan.sign])
    build.product(plan.role != _HALF, sign, ua, ub, half)
    d = rng.integers(1, core.out.precision - 4, rows)
    m = ((2 * rng.integers(0, 4, rows) + 1) << d) + rng.integers(-1, 2, rows)
    build.addend(plan.role == _HALF, np.ldexp((sign * m).astype(float), half - d))


def _tails(build: _Builder, plan: _Plan) -> None:
    core, rng, rows = build.core, build.rng, build.rows
    one, precision = np.ones(rows, np.int64), core.out.precision
    for share in (0.95, 0.25, 0.15):
        x = _tail_exponents(core, rng, plan)
        present = rng.random(rows) < share
        as_c = present & (plan.role == _TAIL) & (build.c == 0)
        m = significands(rng, rows, precision)
        m = np.where(rng.random(rows) < 0.5, 1 << (precision - 1), m)
        value = np.ldexp((signs(rng, rows) * m).astype(float), x - precision + 1)
        build.addend(as_c, value)
        build.product(present & ~as_c, signs(rng, rows), one, one, x)


def _tail_exponents(core: Arithmetic, rng: Generator, plan: _Plan) -> Ints:
    """Exponents of tails: where the core cuts, somewhere in positions 24 to 36, or far below."""
    rows = plan.role.size
    cuts = [rng.choice(_cutting_positions(core, under_c=c), rows) for c in (False, True)]
    # Products below all normal numbers lie under a c = 0 that counts as the smallest of these.
    under_c = (plan.role == _MAIN) | (plan.exponent < core.out.emin)
    at_cut = np.where(under_c, cuts[1], cuts[0])
    first = result_fraction_bits(core) + 1
    close = rng.integers(first, first + 13, rows)
    far = rng.integers(first + 13, first + 48, rows)
    cutting = isinstance(core.accumulation, AlignedSum)
    shares = [0.6, 0.27, 0.13] if cutting else [0.1, 0.45, 0.45]
    position = np.choose(rng.choice(3, rows, p=shares), [at_cut, close, far])
    # Subnormal numbers are aligned as if they had the lowest exponent.
    return np.maximum(plan.exponent, core.out.emin) - position


def _main_products(build: _Builder, plan: _Plan) -> None:
    """Main terms as products whose significand fits the result."""
    core, rng, rows = build.core, build.rng, build.rows
    bits = [min(f.precision, (result_fraction_bits(core) + 1) // 2) for f in (core.a, core.b)]
    plain = (rng.random(rows) < 0.4) | (plan.crossing == _DOWN)
    ua, ub = (np.where(plain, 1, significands(rng, rows, n)) for n in bits)
    exponent = plan.exponent - np.frexp((ua * ub).astype(float))[1] + 1
    build.product(plan.role != _MAIN, plan.sign, ua, ub, exponent)


def _cancelling_pair(build: _Builder, use: NDArray, half: Ints) -> None:
    """Two products that cancel but raise the largest exponent."""
    rng, rows = build.rng, build.rows
    x = half + rng.integers(-2, 28, rows)
    one, sign = np.ones(rows, np.int64), signs(rng, rows)
    build.product(use, sign, one, one, x)
    build.product(use, -sign, one, one, x)
