"""One dot product step by step: the steps are those of the definition, and readable."""

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels import reference
from mfmamodels.reference import record
from mfmamodels.reference.numbers import mp
from mfmamodels.trace import fixed_point

CORES = [
    "MI100/fp32",
    "MI100/fp16",
    "MI250/fp64",
    "MI250/bf16",
    "MI250/bf16_1k",
    "MI300X/fp16",
    "MI300X/xf32",
    "MI300X/bf16:rd32-blind",
    "MI300X/e5m2fnuz",
    "MI300X/e4m3fnuz/e5m2fnuz",
    "V100/fp16:fp16",
    "A100/tf32",
    "H100/e4m3fn",
    "B200/e5m2:fp16:mma.sync",
]


def random_rows(core, rows, k=40, seed=5):
    rng = np.random.default_rng(seed)
    a, b = (
        rng.integers(0, 1 << min(fmt.width, 63), (rows, k)).astype(fmt.code_dtype)
        for fmt in (core.a, core.b)
    )
    c = rng.integers(0, 1 << min(core.out.width, 63), rows).astype(core.out.code_dtype)
    a[: rows // 2] &= a.dtype.type(~(3 << (core.a.width - 3)) & (core.a.sign_mask * 2 - 1))
    return a, b, c


@pytest.mark.parametrize("name", CORES)
def test_trace_ends_in_the_references_result(name):
    core = mm.core(name)
    a, b, c = random_rows(core, 6)
    for row in range(6):
        arguments = (a[row].view(core.a.dtype), b[row].view(core.b.dtype))
        traced = core.trace(*arguments, c[row].view(core.out.dtype))
        expected = reference.dot(core, a[row].tolist(), b[row].tolist(), int(c[row]))
        assert traced.d == expected
        text = str(traced)
        assert max(map(len, text.splitlines())) <= 100
        assert text.splitlines()[-1].endswith(f"(0x{expected:0{core.out.width // 4}X})")


@pytest.mark.parametrize("name", CORES)
def test_every_block_is_shown(name):
    core = mm.core(name)
    k = 64
    traced = core.trace([1.0] * k, [1.0] * k, 1.0)
    blocks = [s for s in traced.steps if s.what == "block"]
    assert len(blocks) == k // core.accumulation.n_fma
    assert mm.decode(np.uint64(traced.d), core.out) == k + 1


def steps_of(traced, what):
    return [s for s in traced.steps if s.what == what]


def test_aligned_sum_shows_what_it_cuts_and_rounds():
    """4.3.1: p1 = -1 with a c of -(2^-24 + 2^-25), which rounds down."""
    traced = mm.core("MI300X", "fp16").trace([-1.0], [1.0], -(2.0**-24 + 2.0**-25))
    (shift,) = steps_of(traced, "shift c")
    assert (shift.exponent, shift.quantum, shift.rounding) == (0, -24, "rd")
    s, c = shift.items
    assert (s.label, float(s.kept)) == ("S", -1.0)
    assert (float(c.exact), float(c.kept), c.exponent) == (-1.5 * 2.0**-24, -(2.0**-23), -24)
    zeros = "0" * 23
    text = str(traced)
    assert f"-0.{zeros}1|1" in text
    assert f"-0.{zeros[1:]}10\n" in text
    assert text.endswith("d = -0x1.000002p+0 (0xBF800001)")


def test_second_rounding_and_final_rounding_are_shown():
    traced = mm.core("MI300X", "fp16").trace([2.0**-12] * 2, [2.0**-12, 2.0**-20], 1.0)
    (shift,) = steps_of(traced, "shift sum")
    (second,) = steps_of(traced, "second rounding")
    (final,) = steps_of(traced, "round")
    assert (shift.quantum, second.quantum, final.quantum) == (-32, -31, -23)
    assert float(second.items[0].exact) == 1 + 2.0**-24 + 2.0**-32
    assert float(second.items[0].kept) == 1 + 2.0**-24
    assert float(final.items[0].kept) == 1.0


def test_odd_and_even_products_are_aligned_apart():
    traced = mm.core("MI300X", "e5m2fnuz").trace([1.0, 2.0**-12], [1.0, 2.0**-12], 0.0)
    first, second = steps_of(traced, "align")
    assert [i.label for i in first.items][:2] == ["p1", "p3"]
    assert [i.label for i in second.items][:2] == ["p2", "p4"]
    assert (first.exponent, second.exponent) == (0, -24)
    (join,) = steps_of(traced, "join")
    assert [i.exponent for i in join.items] == [0, -24]


def test_products_have_their_unnormalised_exponents_and_their_limit():
    traced = mm.core("MI300X", "bf16").trace([1.5, 2.0**100], [1.5, -(2.0**28)], 0.0)
    (products,) = steps_of(traced, "products")
    assert [i.exponent for i in products.items[:2]] == [0, 128]
    assert float(products.items[1].kept) == -np.inf
    assert "-> -Inf" in str(traced)
    assert steps_of(traced, "special")


def test_pairwise_sum_shows_products_and_tree():
    traced = mm.core("MI250", "fp16").trace([1.0, 2.0, 3.0, 2.0**-20], [1.0] * 4, 5.0)
    assert len(steps_of(traced, "multiply")) == 4
    assert len(steps_of(traced, "add")) == 4
    assert [float(i.exact) for i in steps_of(traced, "flush")[0].items] == [2.0**-20]
    assert "subnormal 0x1p-20 is flushed to zero" in str(traced)


def test_exact_sum_is_shown_in_full():
    traced = mm.core("MI100", "bf16").trace([1.0, 2.0**-60], [1.0, 2.0**-60], 0.0)
    (total,) = steps_of(traced, "sum")
    assert total.items[0].exact == mp.mpf(1) + mp.ldexp(1, -120)


def test_mma_sync_names_the_products_of_each_block():
    core = mm.core("B200/e4m3fn:mma.sync")
    text = str(core.trace([1.0] * 64, [1.0] * 64, 0.5))
    assert "k = 0,1,4,5,8,9,12,13,16,17,20,21,24,25,28,29:" in text
    assert "k = 34,35,38,39,42,43,46,47,50,51,54,55,58,59,62,63:" in text
    assert text.count("c is added last") == 2


def test_padding_is_not_shown_as_products():
    text = str(mm.core("MI300X", "fp16").trace([1.0], [1.0]))
    assert "k = 0:" in text


def test_nothing_is_recorded_unless_asked():
    core = mm.core("MI300X", "fp16")
    with record.recorder() as steps:
        core.reference.dot([1.0], [1.0])
    taken = len(steps)
    assert taken
    core.reference.dot([1.0], [1.0])
    assert len(steps) == taken


@pytest.mark.parametrize(
    ("x", "exponent", "quantum", "text"),
    [
        (1.5, 0, -3, "+1.100"),
        (-1.3125, 0, -2, "-1.01|01"),
        (2.25, 0, -2, "+10.01"),
        (0.0, 0, -2, "+0.00"),
        (2.0**-5, 0, -2, "+0.00|001"),
        (4.0, 2, 2, "+1"),
        (0.0, 0, 3, "+0"),
    ],
)
def test_fixed_point_text(x, exponent, quantum, text):
    assert fixed_point(mp.mpf(x), exponent, quantum) == text


@pytest.mark.parametrize(
    ("a", "b", "c", "complaint"),
    [
        ([1.0], [1.0, 2.0], None, "one length"),
        ([[1.0]], [[1.0]], None, "one length"),
        ([1.0], [1.0], [1.0, 2.0], "one number as c"),
        ([1.0 + 2.0**-20], [1.0], None, "not representable in fp16"),
    ],
)
def test_bad_input_is_refused(a, b, c, complaint):
    with pytest.raises(ValueError, match=complaint):
        mm.core("MI300X", "fp16").trace(a, b, c)
