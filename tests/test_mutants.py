"""The comparison of test_kernels notices kernels that are slightly wrong.

Most mutants are records with one field changed, run by the kernels; two are kernels whose source
is changed in a copy of the package.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_kernels import SEED, SHARES

import mfmamodels as mm
from mfmamodels import kernels, reference
from mfmamodels.characterise import sampling
from mfmamodels.siblings import change


def _late(**changes):
    return lambda core: replace(
        core, accumulation=replace(core.accumulation, c=replace(core.accumulation.c, **changes))
    )


def _field(name, value):
    return lambda core: change(core, name, value)


def _fourteen_bits(core):
    return change(change(core, "frac_bits", "14"), "out_frac_bits", "14")


MUTANTS = {
    "31 for 32 bits of a shifted product sum": ("MI300X/fp16", _late(sum_frac_bits=31)),
    "no second round-down": ("MI300X/fp16", _late(second="none")),
    "blind second round-down": ("MI300X/fp16", _late(second="blind")),
    "second round-down not subnormal-aware": ("MI300X/bf16", _late(second="normalised")),
    "second round-down not subnormal-aware, xf32": ("MI300X/xf32", _late(second="normalised")),
    "RTZ for RD": ("MI300X/fp16", _late(rounding="rtz")),
    "RTZ for RD, bf16": ("MI300X/bf16", _late(rounding="rtz")),
    "RTZ for RD, xf32": ("MI300X/xf32", _late(rounding="rtz")),
    "RTZ for RD, e4m3": ("MI300X/e4m3fnuz", _late(rounding="rtz")),
    "RTZ for RD where even and odd are joined": ("MI300X/e5m2fnuz", _field("join_rounding", "rtz")),
    "N_FMA halved, CDNA1": ("MI100/fp16", _field("n_fma", "2")),
    "N_FMA halved, CDNA2": ("MI250/fp16", _field("n_fma", "2")),
    "N_FMA halved, CDNA3": ("MI300X/fp16", _field("n_fma", "4")),
    "N_FMA halved, Hopper": ("H100/fp16", _field("n_fma", "8")),
    "N_FMA halved, Hopper fp8": ("H100/e5m2", _field("n_fma", "16")),
    "c early": ("MI300X/fp16", _field("c", "early")),
    "no e_min clamp, Hopper": ("H100/bf16", _field("e_min", "unlimited")),
    "no e_min clamp, Ampere tf32": ("A100/tf32", _field("e_min", "unlimited")),
    "no e_min clamp, fp16 output": ("A100/fp16:fp16", _field("e_min", "unlimited")),
    "no product overflow": ("MI300X/bf16", _field("product_limit", "unlimited")),
    "missing flush, fp16": ("MI250/fp16", _field("flush", "false")),
    "missing flush, bf16": ("MI250/bf16_1k", _field("flush", "false")),
    "c cut at 24 instead of 25": ("MI300X/e4m3fnuz", _late(c_max_shift=24)),
    "c never cut": ("MI300X/e5m2fnuz", _late(c_max_shift="unlimited")),
    "RNE for RTZ": ("H100/fp16", _field("rounding", "rne")),
    "14 for 13 bits": ("H100/e4m3fn", _field("frac_bits", "14")),
    "14 for 13 bits, result too": ("H100/e4m3fn", _fourteen_bits),
    "one alignment bit less": ("A100/bf16", _field("frac_bits", "23")),
    "normalised products": ("B200/fp16", _field("normalised_products", "true")),
    "blocks in another order": ("B200/e4m3fn:mma.sync", _field("order", "none")),
}


@cache
def _rows(name):
    """The rows of the default suite, and the reference's results."""
    core = mm.core(name)
    drawn = [sampling.draw(core, s, round(2000 * share), SEED) for s, share in SHARES.items()]
    a, b, c = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    expected = np.empty(len(c), core.out.code_dtype)
    reference.dots(core, a, b, c, expected)
    return core, a, b, c, expected


def _got(core, a, b, c):
    out = np.empty(len(c), core.out.code_dtype)
    kernels.dots(core, a, b, c, out)
    return out


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_changed_feature_is_noticed(mutant):
    name, mutate = MUTANTS[mutant]
    core, a, b, c, expected = _rows(name)
    changed = mutate(core)
    assert changed.accumulation != core.accumulation
    assert np.array_equal(_got(core, a, b, c), expected)
    assert not np.array_equal(_got(changed, a, b, c), expected)


def test_a_plain_double_sum_is_noticed_on_cdna1():
    core, a, b, c, expected = _rows("MI100/fp16")
    x, y = mm.decode(a, core.a), mm.decode(b, core.b)
    d = mm.decode(c, core.out)
    with np.errstate(all="ignore"):
        for start in range(0, x.shape[1], 4):
            block = slice(start, start + 4)
            d = ((x[:, block] * y[:, block]).sum(1) + d).astype(np.float32).astype(np.float64)
        got = d.astype(np.float32).view(np.uint32)
    finite = np.isfinite(mm.decode(expected, core.out))
    assert (got != expected)[finite].any()


# Changes of a kernel's source: core, sampler, what stands there, what a slip makes of it.
_SLIPS = {
    "none": ("MI300X/fp16", "near_tie", "", ""),
    "sticky bit forgotten": (
        "MI300X/fp16",
        "near_tie",
        "exact_enough = upper | far_sticky(upper, low, second)",
        "exact_enough = upper",
    ),
    "lost bits forgotten before rounding to nearest": (
        "A100/fp16:fp16",
        "near_tie",
        "coarse = (total & -128) | lost",
        "coarse = total & -128",
    ),
}
_PROGRAM = """
import sys
import numpy as np
import mfmamodels as mm
from mfmamodels import kernels, reference
from mfmamodels.characterise import sampling
core = mm.core(sys.argv[1])
assert kernels.fast_kernel(core) is not None
a, b, c = sampling.draw(core, sys.argv[2], 600, 20261201)
expected, got = (np.empty(600, core.out.code_dtype) for _ in range(2))
reference.dots(core, a, b, c, expected)
kernels.dots(core, a, b, c, got)
print((expected != got).sum())
"""


@pytest.mark.parametrize("slip", _SLIPS)
def test_a_slip_in_a_kernels_source_is_noticed(slip, root, tmp_path):
    core, sampler, right, wrong = _SLIPS[slip]
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "mfmamodels", tmp_path / "mfmamodels", ignore=ignore)
    path = tmp_path / "mfmamodels" / "kernels" / "aligned_lanes.py"
    source = path.read_text(encoding="utf-8")
    assert right in source
    path.write_text(source.replace(right, wrong) if right else source, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _PROGRAM, core, sampler]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mismatches = int(done.stdout)
    assert mismatches == 0 if slip == "none" else mismatches > 0
