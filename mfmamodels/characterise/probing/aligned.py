"""Elimination among aligned sums, stage by stage.

Each stage asks rows on which only a few unknown fields can matter, and tries all combinations of
their values. A later stage that leaves nothing sends the search back to another survivor of an
earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    EarlyC,
    LastC,
    LateC,
    SecondRounding,
)
from mfmamodels.characterise.probing.canonical import useful_second
from mfmamodels.characterise.probing.elimination import Rows, eliminate, predict
from mfmamodels.characterise.probing.lab import FirstFacts, Lab
from mfmamodels.characterise.probing.rows import (
    Queries,
    Shape,
    Term,
    addend_exponent,
    addends_only,
    join,
    largest_exponent,
    near_ties,
    random_rows,
    shuffled,
)
from mfmamodels.characterise.probing.structure import Structure
from mfmamodels.formats import Rounding

ROUNDINGS = tuple(Rounding)
WIDTHS = (UNLIMITED, *range(49))
_BUDGET = 24  # eliminations before a structure is given up
_MOST = 5  # survivors of a stage that are pursued
Grid = Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Stage:
    """Fields to decide, and rows that can decide them.

    Attributes
    ----------
    grid : mapping of field name to values
    queries : Queries
        Not asked yet; another draw gives other rows of the same sort.
    allowed : callable or None
        Which combinations to try; see :func:`elimination.eliminate`.
    """

    grid: Grid
    queries: Queries
    allowed: Callable[..., NDArray] | None = None


class _Step:
    """A stage in use: its rows with their answers, asked when the search first gets there."""

    def __init__(self, lab: Lab, draw: Callable[[], Stage], *, narrows: bool) -> None:
        self.lab, self.draw, self.narrows = lab, draw, narrows
        self._stage: Stage | None = None
        self._rows: Rows | None = None

    def survivors(self, record: Arithmetic) -> list[Arithmetic]:
        """Siblings of a record that pass, spread over all that do."""
        if self._stage is None or self._rows is None:
            self._stage = self.draw()
            self._rows = self.lab.rows(self._stage.queries)
        found = self._eliminated(record)
        quiet = 0
        while self.narrows and len(found) > 1 and quiet < 2:
            queries = self._where_they_differ(found)
            if len(queries[2]):
                more = self.lab.rows(queries)
                self._rows = self._rows.joined(more)
                found = self._eliminated(record)
            else:
                quiet += 1
        return found

    def _eliminated(self, record: Arithmetic) -> list[Arithmetic]:
        assert self._stage is not None and self._rows is not None
        return eliminate(record, self._stage.grid, self._rows, _MOST, self._stage.allowed)

    def _where_they_differ(self, found: list[Arithmetic]) -> Queries:
        """Fresh rows of the stage's sort on which survivors give different answers."""
        queries = self.draw().queries
        a, b, c = (np.ascontiguousarray(x) for x in queries)
        rows = Rows(a, b, c, np.zeros(len(c), self.lab.bench.out.code_dtype))
        answers = np.array([predict(record, rows) for record in found])
        differ = np.flatnonzero((answers != answers[0]).any(axis=0))[:80]
        return a[differ], b[differ], c[differ]


def out_widths(lab: Lab) -> tuple[object, ...]:
    """Widths of a result that the answers so far allow."""
    return (UNLIMITED, *range(max(1, lab.fraction_seen), lab.bench.out.fraction_bits))


def exponents(lab: Lab) -> tuple[object, ...]:
    """Exponents at which a limit on alignment could be noticed."""
    low = min(lab.bench.lowest, lab.bench.out.emin) - 10
    return (UNLIMITED, *range(low, lab.bench.highest + 3))


def limits(lab: Lab) -> tuple[object, ...]:
    """Exponents at which a limit on products could be noticed."""
    top = lab.bench.a.emax + lab.bench.b.emax + 2
    return (UNLIMITED, *range(lab.bench.lowest, top + 1))


class AlignedSearch:
    """Search for aligned sums with one structure and one way of adding c."""

    def __init__(self, lab: Lab, facts: FirstFacts, structure: Structure, c: type) -> None:
        self.lab, self.facts, self.structure, self.c = lab, facts, structure, c
        s = structure
        run = max(s.n_fma, len(s.order), s.products)
        self.k = lab.length(run)
        block = list(s.order[: s.n_fma]) if s.order else list(range(s.n_fma))
        self.slots = block
        self.half = block[:: s.interleave]
        # Room for sums of a few products below the largest exponent that comes back.
        self.top = (facts.high - 5, facts.high - 3)
        self.nan = facts.nan_codes[0] if facts.nan_codes else lab.bench.out.nan_code

    def base(self) -> Arithmetic:
        """A record with the known structure; its other fields are to be replaced."""
        s, bench = self.structure, self.lab.bench
        c = {EarlyC: EarlyC, LateC: _plain_late, LastC: lambda: LastC(s.products)}[self.c]()
        limit = UNLIMITED if self.facts.infinite_from is None else self.facts.infinite_from
        # An overflow of the result looks the same as a limit there, and is told apart later.
        if limit != UNLIMITED and limit > bench.out.emax:
            limit = UNLIMITED
        kind = AlignedSum(
            s.n_fma,
            24,
            c,
            Rounding.RNE,
            interleave=s.interleave,
            order=s.order,
            product_limit=limit,
        )
        return Arithmetic(a=bench.a, b=bench.b, out=bench.out, accumulation=kind, nan=self.nan)

    def run(self) -> Iterator[Arithmetic]:
        """Records that pass all stages, one after the other, within a budget."""
        draws = {EarlyC: self._early, LateC: self._late, LastC: self._last}[self.c]()
        steps = [_Step(self.lab, draw, narrows=draw not in self._wide_open()) for draw in draws]
        yield from self._pursue(self.base(), steps, [_BUDGET])

    def _pursue(
        self, record: Arithmetic, steps: Sequence[_Step], budget: list[int]
    ) -> Iterator[Arithmetic]:
        if not steps:
            yield record
            return
        budget[0] -= 1
        if budget[0] < 0:
            return
        for survivor in steps[0].survivors(record):
            yield from self._pursue(survivor, steps[1:], budget)

    # --- rows -----------------------------------------------------------------------------------

    def _mixed(self, *parts: Queries) -> Queries:
        return shuffled(join(parts), self.lab.rng)

    def _random(self, count: int, **shape) -> Queries:
        settings = {"k": self.k, "slots": self.slots, "top": self.top} | shape
        return random_rows(self.lab.bench, self.lab.rng, count, Shape(**settings))

    def _ties(self, count: int, **shape) -> Queries:
        settings = {"k": self.k, "slots": self.slots, "top": self.top} | shape
        return near_ties(self.lab.bench, self.lab.rng, count, Shape(**settings))

    def _under_c(self) -> tuple[int, int]:
        """Exponents of a c whose half unit, and a good deal below it, products can make."""
        bench, f = self.lab.bench, self.lab.bench.out.fraction_bits
        high = min(self.facts.high + f - 1, bench.out.emax)
        return max(high - 4, min(high, bench.lowest + f + 12)), high

    def _bottom_ties(self, count: int, **shape) -> Queries:
        """Ties between the smallest results, or as near as the products reach."""
        bench = self.lab.bench
        low = max(bench.lowest, bench.out.emin - bench.out.fraction_bits - 4)
        parts = [
            self._ties(count // 2, top=(low, min(low + reach, self.facts.high)), **shape)
            for reach in (10, 40)
        ]
        return join(parts)

    def _where(self, queries: Queries, test: Callable[[NDArray, NDArray], NDArray]) -> Queries:
        """Rows whose largest product exponent and c's exponent satisfy a test."""
        bench = self.lab.bench
        mask = test(largest_exponent(bench, queries), addend_exponent(bench, queries))
        return tuple(x[mask] for x in queries)  # type: ignore[return-value]

    def _everywhere(self, count: int, **shape) -> Queries:
        """Rows at all scales."""
        low = self.lab.bench.lowest
        return self._random(count, top=(low, self.facts.high), **shape)

    def _near_bottom(self, count: int, **shape) -> Queries:
        """Rows about the smallest results."""
        bench = self.lab.bench
        low = max(bench.lowest, bench.out.emin - 30)
        high = max(low + 1, min(bench.out.emin + 4, self.facts.high))
        return self._random(count, top=(low, high), **shape)

    # --- stages ---------------------------------------------------------------------------------

    def _early(self) -> list[Callable[[], Stage]]:
        return [self._early_widths, self._limit, self._e_min]

    def _last(self) -> list[Callable[[], Stage]]:
        return [self._products_widths, self._last_rounding, self._limit, self._e_min]

    def _late(self) -> list[Callable[[], Stage]]:
        stages = [self._result, self._products_under_c, self._shifted_c, self._normalised]
        if self.structure.interleave == 2:
            stages.insert(2, self._joined)
        return [*stages, self._shifted_sum, self._limit, self._e_min, self._zero, self._vanishing_c]

    def _wide_open(self) -> tuple[Callable[[], Stage], ...]:
        """Stages that many values pass, since nothing shows the difference: not narrowed."""
        return self._result, self._limit, self._zero, self._vanishing_c

    def _sum_grid(self) -> Grid:
        return {
            "rounding": ROUNDINGS,
            "align_rounding": ROUNDINGS,
            "frac_bits": range(1, 49),
            "normalised_products": (False, True),
            "out_frac_bits": out_widths(self.lab),
        }

    def _early_widths(self) -> Stage:
        rows = self._mixed(
            self._random(500), self._random(200, plain=True), self._random(200, c="zero"),
            self._ties(200), self._ties(200, top=self._under_c()), self._ties(200, c="zero"),
        )  # fmt: skip
        return Stage(self._sum_grid(), rows)

    def _products_widths(self) -> Stage:
        rows = self._mixed(
            self._random(500, c="zero"), self._random(300, plain=True, c="zero"),
            self._ties(400, c="zero"),
        )  # fmt: skip
        return Stage(self._sum_grid(), rows)

    def _last_rounding(self) -> Stage:
        rows = self._mixed(
            self._random(400), self._ties(200),
            addends_only(self.lab.bench, self.lab.rng, 40, self.k),
        )  # fmt: skip
        return Stage({"last.rounding": ROUNDINGS}, rows)

    def _result(self) -> Stage:
        """Without products a late c meets nothing but the width of a result."""
        rows = self._mixed(addends_only(self.lab.bench, self.lab.rng, 300, self.k))
        return Stage({"out_frac_bits": out_widths(self.lab), "rounding": ROUNDINGS}, rows)

    def _products_under_c(self) -> Stage:
        """A c of the products' exponent is not shifted: the products' own alignment shows."""
        queries = self._random(1200, slots=self.half, plain=True, c="equal")
        rows = self._mixed(self._where(queries, lambda e, c: e == c))
        grid = {"rounding": ROUNDINGS, "align_rounding": ROUNDINGS, "frac_bits": range(1, 49)}
        return Stage(grid, rows)

    def _joined(self) -> Stage:
        queries = self._random(900, plain=True, c="equal")
        rows = self._mixed(self._where(queries, lambda e, c: e == c))
        return Stage({"join_rounding": ROUNDINGS}, rows)

    def _shifted_c(self) -> Stage:
        parts = [
            self._random(500, plain=True, c="below"),
            self._random(300, terms=1, c="below", plain=True),
        ]
        rows = self._mixed(*(self._where(x, lambda e, c: e >= c) for x in parts))
        grid = {
            "late.rounding": ROUNDINGS,
            "late.c_frac_bits": WIDTHS,
            "late.c_max_shift": (UNLIMITED, *range(61)),
        }
        return Stage(grid, rows)

    def _normalised(self) -> Stage:
        rows = self._mixed(self._where(self._random(800, c="below"), lambda e, c: e >= c))
        return Stage({"normalised_products": (False, True)}, rows)

    def _shifted_sum(self) -> Stage:
        """A c above the products shifts their sum."""
        parts = [
            self._random(400, c="above"), self._random(100, c="above", terms=2),
            self._ties(900, top=self._under_c()),
        ]  # fmt: skip
        if self.lab.bench.lowest < self.lab.bench.out.emin - 8:
            # Only a subnormal c tells a normalisation that minds the smallest exponent.
            parts.append(self._bottom_ties(500))
        rows = self._mixed(*(self._where(x, lambda e, c: (c > e) & (c > -9999)) for x in parts))
        grid = {
            "late.second": tuple(SecondRounding),
            "late.sum_frac_bits": WIDTHS,
            "late.second_frac_bits": range(49),
        }
        return Stage(grid, rows, useful_second)

    def _e_min(self) -> Stage:
        late = self.c is LateC
        c = ("tiny", "any") if not late else ("tiny", "above")
        parts = [self._near_bottom(400, c=x) for x in c] + [self._everywhere(400, c=x) for x in c]
        parts += [self._bottom_ties(300, c="tiny"), self._bottom_ties(300)]
        if not late:
            parts.append(self._bottom_ties(300, c="zero"))
            # An early c is cut even where it is alone.
            parts.append(addends_only(self.lab.bench, self.lab.rng, 300, self.k))
        if late:  # what a zero c does is not known yet
            parts = [self._where(x, lambda e, c: c > -9999) for x in parts]
        return Stage({"e_min": exponents(self.lab)}, self._mixed(*parts))

    def _zero(self) -> Stage:
        parts = [self._everywhere(600, c="zero"), self._near_bottom(500, c="zero")]
        parts += [self._singles(), self._bottom_ties(600, c="zero")]
        beyond = range(self.lab.bench.highest + 3, self.lab.bench.out.emax + 60)
        return Stage({"late.zero_exponent": (*exponents(self.lab), *beyond)}, self._mixed(*parts))

    def _vanishing_c(self) -> Stage:
        parts = [self._everywhere(400, c=x, depth=280) for x in ("below", "tiny")]
        parts += [self._random(400, c="below", depth=280)]
        rows = self._mixed(*(self._where(x, lambda e, c: e >= c) for x in parts))
        return Stage({"late.c_max_shift": (UNLIMITED, *range(601))}, rows)

    def _limit(self) -> Stage:
        """Single products, pairs that cancel: exact where there is no limit, NaN beyond it."""
        bench, (x, y) = self.lab.bench, (self.slots * 2)[:2]
        top = bench.a.emax + bench.b.emax
        e = np.arange(self.facts.high - 4, top + 1)
        parts = []
        for ma, mb in ((1, 1), (1.5, 1.5), (1.25, 1.5)):
            if x != y:
                parts.append(
                    bench.rows(self.k, [Term(x, e, 1, ma, mb), Term(y, e, -1, ma, mb)], 0.0)
                )
            parts.append(bench.rows(self.k, [Term(x, e, 1, ma, mb)], 0.0))
            parts.append(bench.rows(self.k, [Term(x, e, -1, ma, mb)], 1.0))
        return Stage({"product_limit": limits(self.lab)}, self._mixed(*parts))

    def _singles(self) -> Queries:
        bench = self.lab.bench
        e = np.arange(bench.lowest, bench.highest + 1)
        parts = [
            bench.rows(self.k, [Term(x, e, sign)], 0.0) for x in self.slots[:2] for sign in (1, -1)
        ]
        return join(parts)


def _plain_late() -> LateC:
    return LateC(
        c_frac_bits=UNLIMITED, sum_frac_bits=UNLIMITED, second=SecondRounding.NONE,
        zero_exponent=UNLIMITED,
    )  # fmt: skip
