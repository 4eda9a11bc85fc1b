"""Comparison of cores: distances, explanations, losses, report."""

import json

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.characterise import comparison
from mfmamodels.characterise.comparison import Gemm, compare, distance, gemm_experiment
from mfmamodels.characterise.losses import lost_products

GEMM = Gemm.random(6, 6, 48, seed=2)


def _cores(*names):
    return [mm.core(name) for name in names]


def _pair(*names, gemm=GEMM):
    return compare(gemm_experiment(gemm), _cores(*names), scale={"D": gemm.scale})[0]


def test_distance_counts_bits_and_measures_signed_differences():
    x = np.float32([1, -2, 0.0, np.nan, 4])
    y = np.float32([1, -3, -0.0, np.nan, 6])
    found = distance(x, y)
    assert (found.words, found.differing) == (5, 3)  # the zero's sign is a bit
    assert found.largest == 0.5
    assert found.mean == pytest.approx((-1 + 2) / 4 / 5)
    assert found.rms == pytest.approx(np.sqrt((1 + 4) / 16 / 5))
    infinite = distance(np.float32([1, np.inf]), np.float32([1, 2]))
    assert infinite.largest == np.inf
    assert infinite.differing == 1
    assert distance(np.zeros(0, np.float32), np.zeros(0, np.float32)).words == 0
    with pytest.raises(ValueError, match="cannot be compared"):
        distance(x, y[:2])


def test_one_changed_feature_is_found():
    pair = _pair("B200/fp16", "B200/fp16:rne")
    assert pair.differing > 0.3
    assert [e.feature for e in pair.explanations] == ["rounding"]
    assert pair.explanations[0].remaining == 0
    assert pair.explanations[0].changed == pair.differing
    assert "rounding (rtz against rne) explains all" in pair.verdict
    assert pair.distances["D"].mean != 0


def test_the_feature_that_matters_is_told_from_those_that_do_not():
    pair = _pair("A100/fp16", "H100/fp16")
    by_name = {e.feature: e for e in pair.explanations}
    assert set(by_name) == {"n_fma", "frac_bits", "e_min"}
    assert by_name["e_min"].changed == 0  # nothing here is that small
    assert by_name["e_min"].remaining == pair.differing
    assert by_name["n_fma"].remaining < pair.differing


def test_the_tolerance_covers_the_largest_difference():
    pair = _pair("MI100/fp16", "B200/fp16")
    largest = pair.distances["D"].largest
    assert 2 * largest <= pair.tolerance <= 4 * largest
    assert np.log2(pair.tolerance) % 1 == 0


def test_twins_do_not_differ():
    pair = _pair("MI300A/fp16", "MI300X/fp16")
    assert pair.differing == pair.tolerance == 0
    assert "no difference" in pair.verdict


def test_cores_of_different_formats_are_compared_without_siblings_of_formats():
    pair = _pair("MI300X/fp16", "MI300X/bf16")
    assert [e.feature for e in pair.explanations] == ["format of a", "format of b"]
    assert all(e.remaining is None for e in pair.explanations)
    assert "different formats" in pair.verdict


def test_a_single_core_is_no_comparison():
    with pytest.raises(ValueError, match="at least two different cores, not MI100/fp16"):
        compare(gemm_experiment(GEMM), _cores("MI100/fp16"))
    with pytest.raises(ValueError, match="at least two different"):
        compare(gemm_experiment(GEMM), _cores("MI100/fp16", "MI100/fp16"))
    with pytest.raises(ValueError, match="must be at least 1"):
        Gemm.random(0, 1, 1)


def test_accuracy_sees_bias_and_losses():
    wide = Gemm.random(8, 8, 64, seed=1, decades=12)
    exact = comparison.accuracy(mm.core("MI100/fp16"), wide)
    truncating = comparison.accuracy(mm.core("B200/fp16"), wide)
    flushing = comparison.accuracy(mm.core("MI250/fp16"), wide)
    assert exact.lost_products == 0
    assert exact.largest < 2.0**-21
    assert truncating.largest > exact.largest
    assert truncating.lost_products > 0
    assert flushing.subnormal_inputs == exact.subnormal_inputs > 0
    assert flushing.inputs_to_zero == exact.inputs_to_zero > 0
    assert flushing.lost_products > 0


@pytest.mark.parametrize("name", ["MI300X/fp16", "MI300X/e4m3fnuz", "A100/fp16", "H100/e4m3fn",
                                  "MI250/bf16", "MI300X/xf32"])  # fmt: skip
def test_a_lost_product_can_be_left_out(name):
    """Taking away what is counted as lost changes nothing; what is not counted matters."""
    core = mm.core(name)
    rng = np.random.default_rng(3)
    n_fma = core.accumulation.n_fma
    changed = 0
    for _ in range(60):
        spread = 2.0 ** rng.integers(*rng.choice([[-9, 7], [-2, 2]]), (2, n_fma))
        a, b = (
            mm.round_to(rng.uniform(1, 2, n_fma) * s, core.a, overflow="saturate") for s in spread
        )
        whole = core.dot(a, b)
        alone = [lost_products(core, a[None], b[:, None])[1]]
        smallest = int(np.argmin(a.astype(float) * b.astype(float)))
        without = a.copy()
        without[smallest] = 0
        less = core.dot(without, b)
        if alone[0] == 0 and less != whole:
            changed += 1
        if alone[0] == 1:
            assert less == whole
    assert changed > 0 or name == "MI250/bf16"  # fp32 has room for all of these


def test_command_prints_and_writes_a_report(tmp_path, capsys):
    from mfmamodels.__main__ import main

    stem = tmp_path / "out" / "ab"
    status = main(
        ["compare", "--cores", "A100/fp16,B200/fp16", "--shape", "4,4,32", "-o", str(stem)]
    )
    assert status == 0
    printed = capsys.readouterr().out
    assert "## A100/fp16 against B200/fp16" in printed
    assert "Suggested tolerance" in printed
    report = json.loads(stem.with_name("ab.json").read_text())
    assert report["pairs"][0]["distances"]["D"]["words"] == 16
    assert all(stem.with_name(f"ab.{s}").stat().st_size for s in ("md", "png", "pdf"))


def test_a_study_is_compared_like_a_product():
    from applications._config import load
    from mfmamodels.commands import compare as command

    options = {"order": 24, "block": 8, "draws": 1, "log10_conditions": [1]}
    config = load(over={"studies": {"lu": options}})
    cores = _cores("MI300X/e5m2fnuz", "MI100/fp16")
    report = command.study_report(cores, "lu", config, explain=False)
    assert report["pairs"][0]["distances"]["factor_error"]["differing"] > 0
    assert "Mixed-precision LU" in command.to_markdown(report)
