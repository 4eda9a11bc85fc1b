"""The catalogue: look-up by name and by instruction, evidence, text, and cores of one's own."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.characterise import vectors
from mfmamodels.describe import kind_in_words, table_row
from mfmamodels.instructions import INSTRUCTIONS

ALL = [pytest.param(core, id=core.name) for core in mm.cores()]


@pytest.mark.parametrize("core", ALL)
def test_every_core_is_found_by_its_name_and_runs(core):
    assert mm.core(core.name) is core
    assert float(core.reference.dot([1.0, 2.0], [3.0, 0.5], 1.0)) == 5.0


def test_names_are_unique_and_devices_complete():
    names = [core.name for core in mm.cores()]
    assert len(set(names)) == len(names)
    found = {}
    for core in mm.cores():
        found.setdefault(core.device, set()).add(core.inputs)
    assert found["MI100"] == {"fp32", "fp16", "bf16"}
    assert found["MI210"] == found["MI250"] == {"fp64", "fp32", "fp16", "bf16", "bf16_1k"}
    eight_bit = {"e4m3fnuz", "e5m2fnuz", "e4m3fnuz/e5m2fnuz", "e5m2fnuz/e4m3fnuz"}
    assert (
        found["MI300A"] == found["MI300X"] == {"fp64", "fp32", "xf32", "fp16", "bf16"} | eight_bit
    )
    assert found["V100"] == found["T4"] == {"fp16"}
    assert found["A100"] == found["A2"] == found["A30"] == {"fp16", "bf16", "tf32"}
    for device in ("RTX-1000-Ada", "L40S", "H100", "H200", "B200", "RTX-PRO-6000"):
        assert found[device] == {"fp16", "bf16", "tf32", "e4m3fn", "e5m2"}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("mi300x", "fp16"), "MI300X/fp16"),
        (("MI 300X", "e4m3fnuz/e5m2fnuz"), "MI300X/e4m3fnuz/e5m2fnuz"),
        (("MI300X/e4m3fnuz/e5m2fnuz:rd31",), "MI300X/e4m3fnuz/e5m2fnuz:rd31"),
        (("Ada", "fp16"), "RTX-1000-Ada/fp16"),
        (("rtx 1000 ada/e5m2:fp16",), "RTX-1000-Ada/e5m2:fp16"),
        (("H100/e4m3fn:fp32",), "H100/e4m3fn"),
        (("H100/e4m3fn:native",), "H100/e4m3fn"),
        (("H100/e4m3fn:mma.sync:fp16",), "H100/e4m3fn:fp16:mma.sync"),
    ],
)
def test_names_are_read_leniently(arguments, name):
    assert mm.core(*arguments).name == name


@pytest.mark.parametrize(
    ("arguments", "keywords", "complaint"),
    [
        (("MI400", "fp16"), {}, "unknown device 'MI400'; known: MI100, .*B200"),
        (("MI300X",), {}, "needs an input format; known: fp64, fp32, xf32"),
        (("MI300X", "tf32"), {}, "no core for 'tf32'; known: fp64"),
        (("MI300X", "fp8"), {}, "ambiguous.*MI300X has .*e4m3fnuz"),
        (("H100", "bf8"), {}, "ambiguous.*H100 has .*e4m3fn"),
        (("A100", "fp16"), {"variant": "rd31"}, "known: A100/fp16, A100/fp16:fp16"),
        (("A100", "bf16"), {"out": "fp16"}, "known: A100/bf16"),
        (("MI300X/fp16", "fp16"), {}, "already names its inputs"),
        (("MI300X", "fp16"), {"arch": "CDNA3"}, "arch goes with"),
    ],
)
def test_what_there_is_not_is_answered_by_what_there_is(arguments, keywords, complaint):
    with pytest.raises(ValueError, match=complaint):
        mm.core(*arguments, **keywords)


# --- instructions -------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "v_mfma_"])
def test_an_instruction_names_a_core(prefix):
    found = mm.instruction(f"{prefix}f32_32x32x8_f16")
    assert (found.m, found.n, found.k, found.blocks) == (32, 32, 8, 1)
    assert (found.arch, found.inputs, found.out) == ("CDNA3", "fp16", "fp32")
    assert mm.core(f"{prefix}f32_32x32x8_f16", arch="CDNA3") is mm.core("MI300X", "fp16")
    assert mm.core(f"{prefix}f32_32x32x8_f16", variant="rd31") is mm.core("MI300X/fp16:rd31")


@pytest.mark.parametrize("found", INSTRUCTIONS, ids=lambda i: f"{i.arch} {i.name}")
def test_every_instruction_has_a_core_of_its_formats(found):
    core = mm.core(found.name, arch=found.arch)
    full = mm.core(found.device, found.inputs)
    assert core.arch == found.arch
    assert (core.a, core.b, core.out) == (full.a, full.b, full.out)
    assert core.out.name == found.out
    assert core.accumulation.n_fma == min(full.accumulation.n_fma, found.k)
    # One wave of 64 lanes holds a whole result in at most 32 registers of 32 bits each.
    registers = found.m * found.n * found.blocks * core.out.width // 32 / 64
    assert registers in (1, 2, 4, 8, 16, 32)


def test_number_of_instructions():
    per_arch = {arch: 0 for arch in ("CDNA1", "CDNA2", "CDNA3")}
    for found in INSTRUCTIONS:
        per_arch[found.arch] += 1
    assert per_arch == {"CDNA1": 15, "CDNA2": 22, "CDNA3": 27}


def test_eight_bit_instructions_have_amds_names():
    core = mm.core("v_mfma_f32_16x16x32_bf8_fp8")
    assert (core.a.name, core.b.name) == ("e5m2fnuz", "e4m3fnuz")


def test_four_products_fill_half_an_addition():
    core = mm.core("v_mfma_f32_4x4x4_16b_f16")
    assert core.accumulation.n_fma == 4
    # 2^-24 twice joins 1 only if both come in one addition.
    a, b = np.zeros(8), np.ones(8)
    a[[0, 4]] = 2.0**-24
    assert float(mm.core("MI300X", "fp16").dot(a, b, 1.0)) == 1 + 2.0**-23
    assert float(core.dot(a, b, 1.0)) == 1.0


@pytest.mark.parametrize(
    ("name", "arch", "complaint"),
    [
        ("v_mfma_f32_32x32x8f16", None, "CDNA1 and CDNA2 have .* give arch"),
        ("f32_32x32x8f16", "CDNA3", "on CDNA3; known: .*f32_32x32x8_f16"),
        ("f32_32x32x3_f16", None, "no instruction 'f32_32x32x3_f16'; known"),
        ("f32_32x32x8_f16", "CDNA9", "unknown architecture 'CDNA9'; known: CDNA1"),
    ],
)
def test_an_unknown_instruction_is_answered_by_a_list(name, arch, complaint):
    with pytest.raises(ValueError, match=complaint):
        mm.core(name, arch=arch)


def test_an_instruction_takes_no_formats():
    with pytest.raises(ValueError, match="names its formats"):
        mm.core("f32_32x32x8_f16", "bf16")


# --- text ---------------------------------------------------------------------------------------

# The columns of the paper's Table 3; "-inf" where it has the sign for infinity.
TABLE_3 = {
    "B200/e4m3fn": "(2, 25)|32|-inf|early|-|RTZ|-|No",
    "H100/e4m3fn": "(2, 13)|32|-inf|early|-|RTZ to 13 bits|-|No",
    "MI300X/e4m3fnuz": "(2, 24)|8 odd-even|-126|late|(24, 32, RD)|RNE|-|2^128",
    "H100/bf16": "(2, 25)|16|-inf|early|-|RTZ|-133|No",
    "B200/fp16": "(2, 25)|16|-inf|early|-|RTZ|-133|No",
    "A100/fp16": "(2, 24)|8|-inf|early|-|RTZ|-132|No",
    "MI100/fp16": "(1, inf)|4|-inf|early|-|RNE|-|No",
    "MI100/bf16": "(1, inf)|2|-inf|early|-|RNE|-|No",
    "MI300A/bf16": "(2, 24)|8|-126|late|(24, 32, RD)|RNE|-126|2^128",
    "H100/tf32": "(2, 25)|8|-inf|early|-|RTZ|-133|No",
    "A100/tf32": "(2, 24)|4|-inf|early|-|RTZ|-132|No",
    "MI300X/xf32": "(2, 24)|4|-126|late|(24, 32, RD)|RNE|-126|2^128",
}


@pytest.mark.parametrize("name", TABLE_3)
def test_row_of_table_3(name):
    row = table_row(mm.core(name))
    assert row.pop("In") == name.split("/")[1]
    assert "|".join(row.values()).replace("∞", "inf") == TABLE_3[name]


@pytest.mark.parametrize("core", ALL)
def test_every_core_has_a_text(core):
    text, short = str(core), repr(core)
    assert text.splitlines()[0].startswith(f"{core.name} ({core.vendor}, {core.arch})")
    assert max(map(len, text.splitlines())) <= 100
    for name, value in table_row(core).items():
        assert f"{name} {value}" in short
        assert any(line.split(maxsplit=len(name.split()))[-1] == value for line in
                   text.splitlines() if line.startswith(f"  {name}"))  # fmt: skip
    assert repr(core.accumulation) in short
    for evidence in core.evidence:
        assert str(evidence.level) in short
    assert kind_in_words(core) in text


def test_the_number_of_vectors_is_counted():
    core = mm.core("MI250", "bf16_1k")
    assert f"the paper's vectors, {len(vectors.vectors(core))}: paper" in str(core)


# --- evidence -----------------------------------------------------------------------------------


@pytest.mark.parametrize("core", ALL)
def test_evidence_is_complete(core):
    assert core.evidence
    levels = [list(mm.Level).index(e.level) for e in core.evidence]
    assert levels == sorted(levels), "strongest first"
    for evidence in core.evidence:
        assert evidence.source
        assert (evidence.level is mm.Level.RECORDED_WORDS) == (evidence.rows > 0)
        if evidence.level is mm.Level.VECTORS:
            assert vectors.count(core) > 0
    has_vectors = any(e.level is mm.Level.VECTORS for e in core.evidence)
    assert has_vectors == (vectors.count(core) > 0)
    assert core.evidence[-1].level is mm.Level.UNVERIFIED, "something is open on every core"


@pytest.mark.parametrize("core", ALL)
def test_no_feature_is_both_confirmed_and_unverified(core):
    confirmed = {f for e in core.evidence if e.level is not mm.Level.UNVERIFIED for f in e.features}
    unverified = {f for e in core.evidence if e.level is mm.Level.UNVERIFIED for f in e.features}
    assert not confirmed & unverified


@pytest.mark.parametrize("core", ALL)
def test_a_lowest_exponent_that_can_be_reached_has_its_own_evidence(core):
    kind = core.accumulation
    if not isinstance(kind, mm.AlignedSum) or kind.e_min == mm.UNLIMITED or core.variant:
        return
    smallest = core.a.emin + core.b.emin
    named = any("e_min" in e.features for e in core.evidence)
    recorded = any(e.rows for e in core.evidence)
    assert named == (recorded and smallest < kind.e_min)


# --- cores of one's own -------------------------------------------------------------------------


def own(**fields):
    kind = {"n_fma": 6, "frac_bits": 10, "c": mm.EarlyC(), "rounding": "rtz", **fields}
    formats = {name: mm.FORMATS["fp16"] for name in "ab"}
    return mm.Core(
        **formats, out=mm.FORMATS["fp32"], accumulation=mm.AlignedSum(**kind), nan=0x7FC00000
    )


def test_a_core_of_ones_own_computes():
    core = own()
    a = np.array([1.0, 2.0**-10, 2.0**-11, 2.0**-11])
    assert float(core.reference.dot(a, np.ones(4), 0.0)) == 1 + 2.0**-10
    assert core.name == "user/fp16"
    assert core.evidence[0].level is mm.Level.UNVERIFIED
    assert str(core).startswith("user/fp16 (user, user-defined)")


def test_siblings_are_made_with_replace():
    core = mm.core("MI300X", "fp16")
    sibling = replace(core, accumulation=replace(core.accumulation, frac_bits=30), variant="wide")
    assert sibling.name == "MI300X/fp16:wide"
    a = [1.0, 2.0**-12]
    assert float(core.reference.dot(a, [1.0, 2.0**-14], 2.0**-24)) == 1.0
    exact = Fraction(1) + Fraction(1, 2**24) + Fraction(1, 2**26)
    assert float(sibling.reference.dot(a, [1.0, 2.0**-14], 2.0**-24)) == float(
        np.float32(float(exact))
    )


def test_records_have_one_canonical_form():
    assert own(rounding="rtz") == own(rounding=mm.Rounding.RTZ)
    assert own(order=tuple(range(6))) == own()
    assert own(join_rounding="ru") == own()
    none = mm.LateC(second="none")
    assert none == mm.LateC(second="none", second_frac_bits=7)
    assert hash(own()) == hash(own())


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"n_fma": 0}, "n_fma is 0; allowed: an integer from 1"),
        ({"n_fma": True}, "n_fma is True"),
        ({"frac_bits": mm.UNLIMITED}, "frac_bits is UNLIMITED; .*use ExactSum"),
        ({"rounding": "up"}, "rounding is 'up'; allowed: 'rne', 'rtz'"),
        ({"interleave": 2}, "c must be LateC"),
        ({"interleave": 2, "n_fma": 3, "c": mm.LateC()}, "need an even number"),
        ({"order": (0, 0, 1, 2, 3, 4)}, "not a permutation"),
        ({"order": (1, 0)}, "no multiple of n_fma = 6"),
        ({"c": mm.LastC(products=8)}, "products is 8, no multiple of n_fma = 6"),
        ({"c": "early"}, r"c is 'early'; allowed: EarlyC\(\)"),
        ({"e_min": 0.5}, "e_min is 0.5"),
    ],
)
def test_impossible_parameters_are_refused_with_the_reason(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        own(**fields)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"out": mm.FORMATS["bf16"]}, "allowed: fp16, fp32, fp64"),
        ({"out": mm.FORMATS["e4m3fn"]}, "infinities is needed"),
        ({"out": mm.FORMATS["fp64"]}, "only FmaChain is known"),
        ({"a": mm.FORMATS["fp64"]}, "operands in fp64 need out in fp64"),
        ({"accumulation": "exact"}, "allowed: FmaChain, ExactSum"),
    ],
)
def test_impossible_combinations_are_refused_with_the_reason(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(mm.core("MI300X", "fp16"), **changes)


def test_an_order_must_fit_the_products_of_an_instruction():
    kind = mm.core("B200/e4m3fn:mma.sync").accumulation
    with pytest.raises(ValueError, match="32 entries, which do not divide the 48 products"):
        replace(kind, c=mm.LastC(products=48))


def test_a_result_cannot_be_wider_than_its_format():
    core = mm.core("A100/fp16:fp16")
    wide = replace(core, accumulation=replace(core.accumulation, out_frac_bits=20))
    a, b = np.float16([1, 2.0**-11, 2.0**-12]), np.float16([1, 1, 1])
    for one in (core, wide):
        for compute in (one.dot, one.reference.dot):
            assert compute(a, b).view(np.uint16) == 0x3C01


def test_a_tree_needs_a_power_of_two():
    with pytest.raises(ValueError, match="needs a power of two"):
        mm.PairwiseSum(n_fma=6)


# --- small probes with known answers ------------------------------------------------------------


def both(core, a, b, c=None):
    """Result of kernel and reference, which must agree."""
    kernel, definition = core.dot(a, b, c), core.reference.dot(a, b, c)
    assert kernel.tobytes() == definition.tobytes()
    return float(kernel)


@pytest.mark.parametrize(
    ("name", "d"),
    [("MI100/fp16", 0x387FC000), ("MI300X/fp16", 0x387FC000), ("MI250/fp16", 0x00000000)],
)
def test_largest_subnormal_of_fp16(name, d):
    a = np.array([0x03FF], np.uint16).view(np.float16)
    assert both(mm.core(name), a, [1.0]) == float(np.array(d, np.uint32).view(np.float32))


@pytest.mark.parametrize(("a", "d"), [(0x3F801FFF, 0x3F800000), (0xBF801FFF, 0xBF800000)])
def test_xf32_is_truncated(a, d):
    a, d = (np.array([x], np.uint32).view(np.float32) for x in (a, d))
    assert both(mm.core("MI300X/xf32"), a, [1.0]) == d[0]


SLIGHTLY_MORE_THAN_ONE = 1 + 2.0**-23


@pytest.mark.parametrize(
    "name",
    ["MI100/fp16", "MI250/bf16", "MI300X/fp16", "MI300X/e4m3fnuz", "MI300X/fp32", "B200/e4m3fn"],
)
def test_zero_products_keep_c(name):
    assert both(mm.core(name), [0.0] * 4, [1.0] * 4, SLIGHTLY_MORE_THAN_ONE) == (
        SLIGHTLY_MORE_THAN_ONE
    )


@pytest.mark.parametrize("name", ["Ada/e4m3fn", "L40S/e5m2", "H100/e4m3fn", "H200/e5m2"])
def test_fp8_of_ada_and_hopper_keeps_13_bits_of_c(name):
    assert both(mm.core(name), [0.0] * 4, [1.0] * 4, SLIGHTLY_MORE_THAN_ONE) == 1.0


@pytest.mark.parametrize("name", ["MI300X/fp16", "MI300X/xf32"])
def test_cdna3_rounds_down_so_negation_does_not_commute(name):
    a, b, c = [2048.0, 2048.0], [2048.0, -2048.0], np.float32(-1e-6)
    core = mm.core(name)
    assert both(core, a, b, c) == -0.25
    assert both(core, [-x for x in a], b, -c) == 0.0


@pytest.mark.parametrize("name", ["MI100/fp32", "MI250/fp32", "MI300X/fp32"])
def test_fp32_is_a_fused_chain(name):
    core = mm.core(name)
    x = 1 + 2.0**-12
    assert both(core, [x], [x], -(1 + 2.0**-11)) == 2.0**-24
    assert both(core, [1.0, 1.0], [2.0**-24, 2.0**-24], 1.0) == 1.0


@pytest.mark.parametrize("core", ALL)
def test_all_ones_add_up_to_k(core):
    for k in (33, 100, 1000):
        ones = np.ones((1, k))
        assert core.matmul(ones, ones.T).item() == k


def test_absent_c_is_zero_and_never_read():
    core = mm.core("MI300X", "fp16")
    assert both(core, [1.0], [2.0], None) == both(core, [1.0], [2.0], 0.0) == 2.0


@pytest.mark.parametrize("core", ALL)
def test_k_of_zero_gives_c(core):
    c = np.array([[1.5, -0.0]], core.out.dtype)
    d = core.matmul(np.ones((1, 0)), np.ones((0, 2)), c)
    assert d.tobytes() == c.tobytes()
