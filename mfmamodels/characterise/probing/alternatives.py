"""What else would answer alike: for every field, the values that no row refutes.

Rows at hand refute most values. For the rest, rows are looked for on which the record and its
sibling differ; only if none is found among thousands is a field left undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from mfmamodels.accumulation import UNLIMITED, Arithmetic, LateC, SecondRounding
from mfmamodels.characterise.probing.aligned import ROUNDINGS, WIDTHS, exponents, limits
from mfmamodels.characterise.probing.battery import general_rows, tied_rows
from mfmamodels.characterise.probing.canonical import useful_second
from mfmamodels.characterise.probing.elimination import (
    NOT_TRIED,
    Rows,
    field_value,
    fields_of,
    first_mismatches,
    predict,
    with_fields,
)
from mfmamodels.characterise.probing.lab import FirstFacts, Lab

_MOST_ROUNDS = 4
_TOGETHER = ("late.second", "late.sum_frac_bits", "late.second_frac_bits")


@dataclass
class Verdict:
    """What the answers say of one field.

    Attributes
    ----------
    value : object
        The record's own value.
    alike : list
        Other values that answer all rows alike.
    refuted : int
        Number of values that some row refutes.
    example : tuple or None
        A refuted value and the row that refutes it: (value, rows, index).
    """

    value: object
    alike: list[object] = field(default_factory=list)
    refuted: int = 0
    example: tuple[object, Rows, int] | None = None


def domain(lab: Lab, record: Arithmetic, name: str) -> list[object]:
    """Values of a field worth trying."""
    fraction = lab.bench.out.fraction_bits
    if name.endswith("rounding"):
        return list(ROUNDINGS)
    if name == "frac_bits":
        return list(range(1, 49))
    if name == "late.c_frac_bits":
        return list(WIDTHS)
    if name == "out_frac_bits":
        return [UNLIMITED, *range(1, fraction)]
    if name in ("e_min", "late.zero_exponent", "product_limit"):
        return _thinned(
            exponents(lab) if name != "product_limit" else limits(lab), field_value(record, name)
        )
    if name == "late.c_max_shift":
        return _thinned([*range(48), *range(48, 601, 69)], field_value(record, name), 4)
    return [False, True]


def _thinned(values: Sequence[object], own: object, step: int = 16) -> list[object]:
    """Every so many exponents, the ends, and all near the record's own."""
    numbers = [v for v in values if isinstance(v, int)]
    kept = {*numbers[::step], *numbers[-3:], *numbers[:3]}
    if isinstance(own, int):
        kept |= {v for v in numbers if abs(v - own) <= 4}
    return [UNLIMITED, *sorted(kept)]


class Refuter:
    """Looks for rows that tell a record from its siblings."""

    def __init__(self, lab: Lab, facts: FirstFacts, record: Arithmetic, run: int) -> None:
        self.lab, self.facts, self.record, self.run = lab, facts, record, run
        self._pool: list[Rows] | None = None

    @property
    def _rows(self) -> list[Rows]:
        """Rows asked so far but the longest, cheapest first."""
        short = [r for r in self.lab.transcript if r.a.shape[1] <= max(16, 2 * self.run + 1)]
        return sorted(short, key=lambda r: r.a.shape[1])

    def verdicts(self) -> dict[str, Verdict]:
        """Verdict on every field that means something for the record.

        The record itself is replaced when a row asked here refutes it in favour of a sibling.
        """
        self._settle()
        for _ in range(_MOST_ROUNDS):
            before = self.record
            names = [n for n in fields_of(self.record) if n not in _TOGETHER]
            found = {name: self._verdict(name) for name in names}
            if isinstance(getattr(self.record.accumulation, "c", None), LateC):
                found |= self._second()
            if self.record == before:
                break
        return found

    def _settle(self) -> None:
        """Of values that answer alike, take those that real hardware would have.

        A register has a width: the smallest that fits. A zero c has the exponent of the smallest
        normal number, or none.
        """
        kind = self.record.accumulation
        wishes: list[tuple[str, list[object]]] = []
        if isinstance(getattr(kind, "c", None), LateC):
            wishes.append(("late.zero_exponent", [self.lab.bench.out.emin, UNLIMITED]))
            wishes.append(("late.c_max_shift", [UNLIMITED]))
            for name in ("late.c_frac_bits", "late.sum_frac_bits"):
                if field_value(self.record, name) == UNLIMITED:
                    wishes.append((name, list(range(49))))
        wishes += [("e_min", [UNLIMITED]), ("product_limit", [UNLIMITED])]
        for name, values in wishes:
            first = self._against(self._rows, name, values)
            fitting = [v for v, n in zip(values, first, strict=True) if n < 0]
            if fitting:
                self.record = with_fields(self.record, {name: fitting[0]})

    def _verdict(self, name: str) -> Verdict:
        values = domain(self.lab, self.record, name)
        own = field_value(self.record, name)
        values = [v for v in values if v != own]
        rows = self._rows
        first = self._against(rows, name, values)
        values, first = self._filled(name, own, values, first)
        open_values = [v for v, n in zip(values, first, strict=True) if n < 0]
        if open_values and self._ask_where_they_differ(name, open_values):
            rows = self._rows
            first = self._against(rows, name, values)
            if first_mismatches(self.record, {}, rows)[1][0] >= 0:
                self._replace(name, values, first)
        verdict = Verdict(own)
        for value, n in zip(values, first, strict=True):
            if n < 0:
                verdict.alike.append(value)
            else:
                verdict.refuted += 1
        nearest = [i for i in np.argsort([_distance(own, v) for v in values]) if first[i] >= 0]
        if nearest:
            verdict.example = (values[nearest[0]], *_locate(rows, int(first[nearest[0]])))
        return verdict

    def _filled(
        self, name: str, own: object, values: list[object], first: np.ndarray
    ) -> tuple[list[object], np.ndarray]:
        """Find the edges of what is open in a thinned domain, by bisection."""
        outcome = {v: int(n) for v, n in zip(values, first, strict=True)}
        for _ in range(10):  # the widest gap halves each time
            open_to = {v: n < 0 for v, n in outcome.items() if _is_number(v)}
            if _is_number(own):
                open_to[own] = True
            edges = [(x, y) for x, y in pairwise(sorted(open_to)) if open_to[x] != open_to[y]]
            middle = [(x + y) // 2 for x, y in edges if y - x > 1]
            if not middle:
                break
            outcome |= dict(zip(middle, self._against(self._rows, name, middle), strict=True))
        return list(outcome), np.array(list(outcome.values()))

    def _against(self, rows: Sequence[Rows], name: str, values: Sequence[object]) -> np.ndarray:
        return first_mismatches(self.record, {name: values}, rows)[1]

    def _second(self) -> dict[str, Verdict]:
        """Verdicts on the width of a shifted sum and the second rounding, which go together."""
        grid = {"late.second": list(SecondRounding), "late.sum_frac_bits": list(WIDTHS),
                "late.second_frac_bits": list(range(49))}  # fmt: skip
        own = [field_value(self.record, name) for name in grid]
        for _ in range(3):
            choices, first = first_mismatches(self.record, grid, self._rows, useful_second)
            fits = first < 0
            if not self._ask_about_second(grid, choices[fits]):
                break
        mine = np.array([v.index(x) for v, x in zip(grid.values(), own, strict=True)])
        if fits.any() and not (choices[fits] == mine).all(axis=1).any():
            # A row asked here refuted the record in favour of another combination.
            pick = choices[fits][0]
            changes = {n: v[k] for (n, v), k in zip(grid.items(), pick, strict=True)}
            self.record = with_fields(self.record, changes)
            own = list(changes.values())
        found = {}
        for i, (name, values) in enumerate(grid.items()):
            at = values.index(own[i])
            open_values = set(choices[fits, i].tolist()) - {at}
            verdict = Verdict(own[i], [values[n] for n in sorted(open_values)])
            verdict.refuted = len(values) - 1 - len(open_values)
            others = np.all([choices[:, m] == list(grid.values())[m].index(own[m])
                             for m in range(3) if m != i], axis=0)  # fmt: skip
            examples = np.flatnonzero(others & (first >= 0) & (first < NOT_TRIED))
            if examples.size:
                best = min(examples, key=lambda n: _distance(own[i], values[choices[n, i]]))
                verdict.example = (values[choices[best, i]], *_locate(self._rows, int(first[best])))
            found[name] = verdict
        if own[0] is SecondRounding.NONE:
            del found["late.second_frac_bits"]
        return found

    def _ask_about_second(self, grid: dict[str, list], fitting: np.ndarray) -> bool:
        """Ask rows on which combinations that still fit differ; whether there were any."""
        some = fitting[np.linspace(0, len(fitting) - 1, min(len(fitting), 60)).astype(int)]
        wanted = set()
        for pick in some:
            changes = {n: v[k] for (n, v), k in zip(grid.items(), pick, strict=True)}
            sibling = with_fields(self.record, changes)
            n = int(first_mismatches(sibling, {}, self._candidates())[1][0])
            if n >= 0:
                wanted.add(n)
        self._ask(sorted(wanted))
        return bool(wanted)

    def _ask_where_they_differ(self, name: str, values: list[object]) -> bool:
        """Ask rows on which open siblings differ from the record; whether there were any."""
        index = self._against(self._candidates(), name, values)
        wanted = sorted({int(i) for i in index if i >= 0})
        if not wanted:
            return False
        self._ask(wanted)
        return True

    def _ask(self, wanted: list[int]) -> None:
        for part, picks in _by_part(self._candidates(), wanted):
            self.lab.rows((part.a[picks], part.b[picks], part.c[picks]))

    def _candidates(self) -> list[Rows]:
        """Rows with the record's own answers, drawn once and not asked yet."""
        if self._pool is None:
            lab, high = self.lab, self.facts.high
            k1, k2 = lab.longest(self.run), lab.longest(2 * self.run)
            parts = [
                tied_rows(lab.bench, lab.rng, k1, high, min(8000, max(3000, 64_000 // k1))),
                general_rows(lab.bench, lab.rng, k2, high),
            ]
            self._pool = []
            for a, b, c in parts:
                rows = Rows(a, b, c, np.zeros(len(c), lab.bench.out.code_dtype))
                self._pool.append(Rows(a, b, c, predict(self.record, rows)))
        return self._pool

    def _replace(self, name: str, values: list[object], first: np.ndarray) -> None:
        fitting = [v for v, n in zip(values, first, strict=True) if n < 0]
        if fitting:
            self.record = with_fields(self.record, {name: fitting[0]})
            self._pool = None


def _is_number(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _distance(x: object, y: object) -> float:
    """How far apart two values are, for the choice of an example."""
    if isinstance(x, int) and isinstance(y, int):
        return abs(x - y)
    return 1e6


def _locate(rows: Sequence[Rows], n: int) -> tuple[Rows, int]:
    for part in rows:
        if n < len(part):
            return part, n
        n -= len(part)
    raise IndexError(n)


def _by_part(rows: Sequence[Rows], wanted: list[int]) -> list[tuple[Rows, list[int]]]:
    found, start = [], 0
    for part in rows:
        picks = [n - start for n in wanted if start <= n < start + len(part)]
        if picks:
            found.append((part, picks))
        start += len(part)
    return found
