"""Asking a box: every query and answer is kept, and the first facts are read off directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mfmamodels.characterise.probing.boxes import Box, BoxError
from mfmamodels.characterise.probing.elimination import Rows
from mfmamodels.characterise.probing.rows import Bench, Queries, Term, join
from mfmamodels.formats import decode, encode, is_nan

Progress = Callable[[str], None]


class Unanswered(Exception):
    """The box does not know the rows that a step needs (a recording)."""


@dataclass
class Lab:
    """A box on the bench.

    Attributes
    ----------
    box : Box
    rng : numpy.random.Generator
        Draws the random rows; equal seeds give equal queries.
    progress : callable
        Told what is going on, a line at a time.
    asked : int
        Rows asked so far.
    fraction_seen : int
        Most fraction bits that an answer had.
    transcript : list of Rows
        Rows that records are checked against (those of :meth:`rows`).
    """

    box: Box
    rng: Generator
    progress: Progress
    asked: int = 0
    fraction_seen: int = 0
    transcript: list[Rows] = field(default_factory=list)
    bench: Bench = field(init=False)

    def __post_init__(self) -> None:
        self.bench = Bench(self.box.a, self.box.b, self.box.out)

    def length(self, k: int) -> int:
        """Products in a query that needs k positions."""
        if self.box.length is None:
            return k
        if k > self.box.length:
            raise BoxError(
                f"{self.box.name} takes {self.box.length} products in a query; {k} are needed"
            )
        return self.box.length

    def longest(self, k: int) -> int:
        """Products in a query that would like k positions but makes do with fewer."""
        return k if self.box.length is None else self.box.length

    def ask(self, queries: Queries) -> NDArray:
        """Answers to rows, all of them.

        Raises
        ------
        BoxError
            If the box fails.
        Unanswered
            If it does not know them all.
        """
        if len(queries[2]) == 0:
            return np.zeros(0, self.box.out.code_dtype)
        queries = tuple(np.ascontiguousarray(x) for x in queries)  # type: ignore[assignment]
        d, known = self.box.answer(queries)
        self.asked += len(d)
        if not known.all():
            raise Unanswered(f"{int((~known).sum())} of {known.size} rows are not recorded")
        self._see(d)
        return d

    def rows(self, queries: Queries) -> Rows:
        """Queries with their answers."""
        d = self.ask(queries)
        a, b, c = (np.ascontiguousarray(x) for x in queries)
        self.transcript.append(Rows(a, b, c, d))
        return self.transcript[-1]

    def _see(self, d: NDArray) -> None:
        """Note the longest significand among the answers."""
        fmt = self.box.out
        magnitude = d & d.dtype.type(fmt.sign_mask - 1)
        normal = (magnitude >= 1 << fmt.fraction_bits) & (magnitude < fmt.inf_code)
        fraction = magnitude[normal].astype(np.uint64) & np.uint64((1 << fmt.fraction_bits) - 1)
        if fraction.size:
            lowest = int(np.bitwise_or.reduce(fraction))
            if lowest:
                trailing = (lowest & -lowest).bit_length() - 1
                self.fraction_seen = max(self.fraction_seen, fmt.fraction_bits - trailing)


@dataclass(frozen=True)
class FirstFacts:
    """What single products and special values show, before anything else is known.

    Attributes
    ----------
    nan_codes : tuple of int
        Codes of NaN answers to different kinds of invalid operations.
    nan_query : str
        The operations, for the report.
    low, high : int
        Exponents between which a single product 2**e comes back as it is, with either sign.
    infinite_from : int or None
        Smallest exponent from which a single product gives an infinity.
    input_subnormal, addend_subnormal, output_subnormal : bool or None
        Whether they are kept; None where no row can show it.
    """

    nan_codes: tuple[int, ...]
    nan_query: str
    low: int
    high: int
    infinite_from: int | None
    input_subnormal: bool | None
    addend_subnormal: bool
    output_subnormal: bool | None


def first_facts(lab: Lab) -> FirstFacts:
    """Ask about NaN, the range of single products, and subnormals."""
    bench = lab.bench
    k = lab.length(1)
    nan_codes, nan_query = _nan_codes(lab, k)
    low, high, infinite_from = _range(lab, k)
    out = bench.out
    # The largest power of two below the normal numbers: a core with short results keeps it too.
    c = np.ldexp(1.0, np.array([out.emin - 1, out.emin]))
    kept = lab.ask(bench.rows(k, [], np.concatenate([c, -c])))
    # The normal number must come back too: else zero says nothing of subnormals.
    addend = bool((decode(kept, out) == np.concatenate([c, -c])).all())
    return FirstFacts(
        nan_codes, nan_query, low, high, infinite_from,
        _input_subnormal(lab, k), addend, _output_subnormal(lab, k),
    )  # fmt: skip


def _nan_codes(lab: Lab, k: int) -> tuple[tuple[int, ...], str]:
    bench = lab.bench
    one = bench.rows(k, [Term(0, 0)], 0.0)
    sorts, rows = ["NaN operand"], []
    nan_operand = one[0].copy()
    nan_operand[0, 0] = bench.a.nan_code
    rows.append((nan_operand, one[1], one[2]))
    nan_c = np.full_like(one[2], bench.out.nan_code)
    sorts.append("NaN c")
    rows.append((*one[:2], nan_c))
    if bench.a.has_inf:
        infinite = one[0].copy()
        infinite[0, 0] = bench.a.inf_code
        sorts += ["Inf * 0", "Inf - Inf"]
        rows.append((infinite, one[1] * 0, one[2]))
        minus = np.full_like(one[2], bench.out.inf_code | bench.out.sign_mask)
        rows.append((infinite, one[1], minus))
    d = lab.ask(join(rows))
    nan = is_nan(d, bench.out)
    return tuple(dict.fromkeys(int(x) for x in d[nan])), ", ".join(sorts)


def _range(lab: Lab, k: int) -> tuple[int, int, int | None]:
    bench = lab.bench
    e = np.arange(bench.lowest, bench.highest + 1)
    answers = []
    for sign in (1, -1):
        queries, kept = bench.rows_kept(k, [Term(0, e, sign)], 0.0)
        value = np.full(e.size, np.nan)
        value[kept] = decode(lab.ask(queries), bench.out) * sign
        answers.append(value)
    with np.errstate(over="ignore"):
        power = np.ldexp(1.0, e)
    faithful = (answers[0] == power) & (answers[1] == power)
    infinite = np.isinf(answers[0])
    infinite_from = int(e[infinite][0]) if infinite.any() else None
    if not faithful.any():
        return bench.lowest, bench.highest, infinite_from
    # The longest run of exponents that come back.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], faithful, [False]]).astype(int)))
    starts, ends = edges[::2], edges[1::2] - 1
    longest = int(np.argmax(ends - starts))
    return int(e[starts[longest]]), int(e[ends[longest]]), infinite_from


def _input_subnormal(lab: Lab, k: int) -> bool | None:
    """Whether a subnormal operand times a power of two that lifts it is kept."""
    bench = lab.bench
    outcomes = []
    for fmt, other, swap in ((bench.a, bench.b, False), (bench.b, bench.a, True)):
        lift = min(other.emax, max(0, bench.out.emin + 8 - (fmt.emin - fmt.fraction_bits)))
        x, y = np.zeros((1, k)), np.zeros((1, k))
        x[0, 0] = fmt.min_subnormal if fmt.width < 64 else 2.0**-1074
        y[0, 0] = 2.0**lift
        wanted = x[0, 0] * y[0, 0]
        if abs(wanted) < bench.out.min_normal:
            return None
        codes = encode(x, fmt), encode(y, other)
        a, b = codes[::-1] if swap else codes
        d = lab.ask((a, b, np.zeros(1, bench.out.code_dtype)))
        outcomes.append(bool(decode(d, bench.out)[0] == wanted))
    return all(outcomes)


def _output_subnormal(lab: Lab, k: int) -> bool | None:
    """Whether a product below the smallest normal result is kept."""
    bench = lab.bench
    e = bench.out.emin - 1
    normal = bench.a.emin + bench.b.emin <= e
    if not normal or e < bench.lowest:
        return None
    d = lab.ask(bench.rows(k, [Term(0, e)], 0.0))
    return bool(decode(d, bench.out)[0] == np.ldexp(1.0, e)) if d.size else None
