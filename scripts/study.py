"""One job of a study: results/<study>/<job>.nc."""

from applications._registry import Study
from applications._steps import compute, limit_threads, logged

limit_threads(snakemake.threads)
study = Study(**snakemake.params.study)
with logged(snakemake.log[0], f"{study.name} {snakemake.params.job}") as progress:
    compute(study, snakemake.params.job, snakemake.output.result, progress)
