"""One figure, from all results of its study: figures/<figure>.png and .pdf."""

from pathlib import Path

from applications._registry import Study
from applications._steps import draw, limit_threads, logged, read_results

limit_threads(snakemake.threads)
study = Study(**snakemake.params.study)
name = snakemake.wildcards.figure
with logged(snakemake.log[0], name):
    draw(study, read_results(study, "results"), {name: Path(snakemake.output.png).with_suffix("")})
