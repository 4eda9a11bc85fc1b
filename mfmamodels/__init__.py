"""Bit-accurate models of AMD matrix cores and NVIDIA tensor cores.

>>> import mfmamodels as mm
>>> core = mm.core("MI300X", "fp16")
>>> float(core.dot([1.0, 2.0], [3.0, 4.0]))
11.0
"""

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
from mfmamodels.array import CoreArray, wrap
from mfmamodels.core import Core, Evidence, Level
from mfmamodels.cores import core, cores
from mfmamodels.formats import (
    FORMATS,
    Format,
    Overflow,
    Rounding,
    decode,
    encode,
    get_format,
    round_to,
)
from mfmamodels.instructions import Instruction, instruction

__version__ = "0.1.0"

__all__ = [
    "FORMATS",
    "UNLIMITED",
    "AlignedSum",
    "Arithmetic",
    "Core",
    "CoreArray",
    "EarlyC",
    "Evidence",
    "ExactSum",
    "FmaChain",
    "Format",
    "Instruction",
    "LastC",
    "LateC",
    "Level",
    "Overflow",
    "PairwiseSum",
    "Rounding",
    "SecondRounding",
    "core",
    "cores",
    "decode",
    "encode",
    "get_format",
    "instruction",
    "matmul",
    "round_to",
    "wrap",
]


def matmul(a, b, c=None, *, core):
    """``a @ b + c`` on a core given as a :class:`Core` or by name; see :meth:`Core.matmul`."""
    return (core if isinstance(core, Core) else _lookup(core)).matmul(a, b, c)


_lookup = core
