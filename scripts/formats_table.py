"""Table 1: results/tables/table_1.{csv,md,tex}."""

from pathlib import Path

from applications._steps import logged
from mfmamodels.tables import table_1

with logged(snakemake.log[0], "table 1"):
    table_1().write(Path(snakemake.output[0]).parent)
