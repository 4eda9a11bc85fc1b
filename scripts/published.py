"""Fail unless the published rows are reproduced: results/published.json."""

import sys

from applications._published import check
from applications._steps import logged

with logged(snakemake.log[0], "published"):
    print(check(snakemake.input.rows, snakemake.output.summary), file=sys.stderr)
