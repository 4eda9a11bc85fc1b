"""Comparing parties: counts, bounds, shards, resuming, programs that misbehave."""

import json
import math
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.characterise import bounds, ensembles, recorded, validation
from mfmamodels.characterise.parties import Command, Function, Model, Recording
from mfmamodels.characterise.validation import Recorded, Sampled, compare, compare_all, merge

CORE = mm.core("MI300X/fp16")
WEAKER = mm.core("MI300X/fp16:rd32")
ROWS = 230


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Shards of 50 rows, so that 230 rows make five, the last one short."""
    for module in (ensembles, validation):
        monkeypatch.setattr(module, "SHARD_ROWS", 50)
    # Somebody may edit the package while the tests run.
    monkeypatch.setattr(validation, "source_digest", lambda: "a version")


def near_ties(rows=ROWS):
    return Sampled(CORE, "near_tie", rows, seed=3)


def flawed(a, b, c):
    """The final core with the last bit of every 7th result flipped."""
    d = CORE.dots(a, b, c)
    codes = d.view(np.uint32).copy()
    codes[::7] ^= 1
    return codes.view(np.float32)


FLAWED = Function(flawed, "flawed", values=True)


# --- counting ---------------------------------------------------------------------------------


def test_a_core_agrees_with_reference_and_second_opinion():
    found = compare_all(
        near_ties(100), CORE, Model(CORE), [Model(CORE, "reference"), Model(CORE, "exact_integer")]
    )
    assert [(o.rows, o.mismatches, o.kept) for o in found.values()] == [(100, 0, ())] * 2


def test_every_row_is_compared_after_the_first_mismatch():
    outcome = compare(near_ties(), CORE, Model(CORE), FLAWED)
    per_shard = [math.ceil(n / 7) for n in (50, 50, 50, 50, 30)]
    assert [m for _, m in outcome.counts.values()] == per_shard
    assert outcome.rows == ROWS and outcome.mismatches == sum(per_shard)


def test_kept_mismatches_hold_all_bits():
    ensemble = near_ties()
    outcome = compare(ensemble, CORE, Model(CORE), FLAWED)
    chunk = ensemble.chunk(1)
    kept = [m for m in outcome.kept if m.row == 57]  # row 7 of the second shard
    assert len(kept) == 1
    assert [int(x, 16) for x in kept[0].a.split()] == chunk.a[7].tolist()
    assert [int(x, 16) for x in kept[0].b.split()] == chunk.b[7].tolist()
    assert int(kept[0].c, 16) == chunk.c[7]
    assert int(kept[0].left, 16) ^ int(kept[0].right, 16) == 1


def test_only_the_first_hundred_mismatches_are_kept():
    outcome = compare(near_ties(), CORE, Model(CORE), Function(lambda a, b, c: ~c, "all wrong"))
    assert outcome.mismatches == ROWS
    assert [m.row for m in outcome.kept] == list(range(100))


def test_nan_and_zero_signs_are_mismatches():
    core = replace(CORE, nan=0x7FC00000)
    rows = Sampled(CORE, "specials", 200, seed=1)
    outcome = compare(rows, CORE, Model(CORE), Model(core, "exact_integer"))
    assert outcome.mismatches > 0
    assert {m.right for m in outcome.kept} == {"7fc00000"}


def test_memory_does_not_grow_with_the_ensemble(monkeypatch):
    sizes = []

    def answer(a, b, c):
        sizes.append(a.shape)
        return c

    compare(near_ties(), CORE, Function(answer, "one"), Function(answer, "two"))
    assert max(rows for rows, _ in sizes) == 50


# --- shards, resuming -------------------------------------------------------------------------


def test_shards_merge_to_one_run_in_any_order():
    whole = compare(near_ties(), CORE, Model(CORE), FLAWED)
    parts = [compare(near_ties(), CORE, Model(CORE), FLAWED, only=only)
             for only in ([4, 1], [3], [0, 2])]  # fmt: skip
    assert merge(parts).to_json() == whole.to_json()
    assert merge(reversed(parts)).to_json() == whole.to_json()
    with pytest.raises(ValueError, match=r"shards \[3\] occur twice"):
        merge([*parts, parts[1]])


def test_merged_files_are_the_file_of_one_run(tmp_path):
    pair = (Model(CORE), FLAWED)
    compare(near_ties(), CORE, *pair, saved=tmp_path / "whole")
    for n in range(5):
        compare(near_ties(), CORE, *pair, only=[n], saved=tmp_path / str(n))
    validation.merge_files([tmp_path / str(n) for n in (3, 1, 0, 4, 2)], tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()


def test_files_of_different_comparisons_do_not_merge(tmp_path):
    compare(near_ties(), CORE, Model(CORE), FLAWED, only=[0], saved=tmp_path / "0")
    compare(near_ties(100), CORE, Model(CORE), FLAWED, only=[1], saved=tmp_path / "1")
    with pytest.raises(ValueError, match="different comparisons"):
        validation.merge_files([tmp_path / "0", tmp_path / "1"], tmp_path / "merged")


def test_a_killed_run_resumes_where_it_was(tmp_path):
    calls = []

    def dies(a, b, c):
        calls.append(len(c))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return flawed(a.view(np.float16), b.view(np.float16), c.view(np.float32))

    saved = tmp_path / "saved.json"
    party = Function(dies, "flawed")
    with pytest.raises(KeyboardInterrupt):
        compare(near_ties(), CORE, Model(CORE), party, saved=saved)
    assert sorted(validation.load(saved)[1]["flawed"].counts) == [0, 1]
    resumed = compare(near_ties(), CORE, Model(CORE), party, saved=saved)
    assert len(calls) == 3 + 3  # two shards were done, the third was lost
    assert resumed.to_json() == compare(near_ties(), CORE, Model(CORE), FLAWED).to_json()


def test_a_saved_file_of_something_else_is_refused(tmp_path, monkeypatch):
    saved = tmp_path / "saved.json"
    compare(near_ties(), CORE, Model(CORE), FLAWED, saved=saved)
    before = saved.read_bytes()
    with pytest.raises(ValueError, match="belongs to another comparison"):
        compare(near_ties(), CORE, Model(CORE), Model(WEAKER), saved=saved)
    monkeypatch.setattr(validation, "source_digest", lambda: "another version")
    with pytest.raises(ValueError, match="belongs to another comparison"):
        compare(near_ties(), CORE, Model(CORE), FLAWED, saved=saved)
    assert saved.read_bytes() == before


def test_outcomes_survive_json():
    outcome = compare(near_ties(), CORE, Model(CORE), FLAWED)
    again = validation.Outcome.from_json(json.loads(json.dumps(outcome.to_json())))
    assert again == outcome and again.within(100).rows == 100
    assert all(m.row < 100 for m in again.within(100).kept)


# --- other parties ----------------------------------------------------------------------------


def test_recorded_outputs_are_a_party():
    a, b, c = near_ties(120).chunk(0)[1:4]
    d = CORE.dots(a.view(np.float16), b.view(np.float16), c.view(np.float32)).view(np.uint32)
    d = d.copy()
    d[[3, 11]] ^= 1
    recording = recorded.Recording("made", CORE.a, CORE.out, a, b, c, d)
    outcome = compare(Recorded(recording), CORE, Recording(), Model(CORE))
    assert [m.row for m in outcome.kept] == [3, 11]


def test_rows_without_recorded_results_say_so():
    with pytest.raises(validation.Incomplete, match="without recorded results"):
        compare(near_ties(), CORE, Recording(), Model(CORE))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b, c: 1 / 0, "ZeroDivisionError"),
        (lambda a, b, c: c[:-1], r"shape \(49,\)"),
        (lambda a, b, c: c.astype(np.float64), "float64"),
    ],
    ids=["raises", "too few results", "wrong type"],
)
def test_a_bad_function_is_named(function, message):
    with pytest.raises(validation.Incomplete, match=message):
        compare(near_ties(), CORE, Model(CORE), Function(function, "bad"))


def test_a_core_of_other_formats_is_refused():
    with pytest.raises(validation.Incomplete, match="has a in bf16"):
        compare(near_ties(), CORE, Model(CORE), Model(mm.core("MI300X/bf16")))


PROGRAM = """
import sys
import numpy as np
import mfmamodels as mm
a, b, c = (open(f).read().splitlines() for f in sys.argv[2:5])
a, b = (np.array([[int(x, 16) for x in r.split()] for r in f], np.uint32).view(np.float32)
        for f in (a, b))
c = np.array([int(x, 2) for x in c], np.uint32).view(np.float32)
d = mm.core(sys.argv[1]).dots(a, b, c).view(np.uint32)
open(sys.argv[5], "w").writelines(f"{x:032b}\\n" for x in d)
"""


def program(tmp_path, text, *arguments, timeout=60.0):
    file = tmp_path / "program.py"
    file.write_text(text)
    return Command([sys.executable, str(file), *arguments], timeout)


@pytest.mark.parametrize("name", ["MI300X/fp16", "MI300X/fp16:rd32"])
def test_an_external_program_is_a_party(tmp_path, name):
    ensemble = Sampled(CORE, "specials", 40, seed=1)
    outcome = compare(ensemble, CORE, program(tmp_path, PROGRAM, name), Model(mm.core(name)))
    assert (outcome.rows, outcome.mismatches) == (40, 0)


GOOD_ONCE = """
import os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
rows = len(open(sys.argv[3]).read().splitlines())
if not os.path.exists(here + "/ran"):
    open(here + "/ran", "w").close()
    open(sys.argv[4], "w").write(("0" * 32 + "\\n") * rows)
    sys.exit()
"""


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ("sys.exit('no such device')", "failed with status 1: no such device"),
        ("os.abort()", "ended by signal 6"),
        ("time.sleep(60)", "did not finish within 3 s"),
        ("os.system('sleep 60')", "did not finish within 3 s"),
        ("pass", "wrote no results"),
        ("open(sys.argv[4], 'w').write('0' * 32 + '\\n')", "wrote 1 results for 50 rows"),
        ("open(sys.argv[4], 'w').write('1.0\\n' * rows)", "is not 32 binary digits"),
        ("open(sys.argv[4], 'wb').write(os.urandom(4000))", "wrote what is no result"),
        ("[sys.stderr.write('x' * 10**6) for _ in range(20)]; sys.exit(3)", "status 3: x"),
    ],
    ids=["fails", "crashes", "hangs", "child hangs", "writes nothing", "writes too little",
         "writes decimals", "writes garbage", "prints garbage"],
)  # fmt: skip
def test_a_bad_program_gives_a_clear_error_and_keeps_what_was_done(tmp_path, then, message):
    party, saved = program(tmp_path, GOOD_ONCE + then, timeout=3.0), tmp_path / "saved.json"
    started = time.monotonic()
    with pytest.raises(validation.Incomplete, match=message) as error:
        compare(near_ties(), CORE, Model(CORE), party, saved=saved)
    assert time.monotonic() - started < 30
    assert "in rows 50 to 99; 50 of 230 rows are done and kept" in str(error.value)
    (outcome,) = error.value.outcomes.values()
    assert sorted(outcome.counts) == [0]
    assert validation.load(saved)[1][party.name] == outcome


def test_a_program_that_is_not_there():
    with pytest.raises(validation.Incomplete, match="cannot start '/no/such/program'"):
        compare(near_ties(), CORE, Model(CORE), Command(["/no/such/program"]))


# --- bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "mismatches", "bound"),
    [
        (10**5, 0, 1.38e-4),  # 5.4 and Table 2, as printed
        (10**6, 0, 1.38e-5),
        (2 * 10**6, 0, 6.91e-6),
        (10**7, 0, 1.38e-6),
        (2 * 10**7, 0, 6.91e-7),
        # Printed as 1.69e-5 and 1.35e-5; the posterior of 5.4 gives these.
        (10**6, 1, 1.67e-5),
        (1_250_000, 1, 1.34e-5),
    ],
)
def test_upper_bounds_of_table_2(rows, mismatches, bound):
    assert f"{bounds.upper_bound(rows, mismatches):.2e}" == f"{bound:.2e}"


@pytest.mark.parametrize("mismatches", [0, 1, 7, 1000])
def test_the_bound_leaves_epsilon_of_the_posterior(mismatches):
    for epsilon in (0.5, 1e-3, 1e-6, 1e-12):
        p = bounds.upper_bound(1000, mismatches, epsilon)
        if mismatches < 1000:
            tail = float(_posterior_tail(1000, mismatches, p))
            assert tail == pytest.approx(epsilon, rel=1e-6)
        else:
            assert p == pytest.approx(1 - epsilon / 1001, abs=1e-2)


def _posterior_tail(n, m, p):
    """P(X > p) for Beta(m+1, n-m+1): at most m successes of n+1, summed by mpmath."""
    import mpmath

    with mpmath.workdps(40):
        x = mpmath.mpf(p)
        return mpmath.fsum(
            mpmath.binomial(n + 1, j) * x**j * (1 - x) ** (n + 1 - j) for j in range(m + 1)
        )


def test_bounds_refuse_the_impossible():
    for arguments in ((10, 11), (10, -1), (10, 0, 0.0), (10, 0, 1.0)):
        with pytest.raises(ValueError, match="allowed"):
            bounds.upper_bound(*arguments)


def test_expected_rows_is_the_posterior_mean_of_the_mean_wait():
    import mpmath

    n, m = 50, 3
    with mpmath.workdps(30):
        mean = mpmath.quad(lambda p: p ** (m - 1) * (1 - p) ** (n - m), [0, 1]) / mpmath.beta(
            m + 1, n - m + 1
        )
    assert bounds.expected_rows(n, m) == pytest.approx(float(mean))
    assert bounds.expected_rows(n, 0) == math.inf
    low, high = bounds.rows_interval(n, m)
    assert low < bounds.expected_rows(n, m) < high


def test_predictive_probabilities_sum_to_one():
    assert sum(bounds.predictive(20, 2, 30, m) for m in range(31)) == pytest.approx(1)
