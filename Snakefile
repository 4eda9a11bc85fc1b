# Every table and figure of the paper, from the models to the page.
#
#   snakemake                  everything (target `all`)
#   snakemake figure_5         one figure, with what it needs
#   snakemake published        the comparison with published result files
#   snakemake --configfile config/test.yaml --directory work/test      the same in a minute
#
# A study is one file in applications/: see applications/__init__.py. Nothing here names one.
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.18")  # inputs are compared by their content

BASE = Path(workflow.basedir)


configfile: BASE / "config" / "config.yaml"


report: "rules/captions/workflow.rst"


include: "rules/common.smk"
include: "rules/validation.smk"
include: "rules/characterise.smk"
include: "rules/compare.smk"


wildcard_constraints:
    study="[a-z][a-z0-9_]*",
    job="[^/]+",
    figure="|".join(FIGURE_STUDY) or "none",


localrules:
    all,
    compare,
    report,


rule all:
    default_target: True
    input:
        TABLE_FILES,
        PROBED_FILES,
        DIAGRAM_FILES,
        FIGURE_FILES,
        "results/validation.json",
        expand("results/compare/{comparison}.json", comparison=COMPARISONS),
        "results/claims.json",
        "results/published.json",


# What the HTML report shows, as a target: `snakemake report && snakemake report --report`.
rule report:
    input:
        rules.all.input,


# One target per figure, by its name: figure_4, figure_5, ...
for figure in FIGURE_STUDY:

    rule:
        name:
            figure
        input:
            expand("figures/{figure}.{suffix}", figure=figure, suffix=["png", "pdf"]),


include: "rules/studies.smk"
include: "rules/report.smk"
