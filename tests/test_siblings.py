"""Siblings by name: one feature changed at a time."""

from dataclasses import replace

import pytest

import mfmamodels as mm
from mfmamodels.siblings import change, differences, features


@pytest.mark.parametrize("core", mm.cores(), ids=lambda c: c.name)
def test_every_feature_can_be_set_to_what_it_is(core):
    for field, value in features(core.accumulation).items():
        if field == "kind" or value == "late" or (field == "n_fma" and value == "1"):
            continue  # the first two reset what belongs to them; a chain's one is no field
        assert change(core, field, value).accumulation == core.accumulation, (field, value)


def test_a_sibling_is_found_by_its_name():
    core = mm.core("MI300X/fp16")
    for field, value in [
        ("rounding", "rtz"),
        ("c.sum_frac_bits", "31"),
        ("n_fma", "4"),
        ("c", "early"),
        ("kind", "exact"),
        ("product_limit", "unlimited"),
    ]:
        sibling = change(core, field, value)
        assert sibling.name == f"MI300X/fp16:{field}={value}"
        assert mm.core(sibling.name) == sibling
        assert sibling.accumulation != core.accumulation
    twice = mm.core("MI300X/fp16:rounding=rtz:n_fma=4").accumulation
    assert twice == replace(core.accumulation, rounding="rtz", n_fma=4)


def test_differences_name_the_features():
    assert differences(mm.core("MI300X/fp16"), mm.core("MI300X/fp16:rd31")) == [
        ("c.sum_frac_bits", "32", "31"),
        ("c.second", "subnormal-aware", "none"),
        ("c.second_frac_bits", "31", "0"),
    ]
    assert differences(mm.core("A100/fp16"), mm.core("H100/fp16")) == [
        ("n_fma", "8", "16"),
        ("frac_bits", "24", "25"),
        ("e_min", "-132", "-133"),
    ]
    formats = differences(mm.core("MI100/fp16"), mm.core("MI100/bf16"))[-1]
    assert formats == ("format of b", "fp16", "bf16")
    assert not differences(mm.core("MI300A/fp16"), mm.core("MI300X/fp16"))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("align", "3", "MI300X/fp16 has no feature 'align'; it has: kind, n_fma, frac_bits"),
        ("rounding", "up", "rounding is 'up'; allowed: 'rne', 'rtz', 'rd', 'ru'"),
        ("n_fma", "0", "n_fma is 0; allowed: an integer from 1 to 64"),
        ("kind", "aligned", "kind can become exact, pairwise or chain"),
        ("c", "never", "c can become early, late or last"),
        ("normalised_products", "2", "true or false"),
        ("order", "a,b", "list of whole numbers"),
    ],
)
def test_meaningless_changes_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        change(mm.core("MI300X/fp16"), field, value)
