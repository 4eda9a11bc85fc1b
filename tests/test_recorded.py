"""Recorded outputs of real devices: every row of every case, and the files they come in."""

import json
from dataclasses import replace

import numpy as np
import pytest
from _data import need

import mfmamodels as mm
from mfmamodels import kernels, reference
from mfmamodels.characterise import recorded

RECORDED = {case: core for core in mm.cores() for case in recorded.cases_of(core)}


def assert_reproduced(comparison):
    assert not len(comparison.mismatches), "\n".join(comparison.describe())


def first_rows(recording, rows):
    parts = {name: getattr(recording, name)[:rows] for name in "abcd"}
    return replace(recording, **parts)


def test_every_recorded_case_belongs_to_one_core():
    cases = recorded.packed_cases(need("hardware"))
    assert len(cases) == 48
    assert sorted(RECORDED) == cases


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_kernel_reproduces_every_recorded_row(case):
    recording = recorded.read_packed(need("hardware"), case)
    assert recording.rows == 4000
    assert_reproduced(recorded.compare(RECORDED[case], recording, kernels))


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_reference_reproduces_recorded_rows(case):
    recording = first_rows(recorded.read_packed(need("hardware"), case), 40)
    assert_reproduced(recorded.compare(RECORDED[case], recording, reference))


@pytest.mark.full
@pytest.mark.parametrize("case", sorted(RECORDED))
def test_reference_reproduces_every_recorded_row(case):
    recording = recorded.read_packed(need("hardware"), case)
    assert_reproduced(recorded.compare(RECORDED[case], recording, reference))


def test_evidence_counts_the_rows_that_are_recorded():
    folder = need("hardware")
    for case, core in RECORDED.items():
        (evidence,) = (e for e in core.evidence if e.case == case)
        assert evidence.rows == recorded.read_packed(folder, case).rows


def test_recordings_of_l40s_are_those_of_ada_and_marked_so():
    folder = need("hardware")
    twins = [case for case in RECORDED if case.startswith("L40S")]
    assert twins
    for case in twins:
        ada = recorded.read_packed(folder, case.replace("L40S", "Ada"))
        assert np.array_equal(recorded.read_packed(folder, case).d, ada.d)
        assert all(not e.independent for e in RECORDED[case].evidence if e.case)


# How many of 4000 rows a wrong parameter must change at least: fewer would not be evidence.
WRONG = {
    "one alignment bit less": lambda k: replace(k, frac_bits=k.frac_bits - 1),
    "one alignment bit more": lambda k: replace(k, frac_bits=k.frac_bits + 1),
    "half the products": lambda k: replace(k, n_fma=k.n_fma // 2),
    "result to nearest": lambda k: replace(k, rounding=mm.Rounding.RNE),
    "normalised products": lambda k: replace(k, normalised_products=True),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("case", ["A100_fp16_fp32", "H100_bf16_fp32", "Ada_E5M2_fp32"])
def test_recorded_rows_reject_a_wrong_parameter(case, wrong):
    core = RECORDED[case]
    changed = replace(core, accumulation=WRONG[wrong](core.accumulation))
    recording = first_rows(recorded.read_packed(need("hardware"), case), 1000)
    assert len(recorded.compare(changed, recording, kernels).mismatches) > 20


# --- one public dot product of very small bf16 numbers on an H100 -------------------------------

SMALL_A = """9b940000 19f30000 9a2e0000 1a670000 9a250000 9b4e0000 9b290000 9a330000
    99e00000 1a140000 99140000 99d10000 9ae90000 1b1a0000 9a9c0000 1b3a0000"""
SMALL_B = """9aaf0000 99f30000 9acc0000 1b7c0000 19ed0000 1b250000 9a1b0000 9a200000
    9af70000 9a480000 1ae10000 1b320000 1b120000 1b0e0000 9a680000 17350000"""


def small_products(core):
    a, b = (
        np.array([int(word, 16) >> 16 for word in words.split()], np.uint16).view(core.a.dtype)
        for words in (SMALL_A, SMALL_B)
    )
    return float(core.dot(a, b)), float(core.reference.dot(a, b))


def test_h100_lowest_alignment_exponent():
    wanted = float.fromhex("0x1.6p-146")
    assert small_products(mm.core("H100", "bf16")) == (wanted, wanted)


@pytest.mark.parametrize("e_min", [mm.UNLIMITED, -126, -132])
def test_another_lowest_alignment_exponent_fails(e_min):
    core = mm.core("H100", "bf16")
    core = replace(core, accumulation=replace(core.accumulation, e_min=e_min))
    other = float.fromhex("0x1.4p-146")
    assert small_products(core) == (other, other)


# --- the text layout ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "out"),
    [("fp16", "fp16"), ("bf16", "fp32"), ("tf32", "fp32"), ("e5m2", "fp16"), ("e4m3fn", "fp32")],
)
def test_text_layout_gives_back_every_bit(tmp_path, inputs, out):
    fmt, fmt_out = mm.get_format(inputs), mm.get_format(out)
    rng = np.random.default_rng(3)
    a = rng.integers(0, 1 << fmt.width, (64, 8), fmt.code_dtype)
    b = rng.integers(0, 1 << fmt.width, (64, 8), fmt.code_dtype)
    c, d = rng.integers(0, fmt_out.inf_code, (2, 64), fmt_out.code_dtype)
    d[0] = fmt_out.sign_mask | fmt_out.inf_code | 1
    written = recorded.Recording(f"X_{inputs}_{out}", fmt, fmt_out, a, b, c, d)
    recorded.write_text(written, tmp_path, "X")
    read = recorded.read_text(tmp_path, inputs, out)
    assert read.case == written.case
    for name in "abcd":
        assert np.array_equal(getattr(read, name), getattr(written, name)), name


def test_text_layout_is_the_public_one(tmp_path):
    fmt, out = mm.get_format("fp16"), mm.get_format("fp32")
    one, two, half = (np.float16(x).view(np.uint16) for x in (1, 2, 0.5))
    rows = [np.array([[one, two]]), np.array([[half, one]])]
    recording = recorded.Recording(
        "X", fmt, out, *rows, np.array([0], np.uint32), np.array([0x40200000], np.uint32)
    )
    recorded.write_text(recording, tmp_path, "MI300X")
    assert (tmp_path / "a_MI300X_fp16.txt").read_text() == "3f800000 40000000\n"
    assert (tmp_path / "d_MI300X_fp32.txt").read_text() == f"{0x40200000:032b}\n"
    assert_reproduced(recorded.compare(mm.core("MI300X", "fp16"), recording))


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("a_X_fp16.txt", "3f800000\n", "has shape"),
        ("a_X_fp16.txt", "3f800000 zz\n3f800000 3f800000\n", "line 1"),
        ("a_X_fp16.txt", "3f800000\n3f800000 3f800000\n", "same number"),
        ("a_X_fp16.txt", "3f800000 3f800001\n3f800000 3f800000\n", "does not fit fp16"),
        ("d_X_fp32.txt", "0101\n", "32 binary digits"),
    ],
)
def test_text_layout_says_what_is_wrong(tmp_path, file, text, complaint):
    for name in ("a", "b"):
        (tmp_path / f"{name}_X_fp16.txt").write_text("3f800000 3f800000\n" * 2)
    (tmp_path / "d_X_fp32.txt").write_text(f"{0x40000000:032b}\n" * 2)
    recorded.read_text(tmp_path, "fp16", "fp32")
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=complaint):
        recorded.read_text(tmp_path, "fp16", "fp32")


def test_a_mismatch_is_shown_in_hexadecimal(tmp_path):
    core = mm.core("MI300X", "fp16")
    one = np.float16(1).view(np.uint16)
    recording = recorded.Recording(
        "X",
        core.a,
        core.out,
        np.full((2, 2), one),
        np.full((2, 2), one),
        np.zeros(2, np.uint32),
        np.array([0x40000000, 0x40000001], np.uint32),
    )
    comparison = recorded.compare(core, recording)
    assert list(comparison.mismatches) == [1]
    lines = comparison.describe()
    assert lines[0] == "X: 2 rows, 1 mismatches"
    assert "a = 3C00 3C00" in lines[2]
    assert lines[4].endswith("recorded d = 40000001, model d = 40000000")


def test_formats_of_core_and_recording_must_agree():
    core = mm.core("A100", "bf16")
    recording = recorded.read_packed(need("hardware"), "A100_fp16_fp32")
    with pytest.raises(ValueError, match="inputs in fp16"):
        recorded.compare(core, recording)


def test_an_unknown_case_lists_what_there_is(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"A_fp16_fp32": {}}))
    with pytest.raises(ValueError, match="A_fp16_fp32"):
        recorded.read_packed(tmp_path, "B")


# --- statistics of an MI300X --------------------------------------------------------------------

STATISTICS = [
    "addmm_sizes",
    "broadcast_batched_matmul",
    "compile_kernel_advanced",
    "linear_no_bias_module",
]


def running_sum(rows):
    """Sum of rows in order, each addition rounded to float32."""
    return np.add.accumulate(rows, axis=0, dtype=np.float32)[-1]


def float32_mean(x):
    """Mean as PyTorch takes it on a CPU with vectors of 8 floats: the digits depend on the order.

    Four vectors of running sums, added up; what is left over of a vector comes first.
    """
    x = x.ravel()
    whole, vectors = x.size // 32 * 32, x.size // 8 * 8
    sums = running_sum(x[:whole].reshape(-1, 32)).reshape(4, 8)
    sums[0] = running_sum(np.vstack([sums[:1], x[whole:vectors].reshape(-1, 8)]))
    total = running_sum(np.concatenate([x[vectors:], running_sum(sums)])[:, None])[0]
    return float(total / np.float32(x.size))


def statistics(product, exact):
    """The four recorded numbers of one product."""
    error = product - exact
    return {
        "max_abs": float(np.abs(error).max()),
        "rms_abs": float(np.sqrt(np.mean(error.astype(np.float64) ** 2))),
        "mean_signed": float32_mean(error),
        "actual_max_abs": float(np.abs(product).max()),
    }


def mi300x(case):
    folder = need("mi300x")
    with np.load(folder / "inputs.npz") as file:
        a, b = file[f"{case}_a"], file[f"{case}_b"]
    wanted = json.loads((folder / "recorded.json").read_text())[case]
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    return a, b, exact, wanted


def matching_cases(core, convert=lambda x: x):
    """Cases of which a core gives every recorded digit."""
    found = []
    for case in STATISTICS:
        a, b, exact, wanted = mi300x(case)
        product = core.matmul(convert(a), convert(b))
        if statistics(product, exact) == wanted[core.a.name]:
            found.append(case)
    return found


def test_xf32_gives_every_recorded_digit():
    assert matching_cases(mm.core("MI300X", "xf32")) == STATISTICS


def test_xf32_rounding_toward_zero_does_not_match():
    core = mm.core("MI300X", "xf32")
    late = replace(core.accumulation.c, rounding=mm.Rounding.RTZ)
    core = replace(core, accumulation=replace(core.accumulation, c=late))
    assert len(matching_cases(core)) == 2


def test_xf32_with_eight_products_does_not_match():
    core = mm.core("MI300X", "xf32")
    core = replace(core, accumulation=replace(core.accumulation, n_fma=8))
    assert matching_cases(core) == []


def test_xf32_with_inputs_rounded_to_nearest_does_not_match():
    core = mm.core("MI300X", "xf32")
    assert matching_cases(core, lambda x: mm.round_to(x, "xf32", "rne")) == []


def test_fp32_gives_every_recorded_digit_where_one_chain_does():
    one_chain = [case for case in STATISTICS if case != "compile_kernel_advanced"]
    assert matching_cases(mm.core("MI300X", "fp32")) == one_chain


def test_fp32_with_k_in_two_chains_gives_every_recorded_digit():
    # The order of the library: k = 0..15 and 16..31 apart, then one addition in float32.
    core = mm.core("MI300X", "fp32")
    a, b, exact, wanted = mi300x("compile_kernel_advanced")
    product = core.matmul(a[:, :16], b[:16]) + core.matmul(a[:, 16:], b[16:])
    assert statistics(product, exact) == wanted["fp32"]


def test_mi300x_evidence_names_the_statistics():
    for inputs in ("xf32", "fp32"):
        levels = {e.level for e in mm.core("MI300X", inputs).evidence}
        assert mm.Level.RECORDED_STATISTICS in levels
