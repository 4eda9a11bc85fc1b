"""One study file and one core record, put into a copy of the project, are part of all it makes."""

import hashlib
import json
import subprocess
import sys

import pytest
import xarray as xr
from _tree import blocks, copy_tree, environment

FILES = {
    "applications/harmonic.py": "docs/add_a_study.md",
    "mfmamodels/catalogue/example.py": "docs/add_a_core.md",
}
CONFIG = """
published_data: ""
validation: {share: 0.001}
compare: {cores: [EX1/fp16, B200/fp16], shape: [4, 4, 64], studies: [harmonic]}
studies:
  harmonic: {cores: [EX1/fp16, B200/fp16], terms: [10, 5000]}
"""
TARGETS = ["figure_harmonic", "compare", "results/claims.html"]


def _digests(tree):
    return {
        path.relative_to(tree): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("mfmamodels", "applications", "rules", "scripts", "config")
        for path in (tree / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def tree(root, tmp_path_factory):
    """The copy, after the pipeline and the report."""
    tree = copy_tree(root, tmp_path_factory.mktemp("drop_in"))
    before = _digests(tree)
    for name, page in FILES.items():
        (text,) = (block[3] for block in blocks(root / page) if block[:2] == ("file", name))
        (tree / name).write_text(text, encoding="utf-8")
    others = sorted(p.stem for p in (root / "applications").glob("[a-z]*.py"))
    config = tree / "small.yaml"
    config.write_text(CONFIG + "".join(f"  {name}: false\n" for name in others))
    command = [sys.executable, "-m", "snakemake", "--configfile", str(config), "--cores", "1"]
    for arguments in (TARGETS, [*TARGETS, "--report", "report.html"]):
        done = subprocess.run([*command, *arguments], cwd=tree, env=environment(tree), text=True,
                              capture_output=True, timeout=600)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    after = _digests(tree)
    assert {str(p) for p in after.keys() - before.keys()} == set(FILES)
    assert all(after[path] == digest for path, digest in before.items())
    return tree


pytestmark = pytest.mark.xdist_group("drop_in")


def test_results_and_figures_of_the_new_study_on_the_new_core(tree):
    for stem in ("EX1_fp16", "B200_fp16"):
        with xr.open_dataset(tree / f"results/harmonic/{stem}.nc", engine="h5netcdf") as data:
            assert data["error"].shape == (2,) and 0 < float(data["error"][1]) < 1e-3
    for suffix in ("png", "pdf"):
        assert (tree / f"figures/figure_harmonic.{suffix}").stat().st_size > 1000


def test_the_comparison_knows_both(tree):
    for name in ("product", "harmonic"):
        folder = tree / "results" / "compare"
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert "EX1/fp16" in json.dumps(found) and "B200/fp16" in json.dumps(found)
        assert "EX1/fp16" in (folder / f"{name}.md").read_text(encoding="utf-8")
        assert (folder / f"{name}.png").stat().st_size > 1000


def test_the_report_shows_both(tree):
    report = (tree / "report.html").read_text(encoding="utf-8")
    for text in ("figure_harmonic.png", "Sums of reciprocals", "EX1"):
        assert text in report, f"{text} is not in the report"
