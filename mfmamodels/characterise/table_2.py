"""Table 2 of the paper beside our own counts, and how rare each feature of refinement is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mfmamodels.characterise import bounds
from mfmamodels.characterise.campaign import DEFINITION, INDEPENDENT, TESTS, Findings
from mfmamodels.characterise.ensembles import Outcome
from mfmamodels.tables import Table


class Printed(NamedTuple):
    """A row of the paper's Table 2."""

    rows: int
    mismatches: int
    bound: str


_NONE = Printed(10**6, 0, "1.38e-05")
_NONE_8BIT = Printed(2 * 10**6, 0, "6.91e-06")
_ONE = Printed(10**6, 1, "1.69e-05")

#: Formats of a row, and the paper's name for them.
INPUTS = {
    "binary8": ("MI300X/e4m3fnuz", "MI300X/e5m2fnuz"),
    "fp16": ("MI300X/fp16",),
    "bf16": ("MI300X/bf16",),
    "xf32 (tf19)": ("MI300X/xf32",),
}
# Iterations of the paper with the stage of refinement we read as its model, and its rows.
ITERATIONS: tuple[tuple[str, tuple[Printed | None, ...]], ...] = (
    ("rd31", (_NONE_8BIT, _ONE, _NONE, _ONE)),
    ("rd32", (_NONE_8BIT, _NONE, _NONE, _ONE)),
    ("rd32-blind", (_NONE_8BIT, _NONE, _NONE, _NONE)),
    ("rd32-norm", (None, Printed(1_250_000, 1, "1.35e-05"), None, None)),
    (
        "final",
        (
            Printed(2 * 10**7, 0, "6.91e-07"),
            *[Printed(10**7, 0, "1.38e-06")] * 3,
        ),
    ),
)
_HEADER = (
    "Iteration",
    "Model",
    "Input",
    "N",
    "m, paper",
    "bound, paper",
    "bound of paper's m",
    "m, here",
    "bound, here",
    "probability of paper's m",
    "rows to a mismatch, exponent-mantissa",
    "same, bits",
    "same, near ties",
)
_NOTES = (
    "Device under test: the final core. Iterations 0 to 3 compare it with the earlier stages of "
    "the model, iteration 4 with an independent implementation in integers; the paper compared "
    "with MI300A/X. Which stage was the model of which iteration is our reading of section 4.3.1.",
    "Bounds hold with posterior probability 1 − 1e-6. For m = 1 the paper prints 1.69e-5 (N = 1e6) "
    "and 1.35e-5 (N = 1.25e6); the posterior of 5.4 gives 1.67e-5 and 1.34e-5.",
    "Probability of the paper's m: under the posterior from all exponent-mantissa rows here.",
    "Rows to a mismatch: posterior mean of 1/p and central 95 % interval, from all rows of the "
    "sampler here; where nothing was seen, the number that 1/p exceeds with probability 95 %.",
    "binary8: e4m3fnuz and e5m2fnuz, half of N each.",
    "Without second rounding (rd32) hundreds of mismatches are expected in 1e6 rows, so the model "
    "of the paper's iteration 1 must have rounded a second time in some way.",
    "rd31 and rd32-blind are one function: c is a multiple of the 31st bit, so rounding down to 32 "
    "bits and then, with c, to 31 is rounding down to 31.",
    "rd32-norm differs from the final core only in subnormal results, which products of fp16 and "
    "8-bit numbers cannot bring about; the paper's mismatch in iteration 3 (fp16) must come from "
    "another difference, such as that of rd32-blind.",
)


def table_2(found: Mapping[str, Findings]) -> Table:
    """Table 2 from the findings of the CDNA3 cores.

    Parameters
    ----------
    found : mapping
        From :func:`campaign.collect` (others than CDNA3's are not used).
    """
    rows = [
        _row(iteration, stage, inputs, printed, [found[name] for name in cores])
        for iteration, (stage, paper) in enumerate(ITERATIONS)
        for (inputs, cores), printed in zip(INPUTS.items(), paper, strict=True)
    ]
    return Table(
        "table_2",
        "Mismatches and upper bounds of their probability, stage by stage of refinement",
        _HEADER,
        tuple(rows),
        _NOTES,
    )


def _row(
    iteration: int, stage: str, inputs: str, printed: Printed | None, found: list[Findings]
) -> tuple[str, ...]:
    other = INDEPENDENT if stage == "final" else stage
    size = printed.rows if printed else 10**6 * len(found)
    counted = _total([f["exponent_mantissa"][other].within(size // len(found)) for f in found])
    everything = _total([f["exponent_mantissa"][other] for f in found])
    paper = ("–", "–", "–", "–")
    if printed:
        paper = (
            str(printed.mismatches),
            printed.bound,
            f"{bounds.upper_bound(printed.rows, printed.mismatches):.2e}",
            _probability(everything, printed) if stage != "final" else "–",
        )
    return (
        str(iteration),
        stage,
        inputs,
        str(counted[0]),
        *paper[:3],
        str(counted[1]),
        f"{bounds.upper_bound(*counted):.2e}",
        paper[3],
        *(
            _wait(_total([f[sampler][other] for f in found]))
            for sampler in ("exponent_mantissa", "bits", "near_tie")
        ),
    )


def _total(outcomes: list[Outcome]) -> tuple[int, int]:
    return sum(o.rows for o in outcomes), sum(o.mismatches for o in outcomes)


def _probability(seen: tuple[int, int], printed: Printed) -> str:
    p = bounds.predictive(*seen, printed.rows, printed.mismatches)
    return f"{p:.2f}" if p >= 0.005 else f"{p:.0e}"


def _wait(counts: tuple[int, int]) -> str:
    rows, found = counts
    if found == 0:
        return f"> {_short(1 / bounds.upper_bound(rows, 0, 0.05))}"
    low, high = bounds.rows_interval(rows, found)
    return f"{_short(bounds.expected_rows(rows, found))} ({_short(low)} to {_short(high)})"


def _short(number: float) -> str:
    return f"{number:.0f}" if number < 1e5 else f"{number:.1e}".replace("e+0", "e")


def table_of_tests(found: Mapping[str, Findings]) -> Table:
    """The nine tests of section 5, each sampler: final core against independent computations."""
    rows = []
    for name in TESTS:
        for task, by in found[name].items():
            for other in sorted(by.keys() & {INDEPENDENT, DEFINITION}):
                outcome = by[other]
                sampler = task.removesuffix(f" {other}").replace("_", " ")
                bound = bounds.upper_bound(outcome.rows, outcome.mismatches)
                counts = (str(outcome.rows), str(outcome.mismatches), f"{bound:.2e}")
                rows.append((name, sampler, other.replace("_", " "), *counts))
    return Table(
        "validation",
        "Final cores against independent computations, on the samplers of section 5 and near ties",
        ("Core", "sampler", "compared with", "N", "m", "bound (1e-6)"),
        tuple(rows),
        (
            "exact integer: a second implementation in integers; reference: the definition in "
            "mpmath. MI250 has MI210's arithmetic, MI300A has MI300X's.",
        ),
    )
