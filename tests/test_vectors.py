"""The test vectors of paper section 4, each on the kernel and on the definition."""

import itertools
import math
import re
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.characterise import vectors
from mfmamodels.characterise.vectors.operands import factor, spread
from mfmamodels.formats import FORMATS

TESTED = [core for core in mm.cores() if vectors.count(core)]
BY_ARCH = [core for core in TESTED if core.device in ("MI100", "MI250", "MI300X")]


def family(vector):
    """Name of a test without running index, permutation and sign."""
    return re.split(r"[;,]? [a-zA-Z_]+=|;|, (?:positive|negative)", vector.test)[0]


def families(core):
    found = defaultdict(list)
    for vector in vectors.vectors(core):
        found[family(vector)].append(vector)
    return found


def cases(cores):
    return [
        pytest.param(core, tests, id=f"{core.name} section {tests[0].section} {name}")
        for core in cores
        for name, tests in families(core).items()
    ]


def agrees(d, got):
    """Whether an output is as stated: a NaN by its sign, a zero of either sign."""
    if math.isnan(d):
        return math.isnan(got) and math.copysign(1, got) == math.copysign(1, d)
    return got == d


def disagreements(multiplier, tests):
    """What a core does not give as stated."""
    wrong = []
    outputs = defaultdict(set)
    for vector in tests:
        a, b = np.array(vector.a), np.array(vector.b)
        got = multiplier.dot(a, b, vector.c)
        if vector.d is None:
            outputs[family(vector)].add(got.tobytes())
        elif not agrees(vector.d, float(got)):
            bits = got.view(np.uint32)
            wrong.append(
                f"{vector}: a={vector.a} b={vector.b} c={vector.c.hex()} "
                f"stated={vector.d.hex()} got={float(got).hex()} ({bits:08X})"
            )
    wrong += [f"{name}: all outputs are the same" for name, x in outputs.items() if len(x) == 1]
    return wrong


@pytest.mark.parametrize(("core", "tests"), cases(TESTED))
def test_kernel_gives_the_stated_output(core, tests):
    wrong = disagreements(core, tests)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize(("core", "tests"), cases(BY_ARCH))
def test_reference_gives_the_stated_output(core, tests):
    wrong = disagreements(core.reference, tests)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("core", TESTED, ids=lambda core: core.name)
def test_every_amd_core_of_the_paper_has_vectors(core):
    tests = vectors.vectors(core)
    assert len({str(v) for v in tests}) == len(tests), "two vectors have one name"
    assert vectors.count(core) == len(tests)


def test_cores_without_vectors_are_fp64_variants_and_nvidia():
    for core in mm.cores():
        if core not in TESTED:
            assert core.vendor != "AMD" or core.variant or core.inputs == "fp64"


@pytest.mark.parametrize(
    ("device", "inputs", "smallest"),
    [
        # Counted by hand from the text: permutations x values of the index x signs.
        ("MI100", "fp32", 4 + 12 + 3 + 4 + 2 + 1 + 2 + 2),
        ("MI250", "bf16", 4 + 3 + 7 + 1 + 1 + 6 + 2),
        ("MI300X", "fp32", 4 + 12 + 3),
    ],
)
def test_number_of_vectors(device, inputs, smallest):
    assert vectors.count(mm.core(device, inputs)) == smallest


@pytest.mark.parametrize("core", BY_ARCH, ids=lambda core: core.name)
def test_operands_have_the_stated_products(core):
    """Recompute every product exactly; the operands fit or the multiply would refuse them."""
    by_name = {v.test: v for v in vectors.vectors(core)}
    section, stated = vectors.SECTIONS[core.arch][core.inputs]
    checked = 0
    for s in stated():
        vector = by_name.get(s.test)
        if vector is None or not np.isfinite([*vector.a, *vector.b]).all():
            continue
        assert vector.section == section
        products = [Fraction(a) * Fraction(b) for a, b in zip(vector.a, vector.b, strict=True)]
        spread_over = sum(products[i - 1] for i in s.over if i <= len(products))
        assert spread_over == Fraction(s.total)
        for index, product in s.p.items():
            wanted = product if isinstance(product, tuple) else (product, 1.0)
            assert products[index - 1] == Fraction(wanted[0]) * Fraction(wanted[1])
        named = {*s.p, *s.over}
        assert all(p == 0 for i, p in enumerate(products, 1) if i not in named)
        checked += 1
    assert checked > 10


def test_excluded_vectors_say_why():
    fp16 = vectors.exclusions(mm.core("MI100", "fp16"))
    assert fp16["no product of fp16 and fp16 is 0x1.0000000000000p-49"] == 4
    cancellation = [
        v for v in vectors.excluded(mm.core("MI300X", "fp16")) if "cancelled" in v.stated.test
    ]
    assert len(cancellation) == 1  # 2^35 is no product of fp16 numbers
    for core in TESTED:
        assert all(v.reason for v in vectors.excluded(core))


@pytest.mark.parametrize("inputs", ["bf16", "xf32"])
def test_the_vector_that_cannot_hold_as_printed(inputs):
    core = mm.core("MI300X", inputs)
    (printed,) = (v for v in vectors.excluded(core) if "cannot hold" in v.reason)
    assert printed.stated.d == -(2.0**-149)
    a, b = zip(*(factor(printed.stated.p[i], core.a, core.b) for i in (1, 2)), strict=True)
    assert float(core.reference.dot(np.array(a), np.array(b), 0.0)) == 0.0


# --- wrong models fail --------------------------------------------------------------------------


def failed(core):
    tests = vectors.vectors(replace(core, variant=""))
    lines = disagreements(core.reference, tests)
    return sorted(line.split(": a=")[0].partition(": ")[2] for line in lines)


@pytest.mark.parametrize("inputs", ["fp16", "bf16", "xf32"])
def test_released_code_fails_four_vectors(inputs):
    assert failed(mm.core("MI300X", inputs, variant="rd31")) == [
        "RD at 32, test 2, j=2",
        "second RD after normalisation",
        "second RD, test 1, j=31",
        "second RD, test 2, j=31",
    ]


@pytest.mark.parametrize("variant", ["rd32", "rd32-blind"])
@pytest.mark.parametrize("inputs", ["fp16", "bf16", "xf32"])
def test_stages_of_the_refinement_fail(inputs, variant):
    assert failed(mm.core("MI300X", inputs, variant=variant))


def test_vectors_of_binary8_show_a_second_rounding_but_not_its_normalisation():
    assert failed(mm.core("MI300X", "e5m2fnuz", variant="rd32"))
    assert not failed(mm.core("MI300X", "e5m2fnuz", variant="rd32-blind"))
    unverified = [e.features for e in mm.core("MI300X", "e5m2fnuz").evidence if e.features]
    assert any("normalisation before the second rounding" in f for f in unverified)


def test_small_exponents_show_that_the_second_rounding_is_aware_of_subnormals():
    assert failed(mm.core("MI300X", "fp16", variant="rd32-norm")) == []
    wrong = failed(mm.core("MI300X", "bf16", variant="rd32-norm"))
    assert wrong
    assert all("subnormal c" in test or "c = 0" in test for test in wrong)


def changed(core, **fields):
    return replace(core, accumulation=replace(core.accumulation, **fields))


def late(core, **fields):
    return changed(core, c=replace(core.accumulation.c, **fields))


MUTANTS = {
    "CDNA1 with half the products": lambda: changed(mm.core("MI100", "fp16"), n_fma=2),
    "CDNA2 without flush": lambda: changed(mm.core("MI250", "bf16"), flush=False),
    "CDNA3 with half the products": lambda: changed(mm.core("MI300X", "fp16"), n_fma=4),
    "CDNA3 with another bit": lambda: changed(mm.core("MI300X", "fp16"), frac_bits=25),
    "CDNA3 rounding toward zero": lambda: late(mm.core("MI300X", "bf16"), rounding="rtz"),
    "CDNA3 with c early": lambda: changed(mm.core("MI300X", "xf32"), c=mm.EarlyC()),
    "CDNA3 without zero c": lambda: late(mm.core("MI300X", "bf16"), zero_exponent="unlimited"),
    "CDNA3 without overflow": lambda: changed(mm.core("MI300X", "bf16"), product_limit=129),
    "fp8 not interleaved": lambda: changed(mm.core("MI300X", "e5m2fnuz"), interleave=1),
    "fp8 with c cut at 24": lambda: late(mm.core("MI300X", "e5m2fnuz"), c_max_shift=24),
    "fp8 with c kept": lambda: late(mm.core("MI300X", "e5m2fnuz"), c_max_shift="unlimited"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_model_fails(mutant):
    assert failed(MUTANTS[mutant]())


# --- operands -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e4m3fnuz", "e5m2fnuz"])
def test_a_product_is_found_exactly_where_there_is_one(name):
    fmt = FORMATS[name]
    values = mm.decode(np.arange(128, dtype=np.uint8), fmt)
    positive = [float(v) for v in values if v > 0]
    products = {x * y for x, y in itertools.product(positive, positive)}
    for product in products:
        a, b = factor(product, fmt, fmt)
        assert a in positive
        assert b in positive
        assert a * b == product
    between = {(x + y) / 2 for x, y in itertools.pairwise(sorted(products))} - products
    assert all(factor(x, fmt, fmt) is None for x in between)


def test_spread_sums_to_its_total():
    fmt = FORMATS["bf16"]
    total = -(2.0**-24 + sum(2.0**-e for e in range(26, 41)))
    pairs = spread(total, 8, fmt, fmt)
    assert 1 < len(pairs) <= 8
    assert sum(Fraction(a) * Fraction(b) for a, b in pairs) == Fraction(total)
    assert spread(total, 1, fmt, fmt) is None
