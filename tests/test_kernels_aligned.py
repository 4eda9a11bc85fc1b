"""Vector kernels of aligned sums against the general kernel, path by path."""

from dataclasses import fields, replace
from functools import cache

import numba
import numpy as np
import pytest
from _host_float import flushed_subnormals
from _records import arithmetic, operands, random_codes, random_record

import mfmamodels as mm
from mfmamodels.accumulation import UNLIMITED, AlignedSum, Arithmetic, EarlyC, LastC, LateC
from mfmamodels.kernels import aligned, driver, general
from mfmamodels.kernels.aligned_recipe import CHECKED, EXACT, HALVED, SAFE, recipe

# One core of every shape of code: late, interleaved, early in each output, wide and narrow, last.
NAMES = [
    "MI300X/fp16",
    "MI300X/bf16:rd31",
    "MI300X/xf32:rd32",
    "MI300X/bf16:rd32-norm",
    "MI300X/e4m3fnuz",
    "MI300X/e5m2fnuz/e4m3fnuz:rd32-blind",
    "MI300X/fp16:c.rounding=rtz",
    "MI300X/bf16:c.rounding=rtz",
    "MI300X/e5m2fnuz:join_rounding=rtz:c.rounding=rtz",
    "MI300X/e4m3fnuz:join_rounding=rtz",
    "V100/fp16",
    "V100/fp16:fp16",
    "A100/bf16",
    "A100/fp16:fp16",
    "H100/fp16",
    "H100/tf32",
    "H100/e4m3fn",
    "H100/e5m2:fp16:mma.sync",
    "B200/e4m3fn",
    "B200/bf16:rne",
    "B200/e4m3fn:mma.sync",
    "RTX-1000-Ada/e5m2:fp16",
]

each_core = pytest.mark.parametrize("name", NAMES)


@cache
def plain(name):
    core = mm.core(name)
    return Arithmetic(**{f.name: getattr(core, f.name) for f in fields(Arithmetic)})


def seeded(*parts):
    return np.random.default_rng([20261201, *(sum(map(ord, str(p))) for p in parts)])


def assert_same(record, a, b, c, got, wanted):
    if not np.array_equal(got, wanted):
        i = int(np.flatnonzero(got != wanted)[0])
        pytest.fail(
            f"{record}\n{(got != wanted).sum()} of {len(got)} rows differ, the first one {i}:\n"
            f"a={[hex(x) for x in a[i]]}\nb={[hex(x) for x in b[i]]}\nc={c[i]:#x} "
            f"expected={wanted[i]:#x} got={got[i]:#x}"
        )


def check_dots(record, a, b, c, *, exact_only=False):
    got = np.empty(len(a), record.out.code_dtype)
    wanted = np.empty_like(got)
    driver.dots(record, aligned.kernel(record, exact_only=exact_only), a, b, c, got)
    general.dots(record, a, b, c, wanted)
    assert_same(record, a, b, c, got, wanted)


def check_gemm(record, a, b, c, *, exact_only=False):
    shape = (a.shape[0], b.shape[1])
    got, wanted = (np.empty(shape, record.out.code_dtype) for _ in range(2))
    driver.gemm(record, aligned.kernel(record, exact_only=exact_only), a, b, c, got)
    general.gemm(record, a, b, c, wanted)
    np.testing.assert_array_equal(got, wanted)


# --- which records --------------------------------------------------------------------------------


def test_every_aligned_core_of_the_catalogue_is_covered():
    cores = [c for c in mm.cores() if isinstance(c.accumulation, AlignedSum)]
    assert len(cores) > 100
    assert [c.name for c in cores if recipe(c) is None] == []


def test_every_way_to_bound_a_sum_is_in_use():
    found = {recipe(plain(name)).sums for name in NAMES}
    assert found == {EXACT, SAFE, CHECKED, HALVED}


@pytest.mark.parametrize("seed", range(40))
def test_random_records_are_right_or_not_covered(seed):
    """Most random records are not covered; those that are must be right."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        record = random_record(rng, AlignedSum)
        if recipe(record) is not None:
            check_dots(record, *operands(rng, record, 40, 2 * recipe(record).group))
            return


CHANGES = {
    "frac_bits": (1, 13, 23, 24, 25, 26, 40),
    "n_fma": (1, 2, 4, 8, 12, 16, 32, 64),
    "rounding": ("rne", "rtz", "rd", "ru"),
    "align_rounding": ("rne", "rd", "ru"),
    "join_rounding": ("rne", "rtz"),
    "product_limit": (10, 100, 121, 122, 128, UNLIMITED),
    "e_min": (-200, -133, -100, -99, -21, 0, 120, 121, UNLIMITED),
    "out_frac_bits": (7, 10, 13, 22, 23, UNLIMITED),
    "normalised_products": (True,),
    "interleave": (1, 2),
}
LATE_CHANGES = {
    "c_frac_bits": (23, 25, UNLIMITED),
    "sum_frac_bits": (30, 31, 32, 33, UNLIMITED),
    "rounding": ("rne", "rtz", "ru"),
    "c_max_shift": (0, 3, 24, 25, 26, 85, 86, UNLIMITED),
    "second": ("none", "blind", "normalised", "subnormal-aware"),
    "second_frac_bits": (30, 32),
    "zero_exponent": (-1000, -126, -125, 0, UNLIMITED),
}


@pytest.mark.parametrize(
    "name", ["MI300X/fp16", "MI300X/bf16", "MI300X/e4m3fnuz", "A100/fp16", "H100/bf16"]
)
def test_changed_fields_are_right_or_not_covered(name):
    record, rng = plain(name), seeded(name)
    kind = record.accumulation
    changed = [(field, value) for field, values in CHANGES.items() for value in values]
    kinds = []
    for field, value in changed:
        try:
            kinds.append(replace(kind, **{field: value}))
        except ValueError:  # not a legal record
            continue
    if isinstance(kind.c, LateC):
        late = [(field, value) for field, values in LATE_CHANGES.items() for value in values]
        kinds += [replace(kind, c=replace(kind.c, **{field: value})) for field, value in late]
    covered = 0
    for other in kinds:
        sibling = replace(record, accumulation=other)
        if recipe(sibling) is not None:
            covered += 1
            check_dots(sibling, *operands(rng, sibling, 60, 2 * other.n_fma))
    assert 5 <= covered < len(kinds)


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (("fp16", "bf16"), AlignedSum(8, 24, EarlyC(), "rtz")),  # exponents of two types
        (("fp32", "fp32"), AlignedSum(4, 24, EarlyC(), "rtz")),  # products not exact in float32
        (("fp16", "fp16"), AlignedSum(8, 40, EarlyC(), "rtz")),
        (("fp16", "fp16"), AlignedSum(8, 24, LastC(16, "rtz"), "rtz")),
        (("e4m3fn", "e4m3fn"), AlignedSum(4, 24, EarlyC(), "rtz", order=(1, 0, 3, 2))),
    ],
)
def test_other_records_go_to_the_general_kernel(inputs, kind):
    record = arithmetic(*inputs, "fp32", kind)
    assert recipe(record) is None
    a, b, c = operands(seeded(kind), record, 30, 20)
    got, wanted = (np.empty(30, np.uint32) for _ in range(2))
    mm.kernels.dots(record, a, b, c, got)
    general.dots(record, a, b, c, wanted)
    assert_same(record, a, b, c, got, wanted)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact_only", [False, True], ids=["fast", "exact-only"])
@each_core
def test_dots_of_all_kinds_of_operands(name, exact_only):
    record, rng = plain(name), seeded(name, exact_only)
    for k in (1, recipe(record).group, 2 * recipe(record).group + 3, 150):
        for _ in range(4):
            check_dots(record, *operands(rng, record, 100, k), exact_only=exact_only)


@pytest.mark.parametrize("exact_only", [False, True], ids=["fast", "exact-only"])
@each_core
def test_products_of_all_kinds_of_operands(name, exact_only):
    record, rng = plain(name), seeded(name, exact_only, 1)
    for m, k, n in ((1, 5, 1), (5, 70, 40), (70, 33, 17)):
        a, _, _ = operands(rng, record, m, k)
        _, b, c = operands(rng, record, n, k)
        check_gemm(record, a, b.T, np.resize(c, (m, n)), exact_only=exact_only)


@each_core
def test_c_from_far_below_to_far_above_the_products(name):
    """Every distance between c and the products, with products of one size and of all signs."""
    record, rng = plain(name), seeded(name, 2)
    fmt, out, group = record.a, record.out, recipe(plain(name)).group
    distances = np.arange(max(out.emin - out.fraction_bits, -60), min(out.emax, 60) + 1)
    rows = np.repeat(distances, 30)
    a, b = (random_codes(rng, f, (len(rows), group), 0.7, 0) for f in (record.a, record.b))
    significand = 1 + rng.integers(0, 1 << out.fraction_bits, len(rows)) / 2.0**out.fraction_bits
    c = mm.encode(np.ldexp(significand, rows) * rng.choice([-1, 1], len(rows)), out, overflow="inf")
    check_dots(record, a, b, c)
    near_tie = np.ldexp(1 + rng.integers(0, 16, len(rows)) / 16, rows)
    check_dots(record, a, b, mm.encode(near_tie, out, overflow="inf"))
    assert fmt.width in (8, 16, 32)


@each_core
def test_sums_at_the_limit_of_int32(name):
    """All products as large as their exponents allow, of one sign and of both."""
    record = plain(name)
    group = recipe(record).group

    def largest(fmt):  # just below a power of two, in the middle of the range
        value = (2 - 2.0**-fmt.fraction_bits) * 2.0 ** (fmt.emax // 2)
        return int(mm.encode(value, fmt))

    a = np.full((4, group), largest(record.a), record.a.code_dtype)
    b = np.full((4, group), largest(record.b), record.b.code_dtype)
    sign = record.a.code_dtype.type(record.a.sign_mask)
    a[1] ^= sign
    a[2, ::2] ^= sign
    a[3, : group // 2] ^= sign
    size = 2.0 ** min(record.a.emax // 2 + record.b.emax // 2 + 1, record.out.emax - 1)
    for c in (0, size, -size, size * 1.999, -size * 1.999):
        check_dots(record, a, b, np.full(4, mm.encode(c, record.out, overflow="inf")))


@each_core
def test_one_special_value_leaves_its_neighbours_alone(name):
    """An Inf or NaN in one row and one column changes those and nothing else."""
    record, rng = plain(name), seeded(name, 3)
    a = random_codes(rng, record.a, (40, 150), 1.0, 0)
    b = random_codes(rng, record.b, (150, 50), 1.0, 0)
    c = random_codes(rng, record.out, (40, 50), 1.0, 0)
    kernel = aligned.kernel(record)
    before, after = (np.empty((40, 50), record.out.code_dtype) for _ in range(2))
    driver.gemm(record, kernel, a, b, c, before)
    a[7, 140] = record.a.inf_code if record.a.has_inf else record.a.nan_code
    b[3, 20] = record.b.nan_code
    driver.gemm(record, kernel, a, b, c, after)
    changed = before != after
    untouched = np.ones_like(changed)
    untouched[7], untouched[:, 20] = False, False
    assert changed[7].all() and changed[:, 20].all() and not (changed & untouched).any()
    check_gemm(record, a, b, c)


def test_an_overflow_in_an_early_block_stays():
    record = plain("MI300X/bf16")
    big = mm.encode(2.0**100, record.a)
    a = np.zeros((3, 24), np.uint16)
    b = np.zeros((3, 24), np.uint16)
    a[:, 0], b[:, 0] = big, big
    a[1, 16], b[1, 16] = mm.encode(-(2.0**100), record.a), big
    a[2, 0] ^= 0x8000
    out = np.empty(3, np.uint32)
    mm.kernels.dots(record, a, b, None, out)
    assert [hex(x) for x in out] == ["0x7f800000", hex(record.nan), "0xff800000"]


# --- shapes, memory, threads, environment ---------------------------------------------------------


@pytest.mark.parametrize("name", ["MI300X/fp16", "H100/e4m3fn", "A100/tf32"])
def test_any_strides(name):
    record, rng = plain(name), seeded(name, 4)
    a = random_codes(rng, record.a, (46, 75), 2.0)
    b = random_codes(rng, record.b, (75, 38), 2.0)
    c = random_codes(rng, record.out, (46, 38), 2.0)
    kernel = aligned.kernel(record)
    wanted = np.empty((46, 38), record.out.code_dtype)
    driver.gemm(record, kernel, a, b, c, wanted)

    def views(x):
        wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
        wide[::2, ::3] = x
        bytes_ = np.zeros(x.nbytes + 1, np.uint8)
        odd = bytes_[1:].view(x.dtype).reshape(x.shape)
        odd[...] = x
        flipped = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
        return [np.asfortranarray(x), wide[::2, ::3], flipped, odd]

    for x, y, z in zip(views(a), views(b), views(c), strict=True):
        got = np.empty_like(wanted)
        driver.gemm(record, kernel, x, y, z, got)
        np.testing.assert_array_equal(got, wanted)
    row = np.broadcast_to(a[0], a.shape)
    driver.gemm(record, kernel, row, b, c, got)
    check = np.empty_like(wanted)
    general.gemm(record, row, b, c, check)
    np.testing.assert_array_equal(got, check)


@pytest.mark.parametrize("name", ["MI300X/e4m3fnuz", "H100/fp16", "A100/tf32"])
def test_sizes_around_the_widths_of_vectors_and_tiles(name):
    record, rng = plain(name), seeded(name, 5)
    for m, n in (
        (1, 1),
        (1, 15),
        (2, 16),
        (3, 17),
        (63, 33),
        (64, 48),
        (65, 31),
        (130, 2),
        (2, 530),
    ):
        k = int(rng.integers(1, 300))
        a = random_codes(rng, record.a, (m, k), 1.0)
        b = random_codes(rng, record.b, (k, n), 1.0)
        check_gemm(record, a, b, random_codes(rng, record.out, (m, n), 1.0))
    for rows in (1, 7, 15, 16, 17, 127, 128, 129, 300):
        a, b, c = operands(rng, record, rows, int(rng.integers(1, 40)))
        check_dots(record, a, b, c)
        check_dots(record, np.asfortranarray(a), b[::-1], c[::-1])


def test_nothing_to_add_gives_c():
    record = plain("MI300X/fp16")
    c = random_codes(seeded(6), record.out, (3, 4), 5.0, 0.5)
    out = np.empty((3, 4), np.uint32)
    kernel = aligned.kernel(record)
    driver.gemm(record, kernel, np.empty((3, 0), np.uint16), np.empty((0, 4), np.uint16), c, out)
    np.testing.assert_array_equal(out, c)
    driver.gemm(record, kernel, np.empty((3, 0), np.uint16), np.empty((0, 4), np.uint16), None, out)
    assert not out.any()
    empty = np.empty((0, 4), np.uint32)
    driver.gemm(
        record, kernel, np.empty((0, 5), np.uint16), np.empty((5, 4), np.uint16), None, empty
    )
    driver.dots(record, kernel, *np.empty((2, 0, 5), np.uint16), None, np.empty(0, np.uint32))


def test_wrong_arrays_are_refused():
    record = plain("MI300X/fp16")
    kernel = aligned.kernel(record)
    a, b = np.zeros((3, 8), np.uint16), np.zeros((8, 4), np.uint16)
    out = np.zeros((3, 4), np.uint32)
    with pytest.raises(TypeError, match="codes of fp16 are uint16"):
        driver.gemm(record, kernel, a.astype(np.uint8), b, None, out)
    with pytest.raises(TypeError, match="shape"):
        driver.gemm(record, kernel, a, b[:7], None, out)
    with pytest.raises(TypeError, match="codes of fp32"):
        driver.gemm(record, kernel, a, b, None, np.zeros((4, 3), np.uint32))
    with pytest.raises(ValueError, match="C-contiguous"):
        driver.gemm(record, kernel, a, b, None, np.asfortranarray(out))


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="numba has one thread here")
@pytest.mark.parametrize("name", ["MI300X/bf16", "H100/fp16"])
def test_two_threads_give_the_bits_of_one(name):
    record, rng = plain(name), seeded(name, 7)
    a = random_codes(rng, record.a, (130, 70), 2.0)
    b = random_codes(rng, record.b, (70, 1100), 2.0)
    rows = [random_codes(rng, f, (30000, 16), 2.0) for f in (record.a, record.b)]
    before, found = numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            gemm, dots = np.empty((130, 1100), np.uint32), np.empty(30000, np.uint32)
            driver.gemm(record, aligned.kernel(record), a, b, None, gemm)
            driver.dots(record, aligned.kernel(record), *rows, None, dots)
            found.append((gemm, dots))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@each_core
def test_host_flushing_subnormals_changes_nothing(name):
    record, rng = plain(name), seeded(name, 8)
    rows = operands(rng, record, 200, 20)
    low = record.a.emin - 2
    rows[0][:50] = random_codes(rng, record.a, (50, 20), 3.0, 0, low)
    wanted, got = (np.empty(200, record.out.code_dtype) for _ in range(2))
    kernel = aligned.kernel(record)
    driver.dots(record, kernel, *rows, wanted)
    with flushed_subnormals():
        driver.dots(record, kernel, *rows, got)
    np.testing.assert_array_equal(got, wanted)
