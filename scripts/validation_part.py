"""One part of a core's validation: results/validation/<core>.part<n>.json."""

from applications._steps import limit_threads, logged

limit_threads(snakemake.threads)
wildcards, params = snakemake.wildcards, snakemake.params
with logged(snakemake.log[0], f"validation {wildcards.core} part {wildcards.part}") as progress:
    from mfmamodels.characterise.campaign import run_part

    run_part(
        wildcards.core,
        int(wildcards.part),
        params.seed,
        params.share,
        snakemake.output.findings,
        progress,
    )
