"""What a study finds about the paper's claims: results/<study>/claims.json."""

from applications._claims import write
from applications._registry import Study
from applications._steps import limit_threads, logged, read_results

limit_threads(snakemake.threads)
study = Study(**snakemake.params.study)
with logged(snakemake.log[0], f"{study.name} claims"):
    write(study, read_results(study, "results"), snakemake.output.claims)
