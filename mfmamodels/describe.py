"""A core in words: its row of Table 3, its parameters, and the evidence it stands on."""

from __future__ import annotations

import textwrap
from dataclasses import fields

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    Bits,
    EarlyC,
    ExactSum,
    FmaChain,
    LateC,
    PairwiseSum,
)
from mfmamodels.core import Core, Evidence, Level

WIDTH = 100
_INFINITE = "∞"


def table_row(core: Arithmetic) -> dict[str, str]:
    """A core's column of the paper's Table 3, by the names of its rows.

    Parameters
    ----------
    core : Arithmetic
        A :class:`mfmamodels.Core`, or any arithmetic.

    Returns
    -------
    dict of str to str
        "In", "Prd. Align.", "N_FMA", "e_c=0", "c late/early", "align(c, S)", "out. round.",
        "e_min^lim" and "|p|-overflow"; "-" where a row means nothing.
    """
    inputs = getattr(core, "inputs", "") or f"{core.a}/{core.b}"
    row = {"In": inputs, **dict.fromkeys(_ROWS, "-"), "N_FMA": str(core.accumulation.n_fma)}
    row["out. round."] = core.accumulation.rounding.upper()
    kind = core.accumulation
    if isinstance(kind, AlignedSum):
        row |= _aligned_row(kind, core)
    elif isinstance(kind, ExactSum):
        row |= {"Prd. Align.": f"(1, {_INFINITE})", "e_c=0": f"-{_INFINITE}"}
        row |= {"c late/early": "early", "|p|-overflow": "No"}
    return row


_ROWS = (
    "Prd. Align.",
    "N_FMA",
    "e_c=0",
    "c late/early",
    "align(c, S)",
    "out. round.",
    "e_min^lim",
    "|p|-overflow",
)


def _aligned_row(kind: AlignedSum, core: Arithmetic) -> dict[str, str]:
    integer_bits = 1 if kind.normalised_products else 2
    row = {"Prd. Align.": f"({integer_bits}, {kind.frac_bits})"}
    if kind.interleave == 2:
        row["N_FMA"] = f"{kind.n_fma // 2} odd-even"
    if kind.out_frac_bits != UNLIMITED:
        row["out. round."] = f"{kind.rounding.upper()} to {kind.out_frac_bits} bits"
    limited = kind.product_limit != UNLIMITED
    row["|p|-overflow"] = f"2^{kind.product_limit}" if limited else "No"
    lowest = kind.e_min
    row["e_c=0"] = f"-{_INFINITE}"
    if isinstance(kind.c, LateC):
        c = kind.c
        row |= {"c late/early": "late", "align(c, S)": _late_alignment(c)}
        if c.zero_exponent != UNLIMITED:
            row["e_c=0"] = str(c.zero_exponent)
            lowest = c.zero_exponent if lowest == UNLIMITED else max(lowest, c.zero_exponent)
    else:
        row["c late/early"] = "early" if isinstance(kind.c, EarlyC) else "last, by itself"
    # Products of 8-bit numbers never reach the limit, so Table 3 has none there.
    reachable = max(core.a.width, core.b.width) > 8 or core.out.name == "fp16"
    if lowest != UNLIMITED and reachable:
        row["e_min^lim"] = str(lowest)
    return row


def _late_alignment(c: LateC) -> str:
    widths = ", ".join(_INFINITE if w == UNLIMITED else str(w) for w in _widths(c))
    return f"({widths}, {c.rounding.upper()})"


def _widths(c: LateC) -> tuple[Bits, Bits]:
    return c.c_frac_bits, c.sum_frac_bits


def kind_in_words(core: Arithmetic) -> str:
    """One sentence on how the core sums."""
    kind = core.accumulation
    if isinstance(kind, FmaChain):
        return "a chain of fused multiply-adds in order of k"
    if isinstance(kind, ExactSum):
        return f"exact sums of {kind.n_fma} products and c, rounded once"
    if isinstance(kind, PairwiseSum):
        flushed = ", subnormals flushed" if kind.flush else ""
        return f"a tree of {kind.n_fma} rounded products, then c{flushed}"
    when = {"EarlyC": "with c among them", "LateC": "then c", "LastC": "c last of all"}
    groups = " (even and odd apart)" if kind.interleave == 2 else ""
    return f"sums of {kind.n_fma} aligned products{groups}, {when[type(kind.c).__name__]}"


def parameters(core: Arithmetic) -> list[str]:
    """Parameters of the accumulation, ``name = value``, those of c after the others."""
    return _parameters(core.accumulation, "")


def _parameters(record: object, prefix: str) -> list[str]:
    lines, inner = [], []
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if hasattr(value, "__dataclass_fields__"):
            lines.append(f"{field.name} = {type(value).__name__}")
            inner += _parameters(value, f"{field.name}.")
        else:
            lines.append(f"{prefix}{field.name} = {value if value != () else 'as they come'}")
    return lines + inner


def evidence_lines(core: Core, width: int = WIDTH) -> list[str]:
    """Evidence by level, strongest first: one paragraph each."""
    lines = []
    for evidence in core.evidence:
        text = f"{evidence.level}{_amount(core, evidence)}: {evidence.source}"
        if evidence.features:
            text += f" [{'; '.join(evidence.features)}]"
        lines += textwrap.wrap(
            text, width, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
        )
    return lines


def _amount(core: Core, evidence: Evidence) -> str:
    if evidence.level is Level.VECTORS:
        from mfmamodels.characterise import vectors

        return f", {vectors.count(core)}"
    if evidence.level is Level.RECORDED_WORDS:
        rows = "1 row" if evidence.rows == 1 else f"{evidence.rows} rows"
        return f", {rows}" + ("" if evidence.independent else ", not independent")
    return ""


def summary(core: Core) -> str:
    """Name, row of Table 3 and evidence, for a reader."""
    c_format = f"c and d in {core.out}"
    lines = [
        f"{core.name} ({core.vendor}, {core.arch}): {core.a} x {core.b}, {c_format}",
        f"  {kind_in_words(core)}",
        "Table 3",
        *(f"  {name:<13} {value}" for name, value in table_row(core).items()),
        "Evidence",
        *evidence_lines(core),
    ]
    return "\n".join(lines)


def representation(core: Core) -> str:
    """Parameters, row of Table 3 and evidence, for a programmer."""
    row = ", ".join(f"{name} {value}" for name, value in table_row(core).items())
    levels = ", ".join(dict.fromkeys(str(e.level) + _amount(core, e) for e in core.evidence))
    return (
        f"<Core {core.name!r}: {core.a} x {core.b} -> {core.out}, {core.accumulation!r}, "
        f"nan=0x{core.nan:X}; Table 3: {row}; evidence: {levels}>"
    )
