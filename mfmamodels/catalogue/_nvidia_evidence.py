"""What confirms the NVIDIA cores, and what nothing does."""

from __future__ import annotations

from mfmamodels.core import Evidence, Level
from mfmamodels.formats import FORMATS

RECORDINGS = "MATLAB-tensor-core, model_validation (F. A. Khattak and M. Mikaitis, 2025)"
_OTHER = "MMA-Sim 2.1.1 (other software)"

#: Devices in the recordings, by the name they have there.
_RECORDED = {
    "V100": "V100",
    "A100": "A100",
    "A2": "A2",
    "RTX-1000-Ada": "Ada",
    "L40S": "L40S",
    "H100": "H100",
    "H200": "H200",
    "B200": "B200",
}
_FP8 = {"e4m3fn": "E4M3", "e5m2": "E5M2"}

_UNNORMALISED = "products un-normalised"
# What recorded rows can decide; each case leaves some open.
_DECIDED = ("n_fma", "frac_bits", "c early", "rounding", _UNNORMALISED)
_NO_ROW = ("subnormal c and d", "overflow", "infinities and NaN", "sign of a zero result")


def recorded_case(device: str, inputs: str, out: str, path: str) -> str:
    """Name of the case recorded of this core, else empty.

    fp8 was recorded with ``mma.sync``, except for fp32 output of H100 and H200 (WGMMA) and on
    Ada, where ``mma.sync`` is the native way.
    """
    if device not in _RECORDED or (device == "L40S" and inputs in _FP8 and out == "fp16"):
        return ""
    if inputs in _FP8 and device in ("H100", "H200", "B200"):
        native = device != "B200" and out == "fp32"
        if native != (path == ""):
            return ""
    return f"{_RECORDED[device]}_{_FP8.get(inputs, inputs)}_{out}"


def _open_features(arch: str, inputs: str, out: str, path: str) -> tuple[str, ...]:
    """Features that the recorded rows of a core do not decide."""
    if inputs in _FP8 and path == "":
        return ("c early",) if arch == "Hopper" else ()  # recorded with c = 0
    if inputs in _FP8:
        return ("n_fma", "frac_bits", "rounding", _UNNORMALISED) if out == "fp32" else ()
    if out == "fp16":
        return ("n_fma", "frac_bits")
    if inputs == "tf32":
        return ("n_fma",) if arch in ("Hopper", "Blackwell") else ()  # recorded with K = 4
    if arch == "Volta":
        return ("n_fma",)
    if inputs == "bf16" and arch != "Hopper":
        return ("c early",)
    return ("c early",) if arch == "Blackwell" else ()


def _of_recording(device: str, arch: str, inputs: str, out: str, path: str) -> list[Evidence]:
    case = recorded_case(device, inputs, out, path)
    if not case:
        return []
    open_features = _open_features(arch, inputs, out, path)
    # c is added last through mma.sync, and its rows show the order of the products.
    decided = (
        _DECIDED if not path else ("order", "c last", *(f for f in _DECIDED if f != "c early"))
    )
    decided = tuple(f for f in decided if f not in open_features)
    if device == "L40S":
        source = f"{RECORDINGS}: the same bytes as RTX 1000 Ada"
        return [Evidence(Level.RECORDED_WORDS, source, decided, 4000, case, independent=False)]
    found = [Evidence(Level.RECORDED_WORDS, RECORDINGS, decided, 4000, case)]
    if (device, inputs) == ("H100", "bf16"):
        source = "MATLAB-tensor-core, issue 7: one dot product of products below 2^-100"
        found.append(Evidence(Level.RECORDED_WORDS, source, ("e_min", "frac_bits"), 1))
    if open_features:
        why = "the recorded rows allow other values; as in the paper's Table 3"
        if arch == "Volta" and out == "fp32":
            why = "recorded with K = 4; from directed vectors of other authors"
        if path:
            why = "the recorded rows alone fit many models; as in the fp16 product of the device"
            open_features = tuple(f for f in open_features if f != "n_fma")  # the compiler's
        found.append(Evidence(Level.UNVERIFIED, why, open_features))
    return found


def _e_min(device: str, arch: str, inputs: str, out: str, path: str) -> list[Evidence]:
    # Products of fp16 and fp8 numbers do not go below exponent -28, those of e4m3 not below -12.
    reachable = 2 * FORMATS[inputs].emin < (-19 if out == "fp16" else -131)
    if path or not reachable or (device, inputs) == ("H100", "bf16"):
        return []
    if arch == "Volta":
        source = f"from {_OTHER}"
    else:
        source = "paper, Table 3 and its note, by generation; no recorded row reacts to it"
    return [Evidence(Level.UNVERIFIED, source, ("e_min",))]


def _not_recorded(device: str, inputs: str, out: str, path: str) -> list[Evidence]:
    """Say where a core's parameters come from if nobody recorded it."""
    if device in ("T4", "RTX-PRO-6000"):
        return [Evidence(Level.UNVERIFIED, f"all parameters from {_OTHER}")]
    if device == "A30":
        return [Evidence(Level.UNVERIFIED, "no test of an A30 is public: taken to be as A100")]
    if device == "B200" and out == "fp32":
        return [Evidence(Level.UNVERIFIED, "paper, Table 3; recorded only through mma.sync")]
    if device == "L40S":
        return [Evidence(Level.UNVERIFIED, "parameters recorded on RTX 1000 Ada")]
    if path:
        why = "fp32 output through mma.sync was recorded on B200; sm_90 compiles to the same"
        return [Evidence(Level.UNVERIFIED, why)]
    return [Evidence(Level.UNVERIFIED, f"all parameters from {_OTHER}; the paper gives e_min")]


def _compiled(path: str) -> list[Evidence]:
    if path != "mma.sync":
        return []
    note = "nvcc 13 compiles mma.sync m16n8k32 for sm_90 and sm_100 to two fp16 products of 16"
    return [Evidence(Level.VENDOR, note, ("n_fma", "order"))]


def evidence(device: str, arch: str, inputs: str, out: str, path: str) -> tuple[Evidence, ...]:
    """Evidence for one NVIDIA core, feature by feature."""
    found = _of_recording(device, arch, inputs, out, path)
    if found:
        found += _compiled(path)
        found += _e_min(device, arch, inputs, out, path)
        found.append(Evidence(Level.UNVERIFIED, "no recorded row has them", _NO_ROW))
    else:
        found = _compiled(path) + _not_recorded(device, inputs, out, path)
    return tuple(sorted(found, key=lambda e: list(Level).index(e.level)))
