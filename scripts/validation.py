"""Fail unless all final cores agree with the independent computations: results/validation.json."""

import sys

from applications._steps import logged
from mfmamodels.characterise.campaign import collect, verdict

with logged(snakemake.log[0], "validation"):
    print(verdict(collect(snakemake.input.findings), snakemake.output.summary), file=sys.stderr)
