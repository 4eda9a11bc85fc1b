"""What confirms the AMD cores, and what nothing does."""

from __future__ import annotations

from mfmamodels.core import Evidence, Level

_SECTIONS = {
    ("CDNA1", "fp32"): "4.1.1",
    ("CDNA1", "fp16"): "4.1.2",
    ("CDNA1", "bf16"): "4.1.3",
    ("CDNA2", "fp32"): "4.2, which refers to 4.1.1",
    ("CDNA2", "fp16"): "4.2.1",
    ("CDNA2", "bf16"): "4.2.2",
    ("CDNA2", "bf16_1k"): "4.2.2",
    ("CDNA3", "fp32"): "4.3, which refers to 4.1.1",
    ("CDNA3", "fp16"): "4.3.1",
    ("CDNA3", "bf16"): "4.3.1, 4.3.2",
    ("CDNA3", "xf32"): "4.3.1, 4.3.3",
}
_SILENT = "the paper is silent"

# Everywhere: the paper states the sign of a NaN, not its other bits.
_COMMON = ("NaN bits other than the sign", "infinity times zero", "sign of a zero result")
_PADDING = ("K padded with zero products",)
_CHAIN = ("signed zeros as IEEE 754 has them",)
_CDNA2 = (
    "a subnormal operand is flushed before it meets an infinity",
    "a sum is judged subnormal after rounding",
)
_CDNA3 = (
    "a zero product other than 1*0 takes no part in the largest exponent",
    "a block of zero products gives c",
    "NaN where overflowed products and c are infinities of both signs",
    "a sum may pass 2^128 inside a block",
)
# Algorithm 2 refers to Algorithm 1 for them; the vectors of 4.3.4 do not exercise them.
_BINARY8 = ("normalisation before the second rounding", "overflow of a product")


def _unverified(arch: str, inputs: str) -> tuple[str, ...]:
    if inputs in ("fp32", "fp64"):
        return (*_COMMON[:2], *_CHAIN)
    own = {"CDNA1": (), "CDNA2": _CDNA2, "CDNA3": _CDNA3}[arch]
    if inputs not in ("fp16", "bf16", "bf16_1k", "xf32"):
        own = (*_BINARY8, *own)
    return (*_COMMON, *own, *_PADDING)


def _statistics(inputs: str) -> Evidence:
    source = "error statistics of an MI300X (gfx942, ROCm 7.2), tf32_analysis at 82311ae"
    if inputs == "xf32":
        features = ("inputs truncated", "n_fma", "alignments round down")
        return Evidence(Level.RECORDED_STATISTICS, f"{source}, four cases", features)
    # In the fourth case, K = 32, the library splits K into two chains and adds them.
    return Evidence(Level.RECORDED_STATISTICS, f"{source}, three cases", ("order of the chain",))


def evidence(device: str, arch: str, inputs: str) -> tuple[Evidence, ...]:
    """Evidence for one AMD core."""
    if inputs == "fp64":
        why = "no public test or recording of fp64: the arithmetic is assumed to be that of fp32"
        return (Evidence(Level.UNVERIFIED, why),)
    found = []
    if device == "MI300X" and inputs in ("xf32", "fp32"):
        found.append(_statistics(inputs))
    section = _SECTIONS.get((arch, inputs), "4.3.4")
    tested = "" if inputs == "fp32" else "; the authors' random tests (5.3) found no mismatch"
    found.append(Evidence(Level.VECTORS, f"paper, section {section}{tested}"))
    if arch == "CDNA2" and inputs != "fp32":
        note = "AMD's note on MI200: fp16 and bf16 MFMA flush subnormal inputs and outputs"
        found.append(Evidence(Level.VENDOR, note, ("flush",)))
    found.append(Evidence(Level.UNVERIFIED, _SILENT, _unverified(arch, inputs)))
    return tuple(found)


def variant_evidence(variant: str) -> tuple[Evidence, ...]:
    """Evidence for a stage of the CDNA3 model's refinement."""
    stage = (
        "the released MATLAB code"
        if variant == "rd31"
        else "a stage of the model's refinement (5.3, Table 2)"
    )
    why = f"not the hardware: {stage}"
    return (Evidence(Level.UNVERIFIED, why),)
