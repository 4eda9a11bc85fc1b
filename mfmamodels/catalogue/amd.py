"""AMD matrix cores: CDNA1, CDNA2 and CDNA3 (paper sections 4.1 to 4.3, Table 3)."""

from __future__ import annotations

from dataclasses import replace

from mfmamodels.accumulation import (
    Accumulation,
    AlignedSum,
    ExactSum,
    FmaChain,
    LateC,
    PairwiseSum,
    SecondRounding,
)
from mfmamodels.catalogue._amd_evidence import evidence, variant_evidence
from mfmamodels.core import Core
from mfmamodels.formats import FORMATS, Rounding

# 4.1.1: the NaN of opposite infinities is negative.
_NAN = {"fp32": 0xFFC00000, "fp64": 0xFFF8000000000000}


def _core(device: str, arch: str, inputs: str, accumulation: Accumulation) -> Core:
    a, _, b = inputs.removesuffix("_1k").partition("/")
    out = "fp64" if a == "fp64" else "fp32"
    return Core(
        device=device,
        arch=arch,
        vendor="AMD",
        inputs=inputs,
        a=FORMATS[a],
        b=FORMATS[b or a],
        out=FORMATS[out],
        accumulation=accumulation,
        nan=_NAN[out],
        evidence=evidence(device, arch, inputs),
    )


CDNA1: dict[str, Accumulation] = {
    "fp32": FmaChain(),  # 4.1.1
    "fp16": ExactSum(n_fma=4),  # 4.1.2
    "bf16": ExactSum(n_fma=2),  # 4.1.3
}

CDNA2: dict[str, Accumulation] = {
    "fp64": FmaChain(),
    "fp32": FmaChain(),  # 4.2
    "fp16": PairwiseSum(n_fma=4, flush=True),  # 4.2.1
    "bf16": PairwiseSum(n_fma=2, flush=True),  # 4.2.2
    "bf16_1k": PairwiseSum(n_fma=4, flush=True),  # 4.2.2
}

# Algorithm 1; c is shifted under the products to 24 fraction bits, the products under c to 32.
_CDNA3_C = LateC(
    c_frac_bits=24,
    sum_frac_bits=32,
    rounding=Rounding.RD,
    second=SecondRounding.SUBNORMAL_AWARE,
    second_frac_bits=31,
    zero_exponent=-126,
)
_CDNA3_16BIT = AlignedSum(
    n_fma=8,
    frac_bits=24,
    c=_CDNA3_C,
    rounding=Rounding.RNE,
    align_rounding=Rounding.RTZ,
    product_limit=128,
)
# Algorithm 2: even and odd products apart; a c shifted by more than 25 bits vanishes.
_CDNA3_8BIT = replace(
    _CDNA3_16BIT,
    n_fma=16,
    interleave=2,
    join_rounding=Rounding.RD,
    c=replace(_CDNA3_C, c_max_shift=25),
)
_FNUZ = ("e4m3fnuz", "e5m2fnuz")

CDNA3: dict[str, Accumulation] = {
    "fp64": FmaChain(),
    "fp32": FmaChain(),  # 4.3
    "xf32": replace(_CDNA3_16BIT, n_fma=4),  # 4.3.3
    "fp16": _CDNA3_16BIT,  # 4.3.1
    "bf16": _CDNA3_16BIT,  # 4.3.2
    **{a if a == b else f"{a}/{b}": _CDNA3_8BIT for a in _FNUZ for b in _FNUZ},  # 4.3.4
}

#: Refinement stages of the CDNA3 model on the way to the final one (5.3, Table 2).
CDNA3_VARIANTS: dict[str, dict] = {
    "rd31": {"sum_frac_bits": 31, "second": SecondRounding.NONE},  # released MATLAB code
    "rd32": {"second": SecondRounding.NONE},
    "rd32-blind": {"second": SecondRounding.BLIND},
    "rd32-norm": {"second": SecondRounding.NORMALISED},
}

_DEVICES = {
    "MI100": ("CDNA1", CDNA1),
    "MI210": ("CDNA2", CDNA2),
    "MI250": ("CDNA2", CDNA2),
    "MI300A": ("CDNA3", CDNA3),
    "MI300X": ("CDNA3", CDNA3),
}


def _variants(core: Core) -> list[Core]:
    kind = core.accumulation
    if not isinstance(kind, AlignedSum):
        return []
    return [
        replace(
            core,
            variant=name,
            accumulation=replace(kind, c=replace(kind.c, **changes)),
            evidence=variant_evidence(name),
        )
        for name, changes in CDNA3_VARIANTS.items()
    ]


CORES: list[Core] = []
for _device, (_arch, _kinds) in _DEVICES.items():
    for _inputs, _kind in _kinds.items():
        _final = _core(_device, _arch, _inputs, _kind)
        CORES += [_final, *_variants(_final)]
