"""AMD's matrix instructions (MFMA) by name: shape, blocks, formats, and the core that runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Shapes of an architecture as "MxNxK", with ":blocks" where one instruction multiplies several.
_F32 = ("32x32x1:2", "16x16x1:4", "4x4x1:16", "32x32x2", "16x16x4")
_F16 = ("32x32x4:2", "16x16x4:4", "4x4x4:16", "32x32x8", "16x16x16")
_BF16 = ("32x32x2:2", "16x16x2:4", "4x4x2:16", "32x32x4", "16x16x8")
_F64 = ("16x16x4", "4x4x4:4")

_CDNA1: dict[str, tuple[str, ...]] = {"fp32": _F32, "fp16": _F16, "bf16": _BF16}
_BINARY8 = ("16x16x32", "32x32x16")
_FNUZ = ("e4m3fnuz", "e5m2fnuz")
_SHAPES: dict[str, dict[str, tuple[str, ...]]] = {
    "CDNA1": _CDNA1,
    "CDNA2": {**_CDNA1, "bf16_1k": _F16, "fp64": _F64},
    "CDNA3": {
        "fp64": _F64,
        "fp32": _F32,
        "xf32": ("16x16x8", "32x32x4"),
        "fp16": _F16,
        "bf16": _F16,
        **{a if a == b else f"{a}/{b}": _BINARY8 for a in _FNUZ for b in _FNUZ},
    },
}
#: Device whose core stands for an architecture.
DEVICES = {"CDNA1": "MI100", "CDNA2": "MI250", "CDNA3": "MI300X"}

# AMD's names: fp8 is E4M3 and bf8 is E5M2 here, the other way round than in the paper.
_TYPE_NAMES = {
    "fp64": "f64",
    "fp32": "f32",
    "xf32": "xf32",
    "fp16": "f16",
    "bf16": "bf16",
    "bf16_1k": "bf16_1k",
    "e4m3fnuz": "fp8",
    "e5m2fnuz": "bf8",
}
_NAME = re.compile(r"(v_mfma_)?f(32|64)_\d+x\d+x\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Instruction:
    """One MFMA instruction: ``blocks`` products of (m, k) and (k, n) matrices.

    Attributes
    ----------
    name : str
        Without the prefix ``v_mfma_``.
    arch : str
    m, n, k, blocks : int
    inputs, out : str
        Formats, as :func:`mfmamodels.core` names them.
    """

    name: str
    arch: str
    m: int
    n: int
    k: int
    blocks: int
    inputs: str
    out: str

    @property
    def device(self) -> str:
        """Device of the catalogue that stands for the architecture."""
        return DEVICES[self.arch]


def _instruction(arch: str, inputs: str, shape: str) -> Instruction:
    size, _, blocks = shape.partition(":")
    out = "fp64" if inputs == "fp64" else "fp32"
    types = inputs.split("/")
    if len(types) == 1 and types[0] in _FNUZ:
        types *= 2
    suffix = "_".join(_TYPE_NAMES[t] for t in types)
    if arch == "CDNA3":
        suffix = f"_{blocks}b_{suffix}" if blocks else f"_{suffix}"
    m, n, k = map(int, size.split("x"))
    name = f"{_TYPE_NAMES[out]}_{size}{suffix}"
    return Instruction(name, arch, m, n, k, int(blocks or 1), inputs, out)


INSTRUCTIONS: tuple[Instruction, ...] = tuple(
    _instruction(arch, inputs, shape)
    for arch, formats in _SHAPES.items()
    for inputs, shapes in formats.items()
    for shape in shapes
)


def is_instruction(name: str) -> bool:
    """Whether a name looks like one of an MFMA instruction."""
    return bool(_NAME.match(name))


def instruction(name: str, arch: str | None = None) -> Instruction:
    """Look an instruction up.

    Parameters
    ----------
    name : str
        With or without ``v_mfma_``: "v_mfma_f32_32x32x8_f16", "f32_32x32x8f16" (CDNA1, CDNA2).
    arch : str, optional
        "CDNA1", "CDNA2" or "CDNA3"; needed where more than one has the instruction.

    Returns
    -------
    Instruction

    Raises
    ------
    ValueError
        If there is no such instruction (the message lists those of the architecture), or if
        several architectures have it and none is given.

    Examples
    --------
    >>> instruction("v_mfma_f32_4x4x4_16b_f16").blocks
    16
    """
    if arch is not None and arch.upper() not in _SHAPES:
        raise ValueError(f"unknown architecture {arch!r}; known: {', '.join(_SHAPES)}")
    of_arch = [i for i in INSTRUCTIONS if arch is None or i.arch == arch.upper()]
    wanted = name.lower().removeprefix("v_mfma_")
    found = [i for i in of_arch if i.name == wanted]
    if len(found) > 1:
        archs = " and ".join(i.arch for i in found)
        raise ValueError(f"{archs} have {name}, each with an arithmetic of its own: give arch")
    if not found:
        where = "" if arch is None else f" on {arch.upper()}"
        known = ", ".join(dict.fromkeys(i.name for i in of_arch))
        raise ValueError(f"no instruction {name!r}{where}; known: {known}")
    return found[0]
