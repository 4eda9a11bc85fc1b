"""The HTML report, made from a small run and opened in a browser."""

import os
import re
import shutil
import subprocess
import sys

import pytest

# One process computes what these tests share.
pytestmark = pytest.mark.xdist_group("report")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=15000",
]  # fmt: skip
_CONFIG = """
published_data: ""
validation: {share: 0.001}
compare: {cores: [A100/fp16, B200/fp16], shape: [4, 4, 32]}
studies:
  lu: {cores: [MI300X/fp16], order: 24, block: 8, log10_conditions: [1], draws: 1}
"""
_TARGETS = ["figure_lu_refinement", "table_1", "compare", "results/claims.html"]


@pytest.fixture(scope="module")
def report(root, tmp_path_factory):
    """Path of a report on a few results."""
    folder = tmp_path_factory.mktemp("report")
    config = folder / "small.yaml"
    others = {p.stem for p in (root / "applications").glob("[a-z]*.py")} - {"lu"}
    config.write_text(_CONFIG + "".join(f"  {name}: false\n" for name in sorted(others)))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile"),
               "--configfile", str(config), "--directory", str(folder), "--cores", "1"]  # fmt: skip
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    for arguments in (_TARGETS, [*_TARGETS, "--report", "report.html"]):
        done = subprocess.run([*command, *arguments], cwd=folder, env=environment, text=True,
                              capture_output=True, timeout=600)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    return folder / "report.html"


def test_figures_tables_and_claims_are_in_the_report(report):
    text = report.read_text(encoding="utf-8")
    for name in ("figure_lu_refinement.png", "table_1", "product.png", "claims.html"):
        assert name in text, f"{name} is not in the report"
    assert len(re.findall("iVBORw0KGgo", text)) >= 2  # how every PNG begins, in base 64


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_report_opens_in_a_browser(report, tmp_path):
    done = subprocess.run(
        [BROWSER, *_FLAGS, f"--user-data-dir={tmp_path}", "--dump-dom", report.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    shown = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S)
    for text in ("Figures", "Tables", "Comparison of cores", "Claims of the paper", "Workflow"):
        assert text in shown, f"the page does not show {text!r}"
