"""Samplers: distributions, limits, streams, and the faults that the directed rows must show."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from _data import need
from numpy.random import Generator, Philox

import mfmamodels as mm
from mfmamodels import reference
from mfmamodels.accumulation import UNLIMITED, AlignedSum, EarlyC, FmaChain, LateC, SecondRounding
from mfmamodels.characterise import dimensions, exact_integer, sampling
from mfmamodels.formats import FORMATS, Rounding

NAMES = ("MI100/bf16", "MI210/fp16", "MI300X/fp16", "MI300X/xf32", "MI300X/e4m3fnuz/e5m2fnuz",
         "MI300X/fp32", "MI300X/fp64", "V100/fp16:fp16", "H100/e4m3fn:fp16:mma.sync", "H100/e5m2",
         "A100/tf32")  # fmt: skip


@pytest.mark.parametrize("sampler", sampling.SAMPLERS)
@pytest.mark.parametrize("name", NAMES)
def test_codes_of_every_core_and_length(name, sampler):
    core = mm.core(name)
    for k in (None, 0, 1, 5, 33):
        a, b, c = sampling.draw(core, sampler, 40, seed=1, k=k)
        length = dimensions.default_k(core) if k is None else k
        assert a.shape == b.shape == (40, length) and c.shape == (40,)
        for codes, fmt in ((a, core.a), (b, core.b), (c, core.out)):
            assert codes.dtype == fmt.code_dtype
            assert sampler == "specials" or np.isfinite(mm.decode(codes, fmt)).all()


def test_lengths_are_the_papers():
    expected = {"MI100/fp16": 16, "MI100/bf16": 8, "MI210/bf16_1k": 16, "MI300X/bf16": 16,
                "MI300X/xf32": 8, "MI300X/e4m3fnuz": 16, "H100/e4m3fn:mma.sync": 64}  # fmt: skip
    assert {n: dimensions.default_k(mm.core(n)) for n in expected} == expected


def test_blocks_follow_the_order_of_products():
    core = mm.core("H100/e4m3fn:mma.sync")
    slots = dimensions.block_slots(core, 64)
    assert slots.shape == (4, 16)
    assert slots[0].tolist() == [k for k in range(32) if k % 4 < 2]
    assert slots[3].tolist() == [32 + k for k in range(32) if k % 4 >= 2]


# --- Algorithm 3 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "normal", "subnormal"),
    [  # 5.1.1 to 5.1.4
        ("fp16", (-14, 15), (-24, -14)),
        ("bf16", (-126, 63), (-133, -126)),
        ("xf32", (-126, 63), (-136, -126)),
        ("e4m3fnuz", (-7, 7), (-10, -7)),
        ("e5m2fnuz", (-15, 15), (-17, -15)),
    ],
)
def test_limits_are_the_papers(fmt, normal, subnormal):
    fmt = FORMATS[fmt]
    assert sampling.exponent_limits(fmt, subnormal=False) == normal
    assert sampling.exponent_limits(fmt, subnormal=True) == subnormal
    fp32 = FORMATS["fp32"]
    assert sampling.exponent_limits(fp32, subnormal=False, addend=True) == (-126, 127)
    assert sampling.exponent_limits(fp32, subnormal=True, addend=True) == (-149, -126)


def nearest(x: Fraction, fmt) -> Fraction:
    """The format's nearest value, ties to even, not above its largest."""
    magnitude = abs(x)
    exponent = fmt.emin
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    quantum = Fraction(2) ** (exponent - fmt.fraction_bits)
    return min(round(magnitude / quantum) * quantum, Fraction(fmt.max)) * (-1 if x < 0 else 1)


@pytest.mark.parametrize("subnormal", [False, True])
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_values_are_rounded_products_of_significand_and_power(fmt, subnormal):
    limits = sampling.exponent_limits(fmt, subnormal=subnormal)
    rows = 400
    codes = sampling._filled(
        sampling._exponent_mantissa_codes, fmt, rows, Generator(Philox(5)), limits
    )
    double = fmt.precision == 53
    words = Philox(5).random_raw(rows * (1 + double)).tolist()
    pairs = zip(words[::2], words[1::2], strict=True) if double else zip(words, words, strict=True)
    span, bits = limits.high - limits.low + 1, 63 if double else 39
    for (low, high), value in zip(pairs, mm.decode(codes, fmt).tolist(), strict=True):
        s = Fraction((high & (2**63 - 1)) >> (63 - bits), 2 ** (bits - 1))
        s = min(s, 2 - Fraction(2) ** (1 - fmt.precision)) * (-1 if high >> 63 else 1)
        exponent = limits.low + ((low & 0xFFFFFF) * span >> 24)
        assert Fraction(value) == nearest(s * Fraction(2) ** exponent, fmt)


def test_exponents_and_significands_are_uniform():
    core = mm.core("MI300X/bf16")
    a, _, c = sampling.draw(core, "exponent_mantissa", 20_000, seed=4)
    a, c = mm.decode(a, core.a).ravel(), mm.decode(c, core.out)
    for x, low, high in ((a, -126, 63), (c, -126, 127)):
        exponent = np.frexp(x[np.abs(x) >= 2.0**low])[1] - 1
        # exponent e comes of e with s in [1, 2), or of higher ones with smaller s: nearly uniform
        share = np.bincount(exponent - low, minlength=high - low + 1) / x.size
        inner = share[5:-5] * (high - low + 1)
        assert abs(inner.mean() - 1) < 0.02 and inner.min() > 0.5
    assert abs((a < 0).mean() - 0.5) < 0.005
    significand = np.frexp(np.abs(c[c != 0]))[0]
    # s is uniform in (0, 2): half of it in [1, 2), a quarter in [1/2, 1), uniform within each
    assert abs(np.mean(significand < 0.75) - 0.5) < 0.02


def test_independent_bits_redraw_only_exponents_of_infinities():
    core = mm.core("H100/e5m2")
    a, _, _ = sampling.draw(core, "bits", 20_000, seed=1)
    counts = np.bincount(a.ravel(), minlength=256)
    finite = np.isfinite(mm.decode(np.arange(256, dtype=np.uint8), core.a))
    assert (counts[~finite] == 0).all()
    # Each finite code: its own share, and one 31st of that of the infinities and NaNs.
    expected = a.size / 256 * (1 + 1 / 31)
    assert np.abs(counts[finite] / expected - 1).max() < 0.06


@pytest.mark.parametrize("fmt", ["e4m3fnuz", "e4m3fn"])
def test_independent_bits_of_formats_without_infinities(fmt):
    core = mm.core({"e4m3fnuz": "MI300X/e4m3fnuz", "e4m3fn": "H100/e4m3fn"}[fmt])
    a, _, _ = sampling.draw(core, "bits", 20_000, seed=1)
    counts = np.bincount(a.ravel(), minlength=256)
    finite = np.isfinite(mm.decode(np.arange(256, dtype=np.uint8), core.a))
    assert (counts[~finite] == 0).all() and counts[finite].min() > 0.9 * a.size / 256


# --- streams ----------------------------------------------------------------------------------


def test_streams_are_independent_and_repeatable():
    core = mm.core("MI300X/fp16")

    def first(sampler="bits", seed=1, shard=0, core=core):
        return sampling.draw(core, sampler, 50, seed, shard)[0].tobytes()

    assert first() == first()
    others = {first(seed=2), first(shard=1), first("structured"), first(core=mm.core("A100/bf16"))}
    assert len(others | {first()}) == 5
    a, b, _ = sampling.draw(core, "bits", 50, 1)
    assert not np.array_equal(a, b)


def test_cores_with_the_same_formats_meet_the_same_rows():
    cores = [mm.core(n) for n in ("MI300X/fp16", "MI300X/fp16:rd32", "MI100/fp16", "H100/fp16")]
    for sampler in ("exponent_mantissa", "bits"):
        drawn = [sampling.draw(core, sampler, 20, 1, k=16) for core in cores]
        for rows in drawn[1:]:
            assert all(np.array_equal(x, y) for x, y in zip(rows, drawn[0], strict=True))


@pytest.mark.parametrize("sampler", ["exponent_mantissa", "exponent_mantissa_subnormal", "bits"])
def test_the_first_rows_do_not_depend_on_how_many_follow(sampler):
    core = mm.core("MI300X/e4m3fnuz")
    few, many = (sampling.draw(core, sampler, rows, 1) for rows in (10, 9000))
    for x, y in zip(few, many, strict=True):
        np.testing.assert_array_equal(x, y[:10])


def test_draw_refuses():
    core = mm.core("MI300X/fp16")
    with pytest.raises(ValueError, match="unknown sampler 'ties'; known: exponent_mantissa"):
        sampling.draw(core, "ties", 1, 1)
    for arguments in ((-1, 1), (1, -1), (1, 1, -1), (1, 1, 0, -1)):
        with pytest.raises(ValueError, match="allowed: 0 and more"):
            sampling.draw(core, "bits", *arguments)


# --- what the directed rows are for -----------------------------------------------------------


def late(**changes):
    return lambda kind: replace(kind, c=replace(kind.c, **changes))


def field(**changes):
    return lambda kind: replace(kind, **changes)


def halved(kind):
    return replace(kind, n_fma=kind.n_fma // 2)


def early(kind):
    return replace(kind, c=EarlyC(), interleave=1)


def late_c(kind):
    width = kind.frac_bits
    c = LateC(width, width, Rounding.RTZ, UNLIMITED, SecondRounding.NONE, 0, UNLIMITED)
    return replace(kind, c=c)


RNE, RTZ = Rounding.RNE, Rounding.RTZ
CDNA3 = {
    "31 for 32 bits": late(sum_frac_bits=31),
    "no second rounding": late(second=SecondRounding.NONE),
    "blind second rounding": late(second=SecondRounding.BLIND),
    "second rounding to 30": late(second_frac_bits=30),
    "second rounding to 32": late(second_frac_bits=32),
    "RD to RTZ": late(rounding=RTZ),
    "c cut at 23": late(c_frac_bits=23),
    "c cut at 25": late(c_frac_bits=25),
    "c early": early,
    "N halved": halved,
    "products cut at 23": field(frac_bits=23),
    "products cut at 25": field(frac_bits=25),
    "products rounded down": field(align_rounding=Rounding.RD),
    "normalised products": field(normalised_products=True),
    "result toward zero": field(rounding=RTZ),
}
WIDE = {  # visible only where products reach the subnormals of fp32 and 2**128
    "not subnormal-aware": late(second=SecondRounding.NORMALISED),
    "c = 0 takes no part": late(zero_exponent=UNLIMITED),
    "no product overflow": field(product_limit=UNLIMITED),
}
EIGHT_BIT = {
    "c kept to a shift of 24": late(c_max_shift=24),
    "c kept to a shift of 26": late(c_max_shift=26),
    "c kept always": late(c_max_shift=UNLIMITED),
    "not interleaved": field(interleave=1),
    "joined toward zero": field(join_rounding=RTZ),
}
NVIDIA = {
    "N halved": halved,
    "c late": late_c,
    "normalised products": field(normalised_products=True),
    "one bit more": lambda kind: replace(kind, frac_bits=kind.frac_bits + 1),
    "one bit less": lambda kind: replace(kind, frac_bits=kind.frac_bits - 1),
}
FAULTS = {
    "MI300X/fp16": CDNA3,
    "MI300X/bf16": CDNA3 | WIDE,
    "MI300X/xf32": CDNA3 | WIDE,
    "MI300X/e4m3fnuz": CDNA3 | EIGHT_BIT,
    "MI300X/e5m2fnuz/e4m3fnuz": CDNA3 | EIGHT_BIT,
    "MI100/fp16": {"N halved": halved, "toward zero": field(rounding=RTZ)},
    "MI100/bf16": {"N halved": halved, "toward zero": field(rounding=RTZ)},
    "MI210/fp16": {"N halved": halved, "no flush": field(flush=False)},
    "MI210/bf16_1k": {"N halved": halved, "no flush": field(flush=False)},
    "H100/fp16": NVIDIA | {"to nearest": field(rounding=RNE)},
    "H100/bf16": NVIDIA | {"no lowest exponent": field(e_min=UNLIMITED)},
    "A100/tf32": NVIDIA | {"no lowest exponent": field(e_min=UNLIMITED)},
    "A100/fp16:fp16": NVIDIA | {"no lowest exponent": field(e_min=UNLIMITED)},
    "H100/e4m3fn": {
        "14 bits of products": field(frac_bits=14),
        "14 bits of the result": field(out_frac_bits=14),
    },
    "H100/e5m2:fp16:mma.sync": {
        "other order": field(order=()),
        "25 to 26 bits": field(frac_bits=26),
    },
}
CASES = [(name, fault) for name, faults in FAULTS.items() for fault in faults]


@pytest.fixture(scope="module")
def answers():
    """Rows of each core and the right results, drawn once."""
    kept = {}

    def get(core, sampler):
        key = core.name, sampler
        if key not in kept:
            rows = sampling.draw(core, sampler, 2000, seed=1)
            kept[key] = rows, results(core, rows)
        return kept[key]

    return get


def results(core, rows):
    out = np.empty(len(rows[2]), core.out.code_dtype)
    exact_integer.dots(core, *rows, out)
    return out


@pytest.mark.parametrize(("name", "fault"), CASES, ids=[f"{n}-{f}" for n, f in CASES])
def test_2000_directed_rows_show_the_fault(answers, name, fault):
    core = mm.core(name)
    wrong = replace(core, accumulation=FAULTS[name][fault](core.accumulation))
    seen = 0
    for sampler in ("near_tie", "cancellation", "structured"):
        rows, right = answers(core, sampler)
        seen += np.count_nonzero(results(wrong, rows) != right)
        if seen:
            break
    assert seen


@pytest.mark.parametrize("name", ["MI100/fp16", "MI100/bf16"])
def test_near_ties_show_a_sum_in_float64_on_cdna1(answers, name):
    core = mm.core(name)
    (a, b, c), right = answers(core, "near_tie")
    a, b, d = mm.decode(a, core.a), mm.decode(b, core.b), mm.decode(c, core.out)
    n = core.accumulation.n_fma
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, a.shape[1], n):
            for k in range(start, min(start + n, a.shape[1])):
                d = d + a[:, k] * b[:, k]
            d = d.astype(np.float32).astype(np.float64)
    right = mm.decode(right, core.out)
    assert np.count_nonzero(np.isfinite(right) & (d != right)) > 10


# --- the second opinion -----------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["near_tie", "specials"])
@pytest.mark.parametrize("name", [n for n in NAMES if "fp32" not in n and "fp64" not in n])
def test_second_opinion_and_definition_agree(name, sampler):
    core = mm.core(name)
    rows = sampling.draw(core, sampler, 60, seed=9)
    codes = core.reference.dots(
        *(x.view(f.dtype) for x, f in zip(rows, (core.a, core.b, core.out), strict=True))
    ).view(core.out.code_dtype)
    np.testing.assert_array_equal(results(core, rows), codes)


def test_second_opinion_of_unlimited_widths():
    kind = AlignedSum(
        n_fma=4, frac_bits=20, interleave=2, rounding=Rounding.RU,
        c=LateC(c_frac_bits=UNLIMITED, sum_frac_bits=UNLIMITED, zero_exponent=UNLIMITED),
    )  # fmt: skip
    core = replace(mm.core("MI300X/bf16"), accumulation=kind)
    rows = sampling.draw(core, "near_tie", 60, seed=9, k=10)
    right = np.empty(60, np.uint32)
    reference.dots(core, *rows, right)
    np.testing.assert_array_equal(results(core, rows), right)


def test_second_opinion_refuses_chains():
    core = mm.core("MI300X/fp32")
    assert isinstance(core.accumulation, FmaChain)
    with pytest.raises(ValueError, match="compare that with the reference"):
        results(core, sampling.draw(core, "bits", 3, 1))


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("cdna1_fp16", "MI100/fp16"),
        ("cdna1_bf16", "MI100/bf16"),
        ("cdna2_fp16", "MI210/fp16"),
        ("cdna2_bf16_1k", "MI210/bf16_1k"),
        ("cdna3_fp16", "MI300X/fp16"),
        ("cdna3_bf16", "MI300X/bf16"),
        ("cdna3_xf32", "MI300X/xf32"),
        ("cdna3_e4m3_k32", "MI300X/e4m3fnuz"),
        ("cdna3_e5m2_k16", "MI300X/e5m2fnuz"),
    ],
)
def test_second_opinion_gives_the_golden_rows(case, name):
    with np.load(need("golden") / f"{case}.npz") as file:
        rows, wanted = [file[x] for x in "abc"], file["d_paper"]
    got = results(mm.core(name), rows).view(np.float32)
    np.testing.assert_array_equal(got, wanted.view(np.float32))  # NaN as NaN, +0 as -0
