"""The public multiply: shapes, types, refusals; the same bits whatever the layout."""

import ml_dtypes
import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.formats import FORMATS

RNG = np.random.default_rng(20261201)
CORES = ["MI100/fp16", "MI250/bf16", "MI300X/xf32", "MI300X/e4m3fnuz", "B200/fp16", "MI210/fp64"]


def _operands(core, *shape):
    return mm.round_to(RNG.standard_normal(shape), core.a)


def _bits(x):
    return x.view(f"u{x.dtype.itemsize}")


def _same(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    np.testing.assert_array_equal(_bits(np.ascontiguousarray(x)), _bits(np.ascontiguousarray(y)))


@pytest.mark.parametrize("name", CORES)
def test_shapes_are_those_of_numpy_matmul(name):
    core = mm.core(name)
    for a, b in [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)),
                 ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((0, 3), (3, 4)),
                 ((2, 3), (3, 0)), ((2, 0), (0, 4)), ((0, 2, 3), (3, 4))]:  # fmt: skip
        expected = np.matmul(np.zeros(a), np.zeros(b))
        result = core.matmul(_operands(core, *a), _operands(core, *b))
        assert result.shape == expected.shape
        assert result.dtype == core.out.dtype


@pytest.mark.parametrize("name", CORES)
def test_rows_of_a_batch_do_not_depend_on_their_neighbours(name):
    core = mm.core(name)
    a, b = _operands(core, 3, 5, 37), _operands(core, 3, 37, 6)
    c = RNG.standard_normal((3, 5, 6)).astype(core.out.dtype)
    whole = core.matmul(a, b, c)
    for i, j, k in np.ndindex(whole.shape):
        _same(whole[i, j, k], core.dot(a[i, j], b[i, :, k], c[i, j, k]))


@pytest.mark.parametrize("name", CORES)
def test_layout_does_not_matter(name):
    core = mm.core(name)
    a, b = _operands(core, 9, 40), _operands(core, 40, 7)
    expected = core.matmul(a, b)
    _same(core.matmul(np.asfortranarray(a), np.asfortranarray(b)), expected)
    wide_a, wide_b = np.repeat(a, 2, axis=1), np.repeat(b, 3, axis=0)
    _same(core.matmul(wide_a[:, ::2], wide_b[::3]), expected)
    _same(core.matmul(a[::-1, ::-1][::-1, ::-1], b), expected)
    swapped = a.astype(a.dtype.newbyteorder(">")) if a.dtype.kind == "f" else a
    _same(core.matmul(swapped, b), expected)


@pytest.mark.parametrize("name", CORES)
def test_k_zero_gives_c(name):
    core = mm.core(name)
    c = np.array([[1.5, -0.0, np.inf], [np.nan, 0.0, -2.0]], core.out.dtype)
    a, b = _operands(core, 2, 0), _operands(core, 0, 3)
    _same(core.matmul(a, b, c), c)
    _same(core.matmul(a, b), np.zeros_like(c))
    _same(core.dots(_operands(core, 4, 0), _operands(core, 4, 0)), np.zeros(4, core.out.dtype))


@pytest.mark.parametrize("name", CORES)
def test_dots_are_rows_of_matmul(name):
    core = mm.core(name)
    a, b = _operands(core, 100, 19), _operands(core, 100, 19)
    c = RNG.standard_normal(100).astype(core.out.dtype)
    expected = core.matmul(a[:, None, :], b[:, :, None], c[:, None, None])[:, 0, 0]
    _same(core.dots(a, b, c), expected)
    chunks = core.dots((a[i : i + 30], b[i : i + 30], c[i : i + 30]) for i in range(0, 100, 30))
    _same(np.concatenate(list(chunks)), expected)


def test_c_broadcasts_to_the_result():
    core = mm.core("MI300X/fp16")
    a, b = _operands(core, 2, 8), _operands(core, 8, 3)
    row = np.float32([1, 2, 3])
    _same(core.matmul(a, b, row), core.matmul(a, b, np.tile(row, (2, 1))))
    _same(core.matmul(a, b, np.float32(2)), core.matmul(a, b, np.full((2, 3), 2, np.float32)))
    with pytest.raises(ValueError, match=r"C has shape \(2, 2\), the product \(2, 3\)"):
        core.matmul(a, b, np.zeros((2, 2), np.float32))


@pytest.mark.parametrize("name", CORES)
def test_ones_add_up_to_k(name):
    core = mm.core(name)
    for k in (33, 100, 1000):
        assert core.dot(np.ones(k), np.ones(k)) == k


def test_wider_arrays_are_taken_when_every_value_fits():
    core = mm.core("MI300X/fp16")
    a = _operands(core, 4, 16)
    expected = core.matmul(a, a.T)
    for wide in (np.float32, np.float64, np.longdouble):
        _same(core.matmul(a.astype(wide), a.T.astype(wide)), expected)
    _same(core.matmul([[1, 2]], [[3], [4]]), np.array([[11]], np.float32))
    _same(core.matmul(np.array([[True]]), np.array([[3]], np.int64)), np.array([[3]], np.float32))
    assert np.isnan(core.dot([np.nan], [1.0]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 0.1]], r"A\[0, 1\] = 0.1 is not representable in fp16: its neighbours are "
                       r"0.0999755859375 and 0.10003662109375; round first, .*round_to\(A, 'fp16'"),
        ([[1e6, 1.0]], r"A\[0, 0\] = 1000000.0 .* neighbours are 65504.0 and inf"),
        ([[1.0, 2.0**-25]], r"neighbours are 0.0 and 5.96"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        mm.core("MI300X/fp16").matmul(values, np.ones((2, 1)))


@pytest.mark.parametrize("values", [np.array(["x"]), np.ones(1, complex), np.array([None])])
def test_types_that_are_not_real_are_refused(values):
    with pytest.raises(TypeError, match="A has type"):
        mm.core("MI300X/fp16").matmul(values, np.ones(1))


def test_inner_dimensions_must_match():
    core = mm.core("MI300X/fp16")
    with pytest.raises(ValueError, match=r"last dimension of A \(3\).* of B \(4\) differ"):
        core.matmul(np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="do not broadcast"):
        core.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 2)))
    with pytest.raises(ValueError, match="a scalar was given"):
        core.matmul(1.0, np.ones(3))
    with pytest.raises(ValueError, match="two vectors of one length"):
        core.dot(np.ones(3), np.ones(4))


@pytest.mark.parametrize("fmt", ["xf32", "tf32"])
def test_truncating_formats_take_float32_and_cut_it(fmt):
    core = mm.core("MI300X" if fmt == "xf32" else "A100", fmt)
    bits = np.array([0x3F801FFF, 0xBF801FFF], np.uint32)
    result = core.matmul(bits.view(np.float32)[:, None], np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(result.view(np.uint32)[:, 0], [0x3F800000, 0xBF800000])
    with pytest.raises(ValueError, match="not representable in fp32"):
        core.dot([1.0 + 2.0**-40], [1.0])


def test_nan_with_a_low_payload_stays_nan_when_cut():
    low_payload = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(mm.core("MI300X/xf32").dot(low_payload, np.ones(1, np.float32)))


@pytest.mark.parametrize("name", ["MI300X/e4m3fnuz", "H100/e4m3fn", "MI300X/bf16", "B200/e5m2"])
def test_own_types_are_taken_bit_for_bit(name):
    core = mm.core(name)
    codes = np.arange(256, dtype=np.uint8).astype(core.a.code_dtype)
    own = codes.view(core.a.dtype)
    ones = np.ones((1, 1), core.b.dtype)
    values = core.matmul(own[:, None], ones)[:, 0]
    np.testing.assert_array_equal(values, mm.decode(codes, core.a).astype(np.float32))


def test_integers_are_numbers_not_codes():
    assert mm.core("MI300X/e4m3fnuz").dot(np.array([3], np.uint8), [2.0]) == 6
    with pytest.raises(ValueError, match=r"= 17.0 is not representable in e4m3fnuz"):
        mm.core("MI300X/e4m3fnuz").dot(np.array([17], np.uint8), [2.0])


def test_minus_zero_is_zero_in_fnuz():
    assert mm.core("MI300X/e4m3fnuz").dot([-0.0], [1.0]) == 0
    assert FORMATS["e4m3fnuz"].dtype == np.dtype(ml_dtypes.float8_e4m3fnuz)


def test_module_level_matmul_takes_a_name_or_a_core():
    a = np.ones((2, 2), np.float16)
    by_name = mm.matmul(a, a, core="MI300X/fp16")
    _same(by_name, mm.matmul(a, a, core=mm.core("MI300X", "fp16")))
