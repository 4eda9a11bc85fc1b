"""Recorded outputs as a box: nothing can be asked, so only what fits the rows can be said."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mfmamodels.accumulation import AlignedSum, Arithmetic, EarlyC, LastC
from mfmamodels.characterise.probing.aligned import ROUNDINGS, out_widths
from mfmamodels.characterise.probing.boxes import RecordedBox
from mfmamodels.characterise.probing.elimination import (
    Rows,
    field_value,
    fields_of,
    first_mismatches,
    with_fields,
)
from mfmamodels.characterise.probing.kinds import consistent, simple_kinds
from mfmamodels.characterise.probing.lab import Lab
from mfmamodels.characterise.probing.report import KIND_WORDS, Report, c_position
from mfmamodels.formats import Rounding, is_nan

_MOST = 400  # records kept of one structure, spread over all that fit


def fits_of_recording(lab: Lab, box: RecordedBox, report: Report) -> None:
    """Put down what records fit all recorded rows.

    Tried are all chains, exact sums and pairwise sums, and aligned sums with an early or a last c
    without limits on exponents, in blocks of 1, 2, 4, ... of the row. No feature is called decided:
    rows that were not chosen to tell records apart may leave others open that were not tried.
    """
    rows = lab.rows(box.rows)
    nan = rows.d[is_nan(rows.d, box.out)]
    code = int(nan[0]) if nan.size else box.out.nan_code
    lab.progress(f"records that fit {len(rows)} recorded rows")
    fitting = consistent(
        [Arithmetic(a=box.a, b=box.b, out=box.out, accumulation=kind, nan=code)
         for kind in simple_kinds(box.out.name)], [rows],
    )  # fmt: skip
    for base in _structures(box, code):
        fitting += _fitting(lab, base, rows)
    if not fitting:
        report.add("kind", None, "none of the records tried fits all rows", decided=False)
        return
    report.arithmetic, *report.others = fitting
    why = f"fits all {len(rows)} recorded rows; a recording answers no further query"
    for name, values in _values(fitting).items():
        report.add(name, values[0], why, decided=False, alike=values[1:])


def _structures(box: RecordedBox, nan: int) -> Iterator[Arithmetic]:
    k = box.recording.a.shape[1]
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= k and k % n == 0]
    for n in sizes:
        kind = AlignedSum(n, 24, EarlyC(), Rounding.RNE)
        yield Arithmetic(a=box.a, b=box.b, out=box.out, accumulation=kind, nan=nan)
    for n in sizes[2:]:
        for order in dict.fromkeys(_orders(n, k)):
            kind = AlignedSum(n, 24, LastC(k), Rounding.RNE, order=order)
            yield Arithmetic(a=box.a, b=box.b, out=box.out, accumulation=kind, nan=nan)


def _orders(n: int, k: int) -> Iterator[tuple[int, ...]]:
    """As they come, or dealt out to the blocks one, two or four at a time."""
    yield ()
    for hand in (1, 2, 4):
        blocks = k // n
        if hand < n and blocks > 1:
            yield tuple(i for b in range(blocks) for i in range(k) if i // hand % blocks == b)


def _fitting(lab: Lab, base: Arithmetic, rows: Rows) -> list[Arithmetic]:
    grid: dict[str, list] = {
        "rounding": list(ROUNDINGS),
        "align_rounding": list(ROUNDINGS),
        "frac_bits": list(range(1, 49)),
        "normalised_products": [False, True],
        "out_frac_bits": list(out_widths(lab)),
    }
    if isinstance(base.accumulation.c, LastC):  # type: ignore[union-attr]
        grid["last.rounding"] = list(ROUNDINGS)
    choices, first = first_mismatches(
        base, grid, [rows.take(slice(0, 40)), rows.take(slice(40, None))]
    )
    picks = choices[first < 0]
    if len(picks) > _MOST:
        picks = picks[np.linspace(0, len(picks) - 1, _MOST).astype(int)]
    return [
        with_fields(base, {name: v[n] for (name, v), n in zip(grid.items(), pick, strict=True)})
        for pick in picks
    ]


def _values(records: list[Arithmetic]) -> dict[str, list]:
    """Values of each feature among records, without repetition."""
    found: dict[str, list] = {}
    for record in records:
        kind = record.accumulation
        own = {"kind": KIND_WORDS[type(kind)], "c": c_position(record), "n_fma": kind.n_fma}
        if isinstance(kind, AlignedSum):
            own |= {n: field_value(record, n) for n in fields_of(record)} | {"order": kind.order}
            for untried in ("e_min", "product_limit"):
                del own[untried]
        else:
            own["rounding"] = kind.rounding
        for name, value in own.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return found
