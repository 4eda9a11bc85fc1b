"""Ensembles of input rows, cut into shards, and what a comparison over one has found so far."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise import sampling
from mfmamodels.characterise.dimensions import default_k
from mfmamodels.characterise.recorded import Recording

#: Rows of a shard. It is part of what a seed means, so it is no parameter.
SHARD_ROWS = 50_000
#: Mismatches kept with all their bits.
KEPT = 100


class Chunk(NamedTuple):
    """Rows of an ensemble: their number in it, codes, and recorded results where there are."""

    first: int
    a: NDArray
    b: NDArray
    c: NDArray
    d: NDArray | None = None


class Ensemble(Protocol):
    """Rows that two parties answer."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def chunk(self, shard: int) -> Chunk:
        """Rows ``shard * SHARD_ROWS`` and on."""

    def describe(self) -> dict[str, Any]:
        """Everything that decides the rows, for JSON."""


def shards(ensemble: Ensemble) -> range:
    """Numbers of an ensemble's shards."""
    return range(-(-ensemble.rows // SHARD_ROWS))


@dataclass(frozen=True)
class Sampled:
    """Rows of a sampler, drawn when they are needed.

    Attributes
    ----------
    core : Arithmetic
        Whose formats and widths steer the sampler.
    sampler : str
    rows : int
    seed : int
    k : int or None
        Products in a row; None means :func:`dimensions.default_k`.
    """

    core: Arithmetic
    sampler: str
    rows: int
    seed: int
    k: int | None = None

    def chunk(self, shard: int) -> Chunk:
        """Draw a shard; the last one may be shorter."""
        first = shard * SHARD_ROWS
        size = min(SHARD_ROWS, self.rows - first)
        drawn = sampling.draw(self.core, self.sampler, size, self.seed, shard, self.k)
        return Chunk(first, *drawn)

    def describe(self) -> dict[str, Any]:
        """Everything that decides the rows."""
        return {
            "formats": [self.core.a.name, self.core.b.name, self.core.out.name],
            "sampler": self.sampler,
            "rows": self.rows,
            "seed": self.seed,
            "k": default_k(self.core) if self.k is None else self.k,
            "shard_rows": SHARD_ROWS,
        }


@dataclass(frozen=True, eq=False)
class Recorded:
    """Rows that a device has answered already."""

    recording: Recording

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.recording.rows

    def chunk(self, shard: int) -> Chunk:
        """Cut a shard out of the recording."""
        r, first = self.recording, shard * SHARD_ROWS
        part = slice(first, first + SHARD_ROWS)
        return Chunk(first, r.a[part], r.b[part], r.c[part], r.d[part])

    def describe(self) -> dict[str, Any]:
        """Name and size of the recording."""
        return {"recording": self.recording.case, "rows": self.rows, "shard_rows": SHARD_ROWS}


@dataclass(frozen=True)
class Mismatch:
    """One row on which two parties differ, with all bits, in hexadecimal."""

    row: int
    a: str
    b: str
    c: str
    left: str
    right: str


@dataclass(frozen=True)
class Outcome:
    """What a comparison of two parties has found, shard by shard.

    Attributes
    ----------
    counts : mapping
        Rows and mismatches of every shard done, by its number.
    kept : tuple of Mismatch
        The first mismatches, by row, at most :data:`KEPT`.
    """

    counts: Mapping[int, tuple[int, int]]
    kept: tuple[Mismatch, ...] = ()

    @property
    def rows(self) -> int:
        """Rows compared."""
        return sum(rows for rows, _ in self.counts.values())

    @property
    def mismatches(self) -> int:
        """Rows on which the parties differ."""
        return sum(found for _, found in self.counts.values())

    def within(self, rows: int) -> Outcome:
        """Keep the shards that begin within the first ``rows`` rows, and their mismatches."""
        counts = {n: count for n, count in self.counts.items() if n * SHARD_ROWS < rows}
        kept = tuple(m for m in self.kept if m.row // SHARD_ROWS in counts)
        return Outcome(counts, kept)

    def to_json(self) -> dict[str, Any]:
        """A value for JSON, the same for the same findings in whatever order they came."""
        counts = [[n, *self.counts[n]] for n in sorted(self.counts)]
        return {
            "rows": self.rows,
            "mismatches": self.mismatches,
            "shards": counts,
            "kept": [asdict(m) for m in self.kept],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Outcome:
        """Read what :meth:`to_json` gave."""
        counts = {n: (rows, found) for n, rows, found in value["shards"]}
        return cls(counts, tuple(Mismatch(**m) for m in value["kept"]))


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """Put outcomes of different shards of one ensemble together.

    The result is that of one run over all of them.

    Raises
    ------
    ValueError
        If a shard occurs twice.
    """
    counts: dict[int, tuple[int, int]] = {}
    kept: list[Mismatch] = []
    for outcome in outcomes:
        twice = counts.keys() & outcome.counts.keys()
        if twice:
            raise ValueError(f"shards {sorted(twice)} occur twice")
        counts |= outcome.counts
        kept += outcome.kept
    return Outcome(dict(sorted(counts.items())), tuple(sorted(kept, key=lambda m: m.row)[:KEPT]))


def compared(core: Arithmetic, shard: int, chunk: Chunk, left: NDArray, right: NDArray) -> Outcome:
    """Outcome of one shard: bits are compared, NaNs and signs of zeros included."""
    rows = np.flatnonzero(left != right)
    formats = (core.a, core.b, core.out)
    digits_a, digits_b, digits = (f.width // 4 for f in formats)

    def row_text(codes: NDArray, width: int) -> str:
        return " ".join(f"{int(code):0{width}x}" for code in codes)

    kept = tuple(
        Mismatch(
            chunk.first + int(i),
            row_text(chunk.a[i], digits_a),
            row_text(chunk.b[i], digits_b),
            *(f"{int(codes[i]):0{digits}x}" for codes in (chunk.c, left, right)),
        )
        for i in rows[:KEPT]
    )
    return Outcome({shard: (len(left), len(rows))}, kept)


def canonical(description: Mapping[str, Any]) -> str:
    """One text per description, to tell whether a saved outcome belongs to this comparison."""
    return json.dumps(description, sort_keys=True)
