"""Cores compared on a product or a study: results/compare/<comparison>.json, .md and figure."""

from pathlib import Path

from applications._steps import limit_threads, logged

limit_threads(snakemake.threads)
config, name = snakemake.params.config, snakemake.wildcards.comparison
with logged(snakemake.log[0], f"compare {name}") as progress:
    from mfmamodels import core
    from mfmamodels.commands.compare import gemm_report, study_report, write

    cores = [core(c) for c in config["compare"]["cores"]]
    if name == "product":
        shape = config["compare"]["shape"]
        report = gemm_report(cores, shape, config["seed"], progress=progress)
    else:
        report = study_report(cores, name, config, progress=progress)
    write(report, Path(snakemake.output.json).with_suffix(""))
