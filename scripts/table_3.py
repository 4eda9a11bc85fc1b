"""Table 3, by probing, and the paper's entries beside it: results/tables/table_3*.{csv,md,tex}."""

from pathlib import Path

from applications._steps import logged
from mfmamodels.characterise.table_3 import beside_the_paper, catalogue, probe_all, table_3
from mfmamodels.results import write_text

# Probing starts processes of its own, which import this file again: they must not run it.
if __name__ == "__main__":
    with logged(snakemake.log[0], "table 3") as progress:
        reports = probe_all(catalogue(), snakemake.threads, progress)
        for table in (table_3, beside_the_paper):
            table(reports).write(Path(snakemake.output.table).parent)
        texts = "\n\n".join(report.report() for report in reports.values())
        write_text(snakemake.output.evidence, texts + "\n")
