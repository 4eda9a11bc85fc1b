# Randomised validation: each core's shards scattered over jobs, gathered in Table 2; Table 1.
from mfmamodels.characterise import campaign
from mfmamodels.results import source_digest as package_digest
from mfmamodels.tables import SUFFIXES

PACKAGE = package_digest()
FINDINGS = [
    f"results/validation/{name}.part{part}.json"
    for name in campaign.TESTS
    for part in range(campaign.parts(name, CONFIG["validation"]["share"]))
]
TABLES = ["table_1", "table_2", "validation"]
TABLE_FILES = expand("results/tables/{table}.{suffix}", table=TABLES, suffix=SUFFIXES)


wildcard_constraints:
    core="[A-Za-z0-9-]+/[a-z0-9_]+",
    part="[0-9]+",


rule validation_part:
    output:
        findings="results/validation/{core}.part{part}.json",
    log:
        "logs/validation/{core}.part{part}.log",
    benchmark:
        "logs/validation/{core}.part{part}.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=1500,
        runtime=30,
    params:
        seed=CONFIG["seed"],
        share=CONFIG["validation"]["share"],
        source=PACKAGE,
    script:
        "../scripts/validation_part.py"


# Apart from the tables, so that a mismatch can be looked at in them.
rule validation:
    input:
        findings=FINDINGS,
    output:
        summary="results/validation.json",
    log:
        "logs/validation.log",
    benchmark:
        "logs/validation.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    script:
        "../scripts/validation.py"


rule formats_table:
    output:
        report(
            "results/tables/table_1.csv",
            caption="captions/table_1.rst",
            category="Tables",
            labels={"table": "Table 1: formats"},
        ),
        "results/tables/table_1.md",
        "results/tables/table_1.tex",
    log:
        "logs/tables/table_1.log",
    benchmark:
        "logs/tables/table_1.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    params:
        source=PACKAGE,
    script:
        "../scripts/formats_table.py"


rule validation_tables:
    input:
        findings=FINDINGS,
    output:
        report(
            "results/tables/table_2.csv",
            caption="captions/table_2.rst",
            category="Tables",
            labels={"table": "Table 2: refinement"},
        ),
        "results/tables/table_2.md",
        "results/tables/table_2.tex",
        report(
            "results/tables/validation.csv",
            caption="captions/validation.rst",
            category="Tables",
            labels={"table": "validation of every core"},
        ),
        "results/tables/validation.md",
        "results/tables/validation.tex",
    log:
        "logs/tables/table_2.log",
    benchmark:
        "logs/tables/table_2.tsv"
    conda:
        "../environment.yml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    params:
        source=PACKAGE,
    script:
        "../scripts/validation_tables.py"


# One target per table of the paper, by its name.
for table in ["table_1", "table_2"]:

    rule:
        name:
            table
        input:
            expand("results/tables/{table}.{suffix}", table=table, suffix=SUFFIXES),
