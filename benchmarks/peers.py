"""MMA-Sim 2.1.1 on the same operands, where it is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from benchmarks.measure import best, operands
from mfmamodels.core import Core

#: Its name of the instruction whose arithmetic a core has: vendor, architecture, instruction.
INSTRUCTIONS = {
    "MI100/fp16": ("amd", "CDNA1", "f32_32x32x8f16"),
    "MI100/bf16": ("amd", "CDNA1", "f32_32x32x4bf16"),
    "MI250/fp16": ("amd", "CDNA2", "f32_32x32x8f16"),
    "MI250/bf16": ("amd", "CDNA2", "f32_32x32x4bf16"),
    "MI250/bf16_1k": ("amd", "CDNA2", "f32_32x32x8bf16_1k"),
    "MI300X/fp16": ("amd", "CDNA3", "f32_32x32x8_f16"),
    "MI300X/bf16": ("amd", "CDNA3", "f32_32x32x8_bf16"),
    "MI300X/xf32": ("amd", "CDNA3", "f32_32x32x4_xf32"),
    "MI300X/e4m3fnuz": ("amd", "CDNA3", "f32_32x32x16_fp8_fp8"),
    "MI300X/e5m2fnuz": ("amd", "CDNA3", "f32_32x32x16_bf8_bf8"),
    "V100/fp16": ("nv_ptx", "Volta", "m8n8k4.f32.f16.f16.f32"),
    "A100/fp16": ("nv_ptx", "Ampere", "m16n8k16.f32.f16.f16.f32"),
    "A100/bf16": ("nv_ptx", "Ampere", "m16n8k16.f32.bf16.bf16.f32"),
    "A100/tf32": ("nv_ptx", "Ampere", "m16n8k8.f32.tf32.tf32.f32"),
    "H100/fp16": ("nv_ptx", "Hopper", "m16n8k16.f32.f16.f16.f32"),
    "H100/bf16": ("nv_ptx", "Hopper", "m16n8k16.f32.bf16.bf16.f32"),
}


def available() -> str:
    """Empty if MMA-Sim 2.1.1 can be used, else the reason why not."""
    try:
        found = version("mmasim")
    except PackageNotFoundError:
        return "MMA-Sim is not installed"
    if found != "2.1.1":
        return f"MMA-Sim {found} is installed, not 2.1.1"
    return "" if find_spec("torch") else "MMA-Sim needs torch, which is not installed"


def _operation(vendor: str, arch: str, instruction: str) -> Any:
    if vendor == "amd":
        from mmasim.amd import MFMA

        return MFMA(arch, instruction)
    from mmasim.nv_ptx import MMA

    return MMA(arch, instruction)


def measure_peer(core: Core, rows: int) -> dict | None:
    """Milliseconds of a million dot products with K = 16 and of a 256^3 product; None: no peer."""
    if core.name not in INSTRUCTIONS:
        return None
    import torch

    operation = _operation(*INSTRUCTIONS[core.name])

    def tensor(codes, fmt):
        signed = torch.from_numpy(codes.view(f"int{fmt.width}"))
        return signed.view(getattr(torch, str(fmt.dtype)))

    def pair(*shapes):
        codes = operands(core, *shapes)
        return [tensor(x, fmt) for x, fmt in zip(codes, (core.a, core.b), strict=True)]

    a, b = pair((rows, 16), (rows, 16))
    c = torch.zeros(rows, dtype=torch.float32)
    dots = best(lambda: operation.dpa(a, b, c), 5.0)
    x, y = pair((256, 256), (256, 256))
    z = torch.zeros(256, 256, dtype=torch.float32)
    gemm = best(lambda: operation(x, y, z), 5.0)
    return {"dots_ms": dots * 1e3 * (1e6 / rows), "gemm_256_ms": gemm * 1e3}
