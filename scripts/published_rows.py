"""Every published row beside ours: results/published.csv."""

from applications._published import collect_rows, write_rows
from applications._registry import Study
from applications._steps import limit_threads, logged

limit_threads(snakemake.threads)
studies = [Study(**study) for study in snakemake.params.studies]
with logged(snakemake.log[0], "published rows") as progress:
    rows = collect_rows(studies, "results", snakemake.params.folder, progress)
    write_rows(rows, snakemake.output.rows)
