"""From a box to the records that answer as it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from mfmamodels.accumulation import AlignedSum, Arithmetic, EarlyC, LastC, LateC
from mfmamodels.characterise.probing.aligned import AlignedSearch
from mfmamodels.characterise.probing.battery import general_rows, tied_rows
from mfmamodels.characterise.probing.elimination import Rows, first_mismatches
from mfmamodels.characterise.probing.kinds import consistent, simple_kinds
from mfmamodels.characterise.probing.lab import FirstFacts, Lab
from mfmamodels.characterise.probing.structure import Relations, Structure, hypotheses

#: Longest pattern of blocks that is looked for, in products; twice as many are asked at once.
LONGEST_RUN = 64


@dataclass
class Found:
    """What a search came to.

    Attributes
    ----------
    records : list of Arithmetic
        Of different structure or kind, each consistent with all rows.
    structures : list of Structure
        Hypotheses on blocks that were pursued.
    rows : dict of int to Rows
        General rows with the box's answers, by length; near ties by minus the length.
    """

    records: list[Arithmetic] = field(default_factory=list)
    structures: list[Structure] = field(default_factory=list)
    rows: dict[int, Rows] = field(default_factory=dict)


class Search:
    """Try all kinds of accumulation on a box."""

    def __init__(self, lab: Lab, facts: FirstFacts) -> None:
        self.lab, self.facts = lab, facts
        self.found = Found()

    def general(self, k: int) -> Rows:
        """General rows of a length, asked for once."""
        k = self.lab.longest(k)
        if k not in self.found.rows:
            lab = self.lab
            queries = general_rows(lab.bench, lab.rng, k, self.facts.high)
            self.found.rows[k] = lab.rows(queries)
        return self.found.rows[k]

    def tied(self, k: int) -> Rows:
        """Near ties of a length, asked for once."""
        k = self.lab.longest(k)
        if -k not in self.found.rows:
            lab = self.lab
            queries = tied_rows(lab.bench, lab.rng, k, self.facts.high, 2400)
            self.found.rows[-k] = lab.rows(queries)
        return self.found.rows[-k]

    def run(self) -> Found:
        """Search; the result grows as it goes, so a failure leaves what was found before it."""
        self._simple()
        if self.lab.box.out.name != "fp64":
            self._aligned()
        return self.found

    def _simple(self) -> None:
        bench, nan = self.lab.bench, self.facts.nan_codes
        self.lab.progress("chains, exact sums and pairwise sums")
        rows = [self.general(9), self.general(2 * LONGEST_RUN + 1)]
        candidates = [
            Arithmetic(
                a=bench.a, b=bench.b, out=bench.out, accumulation=kind, nan=nan[0] if nan else 0
            )
            for kind in simple_kinds(bench.out.name)
        ]
        self.found.records += consistent(candidates, rows)

    def _aligned(self) -> None:
        lab = self.lab
        lab.progress("which products share a block")
        relations = Relations(
            lab.bench, lab.ask, self.facts.high - 3, lab.longest(2 * LONGEST_RUN),
            fixed=lab.box.length is not None,
        )  # fmt: skip
        for structure in hypotheses(relations):
            self.found.structures.append(structure)
            for way, c in _ways(structure):
                lab.progress(f"aligned sum, {describe(way)}, c {_NAMES[c]}")
                passed = AlignedSearch(lab, self.facts, way, c).run()
                record = next(filter(self.verified, passed), None)
                if record is not None and record not in self.found.records:
                    self.found.records.append(record)

    def verified(self, record: Arithmetic) -> bool:
        """Whether a record answers general rows of two runs and a bit as the box does."""
        kind = record.accumulation
        assert isinstance(kind, AlignedSum)
        last = kind.c.products if isinstance(kind.c, LastC) else 1
        run = max(kind.n_fma, len(kind.order), last)
        rows = [self.general(2 * run + 1), self.tied(run)]
        rows += [x for x in self.found.rows.values() if all(x is not y for y in rows)]
        _, first = first_mismatches(record, {}, rows)
        return bool(first[0] < 0)


_NAMES = {EarlyC: "early", LateC: "late", LastC: "last"}


def describe(structure: Structure) -> str:
    """A structure in words."""
    parts = [f"blocks of {structure.n_fma}"]
    if structure.interleave == 2:
        parts.append("even and odd apart")
    if structure.order:
        parts.append("in another order")
    if structure.products:
        parts.append(f"{structure.products} per instruction")
    return " ".join(parts)


def _ways(structure: Structure) -> Iterator[tuple[Structure, type]]:
    """Ways of adding c that a structure can go with."""
    if structure.products:
        yield structure, LastC
        return
    if structure.interleave == 1:
        yield structure, EarlyC
    yield structure, LateC


def seeded(seed: int) -> np.random.Generator:
    """The generator of a probe's random rows."""
    return np.random.default_rng(np.random.SeedSequence([seed, 0x70726F6265]))
