"""NVIDIA tensor cores (Table 3 of the paper and recorded outputs)."""

from __future__ import annotations

from dataclasses import replace

from mfmamodels.accumulation import AlignedSum, EarlyC, LastC
from mfmamodels.catalogue._nvidia_evidence import evidence
from mfmamodels.core import Core, Evidence, Level
from mfmamodels.formats import FORMATS, Rounding

_NAN = {"fp32": 0x7FFFFFFF, "fp16": 0x7FFF}


def _aligned(n_fma: int, frac_bits: int, **changes) -> AlignedSum:
    kind = AlignedSum(n_fma=n_fma, frac_bits=frac_bits, c=EarlyC(), rounding=Rounding.RTZ)
    return replace(kind, **changes)


def _fp8_products_in_two_blocks(rounding: Rounding) -> AlignedSum:
    """fp8 through mma.sync m16n8k32 where the hardware has no such instruction of its own.

    The compiler emits two fp16 products of 16: first the k with k mod 4 in {0, 1}, then {2, 3};
    c is added last, by itself.
    """
    halves = tuple(k for pair in ((0, 1), (2, 3)) for k in range(32) if k % 4 in pair)
    return _aligned(16, 25, c=LastC(products=32), rounding=rounding, order=halves)


_FP8 = ("e4m3fn", "e5m2")
_RNE = Rounding.RNE

# inputs -> (out, path) -> accumulation
VOLTA = {
    "fp16": {
        ("fp32", ""): _aligned(4, 23),
        ("fp16", ""): _aligned(4, 23, rounding=_RNE, e_min=-19),
    },
}
TURING = {
    "fp16": {
        ("fp32", ""): _aligned(8, 24),
        ("fp16", ""): _aligned(8, 24, rounding=_RNE, e_min=-20),
    },
}
_AMPERE_16BIT = _aligned(8, 24, e_min=-132)
AMPERE = {
    "fp16": {
        ("fp32", ""): _AMPERE_16BIT,
        ("fp16", ""): replace(_AMPERE_16BIT, rounding=_RNE, e_min=-20),
    },
    "bf16": {("fp32", ""): _AMPERE_16BIT},
    "tf32": {("fp32", ""): replace(_AMPERE_16BIT, n_fma=4)},
}
_ADA_FP8 = {
    ("fp32", ""): _aligned(16, 13, e_min=-132, out_frac_bits=13),
    ("fp16", ""): _aligned(16, 13, rounding=_RNE, e_min=-20),
}
ADA = {**AMPERE, **{fp8: _ADA_FP8 for fp8 in _FP8}}

_HOPPER_16BIT = _aligned(16, 25, e_min=-133)
_HOPPER_COMMON = {
    "fp16": {
        ("fp32", ""): _HOPPER_16BIT,
        ("fp16", ""): replace(_HOPPER_16BIT, rounding=_RNE, e_min=-21),
    },
    "bf16": {("fp32", ""): _HOPPER_16BIT},
    "tf32": {("fp32", ""): replace(_HOPPER_16BIT, n_fma=8)},
}
# Native fp8 (WGMMA) keeps 13 bits; the mma.sync way is another arithmetic.
_HOPPER_FP8 = {
    ("fp32", ""): _aligned(32, 13, e_min=-133, out_frac_bits=13),
    ("fp16", ""): _aligned(32, 13, rounding=_RNE, e_min=-21),
    ("fp32", "mma.sync"): _fp8_products_in_two_blocks(Rounding.RTZ),
    ("fp16", "mma.sync"): _fp8_products_in_two_blocks(_RNE),
}
HOPPER = {**_HOPPER_COMMON, **{fp8: _HOPPER_FP8 for fp8 in _FP8}}

_BLACKWELL_FP8 = {
    ("fp32", ""): _aligned(32, 25, e_min=-133),
    ("fp16", ""): _aligned(32, 25, rounding=_RNE, e_min=-21),
    ("fp32", "mma.sync"): _fp8_products_in_two_blocks(Rounding.RTZ),
    ("fp16", "mma.sync"): _fp8_products_in_two_blocks(_RNE),
}
BLACKWELL = {**_HOPPER_COMMON, **{fp8: _BLACKWELL_FP8 for fp8 in _FP8}}
# sm_120 has an fp8 instruction of its own (QMMA), so mma.sync is the native way there.
_NATIVE_FP8 = {way: kind for way, kind in _BLACKWELL_FP8.items() if way[1] == ""}
RTX_BLACKWELL = {**_HOPPER_COMMON, **{fp8: _NATIVE_FP8 for fp8 in _FP8}}

_DEVICES = {
    "V100": ("Volta", VOLTA),
    "T4": ("Turing", TURING),
    "A100": ("Ampere", AMPERE),
    "A2": ("Ampere", AMPERE),
    "A30": ("Ampere", AMPERE),
    "RTX-1000-Ada": ("Ada Lovelace", ADA),
    "L40S": ("Ada Lovelace", ADA),
    "H100": ("Hopper", HOPPER),
    "H200": ("Hopper", HOPPER),
    "B200": ("Blackwell", BLACKWELL),
    "RTX-PRO-6000": ("RTX Blackwell", RTX_BLACKWELL),
}


def _cores(device: str, arch: str, table: dict) -> list[Core]:
    return [
        Core(
            device=device,
            arch=arch,
            vendor="NVIDIA",
            inputs=inputs,
            path=path,
            a=FORMATS[inputs],
            b=FORMATS[inputs],
            out=FORMATS[out],
            accumulation=accumulation,
            nan=_NAN[out],
            default_out=out == "fp32",
            evidence=evidence(device, arch, inputs, out, path),
        )
        for inputs, ways in table.items()
        for (out, path), accumulation in ways.items()
    ]


CORES: list[Core] = []
for _device, (_arch, _table) in _DEVICES.items():
    CORES += _cores(_device, _arch, _table)

# 8.1's question: is RTZ of the result what makes B200's error grow? A sibling answers it.
CORES += [
    replace(
        core,
        variant="rne",
        accumulation=replace(core.accumulation, rounding=_RNE),
        evidence=(
            Evidence(Level.UNVERIFIED, "not the hardware: B200 with its results rounded RNE"),
        ),
    )
    for core in CORES
    if core.device == "B200" and core.out.name == "fp32" and not core.path
]
