"""Golden rows: an independent exact program written from the paper's text, and released code."""

import numpy as np
import pytest
from _data import need

import mfmamodels as mm
from mfmamodels import kernels, reference

CASES = {
    "cdna1_fp16": ("MI100/fp16",),
    "cdna1_bf16": ("MI100/bf16",),
    "cdna2_fp16": ("MI250/fp16", "MI210/fp16"),
    "cdna2_bf16_g2": ("MI250/bf16", "MI210/bf16"),
    "cdna2_bf16_1k": ("MI250/bf16_1k", "MI210/bf16_1k"),
    "cdna3_fp16": ("MI300X/fp16", "MI300A/fp16"),
    "cdna3_bf16": ("MI300X/bf16", "MI300A/bf16"),
    "cdna3_xf32": ("MI300X/xf32", "MI300A/xf32"),
    "cdna3_e4m3_k16": ("MI300X/e4m3fnuz", "MI300A/e4m3fnuz"),
    "cdna3_e4m3_k32": ("MI300X/e4m3fnuz", "MI300A/e4m3fnuz"),
    "cdna3_e5m2_k16": ("MI300X/e5m2fnuz", "MI300A/e5m2fnuz"),
    "cdna3_e5m2_k32": ("MI300X/e5m2fnuz", "MI300A/e5m2fnuz"),
}
CASE_CORES = [(case, name) for case, names in CASES.items() for name in names]
CDNA3 = [(case, name) for case, name in CASE_CORES if case.startswith("cdna3")]


def load(case):
    with np.load(need("golden") / f"{case}.npz") as file:
        return dict(file)


def differing(got, wanted):
    """Rows that differ, where any NaN equals any other and +0 equals -0."""
    x, y = got.view(np.float32), wanted.view(np.float32)
    same = (got == wanted) | (np.isnan(x) & np.isnan(y)) | ((x == 0) & (y == 0))
    return np.flatnonzero(~same)


def assert_rows(core, rows, wanted, backend):
    got = np.empty(len(wanted), np.uint32)
    backend.dots(core, rows["a"], rows["b"], rows["c"], got)
    wrong = differing(got, wanted)
    message = [f"{len(wrong)} of {len(wanted)} rows differ"] + [
        f"row {i}: a={[hex(x) for x in rows['a'][i]]} b={[hex(x) for x in rows['b'][i]]} "
        f"c={rows['c'][i]:08X} expected={wanted[i]:08X} got={got[i]:08X}"
        for i in wrong[:3]
    ]
    assert not len(wrong), "\n".join(message)


def some(rows, count, seed=20261201):
    """Rows of every sampler and flag, the rare ones first."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows["c"]))
    kinds = np.array([10 * s + f for s, f in zip(rows["sampler"], rows["flag"], strict=True)])
    first = [order[kinds[order] == kind][: count // 20 + 1] for kind in np.unique(kinds)]
    chosen = np.unique(np.concatenate([*first, order[:count]]))
    return {name: values[chosen] for name, values in rows.items()}


@pytest.mark.parametrize(("case", "name"), CASE_CORES)
def test_kernel_agrees_with_independent_program(case, name):
    rows = load(case)
    assert_rows(mm.core(name), rows, rows["d_paper"], kernels)


@pytest.mark.parametrize(("case", "name"), [(case, names[0]) for case, names in CASES.items()])
def test_reference_agrees_with_independent_program_on_a_sample(case, name):
    rows = some(load(case), 150)
    assert_rows(mm.core(name), rows, rows["d_paper"], reference)


@pytest.mark.full
@pytest.mark.parametrize(("case", "name"), [(case, names[0]) for case, names in CASES.items()])
def test_reference_agrees_with_independent_program(case, name):
    rows = load(case)
    assert_rows(mm.core(name), rows, rows["d_paper"], reference)


@pytest.mark.parametrize(("case", "name"), CDNA3)
def test_rd31_variant_is_the_released_matlab_code(case, name):
    # Flag 2 marks the released code's defects with infinities and overflow.
    rows = load(case)
    rows = {key: values[rows["flag"] < 2] for key, values in rows.items()}
    assert_rows(mm.core(name, variant="rd31"), rows, rows["d_matlab"], kernels)


@pytest.mark.parametrize(("case", "name"), CDNA3[::2])
def test_rows_tell_the_final_model_from_the_released_code(case, name):
    rows = load(case)
    rows = {key: values[rows["flag"] == 1] for key, values in rows.items()}
    assert len(rows["c"])
    assert len(differing(rows["d_paper"], rows["d_matlab"])) == len(rows["c"])
