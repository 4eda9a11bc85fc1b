"""Features found from a black box's answers: right, or said to be undecided, and never lost."""

import stat
import sys
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    EarlyC,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
    SecondRounding,
)
from mfmamodels.characterise.probing import (
    RecordedBox,
    command_box,
    core_box,
    function_box,
    probe,
    table_row,
)
from mfmamodels.characterise.probing import elimination as el
from mfmamodels.characterise.probing.canonical import canonical
from mfmamodels.characterise.probing.report import KIND_WORDS, c_position
from mfmamodels.formats import FORMATS, Rounding


@lru_cache
def probed(name):
    """Report on a core of the catalogue; several tests look at the same one."""
    return probe(core_box(mm.core(name)))


def truth(record):
    """Features of a record by the names that a report gives them."""
    kind = record.accumulation
    found = {"kind": KIND_WORDS[type(kind)], "c": c_position(record), "n_fma": kind.n_fma,
             "rounding": kind.rounding}  # fmt: skip
    if isinstance(kind, AlignedSum):
        found |= {name: el.field_value(record, name) for name in el.fields_of(record)}
        found |= {"interleave": kind.interleave, "order": kind.order}
        if isinstance(kind.c, LastC):
            found["products"] = kind.c.products
    if isinstance(kind, PairwiseSum):
        found["flush"] = kind.flush
    return found


def wrong_claims(record, report):
    """Features that a report calls decided and that differ from the record's."""
    known = truth(canonical(record))
    return {name: (f.value, known[name]) for name, f in report.features.items()
            if name in known and f.decided and f.value != known[name]}  # fmt: skip


def undecided(report):
    return {name for name, f in report.features.items() if not f.decided}


#: Cores of every kind, with the features that their formats' range hides.
CATALOGUE = {
    "MI100/fp16": {"output subnormals"},
    "MI250/bf16": set(),
    "MI300X/fp64": set(),
    "MI300X/bf16": {"late.c_max_shift", "late.sum_frac_bits", "late.zero_exponent"},
    "MI300X/bf16:rd32": {"late.c_max_shift"},
    "MI300X/e5m2fnuz": {"e_min", "late.second", "late.sum_frac_bits", "late.zero_exponent",
                        "product_limit", "output subnormals"},
    "H100/bf16": {"product_limit"},
    "A100/fp16:fp16": {"product_limit"},
    "L40S/e5m2": {"e_min", "product_limit", "output subnormals"},
    "H100/e4m3fn:mma.sync": {"e_min", "product_limit", "output subnormals"},
}  # fmt: skip


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_core_of_the_catalogue_is_recovered(name):
    core = mm.core(name)
    report = probed(name)
    assert report.arithmetic is not None and not report.error
    assert not report.others
    assert wrong_claims(core, report) == {}
    hidden = undecided(report)
    assert hidden <= CATALOGUE[name], hidden - CATALOGUE[name]
    for feature in report.features.values():  # what is undecided says why
        assert feature.decided or feature.evidence, feature.name
    # Where the record found differs from the core's, no row of a fresh draw shows it.
    rng = np.random.default_rng(5)
    a, b = (
        rng.integers(0, 1 << f.width - 1, (500, 32)).astype(f.code_dtype) for f in (core.a, core.b)
    )
    c = rng.integers(0, 1 << core.out.width - 1, 500).astype(core.out.code_dtype)
    ours, theirs = (np.empty_like(c) for _ in range(2))
    mm.kernels.dots(core, a, b, c, theirs)
    mm.kernels.dots(report.arithmetic, a, b, c, ours)
    np.testing.assert_array_equal(ours, theirs)


def test_the_report_names_the_queries_that_decided():
    report = probed("A100/bf16")
    text = report.report()
    assert "frac_bits" in text and "47 other values refuted" in text
    assert "->" in report["frac_bits"].evidence and "p1" in text
    row = table_row(report)
    assert row["Prd. Align."] == "(2,24)" and row["N_FMA"] == "8" and row["e_min^lim"] == "-132"
    assert row["c late/early"] == "early" and row["out. round."] == "RTZ" and row["e_c=0"] == "-∞"


def test_what_the_formats_cannot_show_is_undecided():
    report = probed("MI300X/fp16")
    limit = report["product_limit"]
    assert not limit.decided and UNLIMITED in (limit.value, *limit.alike)
    second = report["late.second"]  # no subnormal c meets products as small
    assert not second.decided
    fitting = {SecondRounding.NORMALISED, SecondRounding.SUBNORMAL_AWARE}
    assert {second.value, *second.alike} == fitting
    assert 32 in (report["late.sum_frac_bits"].value, *report["late.sum_frac_bits"].alike)


@pytest.mark.parametrize(("name", "changes"), [
    ("H100/bf16", {"frac_bits": 24}),
    ("H100/bf16", {"n_fma": 8}),
    ("A100/bf16", {"e_min": -126}),
    ("MI300X/bf16", {"late.c_frac_bits": 23}),
    ("MI300X/bf16", {"product_limit": 127}),
])  # fmt: skip
def test_a_wrong_entry_of_a_scratch_catalogue_is_noticed(name, changes):
    """The device is as the catalogue says; the scratch copy of it is not."""
    core = mm.core(name)
    own = {k: v for k, v in changes.items() if k != "n_fma"}
    scratch = el.with_fields(core, own)
    if "n_fma" in changes:
        scratch = replace(
            scratch, accumulation=replace(scratch.accumulation, n_fma=changes["n_fma"])
        )
    report = probed(name)
    assert wrong_claims(core, report) == {}
    assert set(wrong_claims(scratch, report)) == set(changes)


def test_a_device_of_one_length_can_be_probed():
    core = mm.core("A100/fp16")

    def device(a, b, c):
        assert a.shape[1] == 16
        d = np.empty_like(c)
        mm.kernels.dots(core, a, b, c, d)
        return d

    report = probe(function_box(device, "fp16", length=16))
    assert report.arithmetic is not None
    assert wrong_claims(core, report) == {}
    assert report["n_fma"].value == 8


def test_the_reference_answers_as_the_kernels_do():
    """The same probe on the definition: few rows, since it is slow."""
    from mfmamodels.characterise.probing.boxes import core_box as box
    from mfmamodels.characterise.probing.lab import Lab, first_facts
    from mfmamodels.characterise.probing.search import seeded

    core = mm.core("H100/e4m3fn")
    facts = [
        first_facts(Lab(box(core, backend), seeded(0), lambda line: None))
        for backend in ("kernels", "reference")
    ]
    assert facts[0] == facts[1]


# --- programs ---------------------------------------------------------------------------------


def _program(tmp_path, body):
    file = tmp_path / "device.py"
    file.write_text(f"import sys, time, pathlib\na, b, c, d = sys.argv[1:5]\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return f"{sys.executable} {file}"


@pytest.mark.parametrize(("body", "says"), [
    ("sys.exit('no device found')", "no device found"),
    ("time.sleep(60)", "did not finish"),
    ("pathlib.Path(d).write_text('hello')", "no result"),
    ("pathlib.Path(d).write_text('0' * 32 + chr(10))", "results for"),
    ("pass", "wrote no results"),
])  # fmt: skip
def test_a_failing_program_is_reported(tmp_path, body, says):
    report = probe(command_box(_program(tmp_path, body), "fp16", timeout=2.0))
    assert says in report.error and report.arithmetic is None
    assert "STOPPED EARLY" in report.report()


def test_what_was_decided_before_a_failure_is_kept():
    core = mm.core("MI250/bf16")
    calls = []

    def device(a, b, c):
        calls.append(len(c))
        if len(calls) > 9:
            raise OSError("the cable was pulled")
        d = np.empty_like(c)
        mm.kernels.dots(core, a, b, c, d)
        return d

    report = probe(function_box(device, "bf16"))
    assert "the cable was pulled" in report.error
    assert report["input subnormals"].value == "flushed" and report["nan"].value == "FFC00000"


def test_the_command_line_probes_a_core(capsys):
    from mfmamodels.__main__ import main

    assert main(["probe", "MI250/fp16"]) == 0
    out, progress = capsys.readouterr()
    assert "pairwise sum" in out and "flushed" in out
    assert "share a block" in progress
    assert main(["probe"]) == 2
    assert "one of CORE" in capsys.readouterr().err


def test_a_recording_says_what_fits(data_folder):
    from mfmamodels.characterise.recorded import read_packed

    recording = read_packed(data_folder / "hardware", "H100_bf16_fp32")
    report = probe(RecordedBox(recording))
    assert report.arithmetic is not None
    assert not any(f.decided for f in report.features.values())
    core = mm.core("H100/bf16").accumulation
    for name in ("frac_bits", "rounding", "align_rounding", "n_fma"):
        feature = report[name]
        assert getattr(core, name) in (feature.value, *feature.alike), name


# --- random cores -----------------------------------------------------------------------------


def random_core(seed):
    """A legal record with any fields, in formats of 19 bits and fewer."""
    rng = np.random.default_rng(seed)

    def pick(*values):
        return values[rng.integers(len(values))]

    def rounding():
        return pick(*Rounding)

    pair = pick(("fp16",) * 2, ("bf16",) * 2, ("xf32",) * 2, ("e4m3fn", "e5m2"), ("e5m2",) * 2,
                ("e4m3fnuz",) * 2, ("e5m2fnuz", "e4m3fnuz"))  # fmt: skip
    out = FORMATS["fp32" if pair[0] in ("bf16", "xf32") else pick("fp32", "fp32", "fp16")]
    a, b = (FORMATS[name] for name in pair)
    kind = pick(*range(12))
    if kind == 0:
        accumulation = FmaChain(rounding())
    elif kind == 1:
        accumulation = ExactSum(pick(1, 2, 3, 4, 8, 16, 32), rounding())
    elif kind == 2:
        accumulation = PairwiseSum(pick(1, 2, 4, 8, 16), pick(False, True), rounding())
    else:
        accumulation = _random_aligned(rng, pick, rounding, a, b, out)
    nan = pick(out.nan_code, out.nan_code | out.sign_mask, out.sign_mask - 1)
    return Arithmetic(a=a, b=b, out=out, accumulation=accumulation, nan=nan)


def _random_aligned(rng, pick, rounding, a, b, out):
    n = pick(1, 2, 4, 4, 8, 8, 16, 16, 32)
    low = max(a.emin + b.emin, out.emin - 30)

    def maybe(share, first, last):
        return int(rng.integers(first, last)) if rng.random() < share else UNLIMITED

    c = pick("early", "early", "late", "late", "late", "last")
    interleave = 1
    if c == "late":
        interleave = 2 if n % 2 == 0 and rng.random() < 0.35 else 1
        c = LateC(
            c_frac_bits=maybe(0.9, 8, 40), sum_frac_bits=maybe(0.9, 12, 45), rounding=rounding(),
            c_max_shift=maybe(0.3, 8, 40), second=pick(*SecondRounding),
            second_frac_bits=int(rng.integers(12, 40)),
            zero_exponent=pick(UNLIMITED, out.emin, int(rng.integers(low, low + 30))),
        )  # fmt: skip
    elif c == "last":
        c = LastC(n * pick(1, 2, 2) if n <= 16 else n, rounding())
    else:
        c = EarlyC()
    order = ()
    if n > 1 and rng.random() < 0.2:
        run = c.products if isinstance(c, LastC) else n * pick(1, 2)
        order = tuple(int(x) for x in rng.permutation(run)) if run <= 64 else ()
    return AlignedSum(
        n, int(rng.integers(8, 45)), c, rounding(), align_rounding=rounding(),
        interleave=interleave, join_rounding=rounding(),
        product_limit=maybe(0.25, out.emax - 8, out.emax + 2), e_min=maybe(0.4, low - 8, low + 20),
        out_frac_bits=maybe(0.25, 6, out.fraction_bits + 1),
        normalised_products=bool(rng.random() < 0.3), order=order,
    )  # fmt: skip


def _probed(seed):
    core = random_core(seed)
    report = probe(core_box(core), seed=seed)
    assert wrong_claims(core, report) == {}, core
    return report.arithmetic is not None


@pytest.mark.parametrize("seed", range(6))
def test_nothing_wrong_is_claimed_of_a_random_core(seed):
    _probed(seed)


@pytest.mark.full
def test_two_hundred_random_cores():
    """No wrong claim on any; a complete record for most, the others are reported as undecided."""
    complete = sum(_probed(seed) for seed in range(200))
    assert complete >= 150, complete


# --- Table 3 ----------------------------------------------------------------------------------


def test_a_table_of_probed_cores():
    from mfmamodels.characterise import table_3 as t3

    names = ["MI100/bf16", "A100/bf16", "A2/bf16"]
    reports = t3.probe_all([mm.core(n) for n in names])
    assert list(reports) == names
    assert reports["A2/bf16"] is reports["A100/bf16"]  # the same answers, query for query
    table = t3.table_3(reports)
    assert [row[0] for row in table.rows] == ["MI100", "A100, A2"]
    cells = dict(zip(table.header, table.rows[0], strict=True))
    assert (
        cells["Prd. Align."] == "(1,∞)" and cells["N_FMA"] == "2" and cells["out. round."] == "RNE"
    )


def test_the_papers_entries_are_judged():
    from mfmamodels.characterise import table_3 as t3

    report = probed("MI300X/bf16")
    printed = next(p for p in t3.PRINTED if p.inputs == ("fp16", "bf16") and "MI300X" in p.devices)
    found = {row[2]: row for row in t3._compared(printed, "MI300X", "bf16", report)}
    verdicts = {feature: row[5] for feature, row in found.items()}
    assert verdicts["Prd. Align."] == verdicts["N_FMA"] == verdicts["|p_i|-overflow"] == "agrees"
    assert verdicts["e_min^lim"] == "differs" and "zero c" in found["e_min^lim"][6]
    assert verdicts["e_c=0"] == "not observable"  # -126 is among the values that answer alike
    wrong = replace(printed, frac_bits=25, rounding=Rounding.RTZ)
    found = {row[2]: row[5] for row in t3._compared(wrong, "MI300X", "bf16", report)}
    assert found["Prd. Align."] == found["out. round."] == "differs"
