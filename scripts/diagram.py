"""One of Figures 1 to 3: block diagrams drawn from the records."""

from pathlib import Path

from applications._steps import logged
from mfmamodels.diagrams import diagram, figures
from mfmamodels.figures import save

with logged(snakemake.log[0], snakemake.params.figure):
    save(diagram(figures()[snakemake.params.figure]), Path(snakemake.output.png).with_suffix(""))
