"""Table 3: numerical features of every core of the catalogue, found from its answers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import UNLIMITED
from mfmamodels.characterise.probing import (
    COLUMNS,
    Box,
    Feature,
    Report,
    core_box,
    probe,
    table_row,
)
from mfmamodels.characterise.probing.rows import Queries
from mfmamodels.core import Core
from mfmamodels.cores import core, cores
from mfmamodels.formats import Rounding
from mfmamodels.tables import Table

Progress = Callable[[int, int, str], None]


# --- probing many cores -----------------------------------------------------------------------


@dataclass
class _Logged:
    """A box that remembers what it was asked and what it answered."""

    box: Box

    def __post_init__(self) -> None:
        self.name, self.length = self.box.name, self.box.length
        self.a, self.b, self.out = self.box.a, self.box.b, self.box.out
        self.log: list[tuple[Queries, NDArray]] = []

    def answer(self, queries: Queries) -> tuple[NDArray, NDArray[np.bool_]]:
        """Pass on, and note."""
        d, known = self.box.answer(queries)
        self.log.append((queries, d))
        return d, known


def _answers_alike(box: Box, log: Sequence[tuple[Queries, NDArray]]) -> bool:
    """Whether a box would have led a probe the same way, query for query."""
    return all(np.array_equal(box.answer(queries)[0], d) for queries, d in log)


def probe_alike(group: Sequence[Core]) -> list[tuple[str, Report]]:
    """Probe cores of equal formats.

    A probe is determined by the answers; a core that gives all the answers of one probed before
    has that one's report, and is not searched again.
    """
    import numba

    numba.set_num_threads(1)
    reports, known = [], []
    for member in group:
        box = core_box(member)
        found = next((report for log, report in known if _answers_alike(box, log)), None)
        if found is None:
            logged = _Logged(box)
            found = probe(logged)
            known.append((logged.log, found))
        reports.append((member.name, found))
    return reports


def probe_all(
    members: Sequence[Core], processes: int = 1, progress: Progress | None = None
) -> dict[str, Report]:
    """Probe many cores as black boxes.

    Parameters
    ----------
    members : sequence of Core
    processes : int
    progress : callable, optional
        Called with the number of cores done, of all, and a text.

    Returns
    -------
    dict of str to Report
        By core name, in the order given.
    """
    groups: dict[tuple, list[Core]] = {}
    for member in members:
        groups.setdefault((member.a, member.b, member.out), []).append(member)
    ordered = sorted(groups.values(), key=len, reverse=True)  # the longest jobs first
    found: dict[str, Report] = {}
    if processes == 1:
        results = map(probe_alike, ordered)
    else:
        # "spawn": numba's threads do not survive a fork.
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        results = pool.map(probe_alike, ordered)
    for group in results:
        found |= dict(group)
        if progress is not None:
            progress(len(found), len(members), f"cores probed, last {group[-1][0]}")
    return {member.name: found[member.name] for member in members}


# --- the table --------------------------------------------------------------------------------


def table_3(reports: dict[str, Report]) -> Table:
    """Rows of equal cores together, one line each.

    Parameters
    ----------
    reports : dict of str to Report
        From :func:`probe_all`, by names of catalogue cores.
    """
    lines: dict[tuple[str, ...], list[Core]] = {}
    for name, report in reports.items():
        row = table_row(report)
        member = core(name)
        key = (member.inputs, member.path or "native", *(row[c] for c in ("Out", *COLUMNS)))
        lines.setdefault(key, []).append(member)
    header = ("GPU", "In", "path", "Out", *COLUMNS)
    rows = [(_devices(members), *key) for key, members in lines.items()]
    return Table(
        "table_3",
        "Numerical features of matrix cores, found by probing each as a black box",
        header,
        tuple(rows),
        NOTES,
    )


NOTES = (
    "Prd. Align.: integer and fraction bits of an aligned product (2: not normalised).",
    "align(c,S): fraction bits of a shifted c and of a shifted sum, and their rounding.",
    "e_c=0: exponent with which a zero c takes part; -∞: it takes no part.",
    "undecided, ≥, or a range: all these values give the same answer to every query, most often "
    "because the formats' range cannot show the feature.",
)


def _devices(members: Sequence[Core]) -> str:
    return ", ".join(dict.fromkeys(member.device for member in members))


# --- beside the paper -------------------------------------------------------------------------


@dataclass(frozen=True)
class Printed:
    """A column of the paper's Table 3 for one input format.

    Attributes
    ----------
    devices : tuple of str
    inputs : tuple of str
        Formats here of the column's input.
    frac_bits : int or None
        Second number of "Prd. Align."; None is infinity.
    n_fma : str
    zero_exponent : object
        UNLIMITED where the paper has -infinity.
    c : str
    align : tuple or None
        Widths of c and of the sum, and their rounding.
    rounding : Rounding
    e_min, product_limit : object
        UNLIMITED where the paper has "-" or "No".
    """

    devices: tuple[str, ...]
    inputs: tuple[str, ...]
    frac_bits: int | None
    n_fma: str
    zero_exponent: object
    c: str
    align: tuple | None
    rounding: Rounding
    e_min: object
    product_limit: object


_RD = (24, 32, Rounding.RD)
_AMD = (-126, "late", _RD, Rounding.RNE)
_NV = (UNLIMITED, "early", None, Rounding.RTZ)
_FP8 = ("e4m3fn", "e5m2")
_FNUZ = ("e4m3fnuz", "e5m2fnuz", "e4m3fnuz/e5m2fnuz", "e5m2fnuz/e4m3fnuz")
_MI300 = ("MI300A", "MI300X")
PRINTED = (
    Printed(("B200",), _FP8, 25, "32", *_NV, UNLIMITED, UNLIMITED),
    Printed(("H100",), _FP8, 13, "32", *_NV, UNLIMITED, UNLIMITED),
    Printed(_MI300, _FNUZ, 24, "8 odd-even", *_AMD, UNLIMITED, 128),
    Printed(("H100", "B200"), ("fp16", "bf16"), 25, "16", *_NV, -133, UNLIMITED),
    Printed(("A100",), ("fp16", "bf16"), 24, "8", *_NV, -132, UNLIMITED),
    Printed(("MI100",), ("fp16",), None, "4", UNLIMITED, "early", None, Rounding.RNE, UNLIMITED,
            UNLIMITED),
    Printed(("MI100",), ("bf16",), None, "2", UNLIMITED, "early", None, Rounding.RNE, UNLIMITED,
            UNLIMITED),
    Printed(_MI300, ("fp16", "bf16"), 24, "8", *_AMD, -126, 128),
    Printed(("H100", "B200"), ("tf32",), 25, "8", *_NV, -133, UNLIMITED),
    Printed(("A100",), ("tf32",), 24, "4", *_NV, -132, UNLIMITED),
    Printed(_MI300, ("xf32",), 24, "4", *_AMD, -126, 128),
)  # fmt: skip

#: What the paper prints, and the record's fields that say it.
_FIELDS = {
    "Prd. Align.": "frac_bits",
    "e_c=0": "late.zero_exponent",
    "c late/early": "c",
    "out. round.": "rounding",
    "e_min^lim": "e_min",
    "|p_i|-overflow": "product_limit",
}

_WHY = {
    "e_min^lim": "the paper's -126 is the exponent of a zero c (its column above): a shift under "
    "it looks like a limit, but rows with a nonzero c show none",
    "align(c,S)": "one rounding to fewer bits would differ",
}


def beside_the_paper(reports: dict[str, Report]) -> Table:
    """Every entry of the paper's Table 3 beside what the probe of that core found."""
    rows = []
    for printed in PRINTED:
        for device in printed.devices:
            for inputs in printed.inputs:
                rows += _compared(printed, device, inputs, reports[f"{device}/{inputs}"])
    return Table(
        "table_3_paper",
        "Entries of the paper's Table 3 beside the probe's",
        ("GPU", "In", "feature", "paper", "probed", "verdict", "remark"),
        tuple(rows),
        ("not observable: the paper's value is among those that answer alike.",),
    )


def _compared(printed: Printed, device: str, inputs: str, report: Report) -> list[tuple[str, ...]]:
    row = table_row(report)
    kind = report.arithmetic
    lines = []
    entries = {
        "Prd. Align.": printed.frac_bits,
        "e_c=0": printed.zero_exponent,
        "c late/early": printed.c,
        "out. round.": printed.rounding,
        "e_min^lim": printed.e_min,
        "|p_i|-overflow": printed.product_limit,
    }
    for column, value in entries.items():
        feature = report.features.get(_FIELDS[column])
        if feature is None:  # the kind of sum has no such field: nothing is limited
            verdict = "agrees" if value in (UNLIMITED, None) else "differs"
            remark = ""
        elif feature.decided:
            verdict = "agrees" if feature.value == value else "differs"
            remark = _WHY.get(column, "") if verdict == "differs" else ""
        else:
            inside = value in (feature.value, *feature.alike) or _between(value, feature)
            verdict = "not observable" if inside else "differs"
            remark = feature.evidence.partition(": ")[2]
            if verdict == "differs":
                remark = _WHY.get(column, remark)
        lines.append((device, inputs, column, _show(value), row[column], verdict, remark))
    lines.append((device, inputs, "N_FMA", printed.n_fma, row["N_FMA"],
                  "agrees" if printed.n_fma == row["N_FMA"] else "differs", ""))  # fmt: skip
    if printed.align is not None and kind is not None:
        lines.append(_compared_shift(printed, device, inputs, report, row["align(c,S)"]))
    return lines


def _compared_shift(
    printed: Printed, device: str, inputs: str, report: Report, cell: str
) -> tuple[str, ...]:
    names = ("late.c_frac_bits", "late.sum_frac_bits", "late.rounding")
    verdicts, remark = set(), ""
    for name, value in zip(names, printed.align or (), strict=True):
        feature = report.features.get(name)
        if feature is not None and feature.decided:
            verdicts.add("agrees" if feature.value == value else "differs")
        elif feature is not None and value in (feature.value, *feature.alike):
            verdicts.add("not observable")
            remark = feature.evidence.partition(": ")[2]
        else:
            verdicts.add("differs")
    verdict = next(v for v in ("differs", "not observable", "agrees") if v in verdicts)
    if verdict == "not observable":
        verdict = "agrees, wider sums too"
    c, s, rounding = printed.align or ("", "", "")
    return device, inputs, "align(c,S)", f"({c},{s},{str(rounding).upper()})", cell, verdict, remark


def _between(value: object, feature: Feature) -> bool:
    """Whether a number lies among the values that fit, or beyond them where no limit fits too."""
    values = (feature.value, *feature.alike)
    numbers = [v for v in values if isinstance(v, int)]
    if not isinstance(value, int) or not numbers:
        return False
    if UNLIMITED not in values:
        return min(numbers) <= value <= max(numbers)
    # No limit at all answers like one that is never reached: high for products, low for exponents.
    if feature.name == "product_limit":
        return value >= min(numbers)
    return value <= max(numbers)


def _show(value: object) -> str:
    if value is None:
        return "∞"
    if isinstance(value, Rounding):
        return str(value).upper()
    return "none" if value == UNLIMITED else str(value)


def catalogue() -> list[Core]:
    """The cores of the table: all that stand for hardware, thus no variants."""
    return [member for member in cores() if not member.variant]
