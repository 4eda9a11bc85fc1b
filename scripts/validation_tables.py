"""Table 2 and the table of all tests: results/tables/{table_2,validation}.{csv,md,tex}."""

from pathlib import Path

from applications._steps import logged
from mfmamodels.characterise.campaign import collect
from mfmamodels.characterise.table_2 import table_2, table_of_tests

with logged(snakemake.log[0], "table 2"):
    found = collect(snakemake.input.findings)
    for table in (table_2, table_of_tests):
        table(found).write(Path(snakemake.output[0]).parent)
