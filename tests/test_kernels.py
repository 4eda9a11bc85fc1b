"""Every core's kernel gives the bits of the mpmath reference."""

import os
from dataclasses import fields
from functools import cache

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels import kernels, reference
from mfmamodels.characterise import sampling
from mfmamodels.formats import is_inf, is_nan
from mfmamodels.kernels import general

SEED = 20261201
# Directed rows first. Together 2000 in the default suite and 1e5 in the full one.
SHARES = {
    "near_tie": 0.3,
    "cancellation": 0.15,
    "specials": 0.2,
    "structured": 0.05,
    "exponent_mantissa": 0.15,
    "exponent_mantissa_subnormal": 0.05,
    "bits": 0.1,
}


def _arithmetic(core):
    return mm.Arithmetic(**{f.name: getattr(core, f.name) for f in fields(mm.Arithmetic)})


@cache
def _groups():
    """Cores by arithmetic: what is one and the same needs comparing once."""
    groups = {}
    for core in mm.cores():
        groups.setdefault(_arithmetic(core), []).append(core)
    return list(groups.values())


def _name(group):
    return group[0].name + (f"+{len(group) - 1}" if len(group) > 1 else "")


each_arithmetic = pytest.mark.parametrize("group", _groups(), ids=_name)


def explain(core, a, b, c, expected, got):
    """The first row that differs, in hexadecimal."""
    row = int(np.flatnonzero(expected != got)[0])
    codes = [" ".join(f"{x:x}" for x in v[row].tolist()) for v in (a, b)]
    return (f"{core.name}: {int((expected != got).sum())} of {len(got)} rows differ, first {row}:\n"
            f"a = {codes[0]}\nb = {codes[1]}\nc = {int(c[row]):x}\n"
            f"reference {int(expected[row]):x}, kernel {int(got[row]):x}")  # fmt: skip


def _compare(core, sampler, rows, shard=0):
    a, b, c = sampling.draw(core, sampler, rows, SEED, shard)
    expected = np.empty(rows, core.out.code_dtype)
    got, second = expected.copy(), expected.copy()
    reference.dots(core, a, b, c, expected)
    kernels.dots(core, a, b, c, got)
    assert np.array_equal(expected, got), explain(core, a, b, c, expected, got)
    general.dots(core, a, b, c, second)
    assert np.array_equal(expected, second), explain(core, a, b, c, expected, second)


@pytest.mark.parametrize("sampler", SHARES)
@each_arithmetic
def test_kernel_equals_reference(group, sampler):
    _compare(group[0], sampler, round(2000 * SHARES[sampler]))


@pytest.mark.full
@pytest.mark.parametrize("sampler", SHARES)
@each_arithmetic
def test_kernel_equals_reference_on_many_rows(group, sampler):
    rows = round(1e5 * SHARES[sampler])
    for shard, start in enumerate(range(0, rows, 1000), 1):
        _compare(group[0], sampler, min(1000, rows - start), shard)


@each_arithmetic
def test_matrix_product_equals_reference(group):
    core = group[0]
    k = 2 * max(core.accumulation.n_fma, len(getattr(core.accumulation, "order", ()))) + 3
    a, _, c = sampling.draw(core, "exponent_mantissa", 7, SEED, 900, k)
    _, b, _ = sampling.draw(core, "structured", 9, SEED, 900, k)
    c = np.resize(c, (7, 9))
    expected, got = (np.empty((7, 9), core.out.code_dtype) for _ in range(2))
    reference.gemm(core, a, b.T, c, expected)
    kernels.gemm(core, a, b.T, c, got)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("group", [g for g in _groups() if g[0].a.width == 8], ids=_name)
def test_all_pairs_of_8_bit_codes(group):
    """A single product is exact in every accumulator, so float64 gives all of them at once."""
    core = group[0]
    codes = np.arange(256, dtype=np.uint8)
    a, b = (x.reshape(-1, 1) for x in np.meshgrid(codes, codes, indexing="ij"))
    got = np.empty(len(a), core.out.code_dtype)
    kernels.dots(core, a, b, None, got)
    with np.errstate(invalid="ignore"):
        products = mm.decode(a, core.a) * mm.decode(b, core.b)
    products = np.where(products == 0, 0.0, products[:, :])[:, 0]
    expected = mm.encode(products, core.out, "rne", "inf")
    expected[np.isnan(products)] = core.nan
    flushed_sign = (expected & core.out.sign_mask) | (got & core.out.sign_mask)
    zero = ((expected | flushed_sign) == core.out.sign_mask) & (products != 0)
    expected[zero] = got[zero] & core.out.sign_mask  # the sign of an underflow is the reference's
    np.testing.assert_array_equal(got, expected)
    sample = np.random.default_rng(SEED).choice(len(a), 500, replace=False)
    exact = np.empty(500, core.out.code_dtype)
    reference.dots(core, a[sample], b[sample], None, exact)
    np.testing.assert_array_equal(got[sample], exact)


@each_arithmetic
def test_cores_of_one_arithmetic_share_their_reference(group):
    assert len({_arithmetic(core) for core in group}) == 1


@each_arithmetic
def test_results_of_special_rows_are_special(group):
    core = group[0]
    a, b, c = sampling.draw(core, "specials", 400, SEED, 7)
    out = np.empty(400, core.out.code_dtype)
    kernels.dots(core, a, b, c, out)
    nan_in = (is_nan(a, core.a) | is_nan(b, core.b)).any(1) | is_nan(c, core.out)
    assert nan_in.any()
    assert (out[nan_in] == core.nan).all()
    assert (out[is_nan(out, core.out)] == core.nan).all()
    if core.a.has_inf:
        assert is_inf(out, core.out).any()


@pytest.mark.parametrize(
    "name",
    [
        "MI100/fp16",
        "MI250/bf16",
        "MI300X/fp16",
        "MI300X/e4m3fnuz",
        "H100/fp16",
        "H100/e4m3fn",
        "MI300X/fp32",
        "MI210/fp64",
    ],
)
def test_a_large_product_has_the_rows_of_small_ones(name):
    core = mm.core(name)
    rng = np.random.default_rng(SEED)
    a = mm.round_to(rng.standard_normal((130, 300)), core.a)
    b = mm.round_to(rng.standard_normal((300, 1100)), core.b)
    whole = core.matmul(a, b)
    for i, j in [(0, 0), (129, 1099), (64, 1024), (77, 513)]:
        np.testing.assert_array_equal(whole[i, j], core.dot(a[i], b[:, j]))
    np.testing.assert_array_equal(whole[100:101], core.matmul(a[100:101], b))
    np.testing.assert_array_equal(whole[:, 5:6], core.matmul(a, b[:, 5:6]))


@pytest.mark.parametrize("name", ["MI100/bf16", "MI250/fp16", "MI300X/bf16", "MI300X/e5m2fnuz",
                                  "A100/tf32", "B200/e4m3fn:mma.sync", "MI300X/fp32"])  # fmt: skip
def test_one_and_two_threads_give_the_same_bits(name, tmp_path):
    """Threads are fixed when numba starts, so the comparison needs a second process."""
    import subprocess
    import sys

    program = (
        "import sys, numpy as np, mfmamodels as mm\n"
        "core = mm.core(sys.argv[1]); rng = np.random.default_rng(4)\n"
        "a = mm.round_to(rng.standard_normal((200, 70)), core.a)\n"
        "b = mm.round_to(rng.standard_normal((70, 190)), core.b)\n"
        "rows = core.dots(np.tile(a, (30, 1)), np.tile(b.T[:150], (40, 1)))\n"
        "np.savez(sys.argv[2], gemm=core.matmul(a, b), dots=rows)\n"
    )
    found = []
    for threads in ("1", "2"):
        path = tmp_path / f"{threads}.npz"
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads}
        subprocess.run(
            [sys.executable, "-c", program, name, str(path)], env=environment, check=True
        )
        found.append(np.load(path))
    for key in ("gemm", "dots"):
        np.testing.assert_array_equal(found[0][key], found[1][key])
