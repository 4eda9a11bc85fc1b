"""The test vectors of paper section 4 as data: inputs and the output the hardware gave.

The modules ``cdna1``, ``cdna2`` and ``cdna3`` hold the vectors as the text states them; here they
get operands in a format. A vector that a format cannot represent is kept with the reason, and so
is the one that cannot hold as printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise.vectors import cdna1, cdna2, cdna3
from mfmamodels.characterise.vectors.operands import Pair, factor, spread
from mfmamodels.characterise.vectors.stated import Stated
from mfmamodels.core import Core
from mfmamodels.formats import FORMATS, Format

_BINARY8 = {
    f"{a}" if a == b else f"{a}/{b}": ("4.3.4", cdna3.binary8)
    for a in ("e4m3fnuz", "e5m2fnuz")
    for b in ("e4m3fnuz", "e5m2fnuz")
}

#: Architecture -> inputs -> section and vectors.
SECTIONS: dict[str, dict[str, tuple[str, Callable[[], Iterator[Stated]]]]] = {
    "CDNA1": {
        "fp32": ("4.1.1", cdna1.fp32),
        "fp16": ("4.1.2", cdna1.fp16),
        "bf16": ("4.1.3", cdna1.bf16),
    },
    "CDNA2": {
        "fp32": ("4.2", cdna1.fp32),
        "fp16": ("4.2.1", cdna2.fp16),
        "bf16": ("4.2.2", cdna2.bf16),
        "bf16_1k": ("4.2.2", cdna2.bf16_1k),
    },
    "CDNA3": {
        "fp32": ("4.3", cdna3.fp32),
        "fp16": ("4.3.1", cdna3.fp16),
        "bf16": ("4.3.2", cdna3.bf16),
        "xf32": ("4.3.3", cdna3.xf32),
        **_BINARY8,
    },
}

#: How the text is read where it cannot mean what it says, or leaves a choice.
READINGS = {
    "4.1.2, test 1": "n_eab = 24 asks for a product of 2^-49; the smallest one in fp16 is 2^-48, "
    "so this value of the index is tested in c only",
    "4.1.2, test 3": "the exponents in the sum over l are negative: 2^-25 + ... + 2^-L",
    "4.3, Algorithm 2 line 18": '"step 8-11 of Algorithm 1" means lines 10-13',
    "4.3.1, RD at 32, second RD": "only the sum of the products matters there, so a value that is "
    "no product of the format is spread over several products",
    "4.3.2, test 2": "i = 23 cannot hold as printed: 2^-175 lies outside the 24 fraction bits "
    "kept below 2^-150, so the result is 0",
    "4.3.4, c shifted out": "p2 = 2^-24 takes the sign of p1 and c; with p2 positive the negative "
    "outputs cannot be as stated",
    "4.3.4, last vector": '"the maximum exponent is 4" must be 5, that of 2^5 * 1',
    "Table 3": "N_FMA of fp8 is 8 odd-even: two interleaved sums of 8, the 16 of the text",
}
_CANNOT_HOLD = ("c = 0 has exponent -126, i=23, negative",)


@dataclass(frozen=True)
class Vector:
    """One test vector in a format.

    Attributes
    ----------
    section, test : str
        Where it is stated, and what it tests.
    a, b : tuple of float
        Operands, of one length.
    c : float
    d : float or None
        Stated output; a NaN carries the stated sign. None: see :class:`.stated.Stated`.
    """

    section: str
    test: str
    a: tuple[float, ...]
    b: tuple[float, ...]
    c: float
    d: float | None

    def __str__(self) -> str:
        return f"section {self.section}: {self.test}"


@dataclass(frozen=True)
class Excluded:
    """A stated vector that is not tested, and why."""

    section: str
    stated: Stated
    reason: str


def _operands(stated: Stated, a: Format, b: Format) -> dict[int, Pair] | str:
    """Operand pairs by index, or the reason why there are none."""
    pairs: dict[int, Pair] = {}
    for index, product in stated.p.items():
        if isinstance(product, tuple):
            pairs[index] = product
            continue
        found = factor(product, a, b)
        if found is None:
            return f"no product of {a} and {b} is {product.hex()}"
        pairs[index] = found
    if stated.total:
        parts = spread(stated.total, len(stated.over), a, b)
        if parts is None:
            return f"no {len(stated.over)} products of {a} and {b} sum to {stated.total.hex()}"
        pairs |= dict(zip(stated.over, parts, strict=False))
    return pairs


def _realise(section: str, stated: Stated, a: Format, b: Format) -> Vector | Excluded:
    if stated.test in _CANNOT_HOLD:
        return Excluded(section, stated, f"cannot hold as printed ({READINGS['4.3.2, test 2']})")
    pairs = _operands(stated, a, b)
    if isinstance(pairs, str):
        return Excluded(section, stated, pairs)
    row = [pairs.get(i, (0.0, 0.0)) for i in range(1, max(pairs, default=1) + 1)]
    operands_a, operands_b = zip(*row, strict=True)
    return Vector(section, stated.test, operands_a, operands_b, stated.c, stated.d)


@cache
def _all(arch: str, inputs: str) -> tuple[Vector | Excluded, ...]:
    if inputs not in SECTIONS.get(arch, {}):
        return ()
    section, stated = SECTIONS[arch][inputs]
    a, _, b = inputs.removesuffix("_1k").partition("/")
    formats = FORMATS[a], FORMATS[b or a]
    return tuple(_realise(section, vector, *formats) for vector in stated())


def _in_paper(core: Arithmetic) -> tuple[Vector | Excluded, ...]:
    if not isinstance(core, Core) or core.variant or core.vendor != "AMD":
        return ()
    return _all(core.arch, core.inputs)


def vectors(core: Arithmetic) -> list[Vector]:
    """Vectors that a core of the catalogue must reproduce; none for variants and NVIDIA."""
    return [v for v in _in_paper(core) if isinstance(v, Vector)]


def excluded(core: Arithmetic) -> list[Excluded]:
    """Stated vectors that the core's formats cannot represent, or that cannot hold."""
    return [v for v in _in_paper(core) if isinstance(v, Excluded)]


def count(core: Arithmetic) -> int:
    """Number of vectors of a core."""
    return len(vectors(core))


def exclusions(core: Arithmetic) -> Counter[str]:
    """How many stated vectors are excluded, by reason."""
    return Counter(v.reason for v in excluded(core))
