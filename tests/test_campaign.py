"""The paper's validation as data, its parts and its tables, on a small share of the rows."""

import csv
import json
from dataclasses import replace

import pytest

import mfmamodels as mm
from mfmamodels import tables
from mfmamodels.characterise import campaign, ensembles, table_2
from mfmamodels.characterise.ensembles import Mismatch, Outcome

# One process computes what these tests share.
pytestmark = pytest.mark.xdist_group("campaign")

SHARE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def one_version():
    """Somebody may edit the package while the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "source_digest", lambda: "a version")
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Findings of all parts; ensembles of a hundred rows, 5000 near ties."""
    folder = tmp_path_factory.mktemp("findings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "_DEFINITION_ROWS", 0)
        patch.setattr(campaign, "_FEWEST_DEFINITION", 2)
        return [
            campaign.run_part(name, part, 1, SHARE, folder / f"{name.replace('/', '-')}.{part}")
            for name in campaign.TESTS
            for part in range(campaign.parts(name))
        ]


@pytest.fixture(scope="module")
def found(files):
    return campaign.collect(files)


def test_nine_tests_of_the_papers_sizes():
    assert len(campaign.TESTS) == 9
    sizes = {n: {t.name: t.rows for t in campaign.tasks(mm.core(n))} for n in campaign.TESTS}
    for name, rows in sizes.items():
        staged = name.startswith("MI300X")
        assert rows["exponent_mantissa"] == (10**7 if staged else 10**6)
        assert rows["exponent_mantissa_subnormal"] == rows["bits"] == 10**6
    for share in (0, 1001):
        with pytest.raises(ValueError, match=f"share is {share}; allowed"):
            campaign.tasks(mm.core("MI100/fp16"), share)


def test_more_rows_than_the_papers_are_more_jobs_not_longer_ones():
    cores = {name: mm.core(name) for name in campaign.TESTS}
    rows = {n: sum(t.rows for t in campaign.tasks(core, 14)) for n, core in cores.items()}
    jobs = {n: campaign.parts(n, 14) for n in cores}
    assert sum(rows.values()) > 10**9 and sum(jobs.values()) == 196
    assert max(rows[n] / jobs[n] for n in cores) < 7 * 10**6


def test_no_mismatch_and_every_stage_is_seen(found, tmp_path):
    line = campaign.verdict(found, tmp_path / "verdict.json")
    assert line.endswith("rows of 9 cores: no mismatch")
    summary = json.loads((tmp_path / "verdict.json").read_text())
    assert summary["mismatches"] == 0 and summary["rows"] == sum(summary["tests"].values())
    seen = {
        name: {stage for stage in campaign.STAGES if by["near_tie"][stage].mismatches}
        for name, by in found.items()
        if name.startswith("MI300X")
    }
    for name, stages in seen.items():
        everywhere = {"rd31", "rd32", "rd32-blind"}
        wide = name in ("MI300X/bf16", "MI300X/xf32")
        assert stages == (everywhere | {"rd32-norm"} if wide else everywhere), name


def test_two_stages_are_one_function(found):
    for name, by in found.items():
        if name.startswith("MI300X"):
            first, second = (by["near_tie"][stage] for stage in ("rd31", "rd32-blind"))
            assert first == second and first.mismatches, name


def changed(found, name, task, other, outcome):
    by = {**found[name], task: {**found[name][task], other: outcome}}
    return {**found, name: by}


def test_the_verdict_fails_on_a_mismatch(found, tmp_path):
    bad = Outcome({0: (100, 1)}, (Mismatch(7, "a", "b", "c", "1", "2"),))
    wrong = changed(found, "MI100/bf16", "bits", "exact_integer", bad)
    with pytest.raises(ValueError, match="MI100/bf16, bits, exact_integer: 1 mismatches in 100"):
        campaign.verdict(wrong, tmp_path / "verdict.json")
    assert not (tmp_path / "verdict.json").exists()


def test_the_verdict_fails_when_near_ties_show_nothing(found, tmp_path):
    wrong = changed(found, "MI300X/bf16", "near_tie", "rd32-norm", Outcome({0: (5000, 0)}))
    with pytest.raises(ValueError, match="MI300X/bf16, near_tie, rd32-norm: 0 mismatches"):
        campaign.verdict(wrong, tmp_path / "verdict.json")


def test_parts_must_belong_together(files, tmp_path):
    with pytest.raises(ValueError, match="1 parts, not 2"):
        campaign.collect(files[:-1])
    with pytest.raises(ValueError, match="occur twice"):
        campaign.collect([*files[:-1], files[-2]])
    value = json.loads(files[0].read_text())
    other = tmp_path / "other"
    for change in ({"seed": 2}, {"source": "another version"}):
        other.write_text(json.dumps(value | change))
        with pytest.raises(ValueError, match="different validations"):
            campaign.collect([other, *files[1:]])


def test_parts_share_the_shards(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, "_DEFINITION_ROWS", 0)
    monkeypatch.setattr(campaign, "_FEWEST_DEFINITION", 2)
    monkeypatch.setattr(ensembles, "SHARD_ROWS", 40)  # 100 rows: shards of 40, 40 and 20
    name = "MI300X/fp16"
    paths = [campaign.run_part(name, p, 1, SHARE, tmp_path / str(p)) for p in (0, 1)]
    parts = [campaign.read_findings(path)[1]["bits"]["exact_integer"] for path in paths]
    assert [p.counts for p in parts] == [{0: (40, 0), 2: (20, 0)}, {1: (40, 0)}]
    assert campaign.collect(paths)[name]["bits"]["exact_integer"].rows == 100


# --- tables -----------------------------------------------------------------------------------


def test_table_2_has_every_row_of_the_paper(found):
    table = table_2.table_2(found)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    printed = [r for r in rows if r["m, paper"] != "–"]
    assert len(rows) == 20 and len(printed) == 17
    ones = [(r["Iteration"], r["Input"]) for r in printed if r["m, paper"] == "1"]
    assert ones == [("0", "fp16"), ("0", "xf32 (tf19)"), ("1", "xf32 (tf19)"), ("3", "fp16")]
    different = [(r["bound, paper"], r["bound of paper's m"]) for r in printed
                 if r["bound, paper"] != r["bound of paper's m"]]  # fmt: skip
    assert different == [("1.69e-05", "1.67e-05")] * 3 + [("1.35e-05", "1.34e-05")]
    assert all(r["m, here"] == "0" for r in rows if r["Model"] == "final")
    assert all(r["N"] == ("200" if r["Input"] == "binary8" else "100") for r in rows)


def test_table_2_counts_the_papers_ensembles_only(found):
    """Mismatches beyond the paper's N count for the rarity, not for m."""
    counts = {0: (50_000, 1), 19: (50_000, 2), 20: (50_000, 4), 24: (50_000, 8), 25: (50_000, 16)}
    rigged = found
    for stage in ("rd31", "rd32-norm"):
        rigged = changed(rigged, "MI300X/fp16", "exponent_mantissa", stage, Outcome(counts))
    table = table_2.table_2(rigged)
    rows = {(r[1], r[2]): dict(zip(table.header, r, strict=True)) for r in table.rows}
    assert rows["rd31", "fp16"]["m, here"] == "3"  # N = 1e6: shards 0 to 19
    assert rows["rd32-norm", "fp16"]["m, here"] == "15"  # N = 1.25e6: shards 0 to 24
    wait = rows["rd31", "fp16"]["rows to a mismatch, exponent-mantissa"]
    assert wait.startswith(f"{250_001 / 31:.0f} (")


def test_table_of_tests_names_every_comparison(found):
    table = table_2.table_of_tests(found)
    assert len(table.rows) == 9 * 4 * 2
    assert {row[4] for row in table.rows} == {"0"}


def test_table_1_is_the_papers():
    table = tables.table_1()
    columns = {h: [row[i] for row in table.rows] for i, h in enumerate(table.header)}
    assert columns["precision f"] == ["53", "24", "11", "8", "11", "4", "3"]
    assert columns["min. normal"] == ["2^-1022", "2^-126", "2^-126", "2^-126", "2^-14",
                                      "2^-7/2^-6", "2^-15/2^-14"]  # fmt: skip
    assert columns["max."] == ["1.798e308", "3.403e38", "3.401e38", "3.390e38", "65504",
                               "240/448", "57344/57344"]  # fmt: skip


def test_tables_are_written_in_three_forms(tmp_path):
    table = tables.Table("t", "A | caption_1", ("x", "y_1"), (("2^-126", "50 %"), ("a|b", "1,5")),
                         ("A note.",))  # fmt: skip
    assert [p.name for p in table.write(tmp_path)] == ["t.csv", "t.md", "t.tex"]
    with open(tmp_path / "t.csv", newline="") as file:
        assert list(csv.reader(file)) == [["x", "y_1"], ["2^-126", "50 %"], ["a|b", "1,5"]]
    markdown = (tmp_path / "t.md").read_text().splitlines()
    assert markdown[2:] == ["| x | y_1 |", "| --- | --- |", "| 2^-126 | 50 % |",
                            "| a\\|b | 1,5 |", "", "- A note."]  # fmt: skip
    latex = (tmp_path / "t.tex").read_text()
    assert r"$2^{-126}$ & 50 \% \\" in latex and r"x & y\_1 \\" in latex
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        replace(table, rows=(("a",),))
