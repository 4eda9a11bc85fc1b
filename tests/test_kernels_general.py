"""The general kernel against the reference: any record, any operands, bit for bit."""

import numpy as np
import pytest
from _records import NAN, ROUNDINGS, arithmetic, operands, random_record

from mfmamodels import reference
from mfmamodels.accumulation import (
    AlignedSum,
    EarlyC,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
)
from mfmamodels.kernels import general

KINDS = (FmaChain, ExactSum, PairwiseSum, AlignedSum)


def describe(record, a, b, c, wanted, got):
    i = int(np.flatnonzero(got != wanted)[0])
    return (
        f"{record}\n{(got != wanted).sum()} of {len(got)} rows differ, the first one {i}:\n"
        f"a={[hex(x) for x in a[i]]}\nb={[hex(x) for x in b[i]]}\nc={c[i]:#x} "
        f"expected={wanted[i]:#x} got={got[i]:#x}"
    )


def assert_rows(record, a, b, c):
    wanted = np.empty(len(a), record.out.code_dtype)
    got = np.empty_like(wanted)
    reference.dots(record, a, b, c, wanted)
    general.dots(record, a, b, c, got)
    assert np.array_equal(got, wanted), describe(record, a, b, c, wanted, got)


def check_random_records(kind, seed, records, rows):
    rng = np.random.default_rng([KINDS.index(kind), seed])
    for _ in range(records):
        record = random_record(rng, kind)
        k = int(rng.choice([1, 2, 5, 8, 16, 33, 70]))
        assert_rows(record, *operands(rng, record, rows, k))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_random_records_equal_the_reference(kind, seed):
    check_random_records(kind, seed, records=40, rows=8)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_many_random_records_equal_the_reference(kind, seed):
    check_random_records(kind, seed, records=150, rows=12)


def codes(values, dtype):
    values = np.asarray(values, dtype)
    return values.view(f"u{values.itemsize}")


def test_fp32_chain_is_fused():
    """Separate rounding of the product would give 0."""
    record = arithmetic("fp32", "fp32", "fp32", FmaChain())
    x, c = codes([[1 + 2.0**-12]], np.float32), codes([-(1 + 2.0**-11)], np.float32)
    out = np.empty(1, np.uint32)
    general.dots(record, x, x, c, out)
    assert out.view(np.float32)[0] == 2.0**-24


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_fp64_chain_rounds_once_beside_ties(rounding, distance):
    """c is half an ulp of a product, plus or minus what only an exact sum sees."""
    record = arithmetic("fp64", "fp64", "fp64", FmaChain(rounding))
    a = codes([[1 + 2.0**-26], [-(1 + 2.0**-26)], [1 + 2.0**-30], [3.0]], np.float64)
    b = codes([[1 + 2.0**-26], [1 + 2.0**-27], [1 + 2.0**-40], [2.0**-1074]], np.float64)
    c = codes([2.0**-53, -(2.0**-53), 2.0**-55, 2.0**-1074], np.float64)
    assert_rows(record, a, b, (c.view(np.int64) + distance).view(np.uint64))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_products_give_c_and_no_elements_give_nothing(kind):
    rng = np.random.default_rng(5)
    record = random_record(rng, kind)
    a, b = np.empty((3, 0), record.a.code_dtype), np.empty((0, 2), record.b.code_dtype)
    c = np.array([[1, 2], [NAN[record.out.name] - 1, 0], [3, 4]], record.out.code_dtype)
    out = np.empty_like(c)
    general.gemm(record, a, b, c, out)
    assert np.array_equal(out, c)
    general.gemm(record, a, b, None, out)
    assert not out.any()
    general.gemm(record, a[:0], b, c[:0], out[:0])
    general.dots(record, a[:0], a[:0].astype(record.b.code_dtype), None, out[:0, 0])


def strided(x):
    """The same matrix with every second element of a larger one, its rows backwards."""
    room = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
    view = room[::-2, 1::3]
    view[...] = x
    return view


RECORDS = {
    "chain": arithmetic("fp64", "fp32", "fp64", FmaChain("rd")),
    "exact": arithmetic("fp16", "e4m3fn", "fp32", ExactSum(4)),
    "pairwise": arithmetic("bf16", "bf16", "fp32", PairwiseSum(4)),
    "early": arithmetic("e5m2", "fp16", "fp16", AlignedSum(4, 13, EarlyC(), "rtz")),
    "late": arithmetic("e4m3fnuz", "fp32", "fp32", AlignedSum(8, 24, LateC(), "rne", interleave=2)),
    "last": arithmetic("e4m3fn", "e5m2", "fp32", AlignedSum(4, 25, LastC(8), "rtz")),
}


@pytest.mark.parametrize("name", RECORDS)
def test_gemm_of_any_layout_equals_the_reference(name):
    record = RECORDS[name]
    rng = np.random.default_rng(8)
    m, k, n = 5, 19, 7
    a, b, _ = operands(rng, record, m * n, k)
    a, b = a[:m], b[:n].T
    c = operands(rng, record, m * n, 1)[2].reshape(m, n)
    wanted = np.empty((m, n), record.out.code_dtype)
    reference.gemm(record, a, b, c, wanted)
    read_only = a.copy()
    read_only.flags.writeable = False
    for x in (a, read_only, strided(a), np.asfortranarray(a), a[::-1].copy()[::-1]):
        for y in (b, strided(b), np.ascontiguousarray(b)):
            for z in (c, strided(c), np.asfortranarray(c)):
                got = np.zeros_like(wanted)
                general.gemm(record, x, y, z, got)
                assert np.array_equal(got, wanted)
    got = c.copy()
    general.gemm(record, a, b, got, got)
    assert np.array_equal(got, wanted), "c and out may be one array"


@pytest.mark.parametrize("name", RECORDS)
def test_patch_computes_the_chosen_elements_only(name):
    record = RECORDS[name]
    rng = np.random.default_rng(9)
    a, b, _ = operands(rng, record, 12, 9)
    b = b.T
    whole, patched = np.empty((2, 12, 12), record.out.code_dtype)
    general.gemm(record, a, b, None, whole)
    patched[...] = 17
    rows, columns = np.array([3, 11, 0, 3]), np.array([0, 11, 5, 4], np.int32)
    general.patch(record, a, b, None, patched, rows, columns)
    expected = np.full_like(whole, 17)
    expected[rows, columns] = whole[rows, columns]
    assert np.array_equal(patched, expected)


@pytest.mark.parametrize("name", RECORDS)
def test_threads_do_not_matter(name, monkeypatch):
    record = RECORDS[name]
    rng = np.random.default_rng(10)
    a, b, c = operands(rng, record, 61, 11)
    results = []
    monkeypatch.setattr(general, "_SERIAL_LIMIT", 0)
    for threads in (1, 2, 7, 100):
        monkeypatch.setattr(general.numba, "get_num_threads", lambda count=threads: count)
        results.append(np.empty(61, record.out.code_dtype))
        general.dots(record, a, b, c, results[-1])
    assert all(np.array_equal(result, results[0]) for result in results)
