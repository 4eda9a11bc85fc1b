"""Numerical features of a matrix multiplier, found from its answers alone (paper sections 3, 4, 6).

>>> import mfmamodels as mm
>>> from mfmamodels.characterise.probing import core_box, probe
>>> found = probe(core_box(mm.core("H100", "bf16")))
>>> found["n_fma"].value, found["frac_bits"].value, found["rounding"].text
(16, 25, 'RTZ')

The order of the steps: special values, single products and subnormals are read off directly;
chains, exact and pairwise sums are few, and all are tried; for aligned sums the blocks are seen
first (:mod:`structure`), then widths and roundings are decided a few at a time by eliminating all
their combinations (:mod:`aligned`). A record that passes is checked on thousands of general rows,
and every field is then varied: a value is *decided* only if every other value of its domain is
refuted by a row; the rest is reported as undecided (:mod:`alternatives`).
"""

from mfmamodels.characterise.probing.boxes import (
    Box,
    BoxError,
    PartyBox,
    RecordedBox,
    command_box,
    core_box,
    function_box,
)
from mfmamodels.characterise.probing.probe import probe
from mfmamodels.characterise.probing.report import COLUMNS, Feature, Report, table_row

__all__ = [
    "COLUMNS",
    "Box",
    "BoxError",
    "Feature",
    "PartyBox",
    "RecordedBox",
    "Report",
    "command_box",
    "core_box",
    "function_box",
    "probe",
    "table_row",
]
