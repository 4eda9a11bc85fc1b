"""What a probe found, feature by feature, for people and for Table 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    EarlyC,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
    SecondRounding,
)
from mfmamodels.characterise.probing.elimination import Rows
from mfmamodels.formats import Format, Rounding, decode


@dataclass(frozen=True)
class Feature:
    """One numerical feature.

    Attributes
    ----------
    name : str
        As a field of the records is called, or in words.
    value : object
        What was found; where undecided, one of the values that fit.
    decided : bool
    alike : tuple
        Other values with which the box would have answered alike (empty where decided).
    evidence : str
        The queries that decided it, or why none can.
    """

    name: str
    value: object
    decided: bool
    alike: tuple = ()
    evidence: str = ""

    @property
    def text(self) -> str:
        """The value, or the values that fit, in a few characters."""
        if self.decided:
            return show(self.value)
        if not self.alike:
            return "undecided"
        return f"undecided: {show_set([self.value, *self.alike])}"


@dataclass
class Report:
    """Result of a probe.

    Attributes
    ----------
    name : str
        Of the box.
    a, b, out : Format
    features : dict of str to Feature
    arithmetic : Arithmetic or None
        A record that answers every row as the box does; None where none was found.
    others : list of Arithmetic
        Records of other structure that do so too.
    asked : int
        Rows asked.
    error : str
        Why the probe ended early, if it did.
    """

    name: str
    a: Format
    b: Format
    out: Format
    features: dict[str, Feature] = field(default_factory=dict)
    arithmetic: Arithmetic | None = None
    others: list[Arithmetic] = field(default_factory=list)
    asked: int = 0
    error: str = ""

    def __getitem__(self, name: str) -> Feature:
        return self.features[name]

    def add(self, name: str, value: object, evidence: str = "", *, decided: bool = True,
            alike: Sequence = ()) -> None:  # fmt: skip
        """Put a feature down."""
        self.features[name] = Feature(name, value, decided, tuple(alike), evidence)

    def report(self) -> str:
        """All features, a line each, with the queries that decided them."""
        inputs = self.a.name if self.a == self.b else f"{self.a} x {self.b}"
        lines = [f"{self.name}: {inputs} -> {self.out}, {self.asked} rows asked"]
        if self.error:
            lines.append(f"STOPPED EARLY: {self.error}")
        if self.arithmetic is None:
            lines.append("no record answers all rows: what follows is what single steps showed")
        width = max([len(n) for n in self.features], default=0)
        for f in self.features.values():
            lines.append(f"  {f.name:<{width}}  {f.text}")
            if f.evidence:
                lines.append(f"  {'':<{width}}    {f.evidence}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()


def show(value: object) -> str:
    """A field's value in a few characters."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Rounding):
        return str(value).upper()
    if isinstance(value, tuple):
        return "as they come" if not value else " ".join(map(str, value))
    return "none" if value in (UNLIMITED, None) else str(value)


def show_set(values: Sequence[object]) -> str:
    """Values in a few characters, runs of integers as ranges."""
    numbers = sorted({v for v in values if isinstance(v, int) and not isinstance(v, bool)})
    words = [
        show(v) for v in dict.fromkeys(v for v in values if v not in numbers or isinstance(v, bool))
    ]
    if len(numbers) > 2:
        # Thinned domains: what lies between two values that fit was not refuted either.
        words.insert(0, f"{numbers[0]} to {numbers[-1]}")
    else:
        words[:0] = [str(n) for n in numbers]
    return ", ".join(words)


def describe_row(rows: Rows, index: int, a: Format, b: Format, out: Format) -> str:
    """A query and its answer: nonzero products, c and d."""
    x, y = decode(rows.a[index], a), decode(rows.b[index], b)
    places = np.flatnonzero((x != 0) & (y != 0) | np.isnan(x * y))[:6]
    more = " ..." if np.count_nonzero(x) > 6 else ""
    products = " ".join(f"p{i + 1}={_hex(x[i])}*{_hex(y[i])}" for i in places)
    c, d = decode(rows.c[index : index + 1], out)[0], decode(rows.d[index : index + 1], out)[0]
    return f"{products}{more} c={_hex(c)} -> d={_hex(d)}"


def _hex(x: float) -> str:
    """A number exactly: as a short decimal, else in hexadecimal."""
    short = f"{x:g}"
    if not np.isfinite(x) or (float(short) == x and len(short) < 8):
        return short
    mantissa, _, exponent = float(x).hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"


KIND_WORDS = {
    FmaChain: "chain of fused multiply-adds",
    ExactSum: "exact sum",
    PairwiseSum: "pairwise sum",
    AlignedSum: "aligned sum",
}
C_WORDS = {EarlyC: "early", LateC: "late", LastC: "last"}


def c_position(arithmetic: Arithmetic) -> str:
    """Where c joins the sum."""
    kind = arithmetic.accumulation
    if isinstance(kind, AlignedSum):
        return C_WORDS[type(kind.c)]
    return {FmaChain: "first", ExactSum: "early", PairwiseSum: "late"}[type(kind)]


def table_row(report: Report) -> dict[str, str]:
    """A row of Table 3, from what the probe found.

    The first nine columns are the paper's; the others say what it leaves out.
    """
    inputs = report.a.name if report.a == report.b else f"{report.a}/{report.b}"
    row = {"In": inputs, "Out": report.out.name, **dict.fromkeys(COLUMNS, "-")}
    kind = report.arithmetic.accumulation if report.arithmetic is not None else None
    if kind is None:
        return row | dict.fromkeys(COLUMNS, "undecided")
    f = report.features
    row["Kind"] = f["kind"].text
    row["N_FMA"] = f["n_fma"].text
    row["out. round."] = f["rounding"].text
    row["c late/early"] = f["c"].text
    row["subnormals in, c, out"] = ", ".join(
        _brief(f[n]) for n in ("input subnormals", "subnormal c", "output subnormals")
    )
    if isinstance(kind, ExactSum):
        row |= {"Prd. Align.": "(1,∞)", "e_c=0": "-∞", "|p_i|-overflow": "no"}
    if isinstance(kind, AlignedSum):
        row |= _aligned_cells(report, kind)
    return row


COLUMNS = (
    "Prd. Align.", "N_FMA", "e_c=0", "c late/early", "align(c,S)", "out. round.", "e_min^lim",
    "|p_i|-overflow", "Kind", "align. round.", "2nd round.", "out. bits", "subnormals in, c, out",
)  # fmt: skip


def _aligned_cells(report: Report, kind: AlignedSum) -> dict[str, str]:
    f = report.features
    normalised = f["normalised_products"]
    integer = "1" if normalised.value else "2"
    integer = integer if normalised.decided else "1 or 2"
    cells = {
        "Prd. Align.": f"({integer},{_brief(f['frac_bits'])})",
        "align. round.": _brief(f["align_rounding"]),
        "e_min^lim": _limit(f["e_min"]),
        "|p_i|-overflow": _limit(f["product_limit"], "2^"),
        "out. bits": _brief(f["out_frac_bits"]) if f["out_frac_bits"].value != UNLIMITED else "all",
        "e_c=0": "-∞",
    }
    if kind.interleave == 2:
        cells["N_FMA"] = f"{kind.n_fma // 2} odd-even"
    if kind.order:
        cells["N_FMA"] = f"{kind.n_fma} reordered"
    if isinstance(kind.c, LateC):
        widths = (_brief(f["late.c_frac_bits"]), _brief(f["late.sum_frac_bits"]))
        cells["align(c,S)"] = f"({widths[0]},{widths[1]},{_brief(f['late.rounding'])})"
        cells["e_c=0"] = _limit(f["late.zero_exponent"]).replace("no", "-∞")
        if kind.c.second is not SecondRounding.NONE:
            cells["2nd round."] = (
                f"{_brief(f['late.second'])}, {_brief(f['late.second_frac_bits'])}"
            )
    return cells


def _brief(feature: Feature) -> str:
    """A feature in a table's cell."""
    if feature.decided:
        return show(feature.value)
    if feature.value is None:
        return "undecided"
    values = [feature.value, *feature.alike]
    numbers = sorted(v for v in values if isinstance(v, int) and not isinstance(v, bool))
    if numbers and UNLIMITED in values:
        return f"≥{numbers[0]}"
    if len(numbers) == len(values) > 1:
        return f"{numbers[0]}…{numbers[-1]}"
    return " or ".join(show(v) for v in values)


def _limit(feature: Feature, prefix: str = "") -> str:
    """A limit in a table's cell."""
    if feature.decided:
        return "no" if feature.value == UNLIMITED else f"{prefix}{feature.value}"
    values = (feature.value, *feature.alike)
    numbers = sorted(v for v in values if isinstance(v, int))
    if UNLIMITED not in values:
        return f"{prefix}{numbers[0]}…{prefix}{numbers[-1]}"
    if feature.name == "product_limit":
        return f"no or ≥{prefix}{numbers[0]}"
    return f"no or ≤{numbers[-1]}"
