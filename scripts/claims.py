"""All claims in one file for programs and one for the report: results/claims.json and .html."""

from applications._claims import gather, write_page
from applications._steps import logged

with logged(snakemake.log[0], "claims"):
    gather(snakemake.params.studies, snakemake.input, snakemake.output.claims)
    write_page(snakemake.output.claims, snakemake.output.page)
