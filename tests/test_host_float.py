"""Bits do not depend on the state of the host's floating-point unit."""

import numpy as np
import pytest
from _host_float import flushed_subnormals

import mfmamodels as mm
from mfmamodels.characterise import sampling

NAMES = ["MI100/fp16", "MI100/bf16", "MI250/fp16", "MI250/bf16", "MI300X/fp16", "MI300X/bf16",
         "MI300X/xf32", "MI300X/e5m2fnuz", "A100/fp16:fp16", "H100/bf16", "H100/e4m3fn",
         "B200/e4m3fn:fp16:mma.sync", "MI300X/fp32", "MI300X/fp64"]  # fmt: skip


def test_the_switch_works():
    tiny = np.full(4, 1e-310)
    with flushed_subnormals():
        flushed = (tiny + 0.0).copy()
    assert (flushed.view(np.uint64) == 0).all()
    assert (tiny + 0.0 == tiny).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sampler", ["exponent_mantissa_subnormal", "specials"])
def test_products_are_the_same(name, sampler):
    core = mm.core(name)
    a, b, c = sampling.draw(core, sampler, 3000, 5, 0)
    a, b, c = a.view(core.a.dtype), b.view(core.b.dtype), c.view(core.out.dtype)
    small = slice(0, 40)
    expected = core.dots(a, b, c), core.matmul(a[small], b[small].T, c[small])
    with flushed_subnormals():
        found = core.dots(a, b, c), core.matmul(a[small], b[small].T, c[small])
    for x, y in zip(expected, found, strict=True):
        bits = f"u{x.dtype.itemsize}"
        np.testing.assert_array_equal(x.view(bits), y.view(bits))


@pytest.mark.parametrize("name", mm.FORMATS)
def test_conversions_are_the_same(name):
    fmt = mm.FORMATS[name]
    codes = np.arange(0, 4000, dtype=np.uint64).astype(fmt.code_dtype)
    values = mm.decode(codes, fmt)
    with flushed_subnormals():
        again = mm.decode(codes, fmt)
        rounded = mm.encode(values * 0.75 if fmt.width < 64 else values, fmt)
        wide = mm.core("MI300X/fp32").matmul(np.array([[2.0**-140]]), np.ones((1, 1)))
    np.testing.assert_array_equal(values.view(np.uint64), again.view(np.uint64))
    np.testing.assert_array_equal(
        rounded, mm.encode(values * 0.75 if fmt.width < 64 else values, fmt)
    )
    assert wide[0, 0] == np.float32(2.0**-140)
